"""The benchmark runs, counts no time of a wrong answer, and says which budgets are met."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.budgets import FILES, OURS, verdicts
from bench.console import verdict
from bench.measure import Measurement
from bench.questions import (
    ALL_FILES,
    BUILD,
    FIRST_FILE,
    LAST_HOUR,
    LAST_HOUR_PATHS,
    QUESTIONS,
    Result,
    WrongAnswerError,
    check,
    lazy_arguments,
    questions_of,
)
from bench.readers import build, lazy
from bench.tables import BenchTable, table

from bench import measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.measure import Work

    Runner = Callable[..., tuple[str, Any]]

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


SMALL = ("--files", "5000")


@pytest.mark.full
def test_a_small_run(tmp_path: Path) -> None:
    text, found = run(tmp_path, *SMALL, "--layouts", "spark")
    assert text.startswith("Before you read the figures")
    assert "To reproduce: make bench ARGS='--files 5000'" in text
    assert found["files"] == 5000
    expected = {(question, reader) for question in questions_of("spark") for reader in ("delta-sidecar", "deltalake")}
    assert {(each["question"], each["reader"]) for each in found["results"]} == expected


@pytest.mark.full
def test_a_small_run_with_sidecars_and_without_peers(run_here: Runner, tmp_path: Path) -> None:
    layouts = ["--small", "3000", "--layouts", "sidecar", "small", "wide"]
    text, found = run_here("bench", *SMALL, *layouts, "--no-peers")
    assert {each["reader"] for each in found["results"]} == {OURS}
    measured_of = {(each["layout"], each["question"]): each for each in found["results"]}
    assert set(measured_of) == {
        (layout, question) for layout in layouts[3:] for question in (BUILD, *questions_of(layout))
    }
    assert measured_of["sidecar", LAST_HOUR]["requests"] == measured_of["small", LAST_HOUR]["requests"]
    judged = {(each["what"], each["layout"]) for each in found["budgets"]}
    assert {
        ("memory, sidecar build", "sidecar"),
        ("memory, last hour", "wide"),
        ("requests, last hour", "sidecar"),
    } <= judged
    assert f"of {len(judged)} budgets are met" in text
    assert (tmp_path / "v1-spark-sidecar-5000/_delta_log/_sidecars").exists()
    assert not (tmp_path / "v1-spark-5000/_delta_log/_sidecars").exists(), "the log is shared, the sidecar is not"
    _, found = run_here("bench", *SMALL, "--layouts", "sidecar", "--keep-sidecars")
    assert found["results"]
    assert not [each for each in found["results"] if each["question"] == BUILD]


@pytest.fixture(scope="module", params=["spark", "sidecar"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BenchTable:
    made = table(request.param, 3000, tmp_path_factory.mktemp("bench"))
    if request.param == "sidecar":
        build(table=str(made.path), version=made.log.checkpoint_version)()
    return made


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_wrong_answer_is_no_result(made: BenchTable, question: str) -> None:
    # Other tests run the benchmark in processes of their own.
    right = Measurement(lazy(table=str(made.path), **lazy_arguments(question, made))(), 1.5, 3_000_000)
    check(question, made, right)
    decides = {
        FIRST_FILE: ["first_path"],
        LAST_HOUR: ["paths", "files"],
        LAST_HOUR_PATHS: ["paths", "files"],
        ALL_FILES: ["files", "size"],
    }[question]
    if made.layout == "sidecar" and question != FIRST_FILE:
        decides = [*decides, "tier"]
    for key, wrong in {"first_path": "x", "paths": "x", "files": 1_249, "size": 1, "tier": 3}.items():
        other: Measurement = replace(right, answer=right.answer | {key: wrong})
        if key in decides:
            with pytest.raises(WrongAnswerError):
                check(question, made, other)


def test_budgets_are_met_or_not() -> None:
    good = [
        Result(BUILD, OURS, "sidecar", 60, 2_000_000_000),
        Result(LAST_HOUR, OURS, "sidecar", 0.018, 5_000_000, 27),
        Result(LAST_HOUR, OURS, "small", 0.009, 9_000_000, 27),
        Result(ALL_FILES, OURS, "sidecar", 1.88, 50_000_000, 900),
        Result(LAST_HOUR, "deltalake", "spark", 48, 7_500_000_000),
    ]
    found = list(verdicts(good, FILES))
    assert len(found) == 8
    assert all(each.met for each in found)
    assert verdict(found) == "\nAll of 8 budgets are met.\n"
    assert len(list(verdicts(good, 100_000))) == 4, "times are judged for the full size only"
    for number, change in enumerate(
        [{"seconds": 60.1}, {"peak_bytes": 5_000_001}, {"requests": 26}, {"seconds": 1.9}, {}],
    ):
        results = [*good[:number], replace(good[number], **change), *good[number + 1 :]]  # type: ignore[arg-type]
        assert sum(not each.met for each in verdicts(results, FILES)) == bool(change)
    slow = [good[0], replace(good[1], seconds=0.0185), *good[2:]]
    assert [each.what for each in verdicts(slow, FILES) if not each.met] == ["time, last hour", "growth, last hour"]
    assert "6 of 8 budgets are met. Not met: time, last hour (sidecar); " in verdict(list(verdicts(slow, FILES)))


def run(cache: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    """A run, with processes of their own: what it printed, and its figures."""
    figures = cache / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments, "--runs", "1", "--cache", str(cache), "--json", str(figures)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stderr == ""
    return done.stdout, json.loads(figures.read_text())


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Runs a module of the benchmark in this process, and so all that it measures."""

    def measured(work: Work, **arguments: object) -> Measurement:
        ready = work(**arguments)
        started = time.perf_counter()
        return Measurement(ready(), time.perf_counter() - started, 3_000_000)

    monkeypatch.setattr(measure, "measured", measured)

    def ran(module: str, *arguments: str) -> tuple[str, Any]:
        figures = tmp_path / "figures.json"
        common = ["--runs", "1", "--cache", str(tmp_path), "--json", str(figures)]
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", [module, *arguments, *common])
            # As it is imported by a process that is started with it: anew, with what is measured here.
            for name in [each for each in sys.modules if each in {"bench.__main__", "bench.rows"}]:
                patched.delitem(sys.modules, name)
            runpy.run_module(module, run_name="__main__")
        said = capsys.readouterr()
        assert said.err == ""
        return said.out, json.loads(figures.read_text())

    return ran


def test_rows_are_measured_side_by_side(run_here: Runner) -> None:
    text, found = run_here("bench.rows", "--files", "200")
    assert text.startswith("Before you read the figures")
    assert {(each["layout"], each["rows"]) for each in found} == {("checkpoint", 400), ("sidecar", 400)}
    assert {each["reader"] for each in found if each["layout"] == "checkpoint"} == {
        "DeltaTable.scan",
        "connect.duckdb",
        "connect.polars",
        "deltalake, to_pyarrow_dataset",
        "deltalake, QueryBuilder",
        "polars, scan_delta",
    }
    assert all(0 < each["first_seconds"] <= each["seconds"] + 0.1 for each in found)
