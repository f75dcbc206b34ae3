"""Checkpoints as a base.

    trust:  top -> (footers of V2-checkpoint sidecars)
    emit:   leaves in JSON -> leaves in Parquet

The top is read for what is not about files: the names of V2-checkpoint sidecars and, where they are needed, protocol
and metadata. Before the first row is used the footers of all files must parse, and be those of a checkpoint.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from delta_sidecar._arrow import from_numpy, to_numpy
from delta_sidecar.errors import (
    CorruptCheckpointError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    PageTokenExpiredError,
    SidecarError,
    StorageError,
    UnreadableFileError,
)
from delta_sidecar.log.actions import TOP_SCHEMA, Metadata, Protocol, line_action
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER, LogFileKind, parse_log_name
from delta_sidecar.plan import (
    LINE,
    Ahead,
    Consume,
    FileRef,
    Filter,
    PartialResult,
    Plan,
    ReadFooters,
    ScanJson,
    ScanParquet,
    Substitute,
)
from delta_sidecar.replay.bases.base import Base, BaseSummary, Torn, raise_unreachable
from delta_sidecar.replay.files import struct_fields, tags_in_lines
from delta_sidecar.replay.request import ReplayProgress
from delta_sidecar.replay.tail import commit_schema, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.log.segment import CheckpointFiles, ListedFile
    from delta_sidecar.plan import FileSummary, Flow, Place
    from delta_sidecar.replay.files import FileColumns, Pruning
    from delta_sidecar.replay.request import ScanRequest
    from delta_sidecar.replay.seen.seen import SeenSet


_TABLE_ACTIONS = 2
_FEW_FILES = 10
_FILES = "add.path"
_NEEDED_FIELDS = {"protocol": ("minReaderVersion",), "metaData": ("id", "schemaString")}


@dataclass(frozen=True, slots=True)
class CheckpointBase(Base):
    """A checkpoint."""

    files: tuple[FileRef, ...] = field(repr=False)  # its own files: the parts, or the one top file
    # The listed files of the folder of V2-checkpoint sidecars, by name.
    sidecars: Mapping[str, ListedFile] = field(repr=False)
    # The files that may have `add` rows, V2-checkpoint sidecars too; None before it is trusted.
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
        is_known = self.leaves is not None or name is None or name.kind is not LogFileKind.V2_CHECKPOINT
        return self.nbytes if is_known else None

    def ahead(self, request: ScanRequest | None) -> Ahead:
        """The footers of its own files, unless they have been read."""
        del request
        tables = tuple(file for file in self.files if not file.path.endswith(".json"))
        return Ahead(footers=tables if self.leaves is None and len(tables) <= _FEW_FILES else ())

    def trust(self, *, with_table: bool, ahead: tuple[FileRef, ...] = ()) -> Flow[CheckpointBase]:
        """Reads the footers of its files and, of its rows, what is not about files; unless that was done."""
        del ahead
        if self.leaves is not None and (not with_table or self.metadata is not None):
            return self
        try:
            base, sidecars = yield from self._read_top(with_table=with_table or self._is_json)
            if sidecars:
                plan = ScanParquet(sidecars, (), check=True, content=CheckpointContent(has_top=False))
                for _ in (yield Consume(plan)):
                    pass
        except UnreadableFileError as error:
            raise_if_torn("the checkpoint", error)
            raise
        return base

    def emit(self, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        """Emits its files as they lie, those in JSON first."""
        if self.leaves is None:
            msg = f"{self.name} is not trusted yet: emit what `trust` gives"
            raise RuntimeError(msg)
        texts = tuple(leaf for leaf in self.leaves if leaf.path.endswith(".json"))
        tables = tuple(leaf for leaf in self.leaves if not leaf.path.endswith(".json"))
        parts = tuple(part for part in (texts, tables) if part)
        first = 0
        if request.start is not None:
            parts, first = _from(parts, request.start), request.start.part
        rows = BaseRows(seen, request.columns, request.pruning, progress=request.progress)
        for files in parts:
            with _naming_files(request.table):
                yield PartialResult(base_plan(files, rows, first, request), parallel=True)
            first = 0

    def summary(self, request: ScanRequest) -> Flow[BaseSummary]:
        """By its footers, which were read when it was trusted."""
        leaves = self.leaves or self.files
        rows = groups = without = 0
        plan = ReadFooters(tuple(leaf for leaf in leaves if not leaf.path.endswith(".json")), (_FILES,))
        # A checkpoint without them was replaced meanwhile.
        with _naming_files(request.table):
            for batch in (yield Consume(plan)):
                columns = batch.column("column").to_pylist()
                values = batch.column("values").to_pylist()
                (whole,) = (row for row, name in enumerate(columns) if name is None)
                rows += batch.column("rows")[whole].as_py()
                groups += batch.column("group")[whole].as_py()
                known = [value for value, name in zip(values, columns, strict=True) if name == _FILES]
                # A file without the column has entries in none of its row groups.
                without += sum(value == 0 for value in known) if known else batch.column("group")[whole].as_py()
        return BaseSummary(
            self.name,
            self.version,
            files=len(leaves),
            bytes=sum(leaf.size or 0 for leaf in leaves),
            rows=rows,
            row_groups=groups,
            row_groups_without_files=without,
        )

    @property
    def _source(self) -> str:
        return self.files[0].path

    @property
    def _is_json(self) -> bool:
        return self._source.endswith(".json")

    def _read_top(self, *, with_table: bool) -> Flow[tuple[CheckpointBase, tuple[FileRef, ...]]]:
        """Reads the names of V2-checkpoint sidecars, and protocol and metadata where they are needed."""
        plan: ScanJson | ScanParquet = ScanJson(self.files, TOP_SCHEMA, lines_with=(b"",), keep=True)
        if not self._is_json:
            columns: tuple[str, ...] = ("sidecar.path", "sidecar.sizeInBytes")
            non_null: tuple[str, ...] = ("sidecar.path",)
            if with_table:
                columns += ("protocol", "metaData")
                non_null += ("protocol.minReaderVersion", "metaData.id", "metaData.schemaString")
            content = CheckpointContent(has_top=True)
            plan = ScanParquet(self.files, columns, non_null=non_null, check=True, content=content)
        found: dict[str, Any] = {}
        sidecars: list[FileRef] = []
        for batch in (yield Consume(plan)):
            for name in ("protocol", "metaData"):
                action = self._action(batch, name) if with_table else None
                if action is not None:
                    found[name] = action
            if "sidecar" in batch.schema.names:
                sidecars += self._sidecars(batch.column("sidecar"))
        if with_table and len(found) < _TABLE_ACTIONS:
            missing = "protocol" if "protocol" not in found else "metaData"
            msg = f"{self._source}: it has no {missing}"
            raise UnreadableFileError(msg, self._source)
        leaves = (*self.files, *sidecars)
        base = replace(
            self,
            leaves=leaves,
            nbytes=sum(file.size or 0 for file in leaves),
            protocol=Protocol.from_action(found["protocol"], self._source) if "protocol" in found else None,
            metadata=Metadata.from_action(found["metaData"], self._source) if "metaData" in found else None,
        )
        return base, tuple(sidecars)

    def _action(self, batch: pa.RecordBatch, name: str) -> object:
        if name not in batch.schema.names:
            return None
        column = batch.column(name)
        # Some writers give every row a struct, with nothing in it: a field decides.
        fields = struct_fields(column)
        present = [to_numpy(fields[field].is_valid()) for field in _NEEDED_FIELDS[name] if field in fields]
        if not present or not np.logical_or.reduce(present).any():
            return None
        rows = np.flatnonzero(np.logical_or.reduce(present))
        if self._is_json:
            return line_action(batch.column(LINE)[int(rows[-1])].as_py(), name, self._source)
        return column[int(rows[-1])].as_py()

    def _sidecars(self, column: pa.StructArray) -> list[FileRef]:
        refs = []
        for row in column.drop_null().to_pylist():
            if row.get("path") is None:
                continue
            # The protocol keeps these files in one folder, so that only the name counts.
            name = unquote(row["path"]).rpartition("/")[2]
            listed = self.sidecars.get(name)
            size, e_tag = (row.get("sizeInBytes"), None) if listed is None else (listed.size, listed.e_tag)
            refs.append(FileRef(f"{SIDECAR_FOLDER}{name}", size, e_tag=e_tag))
        return refs


def is_torn(error: Exception) -> bool:
    """Whether a file is absent, cut short or not what it should be, rather than out of reach."""
    if not isinstance(error, UnreadableFileError):
        return False
    cause = error.__cause__
    torn = ObjectNotFoundError | ObjectTruncatedError | SidecarError | pa.ArrowException
    if cause is None or isinstance(cause, torn):
        return True
    return isinstance(cause, OSError) and not isinstance(cause, StorageError)


def raise_if_torn(subject: str, error: Exception) -> None:
    """Tells what a failure to read a file of a base means.

    Raises:
        Torn: The file is absent, cut short or not what it should be.
        StorageError: It is out of reach, which is another matter.
    """
    if isinstance(error, SidecarError) or is_torn(error):
        raise Torn(error) from error
    raise_unreachable(subject, error)


@contextmanager
def _naming_files(table: str) -> Iterator[None]:
    """Explains that a file of a base failed after rows of it may have been used."""
    try:
        yield
    except UnreadableFileError as error:
        raise_unreachable(table, error)
        msg = (
            f"{table} cannot be read: {error.path} is torn: {error.__cause__}. Files of it were already given out, so "
            f"the scan ends here; write a new checkpoint and scan again."
        )
        raise CorruptCheckpointError(msg) from error


def _from(parts: tuple[tuple[FileRef, ...], ...], start: Place) -> tuple[tuple[FileRef, ...], ...]:
    """The files of a checkpoint from a place on."""
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


class BaseRows(Struct, frozen=True):
    """Keeps the files of a base that a frozen seen-set does not hide, in any order."""

    seen: SeenSet  # keys that newer commits have
    columns: FileColumns  # makes the batches that are emitted
    pruning: Pruning | None  # tests which files may match; None: all may
    path: str = ""  # the file that the rows come from, where it is in JSON
    progress: ReplayProgress = msgspec.field(default_factory=ReplayProgress)  # counts what is met

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Takes rows of a checkpoint; gives its live files that may match."""
        if "add" not in batch.schema.names:
            return None
        actions = batch.column("add")
        fields = struct_fields(actions)
        present = to_numpy(actions.is_valid()) & to_numpy(fields["path"].is_valid())
        if not present.any():
            return None
        if LINE in batch.schema.names:
            fields["tags"] = self._tags(batch.column(LINE), to_numpy(fields["tags"].is_valid()))
        if not present.all():
            chosen = from_numpy(present)
            fields = {name: column.filter(chosen) for name, column in fields.items()}
        live = ~self.seen.hides(fields)
        count = int(np.count_nonzero(live))
        found = select(fields, live, self.columns, self.pruning) if count else None
        pruned = count - (0 if found is None else found.num_rows)
        self.progress.add(base_adds=len(live), base_hidden=len(live) - count, base_pruned=pruned)
        return found

    def _tags(self, lines: pa.StringArray, present: NDArray[np.bool_]) -> pa.StringArray:
        try:
            return tags_in_lines(lines, present)
        except pa.ArrowInvalid as error:
            msg = f"{self.path}: {error}"
            raise UnreadableFileError(msg, self.path) from error


