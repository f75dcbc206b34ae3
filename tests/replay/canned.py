"""An executor without a store, which answers plans with batches made by hand, and ways to drive a flow by hand."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeVar

from delta_sidecar.log.actions import KEYS_SCHEMA, TABLE_SCHEMA, TOP_SCHEMA
from delta_sidecar.log.names import LogFileKind, parse_log_name
from delta_sidecar.plan import (
    FILE_LABEL,
    NOTHING_AHEAD,
    Consume,
    ExecutionCounts,
    Filter,
    FilterOrdered,
    ListFiles,
    Place,
    Progress,
    ReadFiles,
    ScanJson,
    ScanParquet,
    StateMachineIterator,
    Terminus,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from delta_sidecar.plan import Ahead, Batches, Flow, Plan, StateMachinePhase

    Answer = Iterable[pa.RecordBatch] | Exception

T = TypeVar("T")

_JSON = {KEYS_SCHEMA: "keys of", TABLE_SCHEMA: "table in", TOP_SCHEMA: "top of"}


class CannedExecutor:
    """Answers each plan with what a function says; filters are applied to it.

    Every plan goes through a pickle, as if it were run in another process. The copy is run, unless it has a filter with
    state, which belongs to its flow.

    Attributes:
        plans: The plans, in order.
        aheads: What was likely to be read after each of them.
        parallel: Those that were run in parallel.
        taken: How many batches were taken of the sources.
        closed: How many streams were closed or came to their end.
    """

    def __init__(self, answer: Callable[[Plan], Answer]) -> None:
        self.answer = answer
        self.plans: list[Plan] = []
        self.aheads: list[Ahead] = []
        self.parallel: list[Plan] = []
        self.taken = 0
        self.closed = 0
        self._place: Place | None = None
        # Held, so that none is closed by being dropped.
        self._streams: list[Batches] = []

    @property
    def progress(self) -> Progress:
        return Progress(((0, self._place),), len(self.plans), ExecutionCounts(batches_decoded=self.taken))

    @property
    def outline(self) -> list[str]:
        """The plans in words."""
        return [outline(plan) for plan in self.plans]

    def execute(self, plan: Plan, ahead: Ahead = NOTHING_AHEAD) -> Batches:
        self.plans.append(plan)
        self.aheads.append(pickled(ahead))
        copy = pickled(plan)
        self._streams.append(self._run(plan if isinstance(plan, FilterOrdered) else copy))
        return self._streams[-1]

    def execute_parallel(self, plan: Plan) -> Batches:
        self.parallel.append(plan)
        return self.execute(plan)

    def close(self) -> None:
        """Has no threads."""

    def _run(self, plan: Plan) -> Batches:
        functions = []
        while isinstance(plan, Filter | FilterOrdered):
            functions.insert(0, plan.function)
            plan = plan.source
        try:
            answer = self.answer(plan)
            if isinstance(answer, Exception):
                raise answer
            for number, batch in enumerate(answer):
                self.taken += 1
                kept: pa.RecordBatch | None = batch
                for function in functions:
                    kept = function(kept) if kept is not None else None
                if kept is not None and kept.num_rows:
                    self._place = place_of(plan, batch, number)
                    yield kept
        finally:
            self.closed += 1


def pickled(value: T) -> T:
    """Sends a value through a pickle."""
    copy = pickle.loads(pickle.dumps(value))  # noqa: S301 - its own bytes
    assert type(copy) is type(value)
    return copy


def follow(flow: Flow[T], executor: CannedExecutor) -> tuple[list[pa.RecordBatch], T]:
    """Runs a flow to its end; gives its batches, and its value sent through a pickle."""
    machine = StateMachineIterator(flow, executor)
    return list(machine), pickled(machine.into_terminal())


def consumed(phase: StateMachinePhase[Any]) -> Any:  # noqa: ANN401 - a plan of the kind that the test expects
    """The plan whose batches the flow reads itself next, sent through a pickle."""
    assert isinstance(phase.step, Consume)
    return pickled(phase.step.plan)


def ended(phase: StateMachinePhase[T]) -> T:
    """The value of a flow that has come to its end."""
    assert isinstance(phase.step, Terminus)
    return phase.step.value


def source(plan: Plan) -> Plan:
    """The plan below all filters."""
    while isinstance(plan, Filter | FilterOrdered):
        plan = plan.source
    return plan


def place_of(plan: Plan, batch: pa.RecordBatch, number: int) -> Place | None:
    """Where a batch of a plan comes from: one of several files has a batch each, one alone a batch a row group."""
    if isinstance(plan, ScanJson):
        version = batch.column(FILE_LABEL)[0].as_py()
        return next(Place(ref.path) for ref in plan.files if ref.label == version)
    if not isinstance(plan, ScanParquet):
        return None
    return Place(plan.files[number].path) if len(plan.files) > 1 else Place(plan.files[0].path, plan.start + number)


def outline(plan: Plan) -> str:
    """A plan in words: what it reads of which files, commits by their versions alone."""
    plan = source(plan)
    if isinstance(plan, ListFiles):
        return "list" if plan.after is None else "list the end"
    if isinstance(plan, ReadFiles):
        return f"read {_names(plan.paths)}"
    if isinstance(plan, ScanJson):
        return f"{_JSON.get(plan.schema, 'adds of')} {_names(ref.path for ref in plan.files)}"
    assert isinstance(plan, ScanParquet)
    content = "rows of" if {"add.path", "size"} & set(plan.columns) else "keys of"
    if plan.check:
        content = "top of" if plan.columns else "footers of"
    return f"{content} {_names(ref.path for ref in plan.files)}"


def _names(paths: Iterable[str]) -> str:
    return " ".join(map(_name, paths))


def _name(path: str) -> str:
    name = parse_log_name(path)
    if name is None:
        return path.rpartition("/")[2]
    short = {LogFileKind.COMMIT: f"{name.version}", LogFileKind.CHECKSUM: f"{name.version}.crc"}
    return short.get(name.kind, f"checkpoint {name.version}")
