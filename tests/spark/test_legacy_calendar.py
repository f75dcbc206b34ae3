"""Files in Spark's legacy calendar: what Spark reads from them is what we read, or they are refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.row_equality import assert_read_by_us, assert_same_rows, read_by_spark, settings

from delta_sidecar import DeltaTable, LazyDeltaScanner, LazyScanConfig, UnreadableFileError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

DATES = ("0001-01-01", "0004-02-29", "1000-02-28", "1000-03-01", "1500-03-01", "1582-10-04", "1582-10-15")
LATER = ("1899-12-31", "1900-01-01", "2020-02-29")
PREDICATES = ("d < date'1582-10-05'", "d = date'1000-03-01'", "d > date'1900-01-01'", "s.d = date'1500-03-01'")
MOMENTS = ("t < timestamp'1582-10-05 00:00:00'", "t = timestamp'1000-03-01 12:34:56'")


def write(spark: SparkSession, url: str, dates: tuple[str, ...], kind: str, zone: str) -> None:
    """Writes a row for each date, in the legacy calendar, and each into a row group of its own."""
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
        ).write.format("delta").option("parquet.block.size", "1").option("parquet.page.size.row.check.min", "1").option(
            "delta.checkpoint.writeStatsAsStruct", "true"
        ).option("delta.checkpoint.writeStatsAsJson", "false").save(url)


@pytest.mark.full
@pytest.mark.parametrize("zone", ["UTC", "+05:30"])
@pytest.mark.parametrize("kind", ["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
def test_old_dates_and_timestamps_are_the_same(spark: SparkSession, local_lake: Lake, kind: str, zone: str) -> None:
    url = local_lake.new_url("legacy")
    write(spark, url, DATES + LATER, kind, zone)
    reading = read_by_spark(spark, url, PREDICATES + MOMENTS if zone == "UTC" else PREDICATES)
    assert all(any(verdict.to_pylist()) for verdict in reading.verdicts.values())
    assert_read_by_us(reading, DeltaTable(url), [["a"], ["m", "n"], ["t"]])


def test_where_clocks_were_changed_old_timestamps_are_refused_and_all_else_is_read(
    spark: SparkSession, local_lake: Lake
) -> None:
    url, later = local_lake.new_url("legacy"), local_lake.new_url("legacy-later")
    zone = "America/Los_Angeles"
    write(spark, url, DATES, "TIMESTAMP_MICROS", zone)
    refusal = r"column t has a timestamp from before 1900 in the legacy calendar of Spark, .* America/Los_Angeles"
    with pytest.raises(UnreadableFileError, match=refusal):
        DeltaTable(url).to_pyarrow_table()
    others = ["d", "n", "a"]
    reading = read_by_spark(spark, url, PREDICATES[:2], columns=others)
    assert_same_rows(DeltaTable(url).to_pyarrow_table(columns=others), reading.rows)
    for predicate, verdict in reading.verdicts.items():
        found = DeltaTable(url).scan(others, predicate).reader().read_all()
        assert_same_rows(found, reading.rows.filter(verdict), predicate)
    write(spark, later, LATER[1:], "INT96", zone)
    assert_read_by_us(read_by_spark(spark, later), DeltaTable(later))


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
    for predicate in ("d < '1000-02-28'", "d > '1000-03-02'"):
        assert not list(LazyDeltaScanner(url, LazyScanConfig(predicate=predicate)).scan_files()), predicate