class PartitionTest(Struct, frozen=True):
    """Tests which rows of a checkpoint are worth decoding, by partition values and struct statistics."""

    pruning: Pruning | None  # tests which files may match; None: all may
    progress: ReplayProgress = msgspec.field(default_factory=ReplayProgress)  # counts those that are not

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Takes rows with only these columns."""
        actions = batch.column("add")
        fields, present = struct_fields(actions), to_numpy(actions.is_valid())
        keep = present if self.pruning is None else self.pruning.by_partition(fields, present)
        pruned = int(np.count_nonzero(present) - np.count_nonzero(keep))
        self.progress.add(base_adds=pruned, base_pruned_early=pruned)
        return keep


def base_plan(leaf: tuple[FileRef, ...], rows: BaseRows, start: int, request: ScanRequest) -> Plan:
    """The plan that reads files of a checkpoint, all JSON or all Parquet, from a row group of the first one on."""
    if leaf[0].path.endswith(".json"):
        physical = tuple(name for _, name in rows.columns.partition_columns)
        source = ScanJson(leaf, commit_schema(physical), lines_with=(b'"tags"',))
        return Filter(source, msgspec.structs.replace(rows, path=leaf[0].path))
    fields = rows.columns.fields()
    early: tuple[str, ...] = ()
    if rows.pruning is not None and rows.pruning.statistics and "stats" not in fields:
        fields += ("stats",)
    if rows.pruning is not None and request.skipping:
        early += rows.pruning.struct_columns if rows.pruning.statistics else ()
    if rows.pruning is not None and request.skipping and rows.pruning.partitions:
        early = ("add.partitionValues", *early)
    tables = ScanParquet(
        leaf,
        tuple(f"add.{name}" for name in fields),
        early=early,
        test=PartitionTest(rows.pruning, rows.progress) if early else None,
        non_null=("add.path",),
        substitutes=tuple(stands_in for name, stands_in in _SUBSTITUTES.items() if name in fields),
        start=start,
        enough=request.enough,
        at_once=request.row_groups_at_once,
    )
    return Filter(tables, rows)


# Whether Parquet files are those of a checkpoint, by their footers.
#
# The protocol wants a protocol and a metaData action in every checkpoint, and one action in every row. A column that a
# file lacks is null in it: so a part of a checkpoint may do without `add`, as long as all its rows are other actions.


_TOP = {
    "protocol": ("protocol.minReaderVersion",),
    "metaData": ("metaData.id", "metaData.schemaString"),
}
_V2_SIDECAR = ("sidecar.path", "sidecar.sizeInBytes")
# Of each action, the fields that it cannot be without.
_OTHERS = {
    **_TOP,
    "txn": ("txn.appId", "txn.version"),
    "remove": ("remove.path", "remove.dataChange"),
    "domainMetadata": ("domainMetadata.domain",),
    "checkpointMetadata": ("checkpointMetadata.version",),
    "sidecar": _V2_SIDECAR,
}


class CheckpointContent(Struct, frozen=True):
    """Refuses files that are not what a checkpoint is made of."""

    has_top: bool  # whether protocol and metadata must be in one of the files: not so for V2-checkpoint sidecars
    columns: ClassVar[tuple[str, ...]] = (_FILES, *(leaf for leaves in _OTHERS.values() for leaf in leaves))

    def __call__(self, files: Sequence[FileSummary]) -> None:
        """Looks at the footers of all files.

        Raises:
            UnreadableFileError: A file is no part of a checkpoint; the message says why.
        """
        for name, leaves in _TOP.items() if self.has_top else ():
            if not any(_may_have(file, leaves) for file in files):
                _refuse(files[0], f"it has no {name}")
        for file in files:
            if _FILES not in file.values and not (self.has_top and _may_have(file, _V2_SIDECAR)):
                _check_without_add(file)


def _may_have(file: FileSummary, leaves: Iterable[str]) -> bool:
    return any(file.values[leaf] != 0 for leaf in leaves if leaf in file.values)


def _check_without_add(file: FileSummary) -> None:
    if not file.values:
        _refuse(file, "it has none of the columns of a checkpoint")
    known = sum(max(file.values.get(leaf) or 0 for leaf in leaves) for leaves in _OTHERS.values())
    if known < file.rows:
        _refuse(file, f"it has no column {_FILES}, and {file.rows - known} of its rows are no other action")


def _refuse(file: FileSummary, why: str) -> None:
    msg = f"{file.path}: {why}"
    raise UnreadableFileError(msg, file.path)
