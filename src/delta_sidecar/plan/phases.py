"""Phases: the steps of a state machine that reads something bit by bit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.plan.nodes import Plan

T = TypeVar("T")


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
