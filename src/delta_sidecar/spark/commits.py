"""Commits of pipelines: the mark that each carries, what the commit of a write added, and which batches came before.

The mark is in the commit's `userMetadata`:

    {"deltaSidecar": {"pipeline": "telemetry", "interval": 10, "write": "5f0c…", "batch": 7}}

`write` is unique, so that a write finds its own commit among those of others; without one nothing was written.
By `interval` other pipelines know whether this one makes a checkpoint that is due.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.log.names import checksum_path, commit_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.store import Buffer, Fetched, Store

T = TypeVar("T")

# Delta writes `commitInfo` first.
_HEAD_BYTES = 64 << 10
# Delta writes up to 100 transactions, and small tables' files with them.
_CHECKSUM_BYTES = 4 << 20
# Properties and features by which transactions expire, or the commits of a path are not in its log.
_DEMANDING = (
    "delta.setTransactionRetentionDuration",
    "delta.coordinatedCommits",
    "delta.redirect",
    "catalogManaged",
    "catalogOwned",
    "coordinatedCommits",
    "redirect",
)


class Mark(msgspec.Struct, frozen=True):
    """The mark of a pipeline's commit, without the write's own text."""

    pipeline: str  # its app id
    interval: int | None = None  # versions from one checkpoint it makes to the next; 0: it makes none; None: not said
    batch: int | None = None

    def looks_after(self, due: int, version: int) -> bool:
        """True if the pipeline makes the checkpoint of a due version, by its commit of this or a later one."""
        if self.interval is None:
            return True
        return self.interval > 0 and version - version % self.interval == due


def pipeline_mark(
    app_id: str, interval: int | None = None, *, write: str | None = None, batch: int | None = None
) -> str:
    """Makes the text that a pipeline puts into its commits as `userMetadata`."""
    fields = {"pipeline": app_id, "interval": interval, "write": write, "batch": batch}
    mark = {name: value for name, value in fields.items() if value is not None}
    return json.dumps({"deltaSidecar": mark}, separators=(",", ":"))


def mark_in(store: Store, version: int) -> Mark | None:
    """Reads the mark in a commit; None where it has none, or is gone."""
    with suppress(ObjectNotFoundError):
        return _mark(_head(store, version).data)
    return None


def is_batch_there(store: Store, newest: int, app_id: str, batch: int) -> bool | None:
    """Looks back from the newest version for a batch whose id is below the highest one.

    Returns:
        False where it was passed over; None where the log does not reach back far enough to say.
    """
    for version in range(newest, -1, -1):
        try:
            mark = _mark(_head(store, version).data)
        except ObjectNotFoundError:
            return None
        if mark is not None and mark.pipeline == app_id and mark.batch is not None and mark.batch <= batch:
            return mark.batch == batch
    return False


def transactions_at(store: Store, version: int) -> dict[str, int] | None:
    """Reads the last batch of each application at a version, from the version's checksum file.

    Returns:
        None where the file cannot be relied on, and the log has to be replayed: it is missing, torn, without
        transactions or not of the same write as the commit, the two differ in a transaction, or the table has a
        property or feature by which transactions expire or commits are kept elsewhere.
    """
    try:
        head = _head(store, version).data
        found = store.get(checksum_path(version), max_bytes=_CHECKSUM_BYTES)
    except ObjectNotFoundError:
        return None
    # One that is cut off is no JSON.
    checksum = _decoded(bytes(found.data), _Checksum)
    if checksum is None or checksum.txn_id is None or not checksum.is_enough:
        return None
    lines = tuple(_lines(head))
    if not any(line.commit_info.txn_id == checksum.txn_id for line in lines if line.commit_info):
        return None
    last = {txn.app_id: txn.version for txn in checksum.set_transactions or ()}
    is_same = all(last.get(line.txn.app_id) == line.txn.version for line in lines if line.txn)
    return last if is_same and len(last) == len(checksum.set_transactions or ()) else None


@dataclass(frozen=True, slots=True)
class Committed:
    """The files that a commit added, in figures; by default there is no commit."""

    version: int | None = None
    rows: int | None = 0  # None where a file has no count
    files: int = 0
    bytes: int = 0
    buckets: int = 0
    null_bucket_rows: int = 0  # of files with a count


def find_commit(store: Store, after: int, mark: str, bucket: str) -> Committed | None:
    """Finds the commit with a mark after a version; None where there is none. `bucket` is a physical name."""
    version = after + 1
    while True:
        try:
            head = _head(store, version)
            if any(info.user_metadata == mark for line in _lines(head.data) if (info := line.commit_info)):
                is_whole = head.size <= len(head.data)
                return _added(version, head.data if is_whole else store.get(commit_path(version)).data, bucket)
        except ObjectNotFoundError:
            return None
        version += 1


class _CommitInfo(msgspec.Struct, rename="camel"):
    user_metadata: str | None = None
    txn_id: str | None = None


class _Add(msgspec.Struct, rename="camel"):
    size: int
    partition_values: dict[str, str | None] | None = None
    stats: str | None = None


class _Transaction(msgspec.Struct, rename="camel"):
    app_id: str
    version: int


class _Line(msgspec.Struct, rename="camel"):
    commit_info: _CommitInfo | None = None
    add: _Add | None = None
    txn: _Transaction | None = None


class _Metadata(msgspec.Struct):
    configuration: dict[str, str | None]


class _Protocol(msgspec.Struct, rename="camel"):
    writer_features: list[str] | None = None


class _Checksum(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    protocol: _Protocol
    txn_id: str | None = None
    set_transactions: list[_Transaction] | None = None

    @property
    def is_enough(self) -> bool:
        """True if the file alone says which transactions count, and the log itself which commits there are."""
        names = (*self.metadata.configuration, *(self.protocol.writer_features or ()))
        return self.set_transactions is not None and not any(name.startswith(_DEMANDING) for name in names)


class _UserMetadata(msgspec.Struct, rename="camel"):
    delta_sidecar: Mark


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int | None = None


def _head(store: Store, version: int) -> Fetched:
    return store.get(commit_path(version), max_bytes=_HEAD_BYTES)


def _mark(head: Buffer) -> Mark | None:
    for line in _lines(head):
        if line.commit_info is not None:
            metadata = _decoded(line.commit_info.user_metadata or "", _UserMetadata)
            if metadata is not None:
                return metadata.delta_sidecar
    return None


def _added(version: int, data: Buffer, bucket: str) -> Committed:
    adds = [line.add for line in _lines(data) if line.add is not None]
    counts = [stats.num_records if (stats := _decoded(add.stats or "{}", _Stats)) else None for add in adds]
    values = [(add.partition_values or {}).get(bucket) or None for add in adds]
    known = [count for count in counts if count is not None]
    return Committed(
        version,
        rows=sum(known) if len(known) == len(adds) else None,
        files=len(adds),
        bytes=sum(add.size for add in adds),
        buckets=len(set(values)),
        null_bucket_rows=sum(count or 0 for count, value in zip(counts, values, strict=True) if value is None),
    )


def _lines(data: Buffer) -> Iterator[_Line]:
    """The lines of a commit, but for those that are none: the last line of a head may be cut off."""
    for text in bytes(data).splitlines():
        line = _decoded(text, _Line)
        if line is not None:
            yield line


def _decoded(text: bytes | str, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (ValueError, RecursionError):
        return None
