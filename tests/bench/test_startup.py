"""Start-up is measured in whole processes, one beside the other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from bench.budgets import judged
from bench.results import from_dicts
from bench.startup import NEIGHBOURS, OURS, measurements, processes, spent

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.full
def test_every_process_is_measured_beside_the_others(tmp_path: Path) -> None:
    told: list[str] = []
    found = list(from_dicts(measurements(told.append, files=2_500, rounds=2, cache=tmp_path, neighbours=True)))
    asked = [*processes(tmp_path, ""), *NEIGHBOURS]
    assert [(each.reader, each.question) for each in found] == [(each.reader, each.question) for each in asked]
    assert [each.files for each in found if each.reader == OURS] == [2_500] * 4
    for each in found:
        assert len(each.runs) == 2
        assert 0 < each.spread.seconds[0] <= each.median.seconds <= each.spread.seconds[1]
    by_name = {each.question: each.median for each in found}
    assert by_name["nothing"].seconds < by_name["files, limit 1"].seconds
    assert by_name["nothing"].peak_bytes < by_name["import pyarrow.parquet"].peak_bytes
    assert "round 2 of 2" in told[-1]


@pytest.mark.full
def test_the_budget_is_beside_the_import_of_pyarrow(tmp_path: Path) -> None:
    found = list(from_dicts(measurements(lambda _: None, files=2_500, rounds=1, cache=tmp_path)))
    (cold,) = (each for each in judged(found) if "cold process" in each.what)
    ours, peer = (
        next(each.median.seconds for each in found if each.question == question)
        for question in ("files, limit 1", "import pyarrow.parquet")
    )
    assert cold.measured == pytest.approx(ours / peer)


def test_the_work_of_a_process_is_counted() -> None:
    idle, busy = (spent(("-c", work), os.environ) for work in ("", "sum(n * n for n in range(3_000_000))"))
    assert (busy.cpu_seconds or 0) > (idle.cpu_seconds or 0) > 0
    large = spent(("-c", "b'x' * 50_000_000"), os.environ)
    assert large.peak_bytes > idle.peak_bytes + 45_000_000


def test_a_process_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="it failed"):
        spent(("-c", "1 / 0"), os.environ)
