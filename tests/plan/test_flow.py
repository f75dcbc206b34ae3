"""Flows and the machine that runs them, with batches made by hand and no store."""

from __future__ import annotations

import gc
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.replay.canned import CannedExecutor, pickled

from delta_sidecar.plan import (
    NOTHING_AHEAD,
    Ahead,
    Consume,
    FileRef,
    Filter,
    FilterOrdered,
    ListFiles,
    PartialResult,
    Piece,
    PieceGroup,
    ReadFiles,
    ReadFooters,
    ReadKeyValue,
    ReadRanges,
    ScanJson,
    ScanParquet,
    ScanPieces,
    StateMachineIterator,
    StateMachinePhase,
    Substitute,
    Terminus,
    run_flow,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from delta_sidecar.plan import Batches, Flow, Plan

CONTENT = {"a": [1, 2, 3], "b": [4, 5], "empty": []}
ERRORS = {"key": KeyError("x"), "value": ValueError("x"), "os": OSError("x")}


def executor() -> CannedExecutor:
    def answer(plan: Plan) -> list[pa.RecordBatch] | Exception:
        assert isinstance(plan, ListFiles)
        if plan.prefix in ERRORS:
            return ERRORS[plan.prefix]
        return [pa.RecordBatch.from_pydict({"n": [value]}) for value in CONTENT[plan.prefix]]

    return CannedExecutor(answer)


class RefusingExecutor(CannedExecutor):
    """Raises as soon as it is handed a plan, rather than with the first batch."""

    def execute(self, plan: Plan, ahead: Ahead = NOTHING_AHEAD) -> Batches:
        if isinstance(plan, ListFiles) and plan.prefix in ERRORS:
            raise ERRORS[plan.prefix]
        return super().execute(plan, ahead)


def refusing() -> RefusingExecutor:
    return RefusingExecutor(executor().answer)


EXECUTORS = pytest.mark.parametrize("made", [executor, refusing], ids=["late", "at once"])


def numbers(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [batch.column("n")[0].as_py() for batch in batches]


def read(name: str, most: int = 99) -> Flow[list[int]]:
    """Reads numbers itself."""
    return numbers(islice((yield Consume(ListFiles(name))), most))


def give(*names: str, value: str = "end") -> Flow[str]:
    """Gives numbers to the user."""
    for name in names:
        yield PartialResult(ListFiles(name))
    return value


def total(*names: str) -> Flow[int]:
    """Reads and gives in turn: the numbers of each name are summed up, then given."""
    found = 0
    for name in names:
        found += sum((yield from read(name)))
        yield PartialResult(ListFiles(name), parallel=True)
    return found


# --- three ways to run one ---


def test_a_machine_gives_batches_and_then_the_value() -> None:
    runs = executor()
    machine = StateMachineIterator(total("a", "b"), runs)
    assert numbers(machine) == [1, 2, 3, 4, 5]
    assert machine.into_terminal() == 15
    assert [plan.prefix for plan in runs.plans] == ["a", "a", "b", "b"]


def test_a_phase_runs_to_the_end_in_one_call() -> None:
    runs = executor()
    assert StateMachinePhase(total("a", "b")).run_to_terminal(runs) == 15
    assert (len(runs.plans), runs.taken, runs.closed) == (4, 10, 4)
    assert run_flow(total("a", "b"), executor()) == 15


def test_a_phase_that_was_driven_some_way_runs_to_the_end() -> None:
    runs = executor()
    phase = StateMachinePhase(total("a", "b"))
    phase = phase.next(runs.execute(phase.get_plan())).next()
    assert phase.run_to_terminal(runs) == 15
    assert [plan.prefix for plan in runs.plans] == ["a", "b", "b"]


def test_phases_are_driven_by_hand() -> None:
    runs = executor()
    given: list[pa.RecordBatch] = []
    steps = []
    phase: StateMachinePhase[int] = StateMachinePhase(total("a", "b"))
    while not isinstance(phase.step, Terminus):
        steps.append((type(phase.step), phase.get_plan(), phase.is_parallelizable()))
        batches = runs.execute(phase.get_plan())
        if isinstance(phase.step, Consume):
            phase = phase.next(batches)
        else:
            given += batches
            phase = phase.next()
    assert (numbers(given), phase.step.value) == ([1, 2, 3, 4, 5], 15)
    assert steps == [
        (kind, ListFiles(name), kind is PartialResult) for name in "ab" for kind in (Consume, PartialResult)
    ]


def test_a_match_over_the_step_tells_what_to_do() -> None:
    match StateMachinePhase(read("a")).step:
        case Consume(plan, ahead):
            assert (plan, ahead) == (ListFiles("a"), NOTHING_AHEAD)
        case _:
            pytest.fail("it reads itself")
    match StateMachinePhase(give("a")).step:
        case PartialResult(plan, parallel):
            assert (plan, parallel) == (ListFiles("a"), False)
        case _:
            pytest.fail("it gives")
    match StateMachinePhase(give()).step:
        case Terminus(value):
            assert value == "end"
        case _:
            pytest.fail("it is over")


# --- the machine ---


def test_what_a_flow_reads_itself_is_unseen_between_what_it_gives() -> None:
    def flow() -> Flow[list[int]]:
        first = yield from read("a")
        yield from give("b")
        second = yield from read("a", 2)
        yield from give("b")
        return first + second

    machine = StateMachineIterator(flow(), executor())
    assert numbers(machine) == [4, 5, 4, 5]
    assert machine.into_terminal() == [1, 2, 3, 1, 2]


def test_nothing_runs_before_it_is_asked_for() -> None:
    begun = []

    def flow() -> Flow[str]:
        begun.append(1)
        return (yield from give("a", "b"))

    runs = executor()
    machine = StateMachineIterator(flow(), runs)
    assert (begun, runs.plans) == ([], [])
    next(machine)
    assert (begun, len(runs.plans), runs.taken) == ([1], 1, 1)
    next(machine)
    assert (len(runs.plans), runs.taken) == (1, 2)


def test_a_phase_reads_nothing_of_itself() -> None:
    begun = []

    def flow() -> Flow[list[int]]:
        begun.append(1)
        return (yield from read("a"))

    phase = StateMachinePhase(flow())
    assert begun == []
    assert phase.is_suspended
    assert [phase.get_plan(), phase.get_plan()] == [ListFiles("a")] * 2
    assert begun == [1]


def test_the_end_is_not_to_be_had_before_the_batches() -> None:
    machine = StateMachineIterator(give("a"), executor())
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.into_terminal()
    next(machine)
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.into_terminal()
    assert numbers(machine) == [2, 3]
    assert machine.into_terminal() == "end"
    assert machine.into_terminal() == "end"


def test_running_to_the_end_passes_over_the_batches() -> None:
    runs = executor()
    machine = StateMachineIterator(give("a", "b"), runs)
    next(machine)
    assert machine.run_to_terminal() == "end"
    assert runs.taken == 5


def test_a_flow_may_be_over_at_its_start() -> None:
    runs = executor()
    machine = StateMachineIterator(give(), runs)
    assert numbers(machine) == []
    assert (machine.into_terminal(), runs.plans) == ("end", [])
    assert StateMachinePhase(give()).run_to_terminal(runs) == "end"


def test_a_flow_may_find_nothing() -> None:
    machine = StateMachineIterator(total("empty"), executor())
    assert (numbers(machine), machine.into_terminal()) == ([], 0)


def test_only_what_shares_nothing_runs_in_parallel() -> None:
    runs = executor()

    def flow() -> Flow[None]:
        yield PartialResult(ListFiles("a"))
        yield from read("b")
        yield PartialResult(ListFiles("b"), parallel=True)

    run_flow(flow(), runs)
    assert runs.parallel == [ListFiles("b")]
    assert len(runs.plans) == 3
    assert not StateMachinePhase(read("a")).is_parallelizable()
    assert not StateMachinePhase(give("a")).is_parallelizable()
    assert not StateMachinePhase(give()).is_parallelizable()


def test_hints_reach_the_executor_with_their_plan() -> None:
    ahead = Ahead((FileRef("x"),), ("y",), (FileRef("z", 3),), ScanPieces((GROUP,), (("a",), None), ()))

    def flow() -> Flow[None]:
        yield Consume(ListFiles("a"), ahead)
        yield Consume(ListFiles("b"))
        yield PartialResult(ListFiles("b"))

    runs = executor()
    run_flow(flow(), runs)
    assert runs.aheads == [ahead, NOTHING_AHEAD, NOTHING_AHEAD]


# --- closing ---


def test_closing_stops_and_leaves_no_end() -> None:
    runs = executor()
    machine = StateMachineIterator(give("a", "b"), runs)
    next(machine)
    machine.close()
    assert (runs.taken, runs.closed, len(runs.plans)) == (1, 1, 1)
    assert numbers(machine) == []
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.into_terminal()
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.run_to_terminal()


def test_closing_before_the_start_runs_nothing() -> None:
    runs = executor()
    machine = StateMachineIterator(give("a"), runs)
    machine.close()
    assert numbers(machine) == []
    assert runs.plans == []


def test_dropping_stops() -> None:
    runs = executor()
    machine = StateMachineIterator(give("a"), runs)
    next(machine)
    assert (runs.taken, runs.closed) == (1, 0)
    del machine
    gc.collect()
    assert (runs.taken, runs.closed) == (1, 1)


def test_a_flow_that_reads_no_further_closes_its_stream() -> None:
    runs = executor()
    assert run_flow(read("a", most=1), runs) == [1]
    assert (runs.taken, runs.closed) == (1, 1)


def test_a_stream_is_closed_before_the_next_plan_runs() -> None:
    runs = executor()
    closed = []

    def flow() -> Flow[None]:
        for name in ("a", "b"):
            closed.append(runs.closed)
            next((yield Consume(ListFiles(name))))
            yield PartialResult(ListFiles("empty"))

    run_flow(flow(), runs)
    assert closed == [0, 2]
    assert runs.closed == 4


def guarded(ends: list[str], *steps: Consume | PartialResult) -> Flow[str]:
    """Goes through steps, and says when it is over."""
    try:
        for step in steps:
            for _ in (yield step) or ():
                pass
        return "end"
    finally:
        ends.append("over")


GIVES, READS = PartialResult(ListFiles("a")), Consume(ListFiles("a"))


def test_closing_a_machine_ends_the_suspended_flow() -> None:
    ends: list[str] = []
    flow = guarded(ends, GIVES, GIVES)
    machine = StateMachineIterator(flow, executor())
    next(machine)
    assert ends == []
    machine.close()
    assert ends == ["over"]
    machine.close()
    assert ends == ["over"]


def test_dropping_a_machine_ends_the_suspended_flow() -> None:
    ends: list[str] = []
    flow = guarded(ends, GIVES)
    machine = StateMachineIterator(flow, executor())
    next(machine)
    assert ends == []
    del machine
    gc.collect()
    assert ends == ["over"]


@pytest.mark.parametrize("step", [GIVES, READS], ids=["gives", "reads"])
def test_closing_a_phase_ends_the_suspended_flow(step: Consume | PartialResult) -> None:
    ends: list[str] = []
    flows = [guarded(ends, step, step) for _ in range(2)]
    phase = StateMachinePhase(flows[0])
    assert phase.step == step
    phase.close()
    assert ends == ["over"]
    begun = StateMachinePhase(flows[1])
    second = begun.next(iter([]))
    begun.close()
    assert ends == ["over"], "it went on: the phase that followed has the flow"
    second.close()
    assert ends == ["over", "over"]


def test_a_flow_that_was_not_begun_has_nothing_to_end() -> None:
    ends: list[str] = []
    StateMachinePhase(guarded(ends, GIVES)).close()
    assert ends == []


@EXECUTORS
def test_a_failure_ends_the_flow(made: Callable[[], CannedExecutor]) -> None:
    for kind in (PartialResult, Consume):
        ends: list[str] = []
        with pytest.raises(OSError, match="x"):
            run_flow(guarded(ends, kind(ListFiles("os"))), made())
        assert ends == ["over"]


# --- a phase goes on once ---


GOING_ON: list[Callable[[StateMachinePhase[Any]], StateMachinePhase[Any]]] = [
    lambda phase: phase.next(iter([])),
    lambda phase: phase.fail(KeyError("x")),
]


@pytest.mark.parametrize("first", GOING_ON, ids=["next", "fail"])
@pytest.mark.parametrize("second", GOING_ON, ids=["next", "fail"])
def test_a_phase_goes_on_once(first: Callable[..., Any], second: Callable[..., Any]) -> None:
    phase = StateMachinePhase(patient("a"))
    assert phase.is_suspended
    followed = first(phase)
    assert (phase.is_suspended, followed.is_suspended) == (False, True)
    with pytest.raises(RuntimeError, match="has gone on already"):
        second(phase)
    assert followed.get_plan() == ListFiles("b"), "the one that followed goes on all the same"
    assert second(followed).step == Terminus("end")


def patient(name: str) -> Flow[str]:
    """Reads twice, whether it can or not."""
    for each in (name, "b"):
        try:
            yield Consume(ListFiles(each))
        except KeyError:
            continue
    return "end"


def test_a_phase_that_went_on_cannot_be_run() -> None:
    phase = StateMachinePhase(patient("a"))
    phase.next(iter([]))
    with pytest.raises(RuntimeError, match="has gone on already"):
        phase.run_to_terminal(executor())


def test_the_last_phase_does_not_go_on() -> None:
    phase = StateMachinePhase(give())
    assert phase.step == Terminus("end")
    assert not phase.is_suspended
    for going_on in GOING_ON:
        with pytest.raises(RuntimeError, match="or is the last"):
            going_on(phase)
    with pytest.raises(RuntimeError, match="wants nothing read"):
        phase.get_plan()
    assert phase.step == Terminus("end")
    assert phase.run_to_terminal(executor()) == "end"


# --- failures ---


def recovering(step: Consume | PartialResult) -> Flow[str]:
    """Goes on after a `KeyError`, says a `ValueError` more clearly, and leaves all others as they are."""
    try:
        batches = yield step
        for _ in batches or ():
            pass
    except KeyError:
        yield PartialResult(ListFiles("b"))
        return f"saved {sum((yield from read('a')))}"
    except ValueError as error:
        msg = "clearer"
        raise RuntimeError(msg) from error
    return "end"


STEPS = pytest.mark.parametrize(
    "make",
    [
        lambda name: Consume(ListFiles(name)),
        lambda name: PartialResult(ListFiles(name)),
        lambda name: PartialResult(ListFiles(name), parallel=True),
    ],
    ids=["reads", "gives", "gives in parallel"],
)


@STEPS
@EXECUTORS
def test_a_flow_goes_on_after_a_failure_or_says_it_more_clearly(
    make: Callable[[str], Consume | PartialResult], made: Callable[[], CannedExecutor]
) -> None:
    machine = StateMachineIterator(recovering(make("key")), made())
    assert (numbers(machine), machine.into_terminal()) == ([4, 5], "saved 6")
    assert StateMachinePhase(recovering(make("key"))).run_to_terminal(made()) == "saved 6"
    with pytest.raises(RuntimeError, match="clearer") as clearer:
        run_flow(recovering(make("value")), made())
    assert isinstance(clearer.value.__cause__, ValueError)
    with pytest.raises(OSError, match="x") as same:
        run_flow(recovering(make("os")), made())
    assert same.value is ERRORS["os"]
    assert run_flow(recovering(make("a")), made()) == "end"


@STEPS
def test_failing_by_hand_is_the_same(make: Callable[[str], Consume | PartialResult]) -> None:
    phase = StateMachinePhase(recovering(make("a"))).fail(KeyError("x"))
    assert phase.step == PartialResult(ListFiles("b"))
    phase = phase.next()
    assert phase.step == Consume(ListFiles("a"))
    assert phase.next(executor().execute(phase.get_plan())).step == Terminus("saved 6")
    with pytest.raises(RuntimeError, match="clearer") as clearer:
        StateMachinePhase(recovering(make("a"))).fail(ValueError("x"))
    assert isinstance(clearer.value.__cause__, ValueError)
    error = OSError("x")
    with pytest.raises(OSError, match="x") as same:
        StateMachinePhase(recovering(make("a"))).fail(error)
    assert same.value is error


def test_a_failure_in_the_middle_comes_after_the_batches_before_it() -> None:
    def answer(plan: Plan) -> Batches:
        assert plan == ListFiles("broken")
        yield pa.RecordBatch.from_pydict({"n": [7]})
        raise ERRORS["key"]

    runs = executor()
    good = runs.answer
    runs.answer = lambda plan: answer(plan) if plan == ListFiles("broken") else good(plan)
    machine = StateMachineIterator(recovering(PartialResult(ListFiles("broken"))), runs)
    assert (numbers(machine), machine.into_terminal()) == ([7, 4, 5], "saved 6")
    runs.closed = 0
    assert run_flow(recovering(Consume(ListFiles("broken"))), runs) == "saved 6"
    assert runs.closed == 3


@EXECUTORS
def test_a_failure_leaves_no_end(made: Callable[[], CannedExecutor]) -> None:
    machine = StateMachineIterator(give("a", "os"), made())
    assert [next(machine).num_rows for _ in range(3)] == [1, 1, 1]
    with pytest.raises(OSError, match="x"):
        next(machine)
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.into_terminal()


@pytest.mark.parametrize("step", [GIVES, READS], ids=["gives", "reads"])
def test_an_error_of_the_flow_itself_closes_the_stream_and_stands(step: Consume | PartialResult) -> None:
    def flow() -> Flow[None]:
        for _ in (yield step) or ():
            break
        msg = "its own"
        raise KeyError(msg)

    runs = executor()
    machine = StateMachineIterator(flow(), runs)
    with pytest.raises(KeyError, match="its own"):
        machine.run_to_terminal()
    assert (len(runs.plans), runs.closed) == (1, 1)
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.into_terminal()


def test_a_flow_that_fails_before_its_first_step_reads_nothing() -> None:
    def flow() -> Flow[None]:
        msg = "its own"
        raise KeyError(msg)
        yield

    runs = executor()
    machine = StateMachineIterator(flow(), runs)
    with pytest.raises(KeyError, match="its own"):
        next(machine)
    with pytest.raises(RuntimeError, match="not reached its end"):
        machine.into_terminal()
    assert runs.plans == []


def test_a_plan_that_fails_may_be_tried_again() -> None:
    def flow() -> Flow[list[int]]:
        for name in ("key", "key", "b"):
            try:
                return (yield from read(name))
            except KeyError:
                continue
        return []

    for runs in (executor(), refusing()):
        assert run_flow(flow(), runs) == [4, 5]


# --- plans ---


def keep_all(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


GROUP = PieceGroup(0, 4, (Piece("x", 0, 9, "d", 3, "e"),))


@pytest.mark.parametrize(
    "plan",
    [
        ListFiles("x", "y"),
        ReadFiles(("x",), 5, beginning=True, heads=("y",), tails=(FileRef("z", 1, 2),)),
        ScanJson((FileRef("x"),), pa.schema([("a", pa.int64())]), (b"t",), keep=True, at_once=3),
        ScanParquet((FileRef("x"),), ("a",), non_null=("b",), substitutes=(Substitute("c", "a", "b"),), check=True),
        ScanPieces((GROUP,), (("a",), None), (pa.schema([("a", pa.int64())]),), skipped=3),
        ReadRanges(FileRef("x", 9), ((0, 4), (5, 9))),
        ReadKeyValue(FileRef("x", 9, e_tag="e"), "k"),
        ReadFooters((FileRef("x"),), ("a.b",), 2),
        FilterOrdered(Filter(ListFiles("x"), keep_all), keep_all),
        Ahead((FileRef("x"),), ("y",), (FileRef("z", 3),), ScanPieces((GROUP,), (("a",), None), ())),
    ],
    ids=lambda plan: type(plan).__name__,
)
def test_plans_and_hints_are_values_that_pickle(plan: Plan | Ahead) -> None:
    copy = pickled(plan)
    assert copy == plan
    assert copy is not plan
