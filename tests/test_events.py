"""Events: who is told what, in which order, and what the log says."""

from __future__ import annotations

import io
import json
import logging
import pickle
import subprocess
import sys
import types
import typing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add

import delta_sidecar.events
from delta_sidecar import LazyDeltaScanner, LazyScanConfig, ScanClosedError, StorageError
from delta_sidecar.events import (
    BasePassedOver,
    Event,
    Events,
    FallbackTriggered,
    FirstFileFound,
    JsonLines,
    PropertyIgnored,
    RetentionDoubted,
    ScanEnded,
)
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import Attempt, Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = "Zw7markQ"
KINDS = [kind for kind in vars(delta_sidecar.events).values() if isinstance(kind, type) and issubclass(kind, Event)]
HAPPENINGS = [kind for kind in KINDS if kind is not Event]
FIRST = FirstFileFound(table="memory://b/t", milliseconds=1.5, trips=2)
PASSED_OVER = BasePassedOver(table="memory://b/t", base="7.checkpoint.parquet", version=7, reason="cut off: Käse")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the logger writes as JSON, from the lowest level on."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("delta_sidecar")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = TableBuilder(tmp_path)
    built.commit([add("a"), add("b")])
    built.commit([add("c")])
    return built


def parsed(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def test_listeners_are_told_one_after_another() -> None:
    told: list[tuple[int, Event]] = []
    tell = Events((lambda event: told.append((1, event)), lambda event: told.append((2, event))))
    tell(FIRST)
    tell(PASSED_OVER)
    assert told == [(1, FIRST), (2, FIRST), (1, PASSED_OVER), (2, PASSED_OVER)]


def test_a_listener_that_fails_is_logged_and_harmless(lines: io.StringIO) -> None:
    told: list[Event] = []

    def fail(_: Event) -> None:
        raise LookupError(MARK)

    Events((fail, told.append))(FIRST)
    assert told == [FIRST]
    event, failure = parsed(lines)
    assert event["event"] == "first_file_found"
    assert (failure["level"], failure["message"]) == ("error", "a listener failed on first_file_found")
    assert f"LookupError: {MARK}" in failure["exception"]


def test_a_listener_that_fails_does_no_harm_to_a_scan(table: TableBuilder) -> None:
    def fail(_: Event) -> None:
        raise LookupError

    scanner = LazyDeltaScanner(table.root, listeners=[fail])
    assert {file.path for file in scanner.scan_files()} == {"a", "b", "c"}
    assert scanner.metrics.is_complete


def test_an_interrupt_in_a_listener_is_not_swallowed() -> None:
    def interrupt(_: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Events((interrupt,))(FIRST)


def test_a_line_has_the_time_the_level_and_what_the_event_tells(lines: io.StringIO) -> None:
    Events()(PASSED_OVER)
    (line,) = parsed(lines)
    assert datetime.fromisoformat(line.pop("time")).utcoffset() == timedelta(0)
    assert line == {
        "level": "warning",
        "event": "base_passed_over",
        "table": "memory://b/t",
        "base": "7.checkpoint.parquet",
        "version": 7,
        "tier": 3,
        "reason": "cut off: Käse",
        "code": "damaged",
    }


def test_a_line_of_somebody_else_has_the_message(lines: io.StringIO) -> None:
    logging.getLogger("delta_sidecar.elsewhere").info("two\nlines of %s", "text")
    (line,) = parsed(lines)
    assert (line["level"], line["message"]) == ("info", "two\nlines of text")


def test_plain_logging_shows_the_event_and_the_table(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "delta_sidecar")
    Events()(FIRST)
    Events()(PASSED_OVER)
    assert caplog.messages == ["base_passed_over memory://b/t: 7.checkpoint.parquet: cut off: Käse"]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            BasePassedOver(table="t", base="v5.manifest.json", version=5, tier=1, reason="its digest differs"),
            "base_passed_over t: v5.manifest.json: its digest differs",
        ),
        (FallbackTriggered(table="t", action="remove", version=7), "fallback_triggered t: remove in version 7"),
        (RetentionDoubted(table="t", version=7, reason="it is old"), "retention_doubted t: version 7: it is old"),
        (PropertyIgnored(table="t", property="p", reason="no number"), "property_ignored t: p: no number"),
        (BasePassedOver(table="t", base="a\nb", version=5, reason="x"), "base_passed_over t: a\\nb: x"),
    ],
)
def test_the_text_of_a_record_says_why(caplog: pytest.LogCaptureFixture, event: Event, text: str) -> None:
    with caplog.at_level(logging.INFO, logger="delta_sidecar"):
        Events()(event)
    assert caplog.messages == [text]


