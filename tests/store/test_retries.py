"""What happens when a service fails for a while, or for good."""

from __future__ import annotations

import threading

import pytest
from tests.loopback import STANDARD, Answer
from tests.store.scripted_server import ScriptedServer

from delta_sidecar.errors import AuthenticationError, ObjectNotFoundError, StorageError
from delta_sidecar.store import RequestLog, Store, open_store

WHOLE = bytes(range(100))
BUSY = Answer(503, b"<Error><Code>ServerBusy</Code><Message>busy</Message></Error>")


def store_of(server: ScriptedServer, **options: str) -> Store:
    return open_store("az://lake/t", {**server.options, **options})


def test_passing_failures_are_tried_again() -> None:
    with ScriptedServer(Answer(500), BUSY, Answer.whole(WHOLE)) as server:
        log = RequestLog()
        assert bytes(store_of(server).bind(log).get("f").data) == WHOLE
        assert len(server.requests) == 3
        assert log.snapshot().gets == 1


def test_lasting_failures_are_an_error_in_the_end() -> None:
    with ScriptedServer(BUSY) as server:
        with pytest.raises(StorageError, match=r"cannot read az://lake/t/f: .*503.*ServerBusy") as caught:
            store_of(server).get("f")
        assert len(server.requests) == 1 + 3
    assert "c2VjcmV0" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_retries_can_be_turned_off() -> None:
    with ScriptedServer(Answer(500), Answer.whole(WHOLE)) as server:
        with pytest.raises(StorageError, match="500"):
            store_of(server, retry_max_retries="0").get("f")
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(401, AuthenticationError), (403, AuthenticationError), (404, ObjectNotFoundError)]
)
def test_refusals_are_not_tried_again(status: int, error: type[StorageError]) -> None:
    with ScriptedServer(Answer(status)) as server:
        with pytest.raises(error, match="az://lake/t/f"):
            store_of(server).get("f")
        assert len(server.requests) == 1


# A service that announces 100 bytes but sends 40, and one whose headers contradict each other.
CUT_OFF = Answer(200, WHOLE[:40], dict(STANDARD), announced=100)
TOO_FEW = Answer(206, WHOLE[10:14], {"Content-Range": "bytes 10-19/100", **STANDARD})


def test_a_body_that_breaks_off_is_asked_for_from_there_on() -> None:
    with ScriptedServer(CUT_OFF, Answer.part(WHOLE, 40, 100)) as server:
        assert bytes(store_of(server).get("f").data) == WHOLE
        assert len(server.requests) == 2


def test_a_short_range_is_asked_for_again() -> None:
    with ScriptedServer(TOO_FEW, Answer.part(WHOLE, 10, 20)) as server:
        log = RequestLog()
        assert bytes(store_of(server).bind(log).get_range("f", 10, 20)) == WHOLE[10:20]
        assert log.snapshot().gets == 2


@pytest.mark.parametrize("answer", [CUT_OFF, TOO_FEW])
def test_a_body_that_is_always_short_is_an_error(answer: Answer) -> None:
    with ScriptedServer(answer) as server:
        store = store_of(server)
        with pytest.raises(StorageError, match="az://lake/t/f"):
            store.get_range("f", 10, 20) if answer is TOO_FEW else store.get("f")
        assert len(server.requests) > 1


def test_a_range_that_is_ignored_never_passes_for_the_range() -> None:
    with ScriptedServer(Answer.whole(WHOLE)) as server, pytest.raises(StorageError, match="az://lake/t/f"):
        store_of(server).get_range("f", 10, 20)


def test_an_endpoint_where_nobody_listens_is_an_error() -> None:
    with ScriptedServer(Answer(500)) as server:
        options = server.options
    with pytest.raises(StorageError, match="az://lake/t/f"):
        open_store("az://lake/t", options).get("f")


def test_a_stalled_answer_is_given_up() -> None:
    release = threading.Event()

    def hold() -> None:
        release.wait(30)

    with ScriptedServer(Answer.whole(WHOLE), hook=hold) as server:
        try:
            with pytest.raises(StorageError, match="az://lake/t/f"):
                store_of(server, timeout="50ms", retry_max_retries="1").get("f")
        finally:
            release.set()
