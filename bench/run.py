"""Asking readers in turn: every round asks each of them once, in another order, and nothing else runs meanwhile."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, TypeAlias

from bench.questions import WrongAnswerError, asked, check, suits, truth
from bench.readers.ours import NAME
from bench.results import Run, measurement
from bench.shapes import table, warm
from bench.words import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.measure import Measurement as Measured
    from bench.questions import Question
    from bench.readers import Reader
    from bench.results import Measurement
    from bench.shapes import BenchTable
    from bench.workloads import Workload

Say: TypeAlias = "Callable[[str], None]"

PATIENCE = 20.0
"""Seconds; a reader that takes longer for a question is not asked it again."""

CORE_PATIENCE = 5.0
"""The same where everything has to be over in minutes."""


def measurements(
    workload: Workload,
    readers: Mapping[str, Sequence[Reader]],
    cache: Path,
    say: Say,
    note: Say,
    *,
    rounds: int | None = None,
    patience: float = PATIENCE,
) -> Iterator[Measurement]:
    """Does a workload.

    Args:
        workload: The table, the questions, and who is asked.
        readers: Those that are there, by the names that the workload has for them.
        cache: Where tables are kept.
        say: Is told what goes on.
        note: Is told what whoever reads the results has to know.
        rounds: In the place of the workload's.
        patience: In the place of `PATIENCE`.

    Raises:
        WrongAnswerError: This library gave a wrong answer.
    """
    say(f"making {workload.shape.words}")
    made = table(
        workload.shape, cache, lambda done, total: say(f"making {workload.shape.words}: {done / max(1, total):.0%}")
    )
    warm(made)
    for question in workload.questions:
        if not suits(question, made):
            continue
        those = [
            reader
            for name in workload.readers
            for reader in readers.get(name, ())
            if reader.base in made.bases and reader.answers(question.name)
        ]
        runs, found = _asked(question, made, those, rounds or workload.rounds, patience, say, note)
        for reader in those:
            if runs[reader]:
                yield _measurement(workload, question, made, reader, runs[reader], found[reader])


def in_turn(readers: Sequence[Reader], rounds: int) -> Iterator[tuple[int, Reader]]:
    """Who is asked in which round: in every round each once, and nobody always behind the same one."""
    for number in range(rounds):
        at = number // 2 % max(1, len(readers))
        order = [*readers[at:], *readers[:at]]
        for reader in order if number % 2 == 0 else reversed(order):
            yield number, reader


def _asked(
    question: Question,
    made: BenchTable,
    readers: Sequence[Reader],
    rounds: int,
    patience: float,
    say: Say,
    note: Say,
) -> tuple[dict[Reader, list[Run]], dict[Reader, int]]:
    runs: dict[Reader, list[Run]] = {reader: [] for reader in readers}
    found: dict[Reader, int] = {}
    done: set[Reader] = set()
    ask = asked(question, made)
    right = truth(question, made) if question.limit is None else None
    what = f"{question.name}, {made.shape.words}"
    for number, reader in in_turn(readers, rounds):
        if reader in done:
            continue
        say(f"{what}: {reader.label}, {number + 1} of {rounds}")
        try:
            measured = reader.answer(made.at(reader.base), ask)
            check(question, made, measured.answer, right)
            _check_base(question, made, reader, measured)
        except (WrongAnswerError, subprocess.CalledProcessError) as error:
            if reader.name == NAME:
                raise
            done.add(reader)
            runs[reader] = []
            note(f"{reader.label} is left out: {why(error)}")
            continue
        runs[reader].append(_run(measured))
        found[reader] = measured.answer["files"]
        if measured.seconds > patience and rounds > 1:
            done.add(reader)
            note(f"{reader.label} was asked once only: it took {measured.seconds:.0f} s ({what})")
    return runs, found


def _check_base(question: Question, made: BenchTable, reader: Reader, measured: Measured) -> None:
    """Checks that a metadata sidecar was used that should have been: without it a scan is right, but slow."""
    is_level = reader.variant.startswith("L")
    # A limit may be reached before any base is chosen.
    if reader.name != NAME or reader.base != "sidecar" or is_level or question.limit is not None:
        return
    if measured.answer["tier"] != 1:
        msg = f"{reader.label} did not find the manifest of {made.sidecar_path}"
        raise WrongAnswerError(msg)


def _run(measured: Measured) -> Run:
    answer = measured.answer
    return Run(
        seconds=answer.get("seconds", measured.seconds),
        first_seconds=answer.get("first_seconds"),
        cpu_seconds=answer.get("cpu_seconds", measured.cpu_seconds),
        peak_bytes=max(0, measured.peak_bytes),
        requests=answer.get("requests"),
        bytes=answer.get("bytes"),
        trips=answer.get("trips"),
    )


def _measurement(
    workload: Workload, question: Question, made: BenchTable, reader: Reader, runs: Sequence[Run], found: int
) -> Measurement:
    shape = workload.shape
    is_ours = reader.name == NAME and reader.base == "sidecar"
    return measurement(
        runs,
        suite=workload.suite,
        shape=shape.words,
        files=shape.files,
        tail=shape.tail,
        stats_columns=shape.stats_columns,
        removes=shape.removes,
        base=reader.base,
        question=question.name,
        reader=reader.name,
        variant=reader.variant,
        files_found=found,
        extra={"manifest_bytes": made.manifest_bytes} if is_ours else {},
    )
