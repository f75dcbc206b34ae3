"""The benchmark in this process: what it would measure in processes of their own is done here, and takes no start."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from bench.measure import Measurement
from bench.readers import delta_rs, ours

from bench import shapes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.measure import Work
    from bench.shapes import BenchTable


def measured_here(work: Work, **arguments: object) -> Measurement:
    ready = work(**arguments)
    started = time.perf_counter()
    return Measurement(ready(), time.perf_counter() - started, 0.1, 3_000_000)


@pytest.fixture(scope="session")
def _in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for module in (shapes, ours, delta_rs):
            patched.setattr(module, "measured", measured_here)
        patched.setattr(ours, "imported", list)
        yield


@pytest.fixture(scope="session")
def cache(_in_this_process: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tables are made."""
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="session")
def made(cache: Path) -> BenchTable:
    """A table whose tail removes some of the newest files."""
    return shapes.table(shapes.Shape(3_000, tail=5, removes=50), cache)
