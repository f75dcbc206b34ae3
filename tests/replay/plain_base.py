"""A base that is no checkpoint: a text file with its version, and beside it a table with a path in each row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.replay.handmade import METADATA, PROTOCOL, read

from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.keys import file_keys
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
from delta_sidecar.replay.bases import Base, Reading, ReplayContinuation, TrustContinuation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.plan import StateMachinePhase


@dataclass(frozen=True, slots=True)
class PlainBase(Base):
    is_trusted: bool = False

    def trust(self, then: TrustContinuation[Any], *, with_table: bool) -> StateMachinePhase[Any]:
        if self.is_trusted and (self.metadata is not None or not with_table):
            return then.trusted(self)
        return Consume(PlainTrustPhase(self, then, with_table))

    def replay(self, reading: Reading, then: ReplayContinuation[Any]) -> StateMachinePhase[Any]:
        assert self.is_trusted
        return PartialResult(PlainReplayPhase(self, reading, then))


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

    def plan(self) -> Plan:
        return Filter(ScanParquet((FileRef(f"{self.base.name}.rows"),), ("path",)), self.rows)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        left = batch.filter(pa.array(~self.reading.seen.contains(file_keys({"path": batch.column("path")}))))
        return self.reading.columns.batch({"path": left.column("path")}, left.num_rows)

    def is_parallelizable(self) -> bool:
        return True

    def next(self) -> StateMachinePhase[Any]:
        return self.then.replayed()


def plain_answer(plan: ReadFiles | ScanParquet, version: int | None, rows: list[list[str]]) -> list[pa.RecordBatch]:
    """Gives the answer to a plan of a `PlainBase`; without a version its text is absent."""
    if isinstance(plan, ReadFiles):
        return [] if version is None else read({plan.paths[0]: b"%d" % version})
    return [pa.RecordBatch.from_pydict({"path": pa.array(paths)}) for paths in rows]
