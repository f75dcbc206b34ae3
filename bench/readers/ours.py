"""This library, with every base, strategy and level, cold and warm."""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from bench.measure import measured
from bench.questions import digest, predicate
from bench.readers.reader import Reader
from bench.shapes import Shape, table

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from bench.measure import Measurement

NAME = "delta-sidecar"
_MOST_PATHS = 100_000


def reader(base: str, variant: str = "", *, questions: frozenset[str] | None = None, **options: object) -> Reader:
    """This library on a base; options as for `listed`."""
    return Reader(NAME, partial(_answer, options=options), base, variant, questions)


def levels() -> list[Reader]:
    """The ladder: how much of the design is used."""
    from delta_sidecar.scan.levels import LEVELS

    return [reader("sidecar", f"L{level}", level=level) for level in range(len(LEVELS))]


def listed(
    path: str,
    ask: dict[str, Any],
    modules: list[str],
    level: int | None = None,
    strategy: str | None = None,
    *,
    is_warm: bool = False,
) -> Callable[[], dict[str, Any]]:
    """Lists files; every batch is looked at once and dropped, but for paths where they are few.

    Args:
        path: The table's.
        ask: The question.
        modules: What is imported before the clock starts.
        level: As in `LazyScanConfig`.
        strategy: Likewise.
        is_warm: Whether it was asked once before, in the same process.
    """
    for name in modules:
        importlib.import_module(name)
    from delta_sidecar import LazyDeltaScanner, LazyScanConfig
    from delta_sidecar.events import Event, ScanEnded

    # Made here, since reading SQL imports a parser.
    config = LazyScanConfig(predicate=predicate(ask), limit=ask["limit"], level=level, strategy=strategy)
    keeps_paths = ask["kind"] != "all" or ask["limit"] is not None

    tiers: list[int | None] = []

    def listen(event: Event) -> None:
        if isinstance(event, ScanEnded):
            tiers.append(event.sidecar_tier)

    def scan() -> dict[str, Any]:
        started, cpu = time.perf_counter(), time.process_time()
        first, files, size = None, 0, 0
        paths: list[str] = []
        with LazyDeltaScanner(path, config, listeners=[listen]) as scanner:
            for batch in scanner.scan_batches(ask["columns"]):
                first = first or time.perf_counter() - started
                files += batch.num_rows
                size += _sum(batch.column("size"))
                if keeps_paths and len(paths) < _MOST_PATHS:
                    paths += batch.column("path").to_pylist()
            taken = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
            counts = scanner.metrics.requests
        return {
            "files": files,
            "size": size,
            "paths": digest(paths) if len(paths) == files and keeps_paths else None,
            "listed": paths if ask["limit"] is not None else None,
            "first_seconds": first,
            "requests": counts.requests,
            "bytes": counts.bytes,
            "trips": counts.trips,
            "tier": tiers[-1],
            **taken,
        }

    def work() -> dict[str, Any]:
        if is_warm:
            scan()
        return scan()

    return work


@lru_cache
def imported() -> list[str]:
    """The modules that a scan imports, so that the time for it can be left out."""
    with tempfile.TemporaryDirectory(prefix="delta-sidecar-bench-") as folder:
        small = table(Shape(100, tail=2), Path(folder))
        paths = [small.at(base) for base in small.bases]
        found: list[str] = measured(scanned, paths=paths, hour=small.log.newest_hour).answer["modules"]
    return found


def scanned(paths: list[str], hour: str) -> Callable[[], dict[str, Any]]:
    """Scans tables, and says which modules of this library and of Arrow are there then."""
    from delta_sidecar import LazyDeltaScanner, LazyScanConfig

    def work() -> dict[str, Any]:
        for path in paths:
            with LazyDeltaScanner(path, LazyScanConfig(predicate=f"_event_hour = '{hour}'")) as scanner:
                for batch in scanner.scan_batches():
                    _sum(batch.column("size"))
        return {"modules": sorted(name for name in sys.modules if name.startswith(("delta_sidecar.", "pyarrow.")))}

    return work


def _answer(path: str, ask: dict[str, Any], options: dict[str, Any]) -> Measurement:
    return measured(listed, path=path, ask=ask, modules=imported(), **options)


def _sum(sizes: pa.Array) -> int:
    total: int = pc.sum(sizes).as_py()
    return total
