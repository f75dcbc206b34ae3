"""What files bring is read as it is or refused: values, timestamps, files in folders, columns that come later."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from tests.spark.readings import table_of
from tests.spark.test_ingest_command import json_lines, run

from delta_sidecar.spark.ingest.tables import read_table
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

AT = "2026-02-10T08:15:00Z"


@pytest.fixture(autouse=True)
def _running(spark: SparkSession) -> None:
    """The command takes the session that runs."""


@pytest.fixture(scope="module")
def typed(spark: SparkSession, local_lake: Lake) -> str:
    """A table with columns of types that Spark's readers would make values fit to."""
    url = local_lake.new_url("typed")
    row = f"select timestamp'{AT}' at, 1.25bd price, date'2026-02-10' day, 1.5f ratio, timestamp'{AT}' seen, {{}} noted"
    noted = "named_struct('price', 1.25bd, 'n', 1L)"
    spark.sql(row.format(noted)).selectExpr(
        "at", "cast(price as decimal(5,2)) price", "day", "ratio", "seen", "noted"
    ).write.parquet(f"{url}-rows")
    run(f"{url}-rows", url, "--timestamp-column", "at", "--format", "parquet", "--no-sidecars")
    return url


@pytest.mark.full
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("price", 1.239),
        ("price", 12345.0),
        ("day", "2026-02-10T23:59:59Z"),
        ("day", "2026-02"),
        ("ratio", 1e300),
        ("seen", "22:15:00"),
        ("seen", "2026"),
        ("seen", "no time"),
        ("noted", {"price": 1.239}),
    ],
)
def test_a_value_that_does_not_fit_is_refused(typed: str, tmp_path: Path, column: str, value: object) -> None:
    (tmp_path / "a.json").write_text(json_lines({"at": AT, column: value}))
    refused = run(tmp_path / "a.json", typed, "--timestamp-column", "at", "--no-sidecars", code=1)
    assert column in refused.stderr
    if not isinstance(value, dict):
        assert "or not without loss" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_values_that_fit_are_taken(spark: SparkSession, local_lake: Lake, typed: str, tmp_path: Path) -> None:
    good = {"price": 999.5, "day": "2026-02-11", "ratio": 0.1, "seen": "2026-02-11 10:00:00+01:00"}
    lines = json_lines({"at": AT, **good}, {"at": AT, "price": -1, "seen": "2026-02-11"}, {"at": AT, "ratio": 3.4e38})
    (tmp_path / "a.json").write_text(lines)
    run(tmp_path / "a.json", typed, "--timestamp-column", "at", "--no-sidecars")
    rows = (
        table_of(spark, local_lake, typed).orderBy("price").selectExpr("string(price)", "string(day)", "string(seen)")
    )
    assert [tuple(row) for row in rows.collect()] == [
        (None, None, None),
        ("-1.00", None, "2026-02-11 00:00:00"),
        ("1.25", "2026-02-10", "2026-02-10 08:15:00"),
        ("999.50", "2026-02-11", "2026-02-11 09:00:00"),
    ]


def test_half_a_timestamp_is_none(spark: SparkSession, local_lake: Lake, tmp_path: Path) -> None:
    url = local_lake.new_url()
    halves = ["22:15:00", "T07:00", "2026", "2026-02", "today", "now", "10", ""]
    wholes = ["2026-02-10", "2026-02-10T08", "2026-02-10 08:15", "2026-02-10T08:15:00.5+05:30"]
    (tmp_path / "a.json").write_text(json_lines(*({"at": text} for text in halves + wholes)))
    arguments = (tmp_path / "a.json", url, "--timestamp-column", "at", "--no-sidecars")
    # One that is cut off after its hour is none either.
    assert f"{len(halves) + 1} rows of the batch have no at" in run(*arguments, code=1).stderr
    assert read_table(open_store(url)) is None, "no table is made of it"
    run(*arguments, "--bad-timestamps", "null-bucket")
    buckets = [row[0] for row in table_of(spark, local_lake, url).select("_event_hour").collect() if row[0]]
    assert sorted(buckets) == ["2026021000", "2026021002", "2026021008"]


def test_numbers_in_csv_that_are_names_stay_texts(spark: SparkSession, local_lake: Lake, tmp_path: Path) -> None:
    url = local_lake.new_url()
    (tmp_path / "a.csv").write_text(
        "at,device,phone,long,clock,count,value\n"
        f"{AT},007,+49170,0.12345678901234567890,22:15:00,7,-0.5\n"
        f"{AT},008,+49171,1.5,23:15:00,0,1e3\n"
    )
    run(tmp_path / "a.csv", url, "--timestamp-column", "at", "--no-sidecars")
    table = table_of(spark, local_lake, url)
    kinds = {field.name: field.dataType.simpleString() for field in table.schema.fields}
    texts = dict.fromkeys(("device", "phone", "long", "clock"), "string")
    assert kinds | texts == kinds
    assert (kinds["count"], kinds["value"]) == ("int", "double")
    assert tuple(table.where("count = 7").select("device", "phone", "long").collect()[0]) == (
        "007",
        "+49170",
        "0.12345678901234567890",
    )


