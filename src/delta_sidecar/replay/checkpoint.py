"""Checkpoints as a base.

    trust:   CheckpointTopPhase -> (CheckpointLeavesPhase)
    replay:  CheckpointReplayPhase..., or NewestFilesPhase -> FoundFilesPhase...

The top is read for what is not about files: the names of V2-checkpoint sidecars and, where they are asked for, protocol
and metadata. Before the first row is used the footers of all files must parse, and be those of a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import (
    ObjectNotFoundError,
    ObjectTruncatedError,
    PageTokenExpiredError,
    SidecarError,
    StorageError,
    UnreadableFileError,
)
from delta_sidecar.log.actions import TOP_SCHEMA, Metadata, Protocol, line_action
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER
from delta_sidecar.plan import (
    LINE,
    Consume,
    ConsumePhase,
    FileRef,
    Given,
    PartialResult,
    PartialResultPhase,
    Plan,
    ScanJson,
    ScanParquet,
    StateMachinePhase,
)
from delta_sidecar.replay.bases import Base, Reading, ReplayContinuation, TrustContinuation
from delta_sidecar.replay.checkpoint_content import CheckpointContent
from delta_sidecar.replay.checkpoint_rows import BaseRows, base_plan
from delta_sidecar.replay.checkpoint_summary import CheckpointSummaryPhase
from delta_sidecar.replay.failures import raise_base_failure, raise_unreachable
from delta_sidecar.replay.files import struct_fields
from delta_sidecar.replay.recent import NewestFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from delta_sidecar.log.segment import CheckpointFiles, ListedFile
    from delta_sidecar.plan import Place
    from delta_sidecar.replay.base_summary import BaseSummary
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.recent import Recent

T = TypeVar("T")

_TABLE_ACTIONS = 2
_FEW_FILES = 10
_TELLING = {"protocol": ("minReaderVersion",), "metaData": ("id", "schemaString")}


@dataclass(frozen=True, slots=True)
class CheckpointBase(Base):
    """A checkpoint.

    Attributes:
        files: Its own files: the parts, or the one top file.
        sidecars: The listed files of the folder of V2-checkpoint sidecars, by name.
        leaves: The files that may have `add` rows, V2-checkpoint sidecars too; None before it is trusted.
    """

    files: tuple[FileRef, ...] = field(repr=False)
    sidecars: Mapping[str, ListedFile] = field(repr=False)
    leaves: tuple[FileRef, ...] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, listed: CheckpointFiles, sidecars: Mapping[str, ListedFile]) -> CheckpointBase:
        """Makes one of what a listing shows."""
        files = tuple(FileRef(file.path, file.size, e_tag=file.e_tag) for file in listed.files)
        return cls(listed.version, listed.name, files, sidecars, nbytes=sum(file.size for file in listed.files))

    @property
    def identity(self) -> Mapping[str, str]:
        """The e_tags, or else the sizes, of its own files; those name the V2-checkpoint sidecars."""
        return {file.path.removeprefix(LOG_FOLDER): file.e_tag or f"{file.size} bytes" for file in self.files}

    def footers(self) -> tuple[FileRef, ...]:
        """Those of its own files, unless they have been read."""
        tables = tuple(file for file in self.files if not file.path.endswith(".json"))
        return tables if self.leaves is None and len(tables) <= _FEW_FILES else ()

    def trust(
        self, then: TrustContinuation[T], *, with_table: bool, ahead: tuple[FileRef, ...] = ()
    ) -> StateMachinePhase[T]:
        """Reads its top, unless that was done and told what is asked for."""
        del ahead
        if self.leaves is None or (with_table and self.metadata is None):
            return Consume(CheckpointTopPhase(self, then, with_table=with_table))
        return then.trusted(self)

    def summary(
        self, table: str, pruning: Pruning | None, without: frozenset[str] = frozenset()
    ) -> StateMachinePhase[BaseSummary]:
        """By its footers, which were read before."""
        del pruning, without
        return Consume(CheckpointSummaryPhase(table, self.name, self.version, self.leaves or self.files))

    def replay(self, reading: Reading, then: ReplayContinuation[T]) -> StateMachinePhase[T]:
        """Goes through its leaves, those in JSON first."""
        if self.leaves is None:
            msg = f"{self.name} is not trusted yet: replay what `trust` gives"
            raise RuntimeError(msg)
        texts = tuple(leaf for leaf in self.leaves if leaf.path.endswith(".json"))
        tables = tuple(leaf for leaf in self.leaves if not leaf.path.endswith(".json"))
        parts = tuple(part for part in (texts, tables) if part)
        if reading.recent is not None:
            return Consume(NewestFilesPhase(reading, parts, parts, NewestFiles(reading.recent), then))
        if reading.start is not None:
            parts = _from(parts, reading.start)
        return PartialResult(CheckpointReplayPhase(reading, parts, then))


@dataclass(frozen=True, slots=True)
class CheckpointTopPhase(ConsumePhase[T]):
    """Reads the footers of a checkpoint's files and, of its rows, what is not about files.

    Attributes:
        base: The checkpoint.
        then: What goes on.
        with_table: Whether protocol and metadata are wanted too.
    """

    base: CheckpointBase
    then: TrustContinuation[T]
    with_table: bool

    def plan(self) -> ScanJson | ScanParquet:
        """The row groups with such rows, and only these columns; the footers of all files."""
        if self._is_json:
            return ScanJson(self.base.files, TOP_SCHEMA, lines_with=(b"",), keep=True)
        columns: tuple[str, ...] = ("sidecar.path", "sidecar.sizeInBytes")
        non_null: tuple[str, ...] = ("sidecar.path",)
        if self.with_table:
            columns += ("protocol", "metaData")
            non_null += ("protocol.minReaderVersion", "metaData.id", "metaData.schemaString")
        content = CheckpointContent(has_top=True)
        return ScanParquet(self.base.files, columns, non_null=non_null, check=True, content=content)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Collects what is there."""
        found: dict[str, Any] = {}
        sidecars: list[FileRef] = []
        with_table = self.with_table or self._is_json
        for batch in data:
            for name in ("protocol", "metaData"):
                action = self._action(batch, name) if with_table else None
                if action is not None:
                    found[name] = action
            if "sidecar" in batch.schema.names:
                sidecars += self._sidecars(batch.column("sidecar"))
        if with_table and len(found) < _TABLE_ACTIONS:
            missing = "protocol" if "protocol" not in found else "metaData"
            error = UnreadableFileError(f"{self._source}: it has no {missing}", self._source)
            return self.then.distrusted(self.base, error)
        base = replace(
            self.base,
            leaves=(*self.base.files, *sidecars),
            protocol=Protocol.from_action(found["protocol"], self._source) if "protocol" in found else None,
            metadata=Metadata.from_action(found["metaData"], self._source) if "metaData" in found else None,
        )
        if not sidecars:
            return self.then.trusted(base)
        return Consume(CheckpointLeavesPhase(base, tuple(sidecars), self.then))

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """A torn checkpoint is no base; the store being out of reach is another matter."""
        return _distrusted_if_torn(self.base, error, self.then)

    @property
    def _source(self) -> str:
        return self.base.files[0].path

    @property
    def _is_json(self) -> bool:
        return self._source.endswith(".json")

    def _action(self, batch: pa.RecordBatch, name: str) -> object:
        if name not in batch.schema.names:
            return None
        column = batch.column(name)
        # Some writers give every row a struct, with nothing in it: a field tells.
        fields = struct_fields(column)
        told = [valid_mask(fields[field]) for field in _TELLING[name] if field in fields]
        if not told or not np.logical_or.reduce(told).any():
            return None
        rows = np.flatnonzero(np.logical_or.reduce(told))
        if self._is_json:
            return line_action(batch.column(LINE)[int(rows[-1])].as_py(), name, self._source)
        return column[int(rows[-1])].as_py()

    def _sidecars(self, column: pa.StructArray) -> list[FileRef]:
        refs = []
        for row in column.drop_null().to_pylist():
            if row.get("path") is None:
                continue
            # The protocol keeps these files in one folder, so that only the name counts, whatever else is in front.
            name = unquote(row["path"]).rpartition("/")[2]
            listed = self.base.sidecars.get(name)
            size, e_tag = (row.get("sizeInBytes"), None) if listed is None else (listed.size, listed.e_tag)
            refs.append(FileRef(f"{SIDECAR_FOLDER}{name}", size, e_tag=e_tag))
        return refs


