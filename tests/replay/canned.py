"""An executor without a store: it remembers the plans that it is given and answers with batches made by hand."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar.log.actions import commit_schema
from delta_sidecar.plan import FILE_LABEL, LINE, Consume, Filter, FilterOrdered, PartialResult, Terminus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from delta_sidecar.plan import Plan, StateMachinePhase

Answer = "Iterable[pa.RecordBatch] | Exception"


class CannedExecutor:
    """Answers each plan with what a function says; filters are applied to it.

    Attributes:
        plans: The plans, in order.
        parallel: Those of them that were run in parallel.
        taken: How many batches were taken of the sources.
        closed: How many streams were closed or came to their end.
    """

    def __init__(self, answer: Callable[[Plan], Answer]) -> None:
        self.answer = answer
        self.plans: list[Plan] = []
        self.parallel: list[Plan] = []
        self.taken = 0
        self.closed = 0

    def execute(self, plan: Plan) -> Iterator[pa.RecordBatch]:
        self.plans.append(plan)
        return self._run(plan)

    def execute_parallel(self, plan: Plan) -> Iterator[pa.RecordBatch]:
        self.parallel.append(plan)
        return self.execute(plan)

    def _run(self, plan: Plan) -> Iterator[pa.RecordBatch]:
        functions = []
        while isinstance(plan, Filter | FilterOrdered):
            functions.insert(0, plan.function)
            plan = plan.source
        try:
            answer = self.answer(plan)
            if isinstance(answer, Exception):
                raise answer
            for batch in answer:
                self.taken += 1
                kept: pa.RecordBatch | None = batch
                for function in functions:
                    kept = function(kept) if kept is not None else None
                if kept is not None:
                    yield kept
        finally:
            self.closed += 1


def source(plan: Plan) -> Plan:
    """Gives the plan below all filters."""
    while isinstance(plan, Filter | FilterOrdered):
        plan = plan.source
    return plan


def listing(entries: Sequence[tuple[str, int]]) -> list[pa.RecordBatch]:
    paths, sizes = [path for path, _ in entries], [size for _, size in entries]
    arrays = [pa.array(paths, pa.string()), pa.array(sizes, pa.int64())]
    return [pa.RecordBatch.from_arrays(arrays, names=["path", "size"])]


def read(contents: dict[str, bytes | None]) -> list[pa.RecordBatch]:
    """Gives the answer to a `ReadFiles`; None stands for a file that is too large."""
    return [
        pa.RecordBatch.from_pydict(
            {"path": [path], "size": [len(data or b"x" * 99)], "data": pa.array([data], pa.binary())}
        )
        for path, data in contents.items()
    ]


def json_batch(
    version: int, actions: Sequence[dict[str, Any]], schema: pa.Schema | None = None, *, lines: bool = True
) -> pa.RecordBatch:
    """Gives a block of a commit as a `ScanJson` gives it."""
    schema = commit_schema() if schema is None else schema
    columns = [_column([action.get(field.name) for action in actions], field.type) for field in schema]
    texts = [json.dumps(action) if lines else None for action in actions]
    arrays = [*columns, pa.array([version] * len(actions), pa.int64()), pa.array(texts, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, names=[*schema.names, FILE_LABEL, LINE])


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def pickled(step: StateMachinePhase[Any]) -> StateMachinePhase[Any]:
    """Sends a step through a pickle, as if it went to another process."""
    copy = pickle.loads(pickle.dumps(step))  # noqa: S301 - its own bytes
    assert type(copy) is type(step)
    return copy


def follow(step: StateMachinePhase[Any], executor: CannedExecutor) -> tuple[list[str], list[pa.RecordBatch], Any]:
    """Runs a chain to its end, every step sent through a pickle; gives phase names, batches let through, the value."""
    names: list[str] = []
    batches: list[pa.RecordBatch] = []
    while not isinstance(step, Terminus):
        step = pickled(step)
        assert isinstance(step, Consume | PartialResult)
        phase = step.phase
        names.append(type(phase).__name__)
        try:
            if isinstance(step, PartialResult):
                batches += executor.execute(phase.plan())
                step = phase.next()
            else:
                step = phase.next(executor.execute(phase.plan()))
        except Exception as error:
            step = phase.recover(error)
            if step is None:
                raise
    return names, batches, pickled(step).value
