"""A base that is no checkpoint: a text file with its version, and beside it row groups of files, sorted by path.

A row group is given out whole or not at all. Where one cannot be read, the base says how far it came.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from tests.replay.handmade import METADATA, PROTOCOL, read

from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.identity import file_keys
from delta_sidecar.plan import (
    Consume,
    ConsumePhase,
    FileRef,
    Filter,
    PartialResult,
    PartialResultPhase,
    Plan,
    ReadFiles,
    ScanParquet,
)
from delta_sidecar.replay.bases.base import Base, Reading, ReplayContinuation, TrustContinuation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.plan import StateMachinePhase


@dataclass(frozen=True, slots=True)
class PlainBase(Base):
    """A base that knows the last path of each of its row groups."""

    last_paths: tuple[str, ...]
    is_trusted: bool = False

    @property
    def identity(self) -> dict[str, str]:
        return {self.name: "plain"}

    def trust(
        self, then: TrustContinuation[Any], *, with_table: bool, ahead: tuple[FileRef, ...] = ()
    ) -> StateMachinePhase[Any]:
        del ahead
        if self.is_trusted and (self.metadata is not None or not with_table):
            return then.trusted(self)
        return Consume(PlainTrustPhase(self, then, with_table))

    def replay(self, reading: Reading, then: ReplayContinuation[Any]) -> StateMachinePhase[Any]:
        assert self.is_trusted
        return PartialResult(PlainReplayPhase(self, reading, then, 0)) if self.last_paths else then.replayed()


@dataclass(frozen=True, slots=True)
class PlainTrustPhase(ConsumePhase[Any]):
    base: PlainBase
    then: TrustContinuation[Any]
    with_table: bool

    def plan(self) -> ReadFiles:
        return ReadFiles((f"{self.base.name}.txt",))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Any]:
        said = [batch.column("data")[0].as_py() for batch in data]
        if said != [b"%d" % self.base.version]:
            return self.then.distrusted(self.base, ValueError(f"it says {said}"))
        if not self.with_table:
            return self.then.trusted(replace(self.base, is_trusted=True))
        protocol = Protocol.from_action(PROTOCOL["protocol"], "plain")
        metadata = Metadata.from_action(METADATA["metaData"], "plain")
        return self.then.trusted(replace(self.base, is_trusted=True, protocol=protocol, metadata=metadata))


@dataclass(frozen=True, slots=True)
class PlainReplayPhase(PartialResultPhase[Any]):
    base: PlainBase
    reading: Reading
    then: ReplayContinuation[Any] = field(repr=False)
    group: int

    def plan(self) -> Plan:
        source = ScanParquet((FileRef(f"{self.base.name}.rows", label=self.group),), ("path", "size"))
        return self.reading.rest(Filter(source, self.rows))

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        left = batch.filter(pa.array(~self.reading.seen.contains(file_keys({"path": batch.column("path")}))))
        return self.reading.columns.batch({name: left.column(name) for name in ("path", "size")}, left.num_rows)

    def is_parallelizable(self) -> bool:
        return True

    def next(self) -> StateMachinePhase[Any]:
        if self.group + 1 < len(self.base.last_paths):
            return PartialResult(replace(self, group=self.group + 1))
        return self.then.replayed()

    def recover(self, error: Exception) -> StateMachinePhase[Any] | None:
        return self.then.broken(self.base, error, UpTo(self.base.last_paths[self.group - 1] if self.group else ""))


@dataclass(frozen=True, slots=True)
class UpTo:
    """Tells which files sort up to a path."""

    path: str

    def __call__(self, files: pa.RecordBatch) -> NDArray[np.bool_]:
        return np.array([path <= self.path for path in files.column("raw_path").to_pylist()], dtype=np.bool_)


def row_groups(files: Mapping[str, int], rows: int = 2) -> list[dict[str, int]]:
    """Cuts the files of a state, path and size, into row groups."""
    ordered = sorted(files.items())
    return [dict(ordered[start : start + rows]) for start in range(0, len(ordered), rows)]


def plain_base(version: int, groups: Sequence[Mapping[str, int]], name: str = "plain") -> PlainBase:
    return PlainBase(version, name, tuple(max(group) for group in groups))


def plain_answer(
    plan: ReadFiles | ScanParquet, version: int | None, groups: Sequence[Mapping[str, int] | Exception]
) -> list[pa.RecordBatch] | Exception:
    """Gives the answer to a plan of a `PlainBase`; without a version its text is absent."""
    if isinstance(plan, ReadFiles):
        return [] if version is None else read({plan.paths[0]: b"%d" % version})
    group = groups[plan.files[0].label]
    if isinstance(group, Exception):
        return group
    return [pa.RecordBatch.from_pydict({"path": list(group), "size": list(group.values())})]