def test_every_warning_says_why(caplog: pytest.LogCaptureFixture) -> None:
    kinds = [kind for kind in Event.__subclasses__() if kind.level >= logging.WARNING]
    assert kinds
    for kind in kinds:
        made = {name: f"<{name}>" for name in kind.__struct_fields__}
        with caplog.at_level(logging.WARNING, logger="delta_sidecar"):
            Events()(kind(**made))
        assert "<reason>" in caplog.messages[-1], kind


def test_nothing_is_printed_by_default(table: TableBuilder) -> None:
    program = (
        "import sys\n"
        "from delta_sidecar import LazyDeltaScanner\n"
        "from delta_sidecar.events import BasePassedOver, Events\n"
        "def fail(event):\n"
        "    raise LookupError\n"
        "Events((fail,))(BasePassedOver(table='t', base='b', version=1, reason='cut off'))\n"
        "print(len(list(LazyDeltaScanner(sys.argv[1], listeners=[fail]).scan_files())))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, table.root], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_listeners_stay_in_their_process() -> None:
    told: list[Event] = []
    copy = pickle.loads(pickle.dumps(Events((lambda _: told.append(FIRST),))))  # noqa: S301 - our own
    copy(FIRST)
    assert isinstance(copy, Events)
    assert told == []


@pytest.mark.parametrize("kind", HAPPENINGS, ids=lambda kind: kind.__name__)
def test_an_event_has_a_name_a_level_and_says_what_each_field_is(kind: type[Event]) -> None:
    assert [other for other in KINDS if other.name == kind.name] == [kind]
    assert kind.level in {logging.DEBUG, logging.INFO, logging.WARNING}
    doc = kind.__doc__ or ""
    assert not doc.startswith(f"{kind.__name__}("), "a dataclass without a docstring gets its signature for one"
    own = [name for name in kind.__struct_fields__ if name != "table"]
    assert [name for name in own if f"        {name}: " not in doc] == []
    assert not {"time", "level", "event", "message", "exception"} & set(own), "taken by the line that it is logged in"


@pytest.mark.parametrize("kind", HAPPENINGS, ids=lambda kind: kind.__name__)
def test_fields_are_plain_values(kind: type[Event]) -> None:
    plain = {str, int, float, bool, type(None)}
    for name, hint in typing.get_type_hints(kind).items():
        if typing.get_origin(hint) is typing.ClassVar:
            continue
        kinds = typing.get_args(hint) if typing.get_origin(hint) in {types.UnionType, typing.Union} else (hint,)
        for kind_of_value in kinds:
            if typing.get_origin(kind_of_value) is typing.Literal:
                assert all(isinstance(value, str) for value in typing.get_args(kind_of_value))
            else:
                assert kind_of_value in plain, name


def test_an_event_survives_pickling_and_does_not_change() -> None:
    assert pickle.loads(pickle.dumps(FIRST)) == FIRST  # noqa: S301 - our own
    with pytest.raises(AttributeError):
        FIRST.trips = 3  # type: ignore[misc]


def told_by(scanner: LazyDeltaScanner, told: list[Event]) -> list[str]:
    list(scanner.scan_files())
    return [event.name for event in told]


@pytest.mark.usefixtures("answered_ahead")
def test_a_scan_tells_how_it_goes(table: TableBuilder) -> None:
    told: list[Event] = []
    scanner = LazyDeltaScanner(table.root, listeners=[told.append])
    names = told_by(scanner, told)
    assert names[0] == "snapshot_opened"
    assert names[-1] == "scan_ended"
    assert names.count("strategy_chosen") == names.count("first_file_found") == names.count("scan_ended") == 1
    assert names.index("strategy_chosen") < names.index("first_file_found")
    end = told[-1]
    assert isinstance(end, ScanEnded)
    metrics = scanner.metrics
    assert (end.outcome, end.error, end.version) == ("complete", None, 1)
    assert (end.files_emitted, end.commits_scanned) == (3, metrics.commits_read)
    assert (end.requests, end.bytes, end.trips) == (
        metrics.requests.requests,
        metrics.requests.bytes,
        metrics.requests.trips,
    )


def test_the_log_tells_what_listeners_are_told(table: TableBuilder, lines: io.StringIO) -> None:
    told: list[Event] = []
    names = told_by(LazyDeltaScanner(table.root, listeners=[told.append]), told)
    assert [line["event"] for line in parsed(lines) if "event" in line] == names


def test_each_scan_of_a_scanner_ends_once(table: TableBuilder) -> None:
    told: list[Event] = []
    scanner = LazyDeltaScanner(table.root, LazyScanConfig(limit=1), listeners=[told.append])
    list(scanner.scan_files())
    stopped = scanner.scan_files()
    next(stopped)
    stopped.close()
    scanner.scan_batches()
    outcomes = [event.outcome for event in told if isinstance(event, ScanEnded)]
    assert outcomes == ["limit", "stopped"]


def test_a_scan_that_its_scanner_stops_has_not_failed(table: TableBuilder) -> None:
    told: list[Event] = []
    with LazyDeltaScanner(table.root, listeners=[told.append]) as scanner:
        reader = scanner.scan_files()
        next(reader)
    with pytest.raises(ScanClosedError):
        list(reader)
    assert [event.outcome for event in told if isinstance(event, ScanEnded)] == ["stopped"]


def test_a_scan_that_is_stopped_amid_a_request_has_not_failed(table: TableBuilder) -> None:
    told: list[Event] = []

    def stop(attempt: Attempt) -> None:
        if attempt.path.endswith("01.json"):
            scanner.close()

    store = RecordingStore(open_store(table.root), stop)
    scanner = LazyDeltaScanner(table.root, store=store, listeners=[told.append])
    with pytest.raises(ScanClosedError):
        list(scanner.scan_files())
    (end,) = [event for event in told if isinstance(event, ScanEnded)]
    assert (end.outcome, end.error) == ("stopped", None)


def test_a_scan_that_fails_tells_the_class_of_the_error(table: TableBuilder) -> None:
    told: list[Event] = []
    broken = FaultStore(open_store(table.root), Fail("*.json", error=StorageError(MARK)))
    with pytest.raises(StorageError):
        told_by(LazyDeltaScanner(table.root, store=broken, listeners=[told.append]), told)
    end = told[-1]
    assert isinstance(end, ScanEnded)
    assert (end.outcome, end.error, end.version, end.files_emitted) == ("failed", "StorageError", None, 0)
    assert MARK not in repr(told)


def test_no_event_holds_a_secret(lines: io.StringIO) -> None:
    told: list[Event] = []
    scanner = LazyDeltaScanner(
        f"abfss://c@acct.dfs.core.windows.net/t?sv=2024-01-01&sig={MARK}",
        storage_options={
            "endpoint": "http://127.0.0.1:9/acct",  # nobody listens on the discard port
            "retry_max_retries": "0",
            "connect_timeout": "1s",
        },
        listeners=[told.append],
    )
    with pytest.raises(StorageError):
        list(scanner.scan_files())
    assert told[-1].table == "abfss://c@acct.dfs.core.windows.net/t"
    assert MARK not in repr(told)
    assert MARK not in lines.getvalue()
    assert parsed(lines)[-1]["event"] == "scan_ended"
