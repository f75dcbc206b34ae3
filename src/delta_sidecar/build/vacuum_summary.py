"""What a clean-up of metadata sidecars comes to, as values."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

MOST_UNKNOWN = 1_000
"""Unknown files that a summary names."""


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that is deleted, or would be.

    Attributes:
        path: Relative to the table.
        size: In bytes.
        last_modified: When it was written, by the store.
        age: How old it was.
        reason: Why nobody needs it.
    """

    path: str
    size: int
    last_modified: datetime
    age: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class KeptSidecar:
    """A metadata sidecar that stays.

    Attributes:
        version: The version of the table that it describes.
        files: How many files it has.
        bytes: Their size.
        reason: Why it stays.
    """

    version: int
    files: int
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class UnknownFile:
    """A file that stays since it cannot be said whose it is.

    Attributes:
        path: Relative to the table.
        size: In bytes.
        reason: What is not known of it.
    """

    path: str
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class FileTotal:
    """How many files, and how large they are together."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class VacuumSummary:
    """What a clean-up did, or would do.

    Attributes:
        table: The table's address, without secrets.
        dry_run: Whether nothing was deleted.
        keep: How many usable metadata sidecars stay at least.
        retention: Nothing younger was touched.
        as_of: The time that ages are counted up to.
        deleted: The files, in the order of their deletion.
        kept: The metadata sidecars that stay, newest first.
        waiting: Files that nobody needs and that are too young.
        referred: Files of the folder that checkpoints refer to; 0 where that did not need to be known.
        unknown: The first of the files that stay since it cannot be said whose they are.
        unknown_count: How many of those there are.
        notes: What kept the clean-up from doing more, in sentences.
        requests: Requests to the store.
    """

    table: str
    dry_run: bool
    keep: int
    retention: timedelta
    as_of: datetime
    deleted: tuple[DeletedFile, ...]
    kept: tuple[KeptSidecar, ...]
    waiting: FileTotal
    referred: int
    unknown: tuple[UnknownFile, ...]
    unknown_count: int
    notes: tuple[str, ...]
    requests: int = 0

    @property
    def deleted_bytes(self) -> int:
        """The size of the deleted files together."""
        return sum(file.size for file in self.deleted)

    def as_dict(self) -> dict[str, Any]:
        """The summary in values that JSON has: times in ISO 8601, spans in seconds."""
        plain: dict[str, Any] = _plain(self)
        return {**plain, "deleted_bytes": self.deleted_bytes}


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a summary holds
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.total_seconds() if isinstance(value, timedelta) else value
