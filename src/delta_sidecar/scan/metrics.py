"""What a scan has done so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from delta_sidecar.replay.tally import TallyCounts
    from delta_sidecar.store import RequestCounts


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """What a scan has done so far.

    Attributes:
        requests: Requests by kind, bytes and dependent round trips.
        trips_to_first_file: Round trips, one after another, until the first file; None before it. Requests that only
            read ahead do not count.
        files_emitted: Files given out.
        batches_emitted: Batches given out.
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
    entries: TallyCounts
    seen_keys: int | None
    seen_tier: str
    fallbacks: int
    version: int | None
    base_version: int | None
    is_complete: bool