@dataclass(frozen=True, slots=True)
class CheckpointLeavesPhase(ConsumePhase[T]):
    """Reads the footers of the V2-checkpoint sidecars that a checkpoint names."""

    base: CheckpointBase
    sidecars: tuple[FileRef, ...]
    then: TrustContinuation[T]

    def plan(self) -> ScanParquet:
        """Footers only."""
        return ScanParquet(self.sidecars, (), check=True, content=CheckpointContent(has_top=False))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """They all parse."""
        for _ in data:
            pass
        return self.then.trusted(self.base)

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """A checkpoint without one of its files is no base."""
        return _distrusted_if_torn(self.base, error, self.then)


@dataclass(frozen=True, slots=True)
class CheckpointReplayPhase(PartialResultPhase[T]):
    """Lets the live files of a checkpoint through. The seen-set does not change any more."""

    reading: Reading
    parts: tuple[tuple[FileRef, ...], ...]
    then: ReplayContinuation[T] = field(repr=False)

    def plan(self) -> Plan:
        """The first kind of files that is left."""
        start = self.reading.start
        first = start.part if start is not None and self.parts[0][0].path == start.path else 0
        return self.reading.rest(base_plan(self.parts[0], _rows(self.reading), start=first))

    def is_parallelizable(self) -> bool:
        """Yes."""
        return True

    def next(self) -> StateMachinePhase[T]:
        """The other kind of files, or what comes after the base."""
        if len(self.parts) > 1:
            return PartialResult(replace(self, parts=self.parts[1:]))
        return self.then.replayed()

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """Rows of it may have been given out: the scan fails, and the error names the file."""
        raise_base_failure(self.reading.table, error)
        return None


