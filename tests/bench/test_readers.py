"""Every reader gives every answer that it can, and a wrong one is refused."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from bench.measure import Measurement, limit_memory, measured
from bench.questions import (
    ALL_FILES,
    FIRST_100,
    FIRST_FILE,
    LAST_HOUR,
    LAST_HOUR_PATHS,
    ONE_DAY,
    QUESTIONS,
    Question,
    WrongAnswerError,
    asked,
    check,
    digest,
    suits,
    truth,
)
from bench.readers import Reader, delta_rs, duckdb_delta, kernel, ours, spark
from bench.readers.reader import NotHereError
from bench.run import measurements
from bench.shapes import Shape, table
from bench.workloads import Workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.shapes import BenchTable

    Spoil = Callable[[dict[str, Any]], dict[str, Any]]

pytestmark = pytest.mark.slow

READERS = [
    ours.reader("sidecar"),
    ours.reader("checkpoint"),
    ours.reader("checkpoint", "forward", strategy="forward"),
    ours.reader("sidecar", "warm", is_warm=True),
    *ours.levels(),
    *delta_rs.readers(),
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.label)
def test_readers_answer_rightly(made: BenchTable, reader: Reader) -> None:
    answered = [question for question in QUESTIONS if reader.answers(question.name)]
    assert answered
    for question in answered:
        found = reader.answer(made.at(reader.base), asked(question, made))
        check(question, made, found.answer)
        if reader.base == "sidecar" and not reader.variant.startswith("L") and question.limit is None:
            assert found.answer["tier"] == 1


@pytest.mark.parametrize("reader", kernel.readers(), ids=lambda reader: reader.label)
def test_the_kernel_answers_rightly(made: BenchTable, reader: Reader) -> None:
    if not kernel.is_built():
        pytest.skip("the kernel's lister is not built here: `make bench` does it")
    for question in QUESTIONS:
        if reader.answers(question.name):
            found = reader.answer(made.at("checkpoint"), asked(question, made))
            check(question, made, found.answer)
            assert found.seconds >= found.answer["first_seconds"] > 0
            assert 0 < found.peak_bytes < 200_000_000


@pytest.mark.full
def test_duckdb_answers_rightly(made: BenchTable) -> None:
    (reader,) = duckdb_delta.readers()
    for question in QUESTIONS:
        if reader.answers(question.name):
            check(question, made, reader.answer(made.at("checkpoint"), asked(question, made)).answer)


@pytest.mark.full
@pytest.mark.spark
def test_spark_answers_rightly(made: BenchTable) -> None:
    (reader,) = spark.readers("1g")
    for question in QUESTIONS:
        if reader.answers(question.name):
            check(question, made, reader.answer(made.at("checkpoint"), asked(question, made)).answer)


def test_a_process_of_its_own(made: BenchTable) -> None:
    found = measured(ours.listed, path=made.at("sidecar"), ask=asked(LAST_HOUR, made), modules=["delta_sidecar.scan"])
    check(LAST_HOUR, made, found.answer)
    assert found.seconds > 0
    assert found.cpu_seconds > 0
    assert 1_000_000 < found.peak_bytes < 500_000_000


def greedy(share: float) -> Callable[[], dict[str, Any]]:
    limit = limit_memory(share)
    return lambda: {"bytes": len(bytearray(limit + 1))}


def test_a_reader_cannot_take_all_memory(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        measured(greedy, share=0.05)
    assert "MemoryError" in capfd.readouterr().err


def test_truth_knows_what_was_removed(made: BenchTable) -> None:
    hour = truth(LAST_HOUR, made)
    assert hour.files == made.log.expected_hour(made.log.newest_hour)
    assert hour.files < made.log.files_per_hour, "the tail removes some of the newest hour"
    assert hour.paths == digest(reversed(list(made.log.live_paths(made.log.newest_hour))))
    assert truth(ONE_DAY, made).files == made.log.live_files, "no day is whole, and this is the newest"
    assert truth(ALL_FILES, made).files == made.log.live_files


def test_a_question_needs_what_it_is_about(made: BenchTable, cache: Path) -> None:
    narrow = table(Shape(1_000, stats_columns=5), cache, sidecar=False)
    assert all(suits(question, made) for question in QUESTIONS)
    assert [question.name for question in QUESTIONS if not suits(question, narrow)] == ["statistics"]


def without_one(answer: dict[str, Any]) -> dict[str, Any]:
    return answer | {"files": answer["files"] - 1}


def with_one_twice(answer: dict[str, Any]) -> dict[str, Any]:
    return answer | {"listed": [*answer["listed"][1:], answer["listed"][-1]]}


def with_a_dead_one(answer: dict[str, Any]) -> dict[str, Any]:
    path = answer["listed"][0]
    return answer | {"listed": [path[:-1] + "_", *answer["listed"][1:]]}


WRONG = [
    (LAST_HOUR, without_one),
    (LAST_HOUR_PATHS, lambda answer: answer | {"size": answer["size"] + 1}),
    (LAST_HOUR, lambda answer: answer | {"paths": digest(["another"])}),
    (ALL_FILES, without_one),
    (ALL_FILES, lambda answer: answer | {"size": answer["size"] - 1}),
    (FIRST_FILE, lambda answer: answer | {"listed": []}),
    (FIRST_100, with_one_twice),
    (FIRST_100, with_a_dead_one),
    (FIRST_100, without_one),
]


@pytest.mark.parametrize(("question", "spoil"), WRONG)
def test_a_wrong_answer_is_no_result(made: BenchTable, cache: Path, question: Question, spoil: Spoil) -> None:
    honest = ours.reader("sidecar")

    def answer(path: str, ask: dict[str, Any]) -> Measurement:
        found = honest.answer(path, ask)
        return replace(found, answer=spoil(found.answer))

    workload = Workload("files", made.shape, (question,), ("all",), rounds=2)
    notes: list[str] = []
    liar = Reader("another library", answer, "sidecar")
    found = list(measurements(workload, {"all": [honest, liar]}, cache, lambda _: None, notes.append))
    assert [each.reader for each in found] == [ours.NAME]
    assert len(found[0].runs) == 2
    (note,) = notes
    assert note.startswith("another library, sidecar is left out: ")
    ourselves = Reader(ours.NAME, answer, "sidecar")
    with pytest.raises(WrongAnswerError):
        list(measurements(workload, {"all": [ourselves]}, cache, lambda _: None, notes.append))


def test_a_sidecar_that_is_not_used_is_an_error(made: BenchTable, cache: Path) -> None:
    base = made.at("checkpoint")
    astray = Reader(ours.NAME, lambda _, ask: ours.reader("checkpoint").answer(base, ask), "sidecar")
    workload = Workload("files", made.shape, (LAST_HOUR,), ("all",), rounds=1)
    with pytest.raises(WrongAnswerError, match="did not find the manifest"):
        list(measurements(workload, {"all": [astray]}, cache, lambda _: None, print))


def test_the_kernel_is_not_measured_without_cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "PROGRAM", tmp_path / "kernel-lister")
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    with pytest.raises(NotHereError, match="no cargo here: the kernel was not measured"):
        kernel.built(said.append)
    assert not said, "nothing is built"
