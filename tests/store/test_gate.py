from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
from tests.loopback import Answer
from tests.store.queued_log import PATIENCE, QueuedLog
from tests.store.scripted_server import ScriptedServer

from delta_sidecar.store import RequestLog, ScanCancelledError, open_store
from delta_sidecar.store.accounting import RequestGate, gate_for


def waiting(gate: RequestGate) -> int:
    return sum(map(len, gate._waiting.values()))


class Waiter:
    """A thread that waits for its turn and tells when it has had it."""

    def __init__(self, gate: RequestGate, log: QueuedLog, name: str, served: list[str]) -> None:
        self._gate, self._log, self._name, self._served = gate, log, name, served
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        log.await_queued()

    def _run(self) -> None:
        try:
            with self._gate.slot(self._log):
                self._served.append(self._name)
        except ScanCancelledError as error:
            self.error = error

    def join(self) -> None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def test_turns_go_round_between_scans_and_in_order_within_one() -> None:
    gate = RequestGate(1)
    a, b, c = QueuedLog(), QueuedLog(), QueuedLog()
    served: list[str] = []
    with gate.slot(RequestLog()):
        queue = [(a, "a1"), (a, "a2"), (a, "a3"), (b, "b1"), (b, "b2"), (c, "c1")]
        waiters = [Waiter(gate, log, name, served) for log, name in queue]
        assert waiting(gate) == 6
        assert served == []
    for waiter in waiters:
        waiter.join()
    assert served == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert waiting(gate) == 0


def test_a_cancelled_scan_leaves_the_queue_and_the_others_go_on() -> None:
    gate = RequestGate(1)
    a, b = QueuedLog(), QueuedLog()
    served: list[str] = []
    with gate.slot(RequestLog()):
        stopped = [Waiter(gate, a, "a1", served), Waiter(gate, a, "a2", served)]
        going_on = Waiter(gate, b, "b1", served)
        a.cancel()
        for waiter in stopped:
            waiter.join()
            assert isinstance(waiter.error, ScanCancelledError)
        assert waiting(gate) == 1
    going_on.join()
    assert served == ["b1"]
    with gate.slot(RequestLog()):
        assert waiting(gate) == 0


def test_a_turn_that_came_with_the_cancellation_is_given_back() -> None:
    gate = RequestGate(1)
    log = QueuedLog()
    served: list[str] = []
    stack = ExitStack()
    stack.enter_context(gate.slot(RequestLog()))
    waiter = Waiter(gate, log, "a1", served)
    log.cancelled = True  # cancelled, but its thread not woken yet
    stack.close()
    waiter.join()
    assert isinstance(waiter.error, ScanCancelledError)
    with gate.slot(RequestLog()):
        assert served == []


def test_a_failing_request_gives_its_turn_back() -> None:
    gate = RequestGate(1)
    with pytest.raises(KeyError), gate.slot(RequestLog()):
        raise KeyError
    with gate.slot(RequestLog()):
        assert waiting(gate) == 0


def test_a_larger_limit_lets_waiting_requests_in() -> None:
    gate = RequestGate(1)
    served: list[str] = []
    with gate.slot(RequestLog()):
        waiter = Waiter(gate, QueuedLog(), "a1", served)
        gate.resize(2)
        waiter.join()
    assert served == ["a1"]


def test_an_account_has_one_gate_and_the_callers_limit_holds() -> None:
    gate = gate_for("https://one.example", 64, explicit=False)
    assert gate_for("https://one.example", 8, explicit=True) is gate
    assert gate.limit == 8
    assert gate_for("https://one.example", 64, explicit=False).limit == 8
    assert gate_for("https://two.example", 64, explicit=False) is not gate


def test_the_cap_holds_over_stores_and_scans_of_an_account() -> None:
    arrived, answer = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        arrived.release()
        assert answer.wait(PATIENCE)

    with ScriptedServer(Answer.whole(b"hello"), hook=hold) as server:
        options = {**server.options, "max_concurrent_requests": "2"}
        logs = [QueuedLog() for _ in range(5)]
        stores = [open_store(f"az://lake{n % 2}/t{n}", options).bind(log) for n, log in enumerate(logs)]
        threads = [threading.Thread(target=store.get, args=("f",)) for store in stores]
        for thread in threads[:2]:
            thread.start()
        for _ in range(2):
            assert arrived.acquire(timeout=PATIENCE)
        for thread, log in zip(threads[2:], logs[2:], strict=True):
            thread.start()
            log.await_queued()
        assert len(server.requests) == 2
        answer.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(server.requests) == 5
    assert [log.snapshot().gets for log in logs] == [1] * 5
