"""The retention guard: which versions are refused, why, and what is read to know."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, metadata
from tests.scan.dated_tables import ENABLED, MINUTE, NOW, Heard, dated, enabling, moment, stamped, write
from tests.scan.reading import scan, scanner, store_of

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, RetentionCheck, RetentionGuardError, VersionNotFoundError
from delta_sidecar.events import PropertyIgnored, RetentionDoubted
from delta_sidecar.log.names import commit_path
from delta_sidecar.replay.versions import BEGINNING
from delta_sidecar.scan import retention
from delta_sidecar.scan.retention import RETENTION, default_guard
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

DAY = 24 * 60 * MINUTE
SCHEMA = {"id": "long", "value": "string"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What time it is for the guard; set the first value."""
    time = [NOW]
    monkeypatch.setattr(retention, "_now", lambda: moment(time[0]))
    return time


def check(version: int = 3, latest: int = 5, superseded: int | None = NOW, now: int = NOW) -> RetentionCheck:
    at = None if superseded is None else moment(superseded)
    return RetentionCheck("memory://t", version, latest, at, moment(now), dt.timedelta(days=7))


def refused(table: TableBuilder, **config: object) -> bool:
    try:
        scan(table, **config)
    except RetentionGuardError:
        return True
    return False


def test_the_rule() -> None:
    assert default_guard(check(now=NOW + 7 * DAY)) is None
    assert default_guard(check(version=5, superseded=None, now=NOW + 900 * DAY)) is None
    assert default_guard(check(now=NOW - DAY)) is None
    late = default_guard(check(now=NOW + 7 * DAY + 1))
    assert late is not None
    assert "version 4 was committed at 2026-02-02T02:40:00+00:00" in late
    assert late.endswith("are kept for 7 days")
    unknown = default_guard(check(superseded=None))
    assert unknown is not None
    assert "not known when version 4 was committed" in unknown


def test_a_version_is_refused_once_the_next_one_is_older_than_the_retention(tmp_path: Path, clock: list[int]) -> None:
    table = dated(tmp_path, [NOW - 900 * DAY, NOW, NOW + DAY])
    for late, versions in ((0, set()), (7 * DAY, set()), (7 * DAY + 1, {0}), (8 * DAY, {0}), (8 * DAY + 1, {0, 1})):
        clock[0] = NOW + late
        assert {version for version in range(3) if refused(table, version=version, retention_guard=True)} == versions


def test_the_error_says_why_and_what_to_do(tmp_path: Path, clock: list[int]) -> None:
    table = dated(tmp_path, [NOW - 30 * DAY, NOW - 20 * DAY])
    with pytest.raises(RetentionGuardError) as error:
        scan(table, version=0, retention_guard=True)
    assert clock == [NOW]
    assert error.value.version == 0
    assert isinstance(error.value, VersionNotFoundError)
    for part in (str(tmp_path), "version 0", "2026-01-13T02:40:00+00:00", "7 days", "retention_guard to False"):
        assert part in str(error.value)
    with pytest.raises(RetentionGuardError):
        scanner(table, version=0, retention_guard=True).snapshot()
    with pytest.raises(RetentionGuardError):
        scan(table, timestamp=moment(NOW - 25 * DAY), retention_guard=True)


@pytest.mark.usefixtures("clock")
def test_without_a_guard_an_event_tells_and_nothing_more_is_read(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW - 30 * DAY, NOW - 20 * DAY, NOW])
    heard, store = Heard(RetentionDoubted), RecordingStore(store_of(table))
    reader = LazyDeltaScanner(tmp_path, LazyScanConfig(version=0), listeners=[heard], store=store)
    assert [file.path for file in reader.scan_files()] == ["0.parquet"]
    (event,) = heard
    assert isinstance(event, RetentionDoubted)
    assert event.version == 0
    assert "version 1 was committed at 2026-01-13T02:40:00+00:00" in event.reason
    assert len(store.paths("list")) == 1
    assert commit_path(1) not in store.paths("get")
    list(LazyDeltaScanner(tmp_path, LazyScanConfig(version=1), listeners=[heard]).scan_files())
    list(LazyDeltaScanner(tmp_path, listeners=[heard]).scan_files())
    assert len(heard) == 1


@pytest.mark.usefixtures("clock")
def test_a_function_decides(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW - 30 * DAY, NOW - 20 * DAY, NOW])
    seen: list[RetentionCheck] = []

    def lenient(check: RetentionCheck) -> str | None:
        seen.append(check)
        return "it is odd" if check.version % 2 else None

    heard = Heard(RetentionDoubted)
    config = LazyScanConfig(version=0, retention_guard=lenient)
    assert len(list(LazyDeltaScanner(tmp_path, config, listeners=[heard]).scan_files())) == 1
    assert heard == []
    with pytest.raises(RetentionGuardError, match=r"refuses version 1: .* for it is odd\. Read"):
        scan(table, version=1, retention_guard=lenient)
    assert len(scan(table, version=2, retention_guard=lenient)) == 3
    assert seen[0] == RetentionCheck(
        str(tmp_path), 0, 2, moment(NOW - 20 * DAY), moment(NOW), retention=dt.timedelta(days=7)
    )
    assert [check.version for check in seen] == [0, 1]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("text", "is_refused"),
    [("interval 30 days", False), ("interval 20 days", False), ("interval 19 days 23 hours", True), ("1 week", True)],
)
def test_the_table_says_how_long_files_are_kept(tmp_path: Path, text: str, *, is_refused: bool) -> None:
    table = dated(tmp_path, [NOW - 30 * DAY, NOW - 20 * DAY], {RETENTION: text})
    assert refused(table, version=0, retention_guard=True) == is_refused


