from __future__ import annotations

import gc
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.replay.canned import CannedExecutor

from delta_sidecar.plan import (
    Consume,
    ConsumePhase,
    FileRef,
    Filter,
    FilterOrdered,
    ListFiles,
    PartialResult,
    PartialResultPhase,
    ReadFiles,
    ScanJson,
    ScanParquet,
    StateMachineIterator,
    StateMachinePhase,
    Terminus,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.plan import Plan

Step = StateMachinePhase[str]


def numbered(*values: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"n": [value]}) for value in values]


@dataclass(frozen=True)
class Eat(ConsumePhase[str]):
    name: str
    then: Step
    most: int = 99

    def plan(self) -> Plan:
        return ListFiles(self.name)

    def next(self, data: Iterator[pa.RecordBatch]) -> Step:
        for _, _batch in zip(range(self.most), data, strict=False):
            pass
        return self.then

    def recover(self, error: Exception) -> Step | None:
        return Terminus("saved") if isinstance(error, KeyError) else None


@dataclass(frozen=True)
class Give(PartialResultPhase[str]):
    name: str
    then: Step
    parallel: bool = False

    def plan(self) -> Plan:
        return ListFiles(self.name)

    def is_parallelizable(self) -> bool:
        return self.parallel

    def next(self) -> Step:
        return self.then

    def recover(self, error: Exception) -> Step | None:
        if isinstance(error, ValueError):
            msg = "clearer"
            raise RuntimeError(msg) from error  # noqa: TRY004
        return Consume(Eat("instead", Terminus("recovered"))) if isinstance(error, KeyError) else None


CONTENT = {"a": [1, 2, 3], "b": [4, 5], "instead": [9]}


def executor() -> CannedExecutor:
    def answer(plan: Plan) -> list[pa.RecordBatch] | Exception:
        assert isinstance(plan, ListFiles)
        errors = {"key": KeyError("x"), "value": ValueError("x"), "os": OSError("x")}
        return errors.get(plan.prefix) or numbered(*CONTENT[plan.prefix])

    return CannedExecutor(answer)


def values(machine: StateMachineIterator[str]) -> list[int]:
    return [batch.column("n")[0].as_py() for batch in machine]


def test_a_consume_phase_runs_unseen_between_those_that_give() -> None:
    chain = Consume(Eat("a", PartialResult(Give("b", Consume(Eat("a", PartialResult(Give("b", Terminus("end")))))))))
    machine = StateMachineIterator(chain, executor())
    assert values(machine) == [4, 5, 4, 5]
    assert machine.into_terminal() == "end"


def test_nothing_runs_before_it_is_asked_for() -> None:
    runs = executor()
    machine = StateMachineIterator(PartialResult(Give("a", PartialResult(Give("b", Terminus("end"))))), runs)
    assert runs.plans == []
    next(machine)
    assert (len(runs.plans), runs.taken) == (1, 1)
    next(machine)
    assert (len(runs.plans), runs.taken) == (1, 2)


def test_the_end_is_not_to_be_had_before_the_batches() -> None:
    machine = StateMachineIterator(PartialResult(Give("a", Terminus("end"))), executor())
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.into_terminal()
    next(machine)
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.into_terminal()
    assert values(machine) == [2, 3]
    assert machine.into_terminal() == "end"
    assert machine.into_terminal() == "end"


def test_closing_stops_and_leaves_no_end() -> None:
    runs = executor()
    machine = StateMachineIterator(PartialResult(Give("a", Consume(Eat("b", Terminus("end"))))), runs)
    next(machine)
    machine.close()
    assert (runs.taken, runs.closed, len(runs.plans)) == (1, 1, 1)
    assert values(machine) == []
    with pytest.raises(RuntimeError):
        machine.into_terminal()


def test_closing_before_the_start_runs_nothing() -> None:
    runs = executor()
    machine = StateMachineIterator(PartialResult(Give("a", Terminus("end"))), runs)
    machine.close()
    assert values(machine) == []
    assert runs.plans == []


def test_dropping_stops() -> None:
    runs = executor()
    machine = StateMachineIterator(PartialResult(Give("a", Terminus("end"))), runs)
    next(machine)
    del machine
    gc.collect()
    assert (runs.taken, runs.closed) == (1, 1)


def test_a_consume_phase_that_stops_early_closes_its_stream() -> None:
    runs = executor()
    machine = StateMachineIterator(Consume(Eat("a", Terminus("end"), most=1)), runs)
    assert machine.run_to_terminal() == "end"
    assert runs.closed == 1
    assert runs.taken < 3


def test_running_to_the_end_passes_over_the_batches() -> None:
    runs = executor()
    machine = StateMachineIterator(PartialResult(Give("a", PartialResult(Give("b", Terminus("end"))))), runs)
    next(machine)
    assert machine.run_to_terminal() == "end"
    assert runs.taken == 5


def test_a_chain_may_be_over_at_its_start() -> None:
    machine = StateMachineIterator(Terminus("end"), executor())
    assert values(machine) == []
    assert machine.into_terminal() == "end"


def test_only_phases_without_state_run_in_parallel() -> None:
    runs = executor()
    chain = PartialResult(Give("a", Consume(Eat("b", PartialResult(Give("b", Terminus("end"), parallel=True))))))
    StateMachineIterator(chain, runs).run_to_terminal()
    assert runs.parallel == [ListFiles("b")]
    assert len(runs.plans) == 3


def test_a_phase_may_go_on_after_a_failure_or_say_it_more_clearly() -> None:
    assert StateMachineIterator(Consume(Eat("key", Terminus("x"))), executor()).run_to_terminal() == "saved"
    assert StateMachineIterator(PartialResult(Give("key", Terminus("x"))), executor()).run_to_terminal() == "recovered"
    with pytest.raises(RuntimeError, match="clearer") as clearer:
        StateMachineIterator(PartialResult(Give("value", Terminus("x"))), executor()).run_to_terminal()
    assert isinstance(clearer.value.__cause__, ValueError)
    with pytest.raises(OSError, match="x"):
        StateMachineIterator(PartialResult(Give("os", Terminus("x"))), executor()).run_to_terminal()


def test_a_failure_leaves_no_end() -> None:
    machine = StateMachineIterator(PartialResult(Give("a", PartialResult(Give("os", Terminus("x"))))), executor())
    assert [next(machine).num_rows for _ in range(3)] == [1, 1, 1]
    with pytest.raises(OSError, match="x"):
        next(machine)
    with pytest.raises(RuntimeError):
        machine.into_terminal()


def keep_all(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@pytest.mark.parametrize(
    "plan",
    [
        ListFiles("x", "y", ("z",)),
        ReadFiles(("x",), 5, (FileRef("y", 1, 2),)),
        ScanJson((FileRef("x"),), pa.schema([("a", pa.int64())]), (b"t",), keep=True),
        ScanParquet((FileRef("x"),), ("a",), non_null=("b",), check=True),
        FilterOrdered(Filter(ListFiles("x"), keep_all), keep_all),
    ],
)
def test_plans_are_values_that_pickle(plan: Plan) -> None:
    copy = pickle.loads(pickle.dumps(plan))  # noqa: S301
    assert copy == plan
    assert copy is not plan
