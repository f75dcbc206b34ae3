"""Files in Spark's legacy calendar: what Spark reads from them is what we read, or they are refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.row_equality import assert_read_by_us, assert_same_rows, read_by_spark, settings

from delta_sidecar import DeltaTable, LazyDeltaScanner, LazyScanConfig, UnreadableFileError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

OLD = ("0001-01-01", "1000-03-01", "1500-03-01", "1582-10-04")
BETWEEN = ("1582-10-15", "1700-01-01", "1899-12-31")
LATER = ("1900-01-02", "1969-12-31", "2020-02-29")
KINDS = ("TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96")
ZONES = ("UTC", "+05:30", "America/Los_Angeles")
REFUSED = "in the legacy calendar of Spark, which is not converted here: leave the column out, or read it with Spark"


def write(spark: SparkSession, url: str, dates: tuple[str, ...], kind: str, zone: str) -> None:
    """Writes a row for each date, in the legacy calendar."""
    legacy = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.outputTimestampType": kind,
        "spark.sql.session.timeZone": zone,
    }
    with settings(spark, legacy):
        rows = spark.createDataFrame([(text,) for text in dates], "x string").coalesce(1)
        rows.selectExpr(
            "cast(x as date) as d",
            "cast(concat(x, ' 12:34:56') as timestamp) as t",
            "cast(concat(x, ' 12:34:56') as timestamp_ntz) as n",
            "named_struct('d', cast(x as date), 't', cast(concat(x, ' 00:00:01') as timestamp)) as s",
            "array(cast(x as date), null) as a",
            "map(cast(x as date), cast(concat(x, ' 23:59:59') as timestamp)) as m",
        ).write.format("delta").option("delta.checkpoint.writeStatsAsStruct", "true").option(
            "delta.checkpoint.writeStatsAsJson", "false"
        ).save(url)


@pytest.mark.full
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_both_calendars_have_is_the_same(spark: SparkSession, local_lake: Lake, kind: str, zone: str) -> None:
    url = local_lake.new_url("legacy")
    write(spark, url, LATER, kind, zone)
    reading = read_by_spark(spark, url, ("d > date'1970-01-01'", "s.d = date'1900-01-02'"))
    assert all(any(verdict.to_pylist()) for verdict in reading.verdicts.values())
    assert_read_by_us(reading, DeltaTable(url), [["a"], ["m", "n"], ["t"]])


@pytest.mark.parametrize("kind", KINDS)
def test_older_values_are_refused_by_name_and_all_else_is_read(
    spark: SparkSession, local_lake: Lake, kind: str
) -> None:
    old, between = local_lake.new_url("legacy"), local_lake.new_url("legacy-between")
    write(spark, old, OLD + LATER, kind, "UTC")
    write(spark, between, BETWEEN + LATER, kind, "UTC")
    for url, columns, refusal in (
        (old, ["d"], "column d has a date from before 1582-10-15"),
        (old, ["a"], "column a.element has a date from before 1582-10-15"),
        (old, ["s"], r"column s.\w has a \w+ from before [-0-9]+"),
        (old, ["m"], r"column m.\w+ has a \w+ from before [-0-9]+"),
        (old, ["n", "t"], "column t has a timestamp from before 1900-01-01"),
        (between, ["t"], "column t has a timestamp from before 1900-01-01"),
    ):
        with pytest.raises(UnreadableFileError, match=f"data file .*parquet cannot be read: {refusal} {REFUSED}"):
            DeltaTable(url).to_pyarrow_table(columns=columns)
    for url, columns in ((old, ["n"]), (between, ["d", "a", "n"])):
        reading = read_by_spark(spark, url, columns=columns)
        assert_same_rows(DeltaTable(url).to_pyarrow_table(columns=columns), reading.rows)


@pytest.mark.full
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_no_file_is_left_out_by_statistics_in_a_checkpoint(spark: SparkSession, local_lake: Lake, zone: str) -> None:
    url = local_lake.new_url("legacy")
    write(spark, url, ("1000-03-01",), "TIMESTAMP_MICROS", zone)
    spark.sql(
        f"alter table delta.`{url}` set tblproperties ('delta.checkpoint.writeStatsAsStruct' = 'true', "
        "'delta.checkpoint.writeStatsAsJson' = 'false')"
    )
    with settings(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY", "spark.sql.session.timeZone": zone}):
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, url).checkpoint()
    for predicate in ("d = '1000-03-01'", "d <= '1000-03-01'", "t < '1000-03-02 12:00:00'", "s.d < '1000-03-02'"):
        assert len(list(LazyDeltaScanner(url, LazyScanConfig(predicate=predicate)).scan_files())) == 1, predicate
