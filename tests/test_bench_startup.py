"""Start-up is measured in processes of their own, beside each other."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from bench.startup import COMMAND, PEER, cpu_seconds, made_table, measurements

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.full
def test_every_process_is_measured_beside_the_others(tmp_path: Path) -> None:
    path, hour = made_table(tmp_path, files=2_500)
    found = {each["name"]: each for each in measurements(path, hour, rounds=2)}
    assert found[PEER]["ratio"] == 1
    for each in found.values():
        assert len(each["runs"]) == 2
        assert 0 < each["least"] <= each["seconds"] <= each["most"]
        assert each["ratio"] == each["seconds"] / found[PEER]["seconds"]
    assert found["python"]["seconds"] < found[COMMAND]["seconds"]


def test_the_work_of_a_process_is_counted_and_its_failure_too() -> None:
    idle, busy = (
        cpu_seconds([sys.executable, "-c", work], os.environ) for work in ("", "sum(n * n for n in range(3_000_000))")
    )
    assert busy > idle > 0
    with pytest.raises(RuntimeError, match="it failed"):
        cpu_seconds([sys.executable, "-c", "1 / 0"], os.environ)
