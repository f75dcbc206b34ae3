"""Bases: what a replay can end on.

A base has a version. It must be trusted before its first row is used, which takes reading: `CheckpointTopPhase` does
it. The bases of a log are tried from the newest down; where one proves unusable the commits up to it join the tail of
the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import ObjectNotFoundError, ObjectTruncatedError, StorageError, UnreadableFileError
from delta_sidecar.log.actions import TOP_SCHEMA, Metadata, Protocol, line_action
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.plan import (
    LINE,
    Consume,
    ConsumePhase,
    FileRef,
    ScanJson,
    ScanParquet,
    StateMachinePhase,
)
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.files import struct_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.log.segment import CheckpointFiles, LogSegment

T = TypeVar("T")

_TABLE_ACTIONS = 2
_TELLING = {"protocol": ("minReaderVersion",), "metaData": ("id", "schemaString")}


@dataclass(frozen=True, slots=True)
class TrustedCheckpoint:
    """A checkpoint whose files are all there and have a footer.

    Attributes:
        files: The checkpoint.
        leaves: The files with its `add` rows: its parts, its V2-checkpoint sidecars, or the top file itself.
        protocol: The protocol in it, where it was asked for.
        metadata: The metadata in it, where it was asked for.
    """

    files: CheckpointFiles
    leaves: tuple[FileRef, ...]
    protocol: Protocol | None = None
    metadata: Metadata | None = None

    @property
    def version(self) -> int:
        """The version whose state it holds."""
        return self.files.version


class BaseContinuation(ABC, Generic[T]):
    """What goes on once a base is, or is not, trusted."""

    @abstractmethod
    def trusted(self, base: TrustedCheckpoint) -> StateMachinePhase[T]:
        """Goes on with a base."""

    @abstractmethod
    def distrusted(self, files: CheckpointFiles, error: Exception) -> StateMachinePhase[T]:
        """Goes on without it."""


@dataclass(frozen=True, slots=True)
class CheckpointTopPhase(ConsumePhase[T]):
    """Reads the footers of a checkpoint's files and, of its rows, what is not about files.

    Attributes:
        segment: The listed log.
        files: The checkpoint.
        then: What goes on.
        with_table: Whether protocol and metadata are wanted too.
    """

    segment: LogSegment
    files: CheckpointFiles
    then: BaseContinuation[T]
    with_table: bool

    def plan(self) -> ScanJson | ScanParquet:
        """The row groups with such rows, and only these columns; the footers of all files."""
        refs = tuple(FileRef(path, size) for path, size in self.files.files)
        if self._is_json:
            return ScanJson(refs, TOP_SCHEMA, lines_with=(b"",), keep=True)
        columns: tuple[str, ...] = ("sidecar.path", "sidecar.sizeInBytes")
        non_null: tuple[str, ...] = ("sidecar.path",)
        if self.with_table:
            columns += ("protocol", "metaData")
            non_null += ("protocol.minReaderVersion", "metaData.id", "metaData.schemaString")
        return ScanParquet(refs, columns, non_null=non_null, check=True)

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
        source = self.files.files[0][0]
        if with_table and len(found) < _TABLE_ACTIONS:
            missing = "protocol" if "protocol" not in found else "metaData"
            return self.then.distrusted(self.files, UnreadableFileError(f"{source}: it has no {missing}", source))
        own = tuple(FileRef(path, size) for path, size in self.files.files)
        trusted = TrustedCheckpoint(
            files=self.files,
            leaves=(*own, *sidecars),
            protocol=Protocol.from_action(found["protocol"], source) if "protocol" in found else None,
            metadata=Metadata.from_action(found["metaData"], source) if "metaData" in found else None,
        )
        if not sidecars:
            return self.then.trusted(trusted)
        return Consume(CheckpointLeavesPhase(trusted, tuple(sidecars), self.then))

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """A torn checkpoint is no base; the store being out of reach is another matter."""
        if is_torn(error):
            return self.then.distrusted(self.files, error)
        raise_unreachable(error)
        return None

    @property
    def _is_json(self) -> bool:
        return self.files.name.endswith(".json")

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
            return line_action(batch.column(LINE)[int(rows[-1])].as_py(), name, self.files.files[0][0])
        return column[int(rows[-1])].as_py()

    def _sidecars(self, column: pa.StructArray) -> list[FileRef]:
        refs = []
        for row in column.drop_null().to_pylist():
            if row.get("path") is None:
                continue
            # The protocol keeps these files in one folder, so that only the name counts, whatever else is in front.
            name = unquote(row["path"]).rpartition("/")[2]
            size = self.segment.sidecar_sizes.get(name, row.get("sizeInBytes"))
            refs.append(FileRef(f"{SIDECAR_FOLDER}{name}", size))
        return refs


@dataclass(frozen=True, slots=True)
class CheckpointLeavesPhase(ConsumePhase[T]):
    """Reads the footers of the V2-checkpoint sidecars that a checkpoint names."""

    checkpoint: TrustedCheckpoint
    sidecars: tuple[FileRef, ...]
    then: BaseContinuation[T]

    def plan(self) -> ScanParquet:
        """Footers only."""
        return ScanParquet(self.sidecars, (), check=True)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """They all parse."""
        for _ in data:
            pass
        return self.then.trusted(self.checkpoint)

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """A checkpoint without one of its files is no base."""
        if is_torn(error):
            return self.then.distrusted(self.checkpoint.files, error)
        raise_unreachable(error)
        return None


def is_torn(error: Exception) -> bool:
    """Whether a file is absent, cut short or not what it should be, rather than out of reach."""
    if not isinstance(error, UnreadableFileError):
        return False
    cause = error.__cause__
    if isinstance(cause, ObjectNotFoundError | ObjectTruncatedError | pa.ArrowException):
        return True
    return isinstance(cause, OSError) and not isinstance(cause, StorageError)
