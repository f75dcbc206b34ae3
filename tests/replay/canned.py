"""An executor without a store: it remembers the plans that it is given and answers with batches made by hand."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from delta_sidecar.plan import Consume, Filter, FilterOrdered, PartialResult, Terminus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

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


def ended(step: StateMachinePhase[Any]) -> Any:  # noqa: ANN401
    assert isinstance(step, Terminus)
    return step.value


def consumed(step: StateMachinePhase[Any], kind: type) -> Any:  # noqa: ANN401
    assert isinstance(step, Consume)
    assert type(step.phase) is kind
    return pickle.loads(pickle.dumps(step.phase))  # noqa: S301
