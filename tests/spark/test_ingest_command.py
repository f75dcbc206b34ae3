"""`delta-sidecar ingest` with real Spark, called in this process."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from tests.spark.readings import data_files, readings, table_of

from delta_sidecar.cli import main
from delta_sidecar.spark.ingest.buckets import TimeBucket

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake


@pytest.fixture(autouse=True)
def _running(spark: SparkSession) -> None:
    """The command takes the session that runs."""


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["ingest", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def facts(result: Result) -> dict[str, str]:
    """Gives the named lines of the text."""
    return {line[:12].strip(): line[12:] for line in result.stdout.splitlines() if re.match(r"[a-z]", line)}


def json_lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


MORNING = json_lines(
    {"at": "2026-02-10T08:15:00Z", "device": "a", "value": 1},
    {"at": "2026-02-10T14:45:00+05:30", "device": "b", "value": 2},
    {"at": "2026-02-10 10:00:00", "device": "c", "value": 3},
)


@pytest.mark.full
def test_json_becomes_a_table(local_lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    url = local_lake.new_url()
    (tmp_path / "readings.json").write_text(MORNING)
    arguments = (tmp_path / "readings.json", url, "--timestamp-column", "at", "--batch-id", "3", "--interval", "1")
    shown = facts(run(*arguments))
    assert shown["table"] == f"{url}, version 1"
    assert re.fullmatch(r"3 rows in 3 files, [\d.]+kB", shown["written"])
    assert shown["buckets"] == "3 hours"
    assert re.fullmatch(r"of version 1: 3 files, [\d.]+kB, in [\d.]+ s", shown["sidecar"])
    bucket = TimeBucket(timestamp_column="at")
    assert {file.named for file in data_files(local_lake, url, bucket)} == {"2026021008", "2026021009", "2026021010"}
    # Once more: it was written.
    again = run(*arguments)
    assert re.search(r"^Batch 3 was written before: nothing was written \([\d.]+ s\)\.$", again.stdout, re.MULTILINE)
    told = json.loads(run(*arguments, "--output", "json").stdout)
    assert (told["skipped"], told["version"], told["batch_id"]) == (True, None, 3)
    # The types of a table that is there hold: this one would be an integer.
    (tmp_path / "more.json").write_text(json_lines({"at": "2026-02-10T08:15:00Z", "device": 7, "value": 4}))
    run(tmp_path / "more.json", url, "--timestamp-column", "at", "--no-sidecars")
    assert table_of(spark, local_lake, url).where("device = '7'").count() == 1


def test_csv_with_a_format_of_its_own(local_lake: Lake, tmp_path: Path) -> None:
    url = local_lake.new_url()
    (tmp_path / "a.csv").write_text("at,value\n10.02.2026 23:59,1.5\n11.02.2026 00:01,2.5\nunknown,3.5\n")
    arguments = (tmp_path / "*.csv", url, "--timestamp-column", "at", "--granularity", "day", "--no-sidecars")
    arguments = (*arguments, "--timestamp-format", "dd.MM.yyyy HH:mm")
    refused = run(*arguments, code=1)
    assert "error: " in refused.stderr
    assert "1 row of the batch has no at, or one outside the years 1 to 9999" in refused.stderr
    result = run(*arguments, "--bad-timestamps", "null-bucket")
    assert facts(result)["buckets"] == "2 days"
    assert "            1 row in none, for want of a timestamp\n" in result.stdout
    bucket = TimeBucket("day", "_event_day", "at")
    assert {file.named for file in data_files(local_lake, url, bucket)} == {None, "20260210", "20260211"}


def test_columns_of_csv_are_told_by_their_names(local_lake: Lake, tmp_path: Path) -> None:
    url = local_lake.new_url()
    (tmp_path / "a.csv").write_text("at,inside,outside\n2026-02-10T08:00:00Z,21.5,3.5\n")
    (tmp_path / "b.csv").write_text("at,outside,inside\n2026-02-10T09:00:00Z,4.5,22.5\n")
    refused = run(tmp_path / "*.csv", url, "--timestamp-column", "at", "--no-sidecars", code=1)
    assert re.search(r"was not written: \[FAILED_READ_FILE\S*\] .*b\.csv", refused.stderr)


@pytest.mark.full
def test_nested_fields_that_the_table_lacks_are_not_left_out(
    spark: SparkSession, local_lake: Lake, tmp_path: Path
) -> None:
    url, source = local_lake.new_url(), tmp_path / "n.json"
    arguments = (source, url, "--timestamp-column", "at", "--no-sidecars")
    source.write_text(json_lines({"at": "2026-02-10T08:00:00Z", "reading": {"a": 1.5}}))
    run(*arguments, "--granularity", "day")
    source.write_text(json_lines({"at": "2026-02-11T08:00:00Z", "reading": {"a": 2, "b": [{"c": 3}]}}))
    # The table is partitioned by days: that need not be said again.
    assert "reading" in run(*arguments, code=1).stderr
    run(*arguments, "--merge-schema")
    rows = table_of(spark, local_lake, url).orderBy("at").select("reading.a", "reading.b.c", "_event_day").collect()
    assert [tuple(row) for row in rows] == [(1.5, None, "20260210"), (2.0, [3], "20260211")]


def test_numbers_need_to_be_told(local_lake: Lake, tmp_path: Path) -> None:
    url = local_lake.new_url()
    source = tmp_path / "n.json"
    source.write_text(json_lines({"at": 1770768000000}, {"at": 9223372036854775807}))
    arguments = (source, url, "--timestamp-column", "at", "--no-sidecars", "--bad-timestamps", "null-bucket")
    assert "at is a number in " in run(*arguments, code=1).stderr
    run(*arguments, "--timestamp-format", "epoch-ms")
    bucket = TimeBucket(timestamp_column="at")
    assert {file.named for file in data_files(local_lake, url, bucket)} == {None, "2026021100"}


def test_what_cannot_be_read_is_told_and_writes_nothing(local_lake: Lake, tmp_path: Path) -> None:
    url = local_lake.new_url()
    (tmp_path / "bad.json").write_text(MORNING + '{"at": "2026-02-10T08:15:00Z", "value"\n')
    broken = run(tmp_path / "bad.json", url, "--timestamp-column", "at", code=1)
    assert re.search(r"error: .*bad\.json cannot be read as json: \[.*\] ", broken.stderr)
    assert len(broken.stderr.splitlines()) == 1
    missing = run(tmp_path / "none.json", url, "--timestamp-column", "at", code=1)
    assert "none.json cannot be read as json: [PATH_NOT_FOUND]" in missing.stderr
    (tmp_path / "good.json").write_text(MORNING)
    other = run(tmp_path / "good.json", url, "--timestamp-column", "event_ts", code=1)
    assert "has no column event_ts, which time buckets come from; its columns: at, device, value" in other.stderr


@pytest.mark.full
def test_a_stream_once_and_again(local_lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    url, source = local_lake.new_url(), tmp_path / "arriving"
    readings(spark, 60).coalesce(1).write.parquet(str(source))
    arguments = (source, url, "--timestamp-column", "event_ts", "--format", "parquet", "--no-sidecars")
    arguments = (*arguments, "--stream", "--once", "--checkpoint-location", tmp_path / "state")
    shown = facts(run(*arguments))
    assert shown["table"] == f"{url}, version 1"
    assert re.fullmatch(r"60 rows in 2 files, [\d.]+kB, in 1 batch", shown["written"])
    readings(spark, 60, first=100).coalesce(1).write.mode("append").parquet(str(source))
    told = json.loads(run(*arguments, "--output", "json").stdout)
    assert (told["rows"], told["batches"], told["version"], told["table"]) == (60, 1, 2, url)
    assert table_of(spark, local_lake, url).count() == 120
    readings(spark, 1).selectExpr("id", "cast(null as timestamp) event_ts", "device", "temperature").write.mode(
        "append"
    ).parquet(str(source))
    assert "1 row of the batch has no event_ts" in run(*arguments, code=1).stderr
