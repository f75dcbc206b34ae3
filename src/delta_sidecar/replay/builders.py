"""Builders: how a caller with an executor of their own opens a snapshot and scans it.

snapshot = Snapshot.builder(url).at_version(7).build().run_to_terminal(executor)
scan = snapshot.scan_builder().with_predicate("hour = 3").with_columns(["path", "size"]).build()
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from delta_sidecar.plan import StateMachinePhase
from delta_sidecar.predicate import parse
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.replay.request import ScanRequest
from delta_sidecar.replay.scan import Scan, scan
from delta_sidecar.replay.snapshot import Snapshot, open_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.open import Opening


@dataclass(frozen=True, slots=True)
class SnapshotBuilder:
    """Says which version of a table is opened, and how."""

    opening: Opening

    def at_version(self, version: int | None) -> SnapshotBuilder:
        """Opens a version; None for the newest."""
        return replace(self, opening=replace(self.opening, version=version))

    def with_sidecars(self, *, enabled: bool) -> SnapshotBuilder:
        """Says whether metadata sidecars count as bases; they do by default."""
        return replace(self, opening=replace(self.opening, sidecars=enabled))

    def build(self) -> StateMachinePhase[Snapshot]:
        """The first phase of opening it; nothing is read yet."""
        return StateMachinePhase(open_snapshot(self.opening))


@dataclass(frozen=True, slots=True)
class ScanBuilder:
    """Says which files of a snapshot are wanted, and what of them."""

    snapshot: Snapshot
    predicate: Predicate | None = None
    columns: tuple[str, ...] = tuple(FILE_SCHEMA.names)
    limit: int | None = None
    forward: bool = False

    def with_predicate(self, predicate: Any) -> ScanBuilder:  # noqa: ANN401 - every notation of a predicate
        """Only files that may hold a matching row: SQL text, DNF tuples or a mapping; None for all."""
        return replace(self, predicate=None if predicate is None else parse(predicate))

    def with_columns(self, columns: Sequence[str]) -> ScanBuilder:
        """Only these columns of a batch of files; the others come as nulls."""
        return replace(self, columns=tuple(columns))

    def with_limit(self, limit: int | None) -> ScanBuilder:
        """About how many files are wanted: no more of the log is asked for than is likely to hold them."""
        return replace(self, limit=limit)

    def oldest_first(self, *, forward: bool = True) -> ScanBuilder:
        """Begins with the base, then the commits after it; by default it is the other way round."""
        return replace(self, forward=forward)

    def build(self) -> StateMachinePhase[Scan]:
        """The first phase of the scan; nothing is read yet.

        Raises:
            PredicateError: The predicate names an unknown column, or compares one with a value of another type.
        """
        request = ScanRequest.bind(self.snapshot.table, self.snapshot.columns, self.predicate, self.columns)
        return StateMachinePhase(scan(self.snapshot, replace(request, limit=self.limit, forward=self.forward)))
