"""After a build the first rows and files are those that came first before it, whatever the table is sorted by."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from delta_sidecar import DeltaTable, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HOURS = 30
PARTITIONS = {"hours": ["event_hour"], "days": ["day"], "years and months": ["year", "month"], "flat": None}
BY = {
    "hours": "event_hour, upper bound of event_ts in each row group",
    "days": "day, upper bound of event_ts in each row group",
    "years and months": "year, month, upper bound of event_ts in each row group",
    "flat": "lower bound of event_ts",
}


def rows_of(hour: int) -> pa.Table:
    at = dt.datetime(2026, 2, 10, tzinfo=dt.UTC) + dt.timedelta(hours=hour)
    moments = [at + dt.timedelta(minutes=minute) for minute in range(5)]
    return pa.table(
        {
            "event_ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "value": [hour * 100 + number for number in range(5)],
            "event_hour": [f"{at:%Y%m%d%H}"] * 5,
            "day": [at.date()] * 5,
            "year": pa.array([at.year] * 5, pa.int32()),
            "month": [f"{at.month:02}"] * 5,
        }
    )


@pytest.fixture(scope="module", params=PARTITIONS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def table(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file an hour, a commit each."""
    root = tmp_path_factory.mktemp("newest") / "table"
    for hour in range(HOURS):
        write_deltalake(root, rows_of(hour), mode="append", partition_by=PARTITIONS[kind])
    return root


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def answers(table: Path) -> dict[str, Any]:
    """The first of everything."""
    head = run("head", table, "-n", 12, "--output", "json").splitlines()
    files = run("files", table, "--limit", 4, "--output", "json").splitlines()
    scanned = DeltaTable(table).scan(limit=12, columns=["event_ts", "value"]).read_all()
    listed = LazyDeltaScanner(table, LazyScanConfig(limit=4)).scan_files()
    return {
        "head": [json.loads(row)["value"] for row in head],
        "files": [json.loads(file)["path"] for file in files],
        "scan": scanned["value"].to_pylist(),
        "scanner": [file.path for file in listed],
    }


@pytest.mark.full
def test_the_first_are_the_same_before_and_after_a_build(table: Path, kind: str) -> None:
    before = answers(table)
    newest = [hour * 100 + number for hour in (29, 28, 27) for number in range(5)][:12]
    assert before["head"] == before["scan"] == newest
    told = run("explain", table, "--limit", 3)
    run("build", table, "--rows-per-group", 100)
    assert answers(table) == before
    assert "order     recent: newest commits first\n" in told
    told = run("explain", table, "--limit", 3)
    assert f"order     recent: newest commits first, then the sidecar downward by {BY[kind]}\n" in told


def test_a_bucket_column_can_be_named(tmp_path: Path) -> None:
    for hour in range(4):
        write_deltalake(tmp_path, rows_of(hour), mode="append", partition_by=["month", "event_hour"])
    built = json.loads(run("build", tmp_path, "--bucket-column", "event_hour", "--output", "json"))
    assert built["sorted_by"] == "time bucket event_hour"
    base = json.loads(run("explain", tmp_path, "--limit", 3, "--output", "json"))["base"]
    assert base["newest_by"] == ["event_hour", "upper bound of event_ts in each row group"]


def test_a_sidecar_in_no_order_of_time_is_told_as_one(tmp_path: Path) -> None:
    for hour in range(4):
        rows = rows_of(hour).append_column("region", pa.array(["eu"] * 5))
        write_deltalake(tmp_path, rows, mode="append", partition_by=["region", "day"])
    run("build", tmp_path)
    told = run("explain", tmp_path, "--limit", 3)
    assert "then the sidecar from its end, which is in no order of time\n" in told
    assert "order     any: as is cheapest\n" in run("explain", tmp_path)
