"""Events of scans, builds and writes, as values for listeners.

    scanner = LazyDeltaScanner(url, listeners=[print])

A listener is any callable that takes an event. It runs in the thread where the event happens and should be quick; one
that fails is logged and does no harm to the scan. Every event also goes to the logger `delta_sidecar`, which is silent
until a handler is set: `JsonLines` formats its records as one JSON object a line. Events hold no secrets.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

logger = logging.getLogger("delta_sidecar")
logger.addHandler(logging.NullHandler())

_FIELDS = "delta_sidecar"


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened to a table.

    Attributes:
        table: The table's address, without secrets.
    """

    name: ClassVar[str] = "event"
    level: ClassVar[int] = logging.DEBUG

    table: str

    def fields(self) -> dict[str, Any]:
        """Its fields by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    def message(self) -> str:
        """The event, the table and the reason in a line: the text of its record in the log."""
        about = self._about()
        text = f"{self.name} {self.table}{f': {about}' if about else ''}"
        # A name in a log may have a line break in it.
        return text if text.isprintable() else repr(text)[1:-1]

    def _about(self) -> str | None:
        return getattr(self, "error", None)


class SnapshotOpened(Event, frozen=True, kw_only=True):
    """The version to read is pinned, and its protocol and metadata are known.

    Attributes:
        version: The version.
        base_version: Version of the first base; -1 where replay goes down to the start of the log.
        commits: Commits after the base.
        tail_bytes: Their size by the listing.
        base_bytes: Size of the base by the listing.
    """

    name: ClassVar[str] = "snapshot_opened"

    version: int
    base_version: int
    commits: int
    tail_bytes: int
    base_bytes: int


class StrategyChosen(Event, frozen=True, kw_only=True):
    """It is decided in which order the log is replayed.

    Attributes:
        strategy: `reverse` or `forward`.
        reason: Why.
        order: `recent` or `any`.
    """

    name: ClassVar[str] = "strategy_chosen"

    strategy: str
    reason: str
    order: str


class BaseChosen(Event, frozen=True, kw_only=True):
    """A base is trusted, and its files come next.

    Attributes:
        base: Its file name; empty for the start of the log.
        version: Its version; -1 for the start of the log.
        tier: 1 for a metadata sidecar with its manifest, 2 for one without, 3 for a checkpoint or the start of the log.
    """

    name: ClassVar[str] = "base_chosen"

    base: str
    version: int
    tier: int = 3


class BasePassedOver(Event, frozen=True, kw_only=True):
    """A base proved unusable; the next one is taken.

    Attributes:
        base: Its file name.
        version: Its version.
        tier: As in `BaseChosen`.
        reason: What is wrong with it.
        code: The same in a word, for metadata sidecars: `damaged`, `gone`, `other_commit`, `unproven`,
            `other_version`, `missing_file` or `wrong_size`.
    """

    name: ClassVar[str] = "base_passed_over"
    level: ClassVar[int] = logging.WARNING

    base: str
    version: int
    tier: int = 3
    reason: str
    code: str = "damaged"

    def _about(self) -> str:
        return f"{self.base}: {self.reason}"


class FallbackTriggered(Event, frozen=True, kw_only=True):
    """Strict mode met an action that it does not take, and the scan goes on in the standard chain.

    Attributes:
        action: The action's name.
        version: The commit that has it.
    """

    name: ClassVar[str] = "fallback_triggered"
    level: ClassVar[int] = logging.INFO

    action: str
    version: int

    def _about(self) -> str:
        return f"{self.action} in version {self.version}"


class RetentionDoubted(Event, frozen=True, kw_only=True):
    """Data files of an old version may be vacuumed already, and no retention guard was set to refuse it.

    Attributes:
        version: The version.
        reason: Why they may.
    """

    name: ClassVar[str] = "retention_doubted"
    level: ClassVar[int] = logging.WARNING

    version: int
    reason: str

    def _about(self) -> str:
        return f"version {self.version}: {self.reason}"


class PropertyIgnored(Event, frozen=True, kw_only=True):
    """A property of the table has a value that is not valid; it does not count.

    Attributes:
        property: Its name.
        reason: What is wrong with it.
    """

    name: ClassVar[str] = "property_ignored"
    level: ClassVar[int] = logging.WARNING

    property: str
    reason: str

    def _about(self) -> str:
        return f"{self.property}: {self.reason}"


class FirstFileFound(Event, frozen=True, kw_only=True):
    """The first file is emitted.

    Attributes:
        milliseconds: Since the scan began.
        trips: Round trips, one after another, that it took.
    """

    name: ClassVar[str] = "first_file_found"

    milliseconds: float
    trips: int


Outcome: TypeAlias = Literal["complete", "limit", "stopped", "failed"]


class ScanEnded(Event, frozen=True, kw_only=True):
    """A scan came to its end, in one way or another.

    Attributes:
        outcome: `complete`; `limit` where it was reached; `stopped` by its consumer; `failed`.
        error: Class of the error that it failed with; None where it did not.
        milliseconds: Since the scan began.
        version: The version that was read; None where it was not known yet.
        strategy: `reverse` or `forward`; None where it was not decided yet.
        files_emitted: Files emitted.
        commits_scanned: Commits of which something was read.
        requests: Requests to the store.
        bytes: Bytes that they moved.
        trips: The longest chain of requests that had to wait for another's answer, or for its thread; other scans
            do not count.
        row_groups_read: Row groups of the base of which rows were used.
        row_groups_skipped: Row groups of the base that were passed over.
        sidecar_tier: Tier of the base, as in `BaseChosen`; None where none was chosen yet, and where the last one
            proved unusable before its first file.
        sidecar_fallback_reason: Why it is not tier 1, in a word: `disabled`, `none` where the log has no metadata
            sidecar, `too_old` where its metadata sidecars have too many commits after them, `no_manifest` for tier 2,
            or as in `BasePassedOver`.
        sidecar_row_groups_read: Row groups of a metadata sidecar that were decoded.
        sidecar_row_groups_skipped: Row groups of a metadata sidecar that were passed over by what its manifest says.
        remove_set_size: Keys that were remembered.
        remove_set_tier: Where: `keys`, `digests` or `disk`.
    """

    name: ClassVar[str] = "scan_ended"
    level: ClassVar[int] = logging.INFO

    outcome: Outcome
    error: str | None
    milliseconds: float
    version: int | None
    strategy: str | None
    files_emitted: int
    commits_scanned: int
    requests: int
    bytes: int
    trips: int
    row_groups_read: int
    row_groups_skipped: int
    sidecar_tier: int | None = None
    sidecar_fallback_reason: str | None = None
    sidecar_row_groups_read: int = 0
    sidecar_row_groups_skipped: int = 0
    remove_set_size: int
    remove_set_tier: str


class RowScanEnded(Event, frozen=True, kw_only=True):
    """A scan for rows is over, one way or another; the scan that found its files has an event of its own.

    Attributes:
        outcome: As in `ScanEnded`.
        error: The error's class, where it failed.
        milliseconds: How long it took.
        version: The version that was read.
        rows: Rows emitted.
        files_found: Files that may hold a matching row, as far as they were looked for.
        files_opened: Data files of which something was asked.
        row_groups_read: Row groups that were decoded.
        row_groups_skipped: Row groups of opened files that cannot hold a matching row.
        requests: Requests for data files and deletion vectors.
        bytes: Bytes that they moved.
    """

    name: ClassVar[str] = "row_scan_ended"
    level: ClassVar[int] = logging.INFO

    outcome: Outcome
    error: str | None
    milliseconds: float
    version: int | None
    rows: int
    files_found: int
    files_opened: int
    row_groups_read: int
    row_groups_skipped: int
    requests: int
    bytes: int


class VacuumEnded(Event, frozen=True, kw_only=True):
    """A clean-up of metadata sidecars came to its end, in one way or another.

    Attributes:
        outcome: `complete`; `stopped` by an interrupt; `failed`.
        error: Class of the error that it failed with; None where it did not.
        milliseconds: Since it began.
        dry_run: Whether nothing was to be deleted.
        files_deleted: Files that were deleted; in a dry run, that would have been.
        bytes_deleted: Their size.
        files_unknown: Files that stayed since it could not be said whose they are.
        requests: Requests to the store.
        bytes: Bytes that they moved.
        trips: The longest chain of requests that had to wait for another's answer, or for its thread; other scans
            do not count.
    """

    name: ClassVar[str] = "vacuum_ended"
    level: ClassVar[int] = logging.INFO

    outcome: Literal["complete", "stopped", "failed"]
    error: str | None
    milliseconds: float
    dry_run: bool
    files_deleted: int
    bytes_deleted: int
    files_unknown: int
    requests: int
    bytes: int
    trips: int


class BuildEnded(Event, frozen=True, kw_only=True):
    """A build of a metadata sidecar came to its end, in one way or another.

    Attributes:
        outcome: `complete`; `already_there` where a good one was found; `stopped` by an interrupt; `failed`.
        error: Class of the error that it failed with; None where it did not.
        milliseconds: Since it began.
        version: The version of the table; None where it was not known yet.
        files: Live files of the table: the rows; 0 where it did not come to its end.
        row_groups: Row groups; 0 where it did not come to its end.
        sidecar_bytes: Size of its data files; 0 where it did not come to its end.
        requests: Requests to the store.
        bytes: Bytes that they moved.
        trips: The longest chain of requests that had to wait for another's answer, or for its thread; other scans
            do not count.
    """

    name: ClassVar[str] = "build_ended"
    level: ClassVar[int] = logging.INFO

    outcome: Literal["complete", "already_there", "stopped", "failed"]
    error: str | None
    milliseconds: float
    version: int | None
    files: int
    row_groups: int
    sidecar_bytes: int
    requests: int
    bytes: int
    trips: int


class BatchWritten(Event, frozen=True, kw_only=True):
    """A pipeline is through with a batch, in one way or another.

    Attributes:
        outcome: `complete`; `skipped` where its batch id was written before; `empty` where it has no rows; `failed`,
            and then nothing of it is in the table.
        error: Class of the error that it failed with; None where it did not.
        milliseconds: Since it began, the checkpoint trigger not counted.
        app_id: Whose batch ids they are: the pipeline's name, or the id of a streaming query.
        batch_id: The batch's own; None where it has none.
        batch_check: How it was found out whether it was written before: by a `checksum` file, or by Delta's `replay` of
            the log; None where that was not asked.
        version: The version that it made; None where it made none.
        rows: Rows written.
        files: Data files written.
        bytes: Their size.
        buckets: Time buckets that they are of.
        null_bucket_rows: Rows among them that have no time bucket.
    """

    name: ClassVar[str] = "batch_written"
    level: ClassVar[int] = logging.INFO

    outcome: Literal["complete", "skipped", "empty", "failed"]
    error: str | None
    milliseconds: float
    app_id: str
    batch_id: int | None
    batch_check: Literal["checksum", "replay"] | None
    version: int | None
    rows: int
    files: int
    bytes: int
    buckets: int
    null_bucket_rows: int


class CheckpointTriggered(Event, frozen=True, kw_only=True):
    """A version came up that is to have a checkpoint and a metadata sidecar.

    Attributes:
        outcome: `complete` where what was missing is there now; `already_there` where nothing was; `left_to_another`
            pipeline; `passed_over` where a newer version has taken its place; `failed`, and then the next commit of the
            pipeline tries again.
        error: Class of the error that it failed with; None where it did not.
        milliseconds: How long it took.
        version: The version.
        made_checkpoint: Whether a checkpoint was made; Delta itself may have made it with the commit.
        built_sidecar: Whether a metadata sidecar was built.
    """

    name: ClassVar[str] = "checkpoint_triggered"
    level: ClassVar[int] = logging.INFO

    outcome: Literal["complete", "already_there", "left_to_another", "passed_over", "failed"]
    error: str | None
    milliseconds: float
    version: int
    made_checkpoint: bool
    built_sidecar: bool


Listener: TypeAlias = Callable[[Event], None]


class Events(Struct, frozen=True):
    """Passes events on to listeners, and to the log. It pickles without its listeners: they belong to a process."""

    listeners: tuple[Listener, ...] = ()

    def __call__(self, event: Event) -> None:
        """Logs an event and calls the listeners with it."""
        if logger.isEnabledFor(event.level):
            logger.log(event.level, "%s", event.message(), extra={_FIELDS: event})
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:  # a failing listener does no harm to the scan
                logger.exception("a listener failed on %s", event.name)

    def __repr__(self) -> str:
        return "Events()"

    def __reduce__(self) -> tuple[type[Events], tuple[()]]:
        return Events, ()


def event_of(record: logging.LogRecord) -> Event | None:
    """The event that a record of the log is about; None where it is about none."""
    event = getattr(record, _FIELDS, None)
    return event if isinstance(event, Event) else None


class JsonLines(logging.Formatter):
    """Formats the records of the logger `delta_sidecar` as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's time, level, event and fields; of other records the message."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        event = event_of(record)
        if event is not None:
            line |= {"event": event.name, **event.fields()}
        else:
            line["message"] = record.getMessage()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
