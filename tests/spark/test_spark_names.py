"""The public names of the room on Spark, frozen: adding or removing one shows in a diff of this file."""

from __future__ import annotations

import inspect

from delta_sidecar import spark
from delta_sidecar.spark import IngestPipeline, TimeBucket, build_sidecar, spark_session

PUBLIC = ["IngestPipeline", "TimeBucket", "TriggerOutcome", "WriteSummary", "build_sidecar", "spark_session"]


def test_the_names() -> None:
    assert spark.__all__ == PUBLIC
    assert all(inspect.getdoc(getattr(spark, name)) for name in PUBLIC)


def test_what_they_take() -> None:
    assert list(inspect.signature(IngestPipeline).parameters) == [
        *("spark", "table", "bucket", "checkpoint_interval", "target_file_size", "app_id", "bad_timestamps"),
        *("merge_schema", "change_data_feed", "deletion_vectors", "sidecars", "checksum_transactions"),
        *("storage_options", "listeners", "properties"),
    ]
    assert list(inspect.signature(IngestPipeline.write).parameters) == ["self", "df", "batch_id"]
    assert list(inspect.signature(IngestPipeline.write_stream).parameters) == [
        *("self", "df", "checkpoint_location", "trigger", "query_name", "transform"),
    ]
    assert list(inspect.signature(TimeBucket).parameters) == ["granularity", "column", "timestamp_column", "format"]
    assert list(inspect.signature(build_sidecar).parameters) == [
        *("spark", "table_url", "version", "sort", "summaries", "rows_per_group", "bucket_column", "storage_options"),
        *("store", "progress", "rows_per_part", "levels", "listeners"),
    ]
    assert list(inspect.signature(spark_session).parameters) == [
        *("table_url", "name", "master", "storage_options", "settings", "packages", "others"),
    ]
