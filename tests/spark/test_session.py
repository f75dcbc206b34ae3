"""Sessions of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.spark.access import hadoop_url
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake


def test_spark_and_our_store_see_the_same_table(spark: SparkSession, lake: Lake) -> None:
    url = lake.new_url()
    spark.range(10).write.format("delta").save(hadoop_url(url, lake.options))
    assert spark.read.format("delta").load(hadoop_url(url, lake.options)).count() == 10
    commit = open_store(url, lake.options).get("_delta_log/00000000000000000000.json")
    assert b'"add"' in bytes(commit.data)
