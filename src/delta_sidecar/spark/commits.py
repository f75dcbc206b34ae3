"""The commit that a write made, among those of others.

A write puts a mark of its own into its commit. The newest version after a write may be somebody else's; the commit
with the mark is the write's own, and where there is none nothing was committed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.log.names import commit_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.store import Store

# Delta writes `commitInfo` first.
_HEAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit added.

    Attributes:
        version: Its version.
        rows: Rows of the files that it added; None where one does not tell.
        files: How many these are.
        bytes: Their size.
        buckets: Distinct values of the bucket column.
        null_bucket_rows: Rows of files without such a value, as far as these tell.
    """

    version: int
    rows: int | None
    files: int
    bytes: int
    buckets: int
    null_bucket_rows: int


def find_commit(store: Store, after: int, mark: str, bucket: str) -> Committed | None:
    """Finds the commit with a mark.

    Args:
        store: The table's store.
        after: The newest version before the write.
        mark: The mark.
        bucket: Physical name of the bucket column.

    Returns:
        What it added; None where no commit after that version has the mark.

    Raises:
        StorageError: The store did not do what was asked.
    """
    version = after + 1
    while True:
        try:
            head = store.get(commit_path(version), max_bytes=_HEAD_BYTES)
            if _has(bytes(head.data), mark):
                data = head.data if head.size <= len(head.data) else store.get(commit_path(version)).data
                return _added(version, bytes(data), bucket)
        except ObjectNotFoundError:
            return None
        version += 1


def _has(head: bytes, mark: str) -> bool:
    return any(info.get("userMetadata") == mark for info in _actions(head, "commitInfo"))


def _added(version: int, data: bytes, bucket: str) -> Committed:
    files = size = null_rows = 0
    rows: int | None = 0
    buckets = set()
    for add in _actions(data, "add"):
        count = _records(add)
        value = (add.get("partitionValues") or {}).get(bucket) or None
        rows = None if rows is None or count is None else rows + count
        files, size = files + 1, size + add["size"]
        null_rows += (count or 0) if value is None else 0
        buckets.add(value)
    return Committed(version, rows, files, size, len(buckets), null_rows)


def _records(add: dict[str, Any]) -> int | None:
    try:
        count = json.loads(add.get("stats") or "{}").get("numRecords")
    except ValueError:
        return None
    return count if isinstance(count, int) else None


def _actions(data: bytes, name: str) -> Iterator[dict[str, Any]]:
    """The actions of a name; the last line of a head may be cut off."""
    start = b'{"%s":' % name.encode()
    for line in data.splitlines():
        if line.startswith(start):
            try:
                yield json.loads(line)[name]
            except ValueError:
                return
