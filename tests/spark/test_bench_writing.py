"""The benchmark of builds and of ingestion runs, and counts no time of a wrong answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from bench.measure import Measurement
from bench.questions import WrongAnswerError

from bench import writers, writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def measured_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures in this process, on the session that runs; processes of their own are tested in test_bench."""
    assert spark is not None

    def measured(work: Callable[..., Callable[[], Any]], **arguments: Any) -> Measurement:  # noqa: ANN401 - any
        return Measurement(work(**arguments)(), 1.5, 3_000_000)

    monkeypatch.setattr(writing, "measured", measured)
    monkeypatch.setattr(writers, "_WARMING", 1)


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """A small run: its figures."""
    figures = tmp_path / "figures.json"
    command = ["bench.writing", *arguments, "--cache", str(tmp_path), "--json", str(figures)]
    monkeypatch.setattr("sys.argv", command)
    writing.main()
    found: dict[str, Any] = json.loads(figures.read_text())
    return found


def test_builds_are_measured_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(tmp_path, monkeypatch, "--files", "3000", "--commits", "0")
    local, distributed = found["builds"]
    assert (local["engine"], local["jvm_bytes"]) == ("local", None)
    assert distributed["engine"] == "spark"
    assert distributed["jvm_bytes"] > 0
    assert local["files"] == distributed["files"] == 3000
    assert local["sidecar_bytes"] > 3000
    assert distributed["sidecar_bytes"] == pytest.approx(local["sidecar_bytes"], rel=0.2)
    assert found["ingestion"] == []
    assert "3,000 files, spark" in capsys.readouterr().out


@pytest.mark.full
def test_writers_are_measured_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(tmp_path, monkeypatch, "--files", "--commits", "2", "--rows", "300", "--interval", "2")
    assert [each["writer"] for each in found["ingestion"]] == ["delta", "pipeline", "pipeline with sidecars"]
    assert all(each["mean_seconds"] > 0 for each in found["ingestion"])
    assert "2 commits of 300 rows, a checkpoint every 2" in capsys.readouterr().out


def test_a_wrong_answer_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_write", lambda *_: None)
    with pytest.raises(WrongAnswerError, match="delta wrote -300 rows"):
        run(tmp_path, monkeypatch, "--files", "--commits", "2", "--rows", "300")
