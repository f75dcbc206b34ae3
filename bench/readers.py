"""The readers that are compared. Each function gets ready and gives what is to be measured (`bench.measure`)."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def lazy(
    table: str, predicate: str | None = None, limit: int | None = None, columns: list[str] | None = None
) -> Callable[[], dict[str, Any]]:
    """This library: every batch is looked at once and dropped. Paths are only kept where there is a predicate."""
    import pyarrow.compute as pc

    from delta_sidecar import LazyDeltaScanner, LazyScanConfig
    from delta_sidecar.events import Event, ScanEnded

    # Made here, since reading SQL imports a parser.
    config = LazyScanConfig(predicate=predicate, limit=limit)

    tiers: list[int | None] = []

    def listen(event: Event) -> None:
        if isinstance(event, ScanEnded):
            tiers.append(event.sidecar_tier)

    def work() -> dict[str, Any]:
        started = time.perf_counter()
        scanner = LazyDeltaScanner(table, config, listeners=[listen])
        first, files, size = None, 0, 0
        paths: list[str] = []
        with scanner:
            for batch in scanner.scan_batches(columns):
                first = first or time.perf_counter() - started
                files += batch.num_rows
                size += pc.sum(batch["size"]).as_py()
                if predicate is not None or limit is not None:
                    paths += batch["path"].to_pylist()
        requests = scanner.metrics.requests
        return {
            "files": files,
            "size": size,
            "paths": digest(paths),
            "first_seconds": first,
            "first_path": paths[0] if paths else None,
            "requests": requests.requests,
            "bytes": requests.bytes,
            "tier": tiers[-1],
        }

    return work


def build(table: str, version: int) -> Callable[[], dict[str, Any]]:
    """This library: builds the metadata sidecar of a table."""
    import duckdb  # noqa: F401 - an import is no part of what is measured

    from delta_sidecar.build import build_sidecar

    def work() -> dict[str, Any]:
        return build_sidecar(table, version=version).as_dict()

    return work


def deltalake_hour(table: str, hour: str) -> Callable[[], dict[str, Any]]:
    """deltalake: loads the table, then lists the files of one partition."""
    from deltalake import DeltaTable

    def work() -> dict[str, Any]:
        uris = DeltaTable(table).file_uris(partition_filters=[("_event_hour", "=", hour)])
        return {"files": len(uris), "paths": digest(uri[uri.index("_event_hour=") :] for uri in uris)}

    return work


def deltalake_all(table: str) -> Callable[[], dict[str, Any]]:
    """deltalake: loads the table, then gives all its files as Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    def work() -> dict[str, Any]:
        files = pa.table(DeltaTable(table).get_add_actions(flatten=True))
        return {"files": files.num_rows, "size": pc.sum(files["size_bytes"]).as_py()}

    return work


def digest(paths: Iterable[str]) -> str:
    """One short text for a set of paths."""
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()
