"""Flows, and the machine that runs them.

A flow is a generator. It yields what it wants read, gets the batches back or hands them to the user, and returns its
value; a step after another is `yield from`, a choice among several sources is a `for`, recovery is a `try`:

    def newest(folder) -> Flow[str]:
        names = []
        for batch in (yield Consume(ListFiles(folder))):      # read by the flow itself
            names += batch.column("path").to_pylist()
        yield PartialResult(ScanParquet(...), parallel=True)  # given to the user, batch by batch
        return max(names)

A failure to read is raised in the flow, where it asked for the batches.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.plan.nodes import FileRef, Place, Plan, ScanPieces

T = TypeVar("T")

Batches = Generator[pa.RecordBatch, None, None]
"""A lazy stream of batches; closing it stops its I/O."""


class Ahead(Struct, frozen=True):
    """Hints: what is likely to be read next, worth asking for at the same time as a plan. It may be absent.

    Attributes:
        files: Small files, whole.
        heads: Files of which only the beginning will be read.
        footers: Parquet files whose footers will be read.
        row_groups: Row groups that will be decoded whole, as a plan would read them.
    """

    files: tuple[FileRef, ...] = ()
    heads: tuple[str, ...] = ()
    footers: tuple[FileRef, ...] = ()
    row_groups: ScanPieces | None = None


NOTHING_AHEAD = Ahead()


class Consume(Struct, frozen=True):
    """A step whose batches the flow reads itself."""

    plan: Plan
    ahead: Ahead = NOTHING_AHEAD


class PartialResult(Struct, frozen=True):
    """A step whose batches go to the user.

    Attributes:
        plan: What is read.
        parallel: Whether the batches may be made at the same time and come in any order: nothing mutable is shared.
    """

    plan: Plan
    parallel: bool = False


class Terminus(Struct, Generic[T], frozen=True):
    """The end of a flow, with its value."""

    value: T


Flow: TypeAlias = Generator[Consume | PartialResult, Any, T]
"""Is sent an iterator of batches for each `Consume`, and None for each `PartialResult`."""


class ExecutionCounts(Struct, frozen=True):
    """Work done by the plans that ran, beyond the requests.

    Attributes:
        files_read: Files of JSON lines that were fetched.
        row_groups_read: Row groups of which rows were decoded.
        row_groups_skipped: Row groups passed over: by their statistics, or since none of their rows passed a test.
        piece_groups_read: Of the row groups that were read, those made of pieces.
        piece_groups_skipped: Of those that were passed over, likewise.
        batches_decoded: Batches that came out of files.
    """

    files_read: int = 0
    row_groups_read: int = 0
    row_groups_skipped: int = 0
    piece_groups_read: int = 0
    piece_groups_skipped: int = 0
    batches_decoded: int = 0


class Progress(Struct, frozen=True):
    """The progress of an executor.

    Attributes:
        places: Where the rows of the last batch come from: from which row on each place begins; None where it is not
            from a file.
        trips: Round trips, one after another, that the batches so far took.
        counts: What was read so far.
    """

    places: tuple[tuple[int, Place | None], ...]
    trips: int
    counts: ExecutionCounts

    @property
    def place(self) -> Place | None:
        """The place of the last batch's first row."""
        return self.places[0][1]


class Executor(Protocol):
    """Runs plans."""

    @property
    def progress(self) -> Progress:
        """Its progress."""

    def execute(self, plan: Plan, ahead: Ahead = NOTHING_AHEAD) -> Batches:
        """Runs a plan; batches come in the plan's order."""

    def execute_parallel(self, plan: Plan) -> Batches:
        """Runs a plan whose batches may be made at the same time and come in any order."""

    def close(self) -> None:
        """Ends its threads. What is still under way is not waited for."""


