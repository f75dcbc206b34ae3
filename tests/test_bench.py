"""The benchmark runs, and counts no time of a wrong answer."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.measure import Measurement, measured
from bench.questions import QUESTIONS, WrongAnswerError, check, lazy_arguments
from bench.readers import lazy
from bench.tables import table

ROOT = Path(__file__).parents[1]


def test_a_small_run(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    small = ["--files", "5000", "--runs", "1", "--layouts", "spark"]
    run = subprocess.run(
        [sys.executable, "-m", "bench", *small, "--cache", tmp_path, "--json", figures],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.stderr == ""
    assert run.stdout.startswith("Before you read the figures")
    assert "To reproduce: make bench ARGS='--files 5000'" in run.stdout
    found = json.loads(figures.read_text())
    assert found["files"] == 5000
    expected = {(question, reader) for question in QUESTIONS for reader in ("delta-sidecar", "deltalake")}
    assert {(each["question"], each["reader"]) for each in found["results"]} == expected


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_wrong_answer_is_no_result(tmp_path: Path, question: str) -> None:
    made = table("spark", 3000, tmp_path)
    right = measured(lazy, table=str(made.path), **lazy_arguments(question, made))
    check(question, made, right)
    for key, wrong in {"first_path": "x", "paths": "x", "files": 1_249, "size": 1}.items():
        other: Measurement = replace(right, answer=right.answer | {key: wrong})
        decides = {"first file": ["first_path"], "last hour": ["paths", "files"], "all files": ["files", "size"]}
        if key in decides[question]:
            with pytest.raises(WrongAnswerError):
                check(question, made, other)
