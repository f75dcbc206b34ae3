"""The choice of the base that a replay ends on: the bases of a listed log, and the way down the list.

Bases are tried from the first down. Where one proves unusable the commits up to it join the tail of the next; where
none is left, a log of which only the end was listed is listed again, all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar.errors import CorruptCheckpointError, SidecarError
from delta_sidecar.events import BasePassedOver
from delta_sidecar.plan import run_flow
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER, Base, Torn
from delta_sidecar.replay.bases.checkpoint import CheckpointBase
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.open import NO_HINT, Opening, list_log
from delta_sidecar.replay.request import BaseMark
from delta_sidecar.replay.tail import Tail

if TYPE_CHECKING:
    from delta_sidecar.events import Events
    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.plan import Executor, Flow


def bases_of(segment: LogSegment, *, sidecars: bool = True, manifests: bool = True) -> tuple[Base, ...]:
    """The bases that a listed log offers, in the order in which they are tried.

    The newest metadata sidecar comes first, even where a checkpoint is newer: it is read as its own version, and the
    commits after it are few. Then comes the newest checkpoint.

    Args:
        segment: The listed log.
        sidecars: Whether metadata sidecars count.
        manifests: Whether they are read by their manifests, or only by their footers.
    """
    checkpoints = tuple(CheckpointBase.of(files, segment.sidecars) for files in segment.checkpoints)
    reachable = segment.commits.first - 1
    listed = [each for each in segment.sidecar_bases if sidecars and (manifests or each.tier > 1)]
    found = (SidecarBase.of(segment, each) for each in listed if each.version >= reachable)
    return (*found, *checkpoints)


class BaseChoice(Struct, frozen=True):
    """A listed log, and the bases that its replay can end on."""

    segment: LogSegment  # the listed log
    bases: tuple[Base, ...]  # those that are left, the first to be tried first; what was learned of one stays with it
    unusable: frozenset[str] = frozenset()  # names of those that proved unusable
    sidecars: bool = True  # whether metadata sidecars count
    manifests: bool = True  # whether by their manifests
    # The commits above this version count as the tail even where the first base is newer: a replay went through
    # them before the base was known. None where that is not so.
    reach: int | None = None

    @classmethod
    def of(cls, segment: LogSegment, *, sidecars: bool = True, manifests: bool = True) -> BaseChoice:
        """All that a log offers."""
        bases = bases_of(segment, sidecars=sidecars, manifests=manifests)
        return cls(segment, bases, sidecars=sidecars, manifests=manifests)

    @property
    def base_version(self) -> int:
        """The version of the first base; -1 where replay starts at version 0."""
        return self.bases[0].version if self.bases else -1

    @property
    def tail_base(self) -> int:
        """The version that the tail is above: that of the first base, or less."""
        return self.base_version if self.reach is None else min(self.base_version, self.reach)

    @property
    def mark(self) -> BaseMark:
        """The first base."""
        if not self.bases:
            return BaseMark()
        base = self.bases[0]
        return BaseMark(base.name, base.version, self.tail_base, tuple(sorted(base.identity.items())))

    @property
    def is_sorted(self) -> bool:
        """Whether the first base is a metadata sidecar, whose files are in order."""
        return bool(self.bases) and isinstance(self.bases[0], SidecarBase)

    @property
    def is_open(self) -> bool:
        """Whether there is something to end on: a base, or the start of the log."""
        return bool(self.bases) or self.segment.from_start

    def tail(self, up_to: int | None = None) -> Tail:
        """The commits after the first base, newest first; only those up to a version where one is given."""
        newest = self.segment.version
        return Tail(self.segment.commits, newest if up_to is None else min(newest, up_to), self.tail_base)

    def learned(self, base: Base) -> BaseChoice:
        """Keeps what was learned of the first base."""
        return replace(self, bases=(base, *self.bases[1:]))

    def without(self, base: Base) -> BaseChoice:
        """Leaves a base out, and those that are made of the same files."""
        unusable = {base.name, *base.others}
        left = tuple(other for other in self.bases if other.name not in unusable)
        return replace(self, bases=left, unusable=self.unusable | unusable)

    def down_from(self, name: str) -> BaseChoice | None:
        """Begins with the base of a name; None where there is none."""
        names = [base.name for base in self.bases]
        return replace(self, bases=self.bases[names.index(name) :]) if name in names else None

    def reaching(self, version: int) -> BaseChoice | None:
        """Takes the commits above a version for the tail; None where there is a gap in them."""
        return replace(self, reach=version) if self.segment.commits.first <= version + 1 else None

    def from_start(self) -> BaseChoice | None:
        """Does without bases; None where the log does not reach down to version 0."""
        return replace(self, bases=()) if self.segment.from_start else None

    def listed(self, segment: LogSegment) -> BaseChoice:
        """Takes the bases of another listing of the same log."""
        offered = bases_of(segment, sidecars=self.sidecars, manifests=self.manifests)
        offered = tuple(base for base in offered if base.name not in self.unusable)
        return replace(self, segment=segment, bases=offered)


def passed_over(table: str, choice: BaseChoice, error: Exception, events: Events) -> Flow[BaseChoice]:
    """The bases that are left where the first one proved unusable.

    Where none is left, a log of which only the end was listed is listed again, all of it.

    Raises:
        CorruptCheckpointError: There is none.
    """
    base = choice.bases[0]
    code = error.code if isinstance(error, SidecarError) else "damaged"
    reason, version, tier = str(error), base.version, base.tier
    events(BasePassedOver(table=table, base=base.name, version=version, tier=tier, reason=reason, code=code))
    left = choice.without(base)
    if left.is_open:
        return left
    msg = (
        f"{table} cannot be read: {base.name} cannot be used ({error}), and the log before it has been "
        f"cleaned up. Restore the file, or write a new checkpoint with the table's writer."
    )
    failure = CorruptCheckpointError(msg)
    # Commits that a listing skipped were not asked for by name where a metadata sidecar seemed to make up for them.
    if left.segment.complete and base.tier == CHECKPOINT_TIER:
        raise failure from error
    whole = Opening(table, left.segment.version, sidecars=left.sidecars, hint=NO_HINT)
    segment = yield from list_log(whole, excluded=left.unusable, otherwise=failure)
    return left.listed(segment)


def trusted_choice(table: str, choice: BaseChoice, events: Events) -> Flow[BaseChoice]:
    """The bases from the first one down that can be trusted."""
    while choice.bases:
        try:
            base = yield from choice.bases[0].trust(with_table=False)
        except Torn as torn:
            choice = yield from passed_over(table, choice, torn.reason, events)
        else:
            return choice.learned(base)
    return choice


def distrust(base: Base, executor: Executor) -> str | None:
    """Why a base cannot be trusted; None where it can."""
    try:
        run_flow(base.trust(with_table=False), executor)
    except Torn as torn:
        return str(torn.reason)
    return None