class StateMachinePhase(Generic[T]):
    """A suspended flow: what it wants read next, or the value that it ended with.

        match phase.step:
            case Terminus(value): ...
            case PartialResult(): user.take(executor.execute(phase.get_plan())); phase = phase.next()
            case Consume(): phase = phase.next(executor.execute(phase.get_plan()))

    A phase goes on once, by `next` or by `fail`; each gives the phase that follows.
    """

    __slots__ = ("_flow", "_step")

    def __init__(self, flow: Flow[T], step: Consume | PartialResult | Terminus[T] | None = None) -> None:
        self._flow: Flow[T] | None = flow
        self._step = step

    @property
    def step(self) -> Consume | PartialResult | Terminus[T]:
        """The step that comes next. A flow that was not begun yet begins, which reads nothing."""
        if self._step is None:
            flow = self._take_flow()
            self._step = _advance(flow.send, None)
            self._flow = flow
        return self._step

    @property
    def is_suspended(self) -> bool:
        """Whether it can still go on."""
        return self._flow is not None and not isinstance(self._step, Terminus)

    def get_plan(self) -> Plan:
        """The plan to be run.

        Raises:
            RuntimeError: The flow has ended.
        """
        if isinstance(self.step, Terminus):
            msg = "a flow that has ended wants nothing read"
            raise RuntimeError(msg)  # noqa: TRY004 - a state, not a type
        return self.step.plan

    def is_parallelizable(self) -> bool:
        """Whether the plan's batches may be made at the same time and come in any order."""
        return isinstance(self.step, PartialResult) and self.step.parallel

    def next(self, batches: Iterator[pa.RecordBatch] | None = None) -> StateMachinePhase[T]:
        """Goes on, once the plan was run.

        Args:
            batches: Its batches, where the step is a `Consume`: the flow takes as many as it needs.
        """
        flow = self._suspended()
        return StateMachinePhase(flow, _advance(flow.send, batches))

    def fail(self, error: Exception) -> StateMachinePhase[T]:
        """Goes on where the plan failed; raises the error, or a clearer one, where the flow cannot."""
        flow = self._suspended()
        return StateMachinePhase(flow, _advance(flow.throw, error))

    def run_to_terminal(self, executor: Executor) -> T:
        """Runs the flow to its end, passing over its batches, and gives its value."""
        return run_flow(self, executor)

    def close(self) -> None:
        """Gives the flow up: it cannot go on any more."""
        flow, self._flow = self._flow, None
        if flow is not None:
            flow.close()

    def _suspended(self) -> Flow[T]:
        if isinstance(self.step, Terminus):
            raise RuntimeError(_GONE_ON)  # noqa: TRY004 - a state, not a type
        return self._take_flow()

    def _take_flow(self) -> Flow[T]:
        if self._flow is None:
            raise RuntimeError(_GONE_ON)
        flow, self._flow = self._flow, None
        return flow


_GONE_ON = "this phase has gone on already, or is the last: take the one that followed it"


def _advance(resume: Callable[[Any], Any], value: object) -> Consume | PartialResult | Terminus[Any]:
    try:
        return resume(value)  # type: ignore[no-any-return]
    except StopIteration as end:
        return Terminus(end.value)


def run_flow(flow: Flow[T] | StateMachinePhase[T], executor: Executor) -> T:
    """Runs a flow to its end, passing over its batches, and gives its value."""
    with closing(_run(flow, executor)) as batches:
        while True:
            try:
                next(batches)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


class StateMachineIterator(Generic[T]):
    """Runs a flow: gives the batches of its partial results, one at a time.

    What the flow consumes itself is read unseen in between. After the last batch `into_terminal` gives its value.
    """

    def __init__(self, start: Flow[T] | StateMachinePhase[T], executor: Executor) -> None:
        self._end: Terminus[T] | None = None
        self._batches = self._until_end(_run(start, executor))

    def __iter__(self) -> Batches:
        return self._batches

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def close(self) -> None:
        """Stops: nothing more is read."""
        self._batches.close()

    def into_terminal(self) -> T:
        """The flow's value.

        Raises:
            RuntimeError: There are batches left, or the machine was stopped before its end.
        """
        if self._end is None:
            msg = "the machine has not reached its end: take its batches first, or call run_to_terminal"
            raise RuntimeError(msg)
        return self._end.value

    def run_to_terminal(self) -> T:
        """Runs to the end, passing over the batches, and gives the flow's value."""
        with closing(self):
            for _ in self:
                pass
        return self.into_terminal()

    def _until_end(self, run: Generator[pa.RecordBatch, None, T]) -> Batches:
        self._end = Terminus((yield from run))


def _run(start: Flow[T] | StateMachinePhase[T], executor: Executor) -> Generator[pa.RecordBatch, None, T]:
    step: Consume | PartialResult | Terminus[T]
    if isinstance(start, StateMachinePhase):
        step, flow = start.step, start._take_flow()  # noqa: SLF001 - the phase is handed over
    else:
        step, flow = _advance(start.send, None), start
    try:
        while not isinstance(step, Terminus):
            try:
                if isinstance(step, Consume):
                    batches = executor.execute(step.plan, step.ahead)
                else:
                    with closing(
                        (executor.execute_parallel if step.parallel else executor.execute)(step.plan)
                    ) as batches:
                        yield from batches
            except Exception as error:  # noqa: BLE001 - raised in the flow, which knows what it means
                step = _advance(flow.throw, error)
                continue
            if isinstance(step, Consume):
                with closing(batches):
                    step = _advance(flow.send, batches)
            else:
                step = _advance(flow.send, None)
        return step.value
    finally:
        flow.close()
