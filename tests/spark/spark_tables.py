"""Tables that Spark wrote, their copies in other places, and what readers say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.events import BaseChosen
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.access import hadoop_configuration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from delta_sidecar.events import Event
    from delta_sidecar.store import Store

HOURS = 6


def create(spark: SparkSession, url: str, properties: dict[str, str]) -> None:
    """A table of events, with an hour bucket as its partition column. It has version 0."""
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(
        f"create table delta.`{url}` (id bigint, event_ts timestamp, device string, _event_hour string) "
        f"using delta partitioned by (_event_hour) tblproperties ({listed})"
    )


def append(spark: SparkSession, url: str, start: int, rows: int = 2 * HOURS, **options: str) -> None:
    """A commit with one file in each of six hours."""
    events = spark.range(start, start + rows, numPartitions=1).selectExpr(
        "id",
        f"timestamp'2026-02-10 20:00:00' + make_interval(0, 0, 0, 0, cast(id % {HOURS} as int), 0, id % 60) event_ts",
        "concat('device-', id % 4) device",
        f"lpad(cast(20 + id % {HOURS} as string), 10, '2026021000') _event_hour",
    )
    events.write.format("delta").mode("append").options(**options).save(url)


def make_folder(spark: SparkSession, url: str) -> None:
    """Makes a folder as Spark does when it creates a table; on an object store it is marked by an empty object."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(url)
    path.getFileSystem(hadoop_configuration(spark)).mkdirs(path)


def copied(source: Store, target: Store) -> None:
    """Copies a log, object by object."""
    for page in source.list("_delta_log/"):
        for found in page:
            if found.path.endswith(".crc") and "/." in found.path:
                # Checksums that the local file system of Hadoop keeps beside its files.
                continue
            target.put(found.path, bytes(source.get(found.path).data))


def files_by_delta(spark: SparkSession, url: str, version: int) -> list[str]:
    """Delta's own list of live files, from what is in the store now and not from what it remembers."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    return sorted(row.path for row in delta_log.open_snapshot(spark, url, version).files().select("path").collect())


def files_by_us(store: Store, version: int | None = None, *, sidecars: bool = True) -> tuple[list[str], int]:
    """Our reader's list of live files, and the tier of the base that it is from."""
    told: list[Event] = []
    config = LazyScanConfig(version=version, sidecar_enabled=sidecars)
    scanner = LazyDeltaScanner(store.url, config, store=store, listeners=[told.append])
    found = sorted(file.raw_path for file in scanner.scan_files())
    tiers = [event.tier for event in told if isinstance(event, BaseChosen)]
    return found, tiers[-1]


def names(store: Store, folder: str = "_delta_log/_sidecars/") -> list[str]:
    """What is in a folder."""
    return sorted(found.path.rpartition("/")[2] for page in store.list(folder) for found in page)


def of_kind(found: Iterable[str], ending: str) -> list[str]:
    """The names that end so."""
    return [name for name in found if name.endswith(ending)]