@dataclass(frozen=True, slots=True)
class NewestFilesPhase(ConsumePhase[T]):
    """Looks for the newest live files of a checkpoint, and lets them through in order; then for those after them.

    Attributes:
        reading: What is wanted.
        parts: The checkpoint's files, by kind.
        left: Those that have not been looked through yet.
        newest: Keeps what was found so far.
        then: What goes on.
    """

    reading: Reading
    parts: tuple[tuple[FileRef, ...], ...]
    left: tuple[tuple[FileRef, ...], ...]
    newest: NewestFiles = field(repr=False)
    then: ReplayContinuation[T] = field(repr=False)

    def plan(self) -> Plan:
        """The first kind of files that is left."""
        return self.reading.rest(base_plan(self.left[0], _rows(self.reading), self.newest))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Keeps the newest; after the last kind of files they are let through."""
        for batch in data:
            self.newest.add(batch)
        if len(self.left) > 1:
            return Consume(replace(self, left=self.left[1:]))
        found = self.newest.take()
        if found is None:
            return self.then.replayed()
        recent = self.newest.recent
        after = replace(recent, after=recent.key(found, found.num_rows - 1)) if self.newest.is_cut else None
        return PartialResult(FoundFilesPhase(found, after, self))

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """Files of it may have been given out: the scan fails, and the error names the file."""
        raise_base_failure(self.reading.table, error)
        return None


@dataclass(frozen=True, slots=True)
class FoundFilesPhase(PartialResultPhase[T]):
    """Lets files through that were found before, and looks for those after them if there are any."""

    found: pa.RecordBatch = field(repr=False)
    after: Recent | None
    search: NewestFilesPhase[T] = field(repr=False)

    def plan(self) -> Given:
        """The files."""
        return Given((self.found,))

    def is_parallelizable(self) -> bool:
        """No: they are in order."""
        return False

    def next(self) -> StateMachinePhase[T]:
        """Another search, or what comes after the base."""
        if self.after is None:
            return self.search.then.replayed()
        return Consume(replace(self.search, left=self.search.parts, newest=NewestFiles(self.after)))


def is_torn(error: Exception) -> bool:
    """Whether a file is absent, cut short or not what it should be, rather than out of reach."""
    if not isinstance(error, UnreadableFileError):
        return False
    cause = error.__cause__
    torn = ObjectNotFoundError | ObjectTruncatedError | SidecarError | pa.ArrowException
    if cause is None or isinstance(cause, torn):
        return True
    return isinstance(cause, OSError) and not isinstance(cause, StorageError)


def _distrusted_if_torn(base: Base, error: Exception, then: TrustContinuation[T]) -> StateMachinePhase[T] | None:
    if is_torn(error):
        return then.distrusted(base, error)
    raise_unreachable("the checkpoint", error)
    return None


def _rows(reading: Reading) -> BaseRows:
    return BaseRows(reading.seen, reading.columns, reading.pruning, tally=reading.tally)


def _from(parts: tuple[tuple[FileRef, ...], ...], start: Place) -> tuple[tuple[FileRef, ...], ...]:
    """What is left of the files of a checkpoint from a place on."""
    for number, part in enumerate(parts):
        for at, file in enumerate(part):
            if file.path == start.path:
                return (part[at:], *parts[number + 1 :])
    msg = (
        f"the page token points into {start.path}, which is no part of the checkpoint any more: begin at the first page"
    )
    raise PageTokenExpiredError(msg)
