"""What the log of a table has from a version on: its commits, a checkpoint, a metadata sidecar.

Both count only where a reader would use them: a checkpoint that is torn, or a metadata sidecar that lacks a file or
belongs to an earlier table at the same place, is as good as none.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.log.hints import last_checkpoint_version
from delta_sidecar.log.names import LAST_CHECKPOINT, LOG_FOLDER, listing_start
from delta_sidecar.log.segment import ListedFile, LogSegmentBuilder
from delta_sidecar.plan import StateMachineIterator, StateMachinePhase, Terminus
from delta_sidecar.replay.bases import Base, TrustContinuation
from delta_sidecar.replay.choice import bases_of

if TYPE_CHECKING:
    from delta_sidecar.log.tail import CommitRange
    from delta_sidecar.store import Store

_HINT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Standing:
    """What there is from a version on.

    Attributes:
        commits: The commits, version after version, up to the newest.
        has_checkpoint: Whether there is a checkpoint of the version or a newer one, and `_last_checkpoint` says so.
        has_sidecar: Whether there is a metadata sidecar of the version or a newer one, with its manifest.
    """

    commits: CommitRange
    has_checkpoint: bool
    has_sidecar: bool


def standing_from(store: Store, version: int) -> Standing:
    """Looks at a log from a version on: one listing, and of what it shows the manifests and footers.

    Raises:
        StorageError: The store did not do what was asked.
    """
    builder = LogSegmentBuilder(complete=False)
    for page in store.list(LOG_FOLDER, after=listing_start(version)):
        builder.add_all(ListedFile(found.path, found.size, found.last_modified, found.e_tag) for found in page)
    segment = builder.build(builder.latest)
    bases = [base for base in bases_of(segment) if base.version >= version]
    with closing(LocalExecutor(store)) as executor:

        def has(tier: int) -> bool:
            chains = (base.trust(_Verdict(), with_table=False) for base in bases if base.tier == tier)
            return any(StateMachineIterator(chain, executor).run_to_terminal() for chain in chains)

        has_checkpoint = _hinted(store) >= version and has(3)
        return Standing(segment.commits, has_checkpoint, has(1))


def _hinted(store: Store) -> int:
    try:
        hint = last_checkpoint_version(bytes(store.get(LAST_CHECKPOINT, max_bytes=_HINT_BYTES).data))
    except ObjectNotFoundError:
        return -1
    return -1 if hint is None else hint


@dataclass(frozen=True, slots=True)
class _Verdict(TrustContinuation[bool]):
    """Ends with whether a base is trusted."""

    def trusted(self, base: Base) -> StateMachinePhase[bool]:
        del base
        return Terminus(True)  # noqa: FBT003 - the answer itself

    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[bool]:
        del base, error
        return Terminus(False)  # noqa: FBT003 - as above
