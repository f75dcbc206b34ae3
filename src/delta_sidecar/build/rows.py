"""Rows of a metadata sidecar, straight from `add` actions.

The text of statistics becomes native columns; where they do not say all of it, it is kept.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s, nullable_int64s, scalar, strings, valid_mask
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.log.actions import ADD_FIELDS
from delta_sidecar.log.stats import ColumnStatistics, FileStatistics, parse_statistics
from delta_sidecar.log.stats_text import say_the_same
from delta_sidecar.replay.files import FileColumns, partition_texts, struct_fields
from delta_sidecar.sidecar.names import column_name
from delta_sidecar.sidecar.row_stats import rebuilt_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from delta_sidecar.build.layout import PlannedLayout
    from delta_sidecar.log.schema import ColumnPath

    Kinds = Mapping[ColumnPath, pa.DataType | None]


MOST_CELLS = 2 << 20
"""Most values in one batch of rows: a wide table has few rows in it."""


class AddActions(FileColumns):
    """Lets the fields of `add` actions through as they are, for `RowMaker` to make rows of."""

    __slots__ = ()

    def batch(self, add: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:  # noqa: ARG002 - they tell it themselves
        """Makes a batch of the fields; arguments as for `FileColumns.batch`."""
        return pa.RecordBatch.from_arrays(list(add.values()), names=list(add))


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of a sidecar from `add` actions.

    Attributes:
        layout: The layout of the sidecar.
        instants: Physical paths of the timestamps that are moments in time, not readings of a clock.
        stats_format: The layout that texts of statistics are rebuilt in.
    """

    layout: PlannedLayout
    instants: frozenset[tuple[str, ...]]
    stats_format: str

    @property
    def schema(self) -> pa.Schema:
        """All columns of a row: the index, the statistics, and what the order takes besides."""
        schema = self.layout.schema
        return pa.schema([*schema.index, *schema.statistics_schema, *key_fields(self.layout)])

    @property
    def most_rows(self) -> int:
        """How many rows may be made at once."""
        return max(1, MOST_CELLS // len(self.schema))

    def rows(self, actions: pa.RecordBatch) -> pa.RecordBatch:
        """Makes rows of a batch that `AddActions` made."""
        schema, order = self.layout.schema, self.layout.order
        columns, texts = self.without_statistics(actions)
        columns |= self.statistics(texts)
        fields = [*schema.index, *schema.statistics_schema]
        batch = pa.RecordBatch.from_arrays([columns[field.name] for field in fields], schema=pa.schema(fields))
        complete, *values, _, vectors = order.of_rows(batch, schema)
        return pa.RecordBatch.from_arrays([*batch.columns, complete, *values, vectors], schema=self.schema)

    def finished(self, group: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a row group, once they are sorted: they have all columns already."""
        return group

    def without_statistics(self, actions: pa.RecordBatch) -> tuple[dict[str, pa.Array], pa.StringArray]:
        """The columns of rows that are not from the statistics, and the statistics' texts."""
        rows = actions.num_rows
        add = dict(zip(actions.schema.names, actions.columns, strict=True))
        # Partition values are taken apart here, by their physical names.
        rest = {name: column for name, column in add.items() if not name.startswith("partitionValues")}
        files = FileColumns((), self.instants).batch(rest, rows)
        columns = {name: files.column(name) for name in _AS_THEY_ARE}
        columns["path"] = files.column("raw_path")
        for name, column in struct_fields(files.column("deletion_vector")).items():
            columns[f"dv.{name}"] = column
        columns |= self._partitions(add, rows)
        return columns, files.column("stats")

    def statistics(self, texts: pa.StringArray) -> dict[str, pa.Array]:
        """The columns of rows that are from the statistics."""
        kinds = self.layout.schema.statistics
        found, kept = native_statistics(texts, kinds, self.stats_format)
        columns = {"num_records": found.num_records, "tight_bounds": found.tight}
        for path, kind in kinds.items():
            name, column = column_name(path), found.columns[path]
            if kind is not None:
                columns[f"min.{name}"], columns[f"max.{name}"] = column.lower, column.upper
            columns[f"null_count.{name}"] = column.null_count
        columns["stats_json"] = kept
        return columns

    def _partitions(self, add: Mapping[str, pa.Array], rows: int) -> dict[str, pa.Array]:
        schema = self.layout.schema
        columns = {}
        untold: dict[str, NDArray[np.bool_]] = {}
        for physical in (*([] if schema.bucket is None else [schema.bucket]), *schema.partitions):
            found = partition_texts(add, physical, rows)
            bucket = schema.bucket_column if physical == schema.bucket else None
            columns[bucket or f"partition.{column_name((physical,))}"] = found.texts
            if not found.told.all():
                untold[physical] = ~found.told
        columns["untold"] = _untold(untold, rows)
        return columns


def key_fields(layout: PlannedLayout) -> list[pa.Field]:
    """Columns that rows have for the order alone."""
    values = [pa.field(f"#{number}", value.type) for number, value in enumerate(layout.order.sort)]
    return [pa.field("#complete", pa.int8()), *values, pa.field("#vector", pa.string())]


_AS_THEY_ARE = tuple(field.column for field in ADD_FIELDS if field.piece is not None)


def _untold(untold: dict[str, NDArray[np.bool_]], rows: int) -> pa.StringArray:
    """Which partition values the log does not tell: a JSON list of physical names; null where it tells all."""
    string = pa.string()
    if not untold:
        return pa.nulls(rows, string)
    nothing = scalar("", string)
    names = [
        pc.if_else(booleans(mask), scalar(json.dumps(name, ensure_ascii=False) + ",", string), nothing)
        for name, mask in untold.items()
    ]
    listed = pc.utf8_rtrim(pc.binary_join_element_wise(*names, nothing), characters=",")
    text = pc.binary_join_element_wise(scalar("[", string), listed, scalar("]", string), nothing)
    return pc.if_else(pc.equal(listed, nothing), scalar(None, string), text)


# Rows that are too large to be sorted: their statistics wait in a file of their own, as compressed text.
#
# A sort holds some hundred thousand rows in memory, whatever its limit. Where a table has statistics of very many
# columns that is too much; so only the rest of each row is sorted, and its statistics are fetched from the file
# afterwards.


_PLACE, _PACKED, _LENGTH = "#place", "#packed", "#length"


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Makes rows in two steps, before and after the sort.

    Attributes:
        maker: Makes rows in one step.
        partition_columns: (logical, physical) names.
        texts: Where texts of statistics wait.
        most_rows: How many rows may be made at once.
    """

    maker: RowMaker
    partition_columns: tuple[tuple[str, str], ...]
    texts: WaitingTexts
    most_rows: int = 65_536

    @property
    def schema(self) -> pa.Schema:
        """The columns that are sorted."""
        layout = self.maker.layout
        of_statistics = self.maker.statistics(pa.nulls(0, pa.string()))
        fields = [*layout.schema.index, *layout.schema.statistics_schema]
        plain = [field for field in fields if field.name not in of_statistics]
        places = [pa.field(name, pa.int64()) for name in (_PLACE, _PACKED, _LENGTH)]
        return pa.schema([*plain, *places, *key_fields(layout)])

    def rows(self, actions: pa.RecordBatch) -> pa.RecordBatch:
        """Makes rows without their statistics."""
        columns, texts = self.maker.without_statistics(actions)
        columns |= self.texts.put(texts)
        add = dict(zip(actions.schema.names, actions.columns, strict=True))
        files = FileColumns(self.partition_columns, self.maker.instants).batch(add, actions.num_rows)
        logical = {physical: name for name, physical in self.partition_columns}
        complete, *values, _, vectors = self.maker.layout.order.of_files(files, logical)
        schema = self.schema
        plain = [columns[name] for name in schema.names if name in columns]
        return pa.RecordBatch.from_arrays([*plain, complete, *values, vectors], schema=schema)

    def finished(self, group: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a row group with all columns of a sidecar, once they are sorted."""
        step = self.maker.most_rows
        parts = [self._finished(group.slice(start, step)) for start in range(0, group.num_rows, step)]
        return parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    def _finished(self, part: pa.RecordBatch) -> pa.RecordBatch:
        columns = dict(zip(part.schema.names, part.columns, strict=True))
        columns |= self.maker.statistics(self.texts.take(part))
        schema = self.maker.schema
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


class WaitingTexts:
    """Texts in a temporary file, each compressed by itself. From any thread.

    Args:
        path: The file, which is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        except OSError as error:
            raise self._failed(error) from error
        self._lock = threading.Lock()
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def put(self, texts: pa.StringArray) -> dict[str, pa.Array]:
        """Keeps texts; gives the columns by which they are found again."""
        codec = pa.Codec("zstd", compression_level=1)
        data = [None if text is None else text.encode() for text in texts.to_pylist()]
        packed = [b"" if text is None else codec.compress(text, asbytes=True) for text in data]
        lengths = np.array([-1 if text is None else len(text) for text in data], dtype=np.int64)
        sizes = np.array([len(each) for each in packed], dtype=np.int64)
        block = b"".join(packed)
        with self._lock:
            start, self._end = self._end, self._end + len(block)
        try:
            written = 0
            while written < len(block):
                written += os.pwrite(self._file, memoryview(block)[written:], start + written)
        except OSError as error:
            raise self._failed(error) from error
        places = start + np.cumsum(sizes) - sizes
        return {_PLACE: int64s(places), _PACKED: int64s(sizes), _LENGTH: int64s(lengths)}

    def take(self, rows: pa.RecordBatch) -> pa.StringArray:
        """The texts of rows, in their order."""
        return strings(self._texts(rows))

    def _texts(self, rows: pa.RecordBatch) -> Iterator[str | None]:
        codec = pa.Codec("zstd")
        columns = (rows.column(name).to_pylist() for name in (_PLACE, _PACKED, _LENGTH))
        for place, size, length in zip(*columns, strict=True):
            try:
                packed = os.pread(self._file, size, place) if length > 0 else b""
            except OSError as error:
                raise self._failed(error) from error
            yield None if length < 0 else codec.decompress(packed, length, asbytes=True).decode() if length else ""

    def _failed(self, error: OSError) -> TemporaryFileError:
        return TemporaryFileError(f"the temporary file {self._path} cannot be used: {error.strerror}")


# Texts of statistics as native columns, and which of them have to be kept.


def native_statistics(texts: pa.StringArray, kinds: Kinds, stats_format: str) -> tuple[FileStatistics, pa.StringArray]:
    """Reads texts of statistics; every column is there, if only as nulls.

    Args:
        texts: The texts; null where a file has none.
        kinds: Type of each column by its path, None for one that has no bounds.
        stats_format: The layout that texts are rebuilt in.

    Returns:
        The statistics, and the texts that say more than can be rebuilt from them.
    """
    found = read_statistics(texts, kinds)
    return found, _kept(texts, rebuilt_texts(found, len(texts), stats_format), kinds)


def read_statistics(texts: pa.StringArray, kinds: Kinds) -> FileStatistics:
    """Reads texts of statistics; every column is there, if only as nulls. Arguments as for `native_statistics`."""
    if texts.null_count == len(texts):
        return _filled(FileStatistics(None, None, {}), kinds, len(texts))
    found = parse_statistics(texts, {path: pa.binary() if kind is None else kind for path, kind in kinds.items()})
    return _filled(found, kinds, len(texts))


def _filled(found: FileStatistics, kinds: Kinds, rows: int) -> FileStatistics:
    nothing = _Nulls(rows)
    unknown = ColumnStatistics(None, None, None)
    columns = {}
    for path, kind in kinds.items():
        column = found.columns.get(path, unknown)
        lower, upper = (nothing.of(kind) if side is None else side for side in (column.lower, column.upper))
        counts = nothing.of(pa.int64()) if column.null_count is None else column.null_count
        columns[path] = ColumnStatistics(None if kind is None else lower, None if kind is None else upper, counts)
    num_records = nothing.of(pa.int64()) if found.num_records is None else found.num_records
    return FileStatistics(num_records, nothing.of(pa.bool_()) if found.tight is None else found.tight, columns)


class _Nulls:
    """Columns of nulls, which share their memory: a wide table may have no statistics at all."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._known: dict[pa.DataType, pa.Array] = {}

    def of(self, kind: pa.DataType | None) -> pa.Array | None:
        """A column of a type; None for no type."""
        if kind is None:
            return None
        if kind not in self._known:
            self._known[kind] = pa.nulls(self._rows, kind)
        return self._known[kind]


def _kept(texts: pa.StringArray, rebuilt: pa.StringArray, kinds: Kinds) -> pa.StringArray:
    """The texts that say something else than what is rebuilt."""
    kept = valid_mask(texts) & ~bits_of(pc.equal(texts, rebuilt))
    if kept.any():
        differing = booleans(kept)
        kept[kept] = ~say_the_same(texts.filter(differing), rebuilt.filter(differing), kinds)
    if not kept.any():
        return pa.nulls(len(texts), pa.string())
    # Taking copies what is kept and nothing else.
    return texts.take(nullable_int64s(np.arange(len(texts), dtype=np.int64), kept))
