"""Timestamps of writers that did not tell their time zone: UTC, unless somebody says which."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builder import TableBuilder
from tests.rows.tables import parquet, put, values

from delta_sidecar import DeltaTable, UnreadableFileError


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def made(root: Path, *texts: str | None) -> Path:
    """Makes a table with a file for each partition value."""
    table = TableBuilder(root, schema={"id": "long", "p": "timestamp"}, partition_columns=["p"])
    table.commit(
        [
            put(table, f"{at}.parquet", pa.table({"id": [at]}), partition_values={"p": text})
            for at, text in enumerate(texts)
        ]
    )
    return root


def found(root: Path, zone: str | None, **query: Any) -> dict[int, Any]:  # noqa: ANN401
    options = None if zone is None else {"time_zone": zone}
    return {row["id"]: row["p"] for row in values(root, options=options, **query)}


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        (None, "2021-09-08 11:11:11", "2021-09-08T11:11:11Z"),
        ("UTC", "2021-09-08 11:11:11", "2021-09-08T11:11:11Z"),
        ("America/Los_Angeles", "2021-09-08 11:11:11", "2021-09-08T18:11:11Z"),
        ("America/Los_Angeles", "2021-12-08 11:11:11.123456", "2021-12-08T19:11:11.123456Z"),
        ("Asia/Kolkata", "2021-09-08 00:00:00", "2021-09-07T18:30:00Z"),
        # A clock that was set back shows this twice, and one that was set forward never, as in Spark.
        ("Europe/Berlin", "2021-10-31 02:30:00", "2021-10-31T00:30:00Z"),
        ("Europe/Berlin", "2021-03-28 02:30:00", "2021-03-28T01:30:00Z"),
        ("Asia/Kolkata", "2021-09-08T00:00:00Z", "2021-09-08T00:00:00Z"),
        ("Asia/Kolkata", "2021-09-08T00:00:00+01:00", "2021-09-07T23:00:00Z"),
    ],
)
def test_partition_values(tmp_path: Path, zone: str | None, text: str, expected: str) -> None:
    root = made(tmp_path, text, None)
    assert found(root, zone) == {0: moment(expected), 1: None}


def test_the_first_and_the_last_years(tmp_path: Path) -> None:
    root = made(tmp_path, "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
    table = DeltaTable(root, options={"time_zone": "Asia/Tokyo"}).to_pyarrow_table().sort_by("id")
    seconds = [micros / 1_000_000 for micros in table["p"].cast(pa.int64()).to_pylist()]
    # Clocks of Tokyo were 9:18:59 ahead before there were time zones.
    assert seconds == pytest.approx([-62_135_596_800 - 33_539, 253_402_300_799.999999 - 32_400], abs=1e-5)


def test_clocks_that_were_further_apart_than_any_today(tmp_path: Path) -> None:
    """Manila had the date of America until 1844, and the time of Asia."""
    root = made(tmp_path, "1800-01-01 00:00:00")
    expected = {0: moment("1800-01-01T15:56:08Z")}
    assert found(root, "Asia/Manila") == expected
    assert found(root, "Asia/Manila", predicate="p >= '1800-01-01T15:30:00Z'") == expected


def test_moments_that_python_has_no_value_for(tmp_path: Path) -> None:
    table = DeltaTable(made(tmp_path, "9999-12-31 23:59:59"), options={"time_zone": "America/New_York"})
    (stats,) = table.get_stats_for_files()
    assert (stats.minimums.get("p"), stats.maximums.get("p")) == (None, None)
    assert table.count() == 1


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Pacific/Kiritimati"])
def test_files_rows_and_counts_agree(tmp_path: Path, zone: str) -> None:
    root = made(tmp_path, *(f"2021-09-{day:02} {hour:02}:00:00" for day in (7, 8, 9) for hour in (0, 9, 18)))
    every = found(root, zone)
    for bound in ("2021-09-07T20:00:00Z", "2021-09-08T07:00:00Z", "2021-09-08T10:00:00Z"):
        predicate = f"p < '{bound}'"
        expected = {number: value for number, value in every.items() if value < moment(bound)}
        assert 0 < len(expected) < 9
        assert found(root, zone, predicate=predicate) == expected
        dataset = DeltaTable(root, options={"time_zone": zone}).to_pyarrow_dataset()
        earlier = pc.field("p") < pa.scalar(moment(bound), pa.timestamp("us", "UTC"))
        assert dataset.count_rows(filter=earlier) == len(expected)
        fragments = list(dataset.get_fragments(filter=earlier))
        assert sum(fragment.count_rows(filter=earlier) for fragment in fragments) == len(expected)
        for fragment in fragments:
            assert fragment.count_rows(filter=fragment.partition_expression) == 1


def test_what_the_log_tells_agrees_with_the_rows(tmp_path: Path) -> None:
    root = made(tmp_path, "2020-07-01 00:00:00", "2020-07-01T02:00:00Z", None)
    table = DeltaTable(root, options={"time_zone": "Europe/Berlin"})
    first, second = moment("2020-06-30T22:00:00Z"), moment("2020-07-01T02:00:00Z")
    for value, name in ((first, "0.parquet"), (second, "1.parquet")):
        assert [Path(uri).name for uri in table.file_uris([("p", "=", value)])] == [name]
        assert len(table.partitions([("p", "=", value)])) == 1
    assert not table.file_uris([("p", "=", moment("2020-07-01T00:00:00Z"))])
    assert set(pa.table(table.get_add_actions(flatten=True))["partition.p"].to_pylist()) == {first, second, None}
    assert {stats.minimums.get("p") for stats in table.get_stats_for_files()} == {first, second, None}


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_old_values_of_spark_are_refused_wherever_its_writer_was(tmp_path: Path, zone: str) -> None:
    year_1900 = -2_208_988_800_000_000
    pairs = {"org.apache.spark.version": "2.4.0", "org.apache.spark.timeZone": zone}
    table = TableBuilder(tmp_path, schema={"at": "timestamp", "id": "long"})
    at = pa.array([year_1900 - 1, year_1900, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"at": at, "id": [0, 1, 2]}).replace_schema_metadata(pairs)
    table.commit([put(table, "a.parquet", parquet(rows, row_group_size=1))])
    refusal = (
        r"a.parquet cannot be read: column at has a timestamp from before 1900-01-01 in the legacy calendar of Spark"
    )
    for predicate in (None, "at = '1900-01-01T00:00:00Z'", "at < '1500-01-01T00:00:00Z'"):
        with pytest.raises(UnreadableFileError, match=refusal):
            values(table, predicate=predicate)
    assert values(table, ["id"]) == [{"id": 0}, {"id": 1}, {"id": 2}]
    # A row group without a matching row is not decoded.
    later = [{"id": 2, "at": moment("1970-01-01T00:00:00Z")}]
    assert values(table, ["id", "at"], predicate="at > '1900-01-01T00:00:00Z'") == later
