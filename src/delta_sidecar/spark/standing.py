"""What the log of a table has from a version on: its commits, a checkpoint, a metadata sidecar.

Both count only where a reader would use them: not a checkpoint that is torn, nor a metadata sidecar that lacks a file
or belongs to an earlier table at the same place.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.log.hints import last_checkpoint_version
from delta_sidecar.log.names import LAST_CHECKPOINT, LOG_FOLDER, commit_path, listing_start
from delta_sidecar.log.segment import ListedFile, LogSegmentBuilder
from delta_sidecar.plan import StateMachineIterator, StateMachinePhase, Terminus
from delta_sidecar.replay.bases import Base, TrustContinuation
from delta_sidecar.replay.choice import bases_of

if TYPE_CHECKING:
    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.log.tail import CommitRange
    from delta_sidecar.store import ObjectMeta, Store

_HINT_BYTES = 1 << 20
_MOST_PROBED = 10


@dataclass(frozen=True, slots=True)
class Standing:
    """What there is from a version on.

    Attributes:
        commits: The commits, version after version, up to the newest.
        has_checkpoint: Whether there is a checkpoint of the version or a newer one, and `_last_checkpoint` says so.
        has_sidecar: Whether there is a metadata sidecar of the version or a newer one, with its manifest.
        damage: What is wrong with a checkpoint that is listed and cannot be used; None where there is no such one.
    """

    commits: CommitRange
    has_checkpoint: bool
    has_sidecar: bool
    damage: str | None = None


def standing_from(store: Store, version: int) -> Standing:
    """Looks at a log from a version on: a listing, and of what it shows the manifests and footers.

    A listing that lacks the version is made again in full, and commits that it lacks still are asked for by name.

    Raises:
        StorageError: The store did not do what was asked.
    """
    segment = _listed(store, version)
    bases = [base for base in bases_of(segment) if base.version >= version]
    with closing(LocalExecutor(store)) as executor:

        def faults(tier: int) -> list[str | None]:
            chains = (base.trust(_Verdict(), with_table=False) for base in bases if base.tier == tier)
            return [StateMachineIterator(chain, executor).run_to_terminal() for chain in chains]

        checkpoints, sidecars = faults(3), faults(1)
    has_checkpoint = None in checkpoints and _hinted(store) >= version
    return Standing(segment.commits, has_checkpoint, None in sidecars, next(filter(None, checkpoints), None))


def _listed(store: Store, version: int) -> LogSegment:
    builder = LogSegmentBuilder(complete=False)
    for after in (listing_start(version), None):
        for page in store.list(LOG_FOLDER, after=after):
            builder.add_all(map(_file, page))
        segment = builder.build(builder.latest)
        if version in segment.commits:
            return segment
    for missing in builder.missing(max(builder.latest, version), _MOST_PROBED, version - 1):
        with suppress(ObjectNotFoundError):
            builder.add(_file(store.head(commit_path(missing))))
    return builder.build(builder.latest)


def _file(found: ObjectMeta) -> ListedFile:
    return ListedFile(found.path, found.size, found.last_modified, found.e_tag)


def _hinted(store: Store) -> int:
    try:
        hint = last_checkpoint_version(bytes(store.get(LAST_CHECKPOINT, max_bytes=_HINT_BYTES).data))
    except ObjectNotFoundError:
        return -1
    return -1 if hint is None else hint


@dataclass(frozen=True, slots=True)
class _Verdict(TrustContinuation["str | None"]):
    """Ends with why a base is not trusted; None where it is."""

    def trusted(self, base: Base) -> StateMachinePhase[str | None]:
        del base
        return Terminus(None)

    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[str | None]:
        del base
        return Terminus(str(error))
