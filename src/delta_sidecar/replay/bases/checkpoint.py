"""Checkpoints as a base.

    trust:   CheckpointTopPhase -> (CheckpointLeavesPhase)
    replay:  CheckpointReplayPhase...

The top is read for what is not about files: the names of V2-checkpoint sidecars and, where they are asked for, protocol
and metadata. Before the first row is used the footers of all files must parse, and be those of a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import booleans, valid_mask
from delta_sidecar.errors import (
    ObjectNotFoundError,
    ObjectTruncatedError,
    PageTokenExpiredError,
    SidecarError,
    StorageError,
    UnreadableFileError,
)
from delta_sidecar.log.actions import TOP_SCHEMA, Metadata, Protocol, commit_schema, line_action
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER, LogFileKind, parse_log_name
from delta_sidecar.plan import (
    LINE,
    Consume,
    ConsumePhase,
    FileRef,
    Filter,
    PartialResult,
    PartialResultPhase,
    Plan,
    ReadFooters,
    ScanJson,
    ScanParquet,
    StateMachinePhase,
    Substitute,
    Terminus,
)
from delta_sidecar.replay.bases.base import Base, BaseSummary, Reading, ReplayContinuation, TrustContinuation
from delta_sidecar.replay.counts import Tally
from delta_sidecar.replay.failures import raise_base_failure, raise_unreachable
from delta_sidecar.replay.files import struct_fields, tags_in_lines
from delta_sidecar.replay.footer_facts import CheckpointContent
from delta_sidecar.replay.tail import select

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from delta_sidecar.log.segment import CheckpointFiles, ListedFile
    from delta_sidecar.plan import Place
    from delta_sidecar.replay.files import FileColumns
    from delta_sidecar.replay.pruning import Pruning
    from delta_sidecar.replay.seen.seen import SeenSet


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

    @property
    def entries_nbytes(self) -> int | None:
        """Its size where its entries are; of a V2 checkpoint that is known once it is trusted."""
        name = parse_log_name(self.files[0].path)
        is_told = self.leaves is not None or name is None or name.kind is not LogFileKind.V2_CHECKPOINT
        return self.nbytes if is_told else None

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
        """Goes through its leaves as they lie, those in JSON first, in whatever order files are wanted."""
        if self.leaves is None:
            msg = f"{self.name} is not trusted yet: replay what `trust` gives"
            raise RuntimeError(msg)
        texts = tuple(leaf for leaf in self.leaves if leaf.path.endswith(".json"))
        tables = tuple(leaf for leaf in self.leaves if not leaf.path.endswith(".json"))
        parts = tuple(part for part in (texts, tables) if part)
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
            nbytes=sum(file.size or 0 for file in (*self.base.files, *sidecars)),
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
        return self.reading.rest(base_plan(self.parts[0], _rows(self.reading), first, self.reading.enough))

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


# The rows of a checkpoint: what is read of them, and which are live and may match.


_SUBSTITUTES = {
    "stats": Substitute("add.stats_parsed", "add.stats", "add.path"),
    "partitionValues": Substitute("add.partitionValues_parsed", "add.partitionValues.key_value.key", "add.path"),
}


@dataclass(frozen=True, slots=True)
class BaseRows:
    """Lets through the files of a base that a frozen seen-set does not hide, whatever order they come in.

    Attributes:
        seen: Keys that newer commits spoke of.
        columns: Makes the batches that are let through.
        pruning: Tells which files may match; None: all may.
        path: The file that the rows come from, where it is in JSON.
        tally: Counts what is met.
    """

    seen: SeenSet
    columns: FileColumns
    pruning: Pruning | None
    path: str = ""
    tally: Tally = field(default_factory=Tally, compare=False)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Takes rows of a checkpoint; gives its live files that may match."""
        if "add" not in batch.schema.names:
            return None
        actions = batch.column("add")
        fields = struct_fields(actions)
        present = valid_mask(actions) & valid_mask(fields["path"])
        if not present.any():
            return None
        if LINE in batch.schema.names:
            fields["tags"] = self._tags(batch.column(LINE), valid_mask(fields["tags"]))
        if not present.all():
            chosen = booleans(present)
            fields = {name: column.filter(chosen) for name, column in fields.items()}
        live = np.ones(len(fields["path"]), dtype=np.bool_)
        if len(self.seen):
            live = ~self.seen.contains(file_keys(fields))
        count = int(np.count_nonzero(live))
        found = select(fields, live, self.columns, self.pruning) if count else None
        pruned = count - (0 if found is None else found.num_rows)
        self.tally.add(base_adds=len(live), base_hidden=len(live) - count, base_pruned=pruned)
        return found

    def _tags(self, lines: pa.StringArray, present: NDArray[np.bool_]) -> pa.StringArray:
        try:
            return tags_in_lines(lines, present)
        except pa.ArrowInvalid as error:
            msg = f"{self.path}: {error}"
            raise UnreadableFileError(msg, self.path) from error


