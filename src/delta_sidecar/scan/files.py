"""A live file of a table, as a Python value."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import LogCorruptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from delta_sidecar.log.deletion_vectors import DeletionVector
    from delta_sidecar.replay.request import EntryCounts
    from delta_sidecar.store import RequestCounts


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A live file of a table.

    Attributes:
        path: Where it is, decoded; relative to the table, or absolute.
        raw_path: The path as the log has it, a URI.
        size: In bytes.
        modification_time: In milliseconds since the epoch.
        partition_values: Raw values by (logical) column name; None is null.
        stats: Statistics as JSON text; None where the log has none.
        deletion_vector: Which of its rows are deleted; None where none are.
        tags: The writer's own notes.
        base_row_id: Row id of its first row, with row tracking.
        default_row_commit_version: Version that first added it, with row tracking.
        clustering_provider: Who clustered it.
    """

    path: str
    raw_path: str
    size: int
    modification_time: int
    partition_values: Mapping[str, str | None] = field(hash=False)
    stats: str | None = None
    deletion_vector: DeletionVector | None = None
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    @property
    def num_records(self) -> int | None:
        """Rows in the file by its statistics, deleted ones included; None where they don't say."""
        if self.stats is None:
            return None
        try:
            count = json.loads(self.stats).get("numRecords")
        except (ValueError, AttributeError, RecursionError):
            return None
        return count if isinstance(count, int) else None


def delta_files(batch: pa.RecordBatch) -> Iterator[DeltaFile]:
    """The rows of a batch of files as values; columns that may be null need not be there.

    Raises:
        LogCorruptionError: A text is not UTF-8, or tags are no JSON object: the base that it comes from is damaged.
    """
    from delta_sidecar.log.deletion_vectors import DeletionVector

    names = batch.schema.names
    try:
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    except UnicodeDecodeError as error:
        msg = f"a file entry of the log is damaged: its text is not UTF-8 ({error})"
        raise LogCorruptionError(msg) from error
    for row in rows:
        fields: dict[str, Any] = dict(zip(names, row, strict=True))
        fields["partition_values"] = dict(fields["partition_values"])
        fields["deletion_vector"] = DeletionVector.from_struct(fields["deletion_vector"])
        fields["tags"] = None if fields.get("tags") is None else _tags(fields["tags"])
        yield DeltaFile(**fields)


def _tags(text: str) -> dict[str, str | None]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        msg = f"a file entry of the log is damaged: its tags are no JSON object ({error})"
        raise LogCorruptionError(msg) from error


# What a scan has done so far, in numbers.


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """The metrics of a scan so far.

    Attributes:
        requests: Requests by kind, bytes and dependent round trips.
        trips_to_first_file: Round trips, one after another, until the first file; None before it. Requests that only
            read ahead do not count.
        files_emitted: Files emitted.
        batches_emitted: Batches emitted.
        commits_read: Commits of which something was read.
        row_groups_read: Row groups of the base of which rows were used.
        row_groups_skipped: Row groups of the base that were passed over.
        entries: What became of the file entries that were met.
        seen_keys: Keys of the tail that are remembered; None before the scan began.
        seen_tier: Where they are: `keys`, `digests` or `disk`.
        fallbacks: How often strict mode tripped and the scan went on.
        version: The version that is read; None before it is known.
        base_version: Version of the base, -1 for the start of the log; None before the scan began.
        is_complete: Whether the scan came to its end, not only to its limit.
    """

    requests: RequestCounts
    trips_to_first_file: int | None
    files_emitted: int
    batches_emitted: int
    commits_read: int
    row_groups_read: int
    row_groups_skipped: int
    entries: EntryCounts
    seen_keys: int | None
    seen_tier: str
    fallbacks: int
    version: int | None
    base_version: int | None
    is_complete: bool
