"""Everything that a listing of a log shows: a replay passes over most of it, an inspection does not."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from delta_sidecar.health.report import CheckpointReport, HintReport, IncompleteCheckpoint, LogReport
from delta_sidecar.log.names import SIDECAR_FOLDER, LogFileKind, parse_log_name
from delta_sidecar.plan import Consume, ConsumePhase, ListFiles, StateMachinePhase

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.health.report import CheckpointKind
    from delta_sidecar.plan import Plan

T = TypeVar("T")

_MOST_NAMED = 10
_HIGHEST = 2**63 - 1


@dataclass(slots=True)
class LogInventory:
    """Collects a listing, page by page, in numbers."""

    files: int = 0
    bytes: int = 0
    compacted: int = 0
    sidecar_files: int = 0
    sidecar_bytes: int = 0
    _commits: array[int] = field(default_factory=lambda: array("q"))
    _sizes: array[int] = field(default_factory=lambda: array("q"))
    _checksums: array[int] = field(default_factory=lambda: array("q"))
    _checkpoints: list[CheckpointReport] = field(default_factory=list)
    _parts: dict[tuple[int, int], dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def add_all(self, batch: pa.RecordBatch) -> None:
        """Takes a page of the listing."""
        for path, size in zip(batch.column("path").to_pylist(), batch.column("size").to_pylist(), strict=True):
            self.add(path, size)

    def add(self, path: str, size: int) -> None:
        """Takes one listed file."""
        self.files += 1
        self.bytes += size
        if path.startswith(SIDECAR_FOLDER):
            self.sidecar_files += 1
            self.sidecar_bytes += size
            return
        name = parse_log_name(path)
        if name is None or name.version > _HIGHEST:
            return
        if name.kind is LogFileKind.COMMIT:
            self._commits.append(name.version)
            self._sizes.append(size)
        elif name.kind is LogFileKind.CHECKSUM:
            self._checksums.append(name.version)
        elif name.kind is LogFileKind.COMPACTED:
            self.compacted += 1
        elif name.kind is LogFileKind.CHECKPOINT_PART:
            self._parts[name.version, name.parts][name.part] = size
        else:
            kind: CheckpointKind = "classic" if name.kind is LogFileKind.CHECKPOINT else "V2"
            self._checkpoints.append(CheckpointReport(name.version, kind, 1, size))

    @property
    def latest(self) -> int:
        """The newest version with a commit or a complete checkpoint; -1 without any."""
        return max(max(self._commits, default=-1), max((found.version for found in self.checkpoints()), default=-1))

    def checkpoints(self) -> list[CheckpointReport]:
        """The complete checkpoints, newest first."""
        whole = [
            CheckpointReport(version, "multi-part", parts, sum(found.values()))
            for (version, parts), found in self._parts.items()
            if len(found) == parts
        ]
        return sorted([*self._checkpoints, *whole], key=lambda found: (-found.version, found.parts, found.kind))

    def incomplete(self) -> tuple[IncompleteCheckpoint, ...]:
        """The checkpoints with missing parts, newest first."""
        found = [
            IncompleteCheckpoint(version, parts, parts - len(there))
            for (version, parts), there in self._parts.items()
            if len(there) < parts
        ]
        return tuple(sorted(found, key=lambda checkpoint: -checkpoint.version))

    def commits_after(self, version: int, up_to: int) -> tuple[list[int], list[int]]:
        """Versions and sizes of the commits after a version."""
        pairs = sorted(zip(self._commits, self._sizes, strict=True))
        chosen = [pair for pair in pairs if version < pair[0] <= up_to]
        return [at for at, _ in chosen], [size for _, size in chosen]

    def missing(self) -> tuple[tuple[int, ...], int]:
        """The first versions between two commits that have none, and how many there are."""
        if not self._commits:
            return (), 0
        listed = np.unique(np.frombuffer(self._commits, dtype=np.int64))
        steps = np.diff(listed)
        named: list[int] = []
        for place in np.flatnonzero(steps > 1).tolist():
            first = int(listed[place]) + 1
            named += range(first, min(int(listed[place + 1]), first + _MOST_NAMED - len(named)))
            if len(named) >= _MOST_NAMED:
                break
        return tuple(named), int((steps - 1).sum())

    def report(self, hint: tuple[bool, int | None]) -> LogReport:
        """What there is; `hint` says whether `_last_checkpoint` is there, and which version it names."""
        missing, count = self.missing()
        return LogReport(
            files=self.files,
            bytes=self.bytes,
            commits=len(set(self._commits)),
            first_commit=min(self._commits, default=None),
            missing_commits=missing,
            missing_count=count,
            checkpoints=len(self.checkpoints()),
            checksums=len(set(self._checksums)),
            newest_checksum=max(self._checksums, default=None),
            compacted_commits=self.compacted,
            sidecar_files=self.sidecar_files,
            sidecar_bytes=self.sidecar_bytes,
            last_checkpoint=self._hint(*hint),
        )

    def _hint(self, is_there: bool, version: int | None) -> HintReport:  # noqa: FBT001 - a pair taken apart
        versions = [found.version for found in self.checkpoints()]
        if not is_there:
            return HintReport("missing", None)
        if version is None:
            return HintReport("corrupt", None)
        if version not in versions:
            return HintReport("dangling", version)
        return HintReport("stale" if version < max(versions) else "current", version)


def watched(step: StateMachinePhase[T], inventory: LogInventory) -> StateMachinePhase[T]:
    """The same chain, its listings entered into an inventory."""
    return Consume(WatchedPhase(step.phase, inventory)) if isinstance(step, Consume) else step


@dataclass(frozen=True, slots=True)
class WatchedPhase(ConsumePhase[T], Generic[T]):
    """A phase of which an inventory sees the listing, if it makes one."""

    phase: ConsumePhase[T]
    inventory: LogInventory = field(repr=False)

    def plan(self) -> Plan:
        """What that phase reads."""
        return self.phase.plan()

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Goes on as that phase does."""
        is_listing = isinstance(self.phase.plan(), ListFiles)
        return watched(self.phase.next(self._seen(data) if is_listing else data), self.inventory)

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """Recovers as that phase does."""
        step = self.phase.recover(error)
        return None if step is None else watched(step, self.inventory)

    def _seen(self, data: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in data:
            self.inventory.add_all(batch)
            yield batch