@dataclass(frozen=True, slots=True)
class PartitionTest:
    """Tells which rows of a checkpoint are worth decoding, by partition values and struct statistics.

    Attributes:
        pruning: Tells which files may match; None: all may.
        tally: Counts those that are not.
    """

    pruning: Pruning | None
    tally: Tally = field(default_factory=Tally, compare=False)

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Takes rows with only these columns."""
        actions = batch.column("add")
        fields, present = struct_fields(actions), valid_mask(actions)
        keep = present if self.pruning is None else self.pruning.by_partition(fields, present)
        pruned = int(np.count_nonzero(present) - np.count_nonzero(keep))
        self.tally.add(base_adds=pruned, base_pruned_early=pruned)
        return keep


def base_plan(leaf: tuple[FileRef, ...], rows: BaseRows, start: int = 0, enough: int | None = None) -> Plan:
    """What a replay of files of a checkpoint reads; they are all JSON or all Parquet.

    Args:
        leaf: The files.
        rows: Tells which of their rows are let through.
        start: First row group of the first file.
        enough: So many files are likely to be enough; None for all.
    """
    if leaf[0].path.endswith(".json"):
        physical = tuple(name for _, name in rows.columns.partition_columns)
        source = ScanJson(leaf, commit_schema(physical), lines_with=(b'"tags"',))
        return Filter(source, replace(rows, path=leaf[0].path))
    fields = rows.columns.fields()
    early: tuple[str, ...] = ()
    if rows.pruning is not None and rows.pruning.statistics and "stats" not in fields:
        fields += ("stats",)
    if rows.pruning is not None:
        early += rows.pruning.struct_columns if rows.pruning.statistics else ()
    if rows.pruning is not None and rows.pruning.partitions:
        early = ("add.partitionValues", *early)
    tables = ScanParquet(
        leaf,
        tuple(f"add.{name}" for name in fields),
        early=early,
        test=PartitionTest(rows.pruning, rows.tally) if early else None,
        non_null=("add.path",),
        substitutes=tuple(stands_in for name, stands_in in _SUBSTITUTES.items() if name in fields),
        start=start,
        enough=enough,
    )
    return Filter(tables, rows)


# What a checkpoint is made of, by its footers.


_FILES = "add.path"


@dataclass(frozen=True, slots=True)
class CheckpointSummaryPhase(ConsumePhase[BaseSummary]):
    """Reads the footers of a checkpoint, which were kept when it was trusted.

    Attributes:
        table: The table's address, for messages.
        name: The checkpoint's name.
        version: Its version.
        leaves: Its files.
    """

    table: str
    name: str
    version: int
    leaves: tuple[FileRef, ...] = field(repr=False)

    def plan(self) -> ReadFooters:
        """Those of its files in Parquet."""
        return ReadFooters(tuple(leaf for leaf in self.leaves if not leaf.path.endswith(".json")), (_FILES,))

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[BaseSummary]:
        """Sums them up."""
        rows = groups = without = 0
        for batch in data:
            columns = batch.column("column").to_pylist()
            values = batch.column("values").to_pylist()
            (whole,) = (row for row, name in enumerate(columns) if name is None)
            rows += batch.column("rows")[whole].as_py()
            groups += batch.column("group")[whole].as_py()
            told = [value for value, name in zip(values, columns, strict=True) if name == _FILES]
            # A file without the column has entries in none of its row groups.
            without += sum(value == 0 for value in told) if told else batch.column("group")[whole].as_py()
        size = sum(leaf.size or 0 for leaf in self.leaves)
        return Terminus(
            BaseSummary(
                self.name,
                self.version,
                files=len(self.leaves),
                bytes=size,
                rows=rows,
                row_groups=groups,
                row_groups_without_files=without,
            )
        )

    def recover(self, error: Exception) -> StateMachinePhase[BaseSummary] | None:
        """They were read before: a checkpoint without them was replaced meanwhile."""
        raise_base_failure(self.table, error)
        return None