@pytest.mark.usefixtures("clock")
def test_what_the_table_says_now_counts(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW - 30 * DAY, NOW - 20 * DAY], {RETENTION: "interval 30 days"})
    write(table, NOW, actions=[metadata(SCHEMA, configuration={RETENTION: "interval 10 days"})])
    assert refused(table, version=0, retention_guard=True)
    assert not refused(table, version=1, retention_guard=True)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("text", ["interval 1 month", "long", ""])
def test_a_span_that_makes_no_sense_is_a_week(tmp_path: Path, text: str) -> None:
    table = dated(tmp_path, [NOW - 30 * DAY, NOW - 8 * DAY, NOW - 7 * DAY], {RETENTION: text})
    assert refused(table, version=0, retention_guard=True)
    heard = Heard(PropertyIgnored)
    config = LazyScanConfig(version=1, retention_guard=True)
    assert len(list(LazyDeltaScanner(tmp_path, config, listeners=[heard]).scan_files())) == 2
    (event,) = heard
    assert isinstance(event, PropertyIgnored)
    assert event.property == RETENTION
    assert f"not {text!r}" in event.reason


@pytest.mark.usefixtures("clock")
def test_the_guard_is_set_by_the_table_and_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [NOW - 30 * DAY, NOW - 20 * DAY]
    guarded = dated(tmp_path / "guarded", times, {"deltaSidecar.retention.guard": "true"})
    assert refused(guarded, version=0)
    assert not refused(guarded, version=0, retention_guard=False)
    with pytest.raises(RetentionGuardError):
        scanner(guarded, version=0).snapshot()
    plain = dated(tmp_path / "plain", times)
    assert not refused(plain, version=0)
    monkeypatch.setenv("DELTA_RETENTION_GUARD", "true")
    assert refused(plain, version=0)


@pytest.mark.usefixtures("clock")
def test_commits_with_timestamps_tell_themselves(tmp_path: Path) -> None:
    own = [NOW - 30 * DAY, NOW - 20 * DAY, NOW - 3 * DAY, NOW]
    # The log was copied: its files are of today.
    table = stamped(tmp_path, own, times=[NOW, NOW, NOW, NOW])
    store = RecordingStore(store_of(table))
    assert len(scan(table, store, version=0)) == 1
    assert commit_path(1) not in store.paths("get")
    assert [version for version in range(4) if refused(table, version=version, retention_guard=True)] == [0]


@pytest.mark.usefixtures("clock")
def test_the_commit_that_enables_timestamps_tells_itself(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW - 30 * DAY, NOW - 25 * DAY])
    since = {"delta.inCommitTimestampEnablementVersion": "2"}
    since["delta.inCommitTimestampEnablementTimestamp"] = str(NOW - 20 * DAY)
    write(table, NOW, NOW - 20 * DAY, enabling(ENABLED | since))
    store = RecordingStore(store_of(table))
    for version in (0, 1):
        with pytest.raises(RetentionGuardError):
            scan(table, store, version=version, retention_guard=True)
    probed = [attempt.path for attempt in store.attempts if attempt.end == BEGINNING]
    assert set(probed) <= {commit_path(2)}


@pytest.mark.usefixtures("clock")
def test_a_next_commit_that_tells_nothing_is_judged_by_its_file(tmp_path: Path) -> None:
    table = stamped(tmp_path, [NOW - 30 * DAY], times=[NOW - 30 * DAY])
    write(table, NOW - 20 * DAY)
    assert refused(table, version=0, retention_guard=True)


@pytest.mark.usefixtures("clock")
def test_a_version_of_which_nobody_knows_is_refused(tmp_path: Path) -> None:
    table = dated(tmp_path, [NOW, NOW, NOW])
    table.checkpoint()
    table.delete_commit(1)
    with pytest.raises(RetentionGuardError, match="not known when version 1 was committed"):
        scan(table, version=0, retention_guard=True)
    assert len(scan(table, version=0)) == 1


def test_a_page_token_is_guarded_too(tmp_path: Path, clock: list[int]) -> None:
    table = dated(tmp_path, [NOW, NOW])
    first = scanner(table, limit=1)
    list(first.scan_files())
    write(table, NOW + DAY)
    clock[0] = NOW + 2 * DAY
    assert not refused(table, page_token=first.page_token, retention_guard=True)
    clock[0] = NOW + 9 * DAY
    with pytest.raises(RetentionGuardError, match="refuses version 1"):
        scan(table, page_token=first.page_token, retention_guard=True)
    assert len(scan(table, page_token=first.page_token)) == 1
