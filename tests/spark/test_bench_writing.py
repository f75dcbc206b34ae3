"""The benchmark of builds and of ingestion runs on Spark, and counts no time of a wrong answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bench.measure import Measurement
from bench.questions import WrongAnswerError
from bench.results import from_dicts

from bench import shapes, spark_build, upkeep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def measured_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures in this process, on the session that runs; processes of their own are tested in tests/bench."""
    assert spark is not None

    def measured(work: Callable[..., Callable[[], Any]], **arguments: Any) -> Measurement:  # noqa: ANN401 - any
        return Measurement(work(**arguments)(), 1.5, 1.0, 3_000_000)

    for module in (shapes, spark_build, upkeep):
        monkeypatch.setattr(module, "measured", measured)
    monkeypatch.setattr(upkeep, "_WARMING", 1)


def test_builds_are_measured_side_by_side(tmp_path: Path) -> None:
    said: list[str] = []
    found = from_dicts(spark_build.measurements(said.append, files=[3000], master="local[2]", cache=tmp_path))
    local, distributed = found
    assert [local.variant, distributed.variant] == ["local", "on Spark"]
    assert local.files == distributed.files == 3000
    assert (local.suite, local.question) == (distributed.suite, distributed.question) == ("build", "full build")
    assert "driver_bytes" not in local.extra
    assert distributed.extra["driver_bytes"] > 0
    assert local.extra["sidecar_bytes"] > 3000
    assert distributed.extra["sidecar_bytes"] == pytest.approx(local.extra["sidecar_bytes"], rel=0.2)
    assert len(said) == 2


@pytest.mark.full
def test_writers_are_measured_side_by_side() -> None:
    found = list(from_dicts(upkeep.measurements(lambda _: None, commits=2, rows=300, interval=2)))
    assert [each.variant for each in found] == ["", "pipeline", "pipeline with sidecars"]
    assert all(len(each.runs) == 2 and each.median.seconds > 0 for each in found)
    assert found[0].shape == "a new table, 2 commits of 300 rows, a checkpoint every 2"


def test_a_wrong_answer_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_write", lambda *_: None)
    with pytest.raises(WrongAnswerError, match="delta wrote -300 rows"):
        list(upkeep.measurements(lambda _: None, commits=2, rows=300))
