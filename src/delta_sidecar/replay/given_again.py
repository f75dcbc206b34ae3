"""Which files a metadata sidecar let through on an earlier page, before it broke off: read again from the sidecar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.errors import PageTokenExpiredError, SidecarError
from delta_sidecar.plan import StateMachinePhase, Terminus
from delta_sidecar.replay.bases import Base, Reading, ReplayContinuation, TrustContinuation
from delta_sidecar.replay.files import FileColumns
from delta_sidecar.replay.listed_sidecars import ListedSidecar
from delta_sidecar.replay.pruning import bind_predicate
from delta_sidecar.replay.seen import SeenSet
from delta_sidecar.replay.sidecar import SidecarBase
from delta_sidecar.replay.sidecar_breaks import note_given
from delta_sidecar.replay.sidecar_course import Course
from delta_sidecar.sidecar.names import manifest_name, sidecar_name

if TYPE_CHECKING:
    from delta_sidecar.plan.nodes import RowTest
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.given_files import BrokenOff
    from delta_sidecar.replay.snapshot import Snapshot


def given_again(snapshot: Snapshot, where: BrokenOff, predicate: Predicate | None) -> StateMachinePhase[RowTest]:
    """The start of a chain that ends in a test of which files those are.

    Args:
        snapshot: The table.
        where: Where the sidecar broke off.
        predicate: Which files were wanted.

    Raises:
        PageTokenExpiredError: The sidecar is gone, or another one.
    """
    tiers = {manifest_name(where.version): 1, sidecar_name(where.version): 2}
    segment = snapshot.choice.segment
    if where.base not in tiers or where.base not in segment.sidecars:
        raise _gone(snapshot.table, where.base, "it is gone")
    base = SidecarBase.of(ListedSidecar(where.version, tiers[where.base]), segment)
    if where.identity not in base.identity.values():
        raise _gone(snapshot.table, where.base, "it was replaced")
    return base.trust(_Again(snapshot, where, predicate), with_table=False)


@dataclass(frozen=True, slots=True)
class _Again(TrustContinuation["RowTest"], ReplayContinuation["RowTest"]):
    snapshot: Snapshot
    where: BrokenOff
    predicate: Predicate | None

    def trusted(self, base: Base) -> StateMachinePhase[RowTest]:
        if not isinstance(base, SidecarBase) or base.layout is None:
            raise _gone(self.snapshot.table, base.name, "it is no metadata sidecar")
        pruning = bind_predicate(self.snapshot.columns, self.predicate)
        where = self.where
        reading = Reading(self.snapshot.table, SeenSet(), FileColumns(()), pruning, where.forward, recent=where.recent)
        error = SidecarError("it broke off on an earlier page")
        course = Course.of(base, base.layout, reading, self)
        return note_given(course, self.where.index, error, of_segment=self.where.of_segment)

    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[RowTest]:
        raise _gone(self.snapshot.table, base.name, str(error)) from error

    def replayed(self) -> StateMachinePhase[RowTest]:
        raise _gone(self.snapshot.table, self.where.base, "it did not break off")

    def broken(self, base: Base, error: Exception, decided: RowTest) -> StateMachinePhase[RowTest]:
        del base, error
        return Terminus(decided)


def _gone(table: str, base: str, reason: str) -> PageTokenExpiredError:
    msg = (
        f"{table}: {base}, which files of earlier pages came from, cannot be read again ({reason}): begin at the first "
        f"page"
    )
    return PageTokenExpiredError(msg)
