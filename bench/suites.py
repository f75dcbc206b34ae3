"""Suites that modules of their own measure: each has `measurements(progress, **options)`, which yields dicts."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from bench.results import from_dicts
from bench.words import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.results import Measurement

MODULES = {
    "startup": ("bench.startup",),
    "rows": ("bench.rows",),
    "build": ("bench.duckdb_sort", "bench.spark_build"),
    "ingestion": ("bench.ingestion", "bench.upkeep"),
    "cloud": ("bench.cloud",),
    "growth": ("bench.growth",),
}


def measurements(
    suite: str, say: Callable[[str], None], note: Callable[[str], None], **options: object
) -> Iterator[Measurement]:
    """Measures a suite.

    Args:
        suite: Of `MODULES`.
        say: Is told what goes on.
        note: Is told where the suite could not be measured, or not wholly.
        options: For its modules.
    """
    for name in MODULES[suite]:
        try:
            found = importlib.import_module(name).measurements
        except (ImportError, AttributeError) as error:
            note(f"{name} of suite {suite} is not there: {error}")
            continue
        try:
            yield from from_dicts(found(say, **options))
        except Exception as error:  # noqa: BLE001 - an hour of other figures is not lost for this one
            note(f"{name} of suite {suite} broke off: {why(error)}")
