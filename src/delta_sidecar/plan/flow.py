"""The machine that runs phases to their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from delta_sidecar.plan.nodes import Plan


T = TypeVar("T")

Batches = Generator[pa.RecordBatch, None, None]
"""A lazy stream of batches; closing it stops its I/O."""


class Executor(Protocol):
    """Runs plans."""

    def execute(self, plan: Plan) -> Batches:
        """Runs a plan; batches come in the plan's order."""

    def execute_parallel(self, plan: Plan) -> Batches:
        """Runs a plan whose batches may be made at the same time and come in any order."""


class StateMachineIterator(Generic[T]):
    """Gives the batches that a chain of phases lets through, one at a time.

    Phases that consume their own data run unseen in between. After the last batch `into_terminal` gives the value
    that the chain ended on.
    """

    def __init__(self, start: StateMachinePhase[T], executor: Executor) -> None:
        self._phase = start
        self._executor = executor
        self._batches = self._run()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def close(self) -> None:
        """Stops: nothing more is read."""
        self._batches.close()

    def into_terminal(self) -> T:
        """The value of the chain's end.

        Raises:
            RuntimeError: There are batches left, or the machine was stopped before its end.
        """
        if not isinstance(self._phase, Terminus):
            msg = "the machine has not reached its end: take its batches first, or call run_to_terminal"
            raise RuntimeError(msg)  # noqa: TRY004 - a state, not a type
        return self._phase.value

    def run_to_terminal(self) -> T:
        """Goes through to the end, passing over the batches, and gives its value."""
        for _ in self._batches:
            pass
        return self.into_terminal()

    def _run(self) -> Batches:
        while not isinstance(self._phase, Terminus):
            current = self._phase
            try:
                if isinstance(current, PartialResult):
                    with closing(self._execute(current.phase)) as batches:
                        yield from batches
                    self._phase = current.phase.next()
                else:
                    with closing(self._executor.execute(current.phase.plan())) as batches:
                        self._phase = current.phase.next(batches)
            except Exception as error:
                recovered = current.phase.recover(error)
                if recovered is None:
                    raise
                self._phase = recovered

    def _execute(self, phase: PartialResultPhase[T]) -> Batches:
        if phase.is_parallelizable():
            return self._executor.execute_parallel(phase.plan())
        return self._executor.execute(phase.plan())


# Phases: the steps of a state machine that reads something bit by bit.


class ConsumePhase(ABC, Generic[T]):
    """A phase that eats its plan's output; the user sees none of it."""

    @abstractmethod
    def plan(self) -> Plan:
        """What is to be read."""

    @abstractmethod
    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Takes what was read, as far as it wants to, and says what comes next."""

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """Says what comes next where the plan failed; None where the failure stands. May raise a clearer error."""
        del error
        return None


class PartialResultPhase(ABC, Generic[T]):
    """A phase whose plan's output goes to the user, batch by batch."""

    @abstractmethod
    def plan(self) -> Plan:
        """What is to be read."""

    @abstractmethod
    def is_parallelizable(self) -> bool:
        """Whether the batches may be made at the same time and come in any order: nothing mutable is shared."""

    @abstractmethod
    def next(self) -> StateMachinePhase[T]:
        """Says what comes next, once the plan's output has been let through."""

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """Says what comes next where the plan failed, maybe after some output; None where the failure stands."""
        del error
        return None


@dataclass(frozen=True, slots=True)
class Terminus(Generic[T]):
    """The end, with its value."""

    value: T


@dataclass(frozen=True, slots=True)
class PartialResult(Generic[T]):
    """Goes on with a phase whose output is for the user."""

    phase: PartialResultPhase[T]


@dataclass(frozen=True, slots=True)
class Consume(Generic[T]):
    """Goes on with a phase that eats its output."""

    phase: ConsumePhase[T]


StateMachinePhase = Terminus[T] | PartialResult[T] | Consume[T]
