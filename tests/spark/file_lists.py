"""The file list of a table, as its readers have it: sidecar = checkpoint = Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.builder.meaning import meaning

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.events import BaseChosen, Event
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.access import hadoop_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

# A file, and what a reader may say of it: (size, modification time, partition values, statistics, deletion vector).
Files = dict[tuple[str, str | None], tuple[Any, ...]]


def assert_same_files(spark: SparkSession, lake: Lake, url: str, *, tier: int | None = None) -> Files:
    """Asserts that our reader finds the files that Delta has, with the metadata sidecar and without.

    Args:
        spark: The session.
        lake: Where the table is.
        url: The table.
        tier: The base that our reader has to use, as in `BaseChosen`; None for whichever it chooses.

    Returns:
        The files.
    """
    expected = spark_files(spark, url, lake.options)
    told: list[Event] = []
    assert own_files(url, lake.options, listeners=told) == expected
    assert own_files(url, lake.options, config=LazyScanConfig(sidecar_enabled=False)) == expected
    if tier is not None:
        assert [event.tier for event in told if isinstance(event, BaseChosen)] == [tier]
    return expected


def own_files(
    url: str,
    options: Mapping[str, str] | None = None,
    *,
    config: LazyScanConfig | None = None,
    listeners: list[Event] | None = None,
) -> Files:
    """The files by our own reader."""
    told = [] if listeners is None else listeners
    with LazyDeltaScanner(url, config, storage_options=options, listeners=[told.append]) as scanner:
        files = [
            (
                (file.raw_path, file.deletion_vector.unique_id if file.deletion_vector else None),
                (file.size, file.modification_time, dict(file.partition_values), meaning(file.stats)),
            )
            for file in scanner.scan_files()
        ]
    return _once(files)


def spark_files(spark: SparkSession, url: str, options: Mapping[str, str] | None = None) -> Files:
    """The files by Delta's own snapshot."""
    rows = delta_log.open_snapshot(spark, hadoop_url(url, options)).files().collect()
    return _once(
        (
            (row["path"], _vector_id(row["deletionVector"])),
            (row["size"], row["modificationTime"], dict(row["partitionValues"]), meaning(row["stats"])),
        )
        for row in rows
    )


def _once(files: Iterable[tuple[tuple[str, str | None], tuple[Any, ...]]]) -> Files:
    listed = list(files)
    found = dict(listed)
    assert len(found) == len(listed), "a file is in the list twice"
    return found


def _vector_id(vector: Any) -> str | None:  # noqa: ANN401 - a row of Spark
    if vector is None:
        return None
    offset = "" if vector["offset"] is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"