@pytest.mark.full
def test_files_in_folders_are_read_too(spark: SparkSession, local_lake: Lake, tmp_path: Path) -> None:
    url, source = local_lake.new_url(), tmp_path / "in"
    (source / "old" / "older").mkdir(parents=True)
    (source / "_hidden").mkdir()
    for number, name in enumerate(("1.json", "old/0.json", "old/older/readings [1].json", "_hidden/2.json")):
        (source / name).write_text(json_lines({"at": AT, "n": number}))
    arguments = (url, "--timestamp-column", "at", "--no-sidecars")
    run(source, *arguments, "--format", "json")
    assert sorted(row["n"] for row in table_of(spark, local_lake, url).collect()) == [0, 1, 2]
    # A name with brackets is a name where there is such a file.
    run(source / "old" / "older" / "readings [1].json", *arguments)
    assert sorted(row["n"] for row in table_of(spark, local_lake, url).collect()) == [0, 1, 2, 2]
    (source / "day=2026-02-10").mkdir()
    refused = run(source, *arguments, "--format", "json", code=1)
    assert "has the folder old beside day=2026-02-10, which names a partition" in refused.stderr


@pytest.mark.full
def test_timestamps_without_a_zone_in_a_table_that_has_none(
    spark: SparkSession, local_lake: Lake, tmp_path: Path
) -> None:
    url = local_lake.new_url()
    spark.sql("select timestamp_ntz'2026-02-10T08:15:00' at, 1L n").write.parquet(f"{url}-rows")
    run(f"{url}-rows", url, "--timestamp-column", "at", "--format", "parquet", "--no-sidecars")
    (tmp_path / "a.json").write_text(json_lines({"at": "2026-02-10T14:45:00+05:30", "n": 2}))
    run(tmp_path / "a.json", url, "--timestamp-column", "at", "--no-sidecars")
    rows = table_of(spark, local_lake, url).orderBy("n").selectExpr("string(at)", "_event_hour").collect()
    assert [tuple(row) for row in rows] == [
        ("2026-02-10 08:15:00", "2026021008"),
        ("2026-02-10 09:15:00", "2026021009"),
    ]


@pytest.mark.full
def test_a_stream_sees_columns_that_come_later_and_files_of_any_age(
    spark: SparkSession, local_lake: Lake, tmp_path: Path
) -> None:
    url, source = local_lake.new_url(), tmp_path / "arriving"
    (source / "old").mkdir(parents=True)
    arguments = (source, url, "--timestamp-column", "at", "--no-sidecars", "--format", "json")
    arguments = (*arguments, "--stream", "--once", "--checkpoint-location", tmp_path / "state")

    def streamed(*more: str, code: int = 0) -> dict[str, int] | str:
        result = run(*arguments, "--output", "json", *more, code=code)
        return result.stderr if code else json.loads(result.stdout)

    # A folder that is empty yet is one to wait at.
    assert streamed()["rows"] == 0
    (source / "1.json").write_text(json_lines({"at": AT, "n": 1, "noted": {"a": 1}}))
    assert streamed()["rows"] == 1
    (source / "2.json").write_text(json_lines({"at": AT, "n": 2, "noted": {"a": 2, "b": 3}, "humidity": 77}))
    assert "the table has no column humidity" in streamed(code=1)
    assert streamed("--merge-schema")["rows"] == 1
    # Copied with the time that it has had.
    old = source / "old" / "0 [a].json"
    old.write_text(json_lines({"at": AT, "n": 0}))
    os.utime(old, (time.time() - 30 * 86400,) * 2)
    assert streamed()["rows"] == 1
    # What is written may be taken away.
    (source / "1.json").unlink()
    assert streamed()["rows"] == 0
    rows = table_of(spark, local_lake, url).orderBy("n").select("n", "noted.b", "humidity").collect()
    assert [tuple(row) for row in rows] == [(0, None, None), (1, None, None), (2, 3, 77)]


@pytest.mark.full
def test_a_batch_that_was_written_before_needs_its_files_no_more(
    spark: SparkSession, local_lake: Lake, tmp_path: Path
) -> None:
    url, source, state = local_lake.new_url(), tmp_path / "arriving", tmp_path / "state"
    (source / "day=2026-02-10").mkdir(parents=True)
    (source / "day=2026-02-10" / "1.json").write_text(json_lines({"at": AT, "n": 1}))
    arguments = (source, url, "--timestamp-column", "at", "--no-sidecars", "--format", "json")
    arguments = (*arguments, "--stream", "--once", "--checkpoint-location", state, "--output", "json")
    assert json.loads(run(*arguments).stdout)["rows"] == 1
    # As if the process had died between the commit of the batch and Spark's own note of it.
    for name in ("0", ".0.crc"):
        (state / "commits" / name).unlink()
    (source / "day=2026-02-10" / "1.json").unlink()
    told = json.loads(run(*arguments).stdout)
    assert (told["rows"], told["skipped"]) == (0, 1)
    assert [tuple(row) for row in table_of(spark, local_lake, url).selectExpr("n", "string(day)").collect()] == [
        (1, "2026-02-10")
    ]
