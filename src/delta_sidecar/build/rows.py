"""Rows of a metadata sidecar as a build sorts them: with the columns of their order, made of `add` actions."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import int64s, strings
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.replay.files import FileColumns, partition_texts
from delta_sidecar.sidecar.rows import file_columns, partition_columns, statistics_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from delta_sidecar.build.layout import PlannedLayout


MOST_CELLS = 2 << 20
"""Most values in one batch of rows: a wide table has few rows in it."""


class ActionColumns(FileColumns):
    """Passes the fields of `add` actions on as they are, for `RowMaker` to make rows of."""

    __slots__ = ()

    def batch(self, add: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:  # noqa: ARG002 - the columns have it
        """Makes a batch of the fields; arguments as for `FileColumns.batch`."""
        return pa.RecordBatch.from_arrays(list(add.values()), names=list(add))


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of a sidecar from `add` actions."""

    layout: PlannedLayout
    instants: frozenset[tuple[str, ...]]  # physical paths of timestamps that are moments in time
    stats_format: str  # the layout that texts of statistics are rebuilt in

    @property
    def schema(self) -> pa.Schema:
        """All columns of a row: the index, the statistics, and those of the order."""
        schema = self.layout.schema
        return pa.schema([*schema.index, *schema.statistics_schema, *_key_fields(self.layout)])

    @property
    def most_rows(self) -> int:
        """How many rows may be made at once."""
        return max(1, MOST_CELLS // len(self.schema))

    def rows(self, actions: pa.RecordBatch) -> pa.RecordBatch:
        """Makes rows of a batch that `ActionColumns` made."""
        schema = self.layout.schema
        columns, texts = self.without_statistics(actions)
        columns |= self.statistics(texts)
        fields = [*schema.index, *schema.statistics_schema]
        batch = pa.RecordBatch.from_arrays([columns[field.name] for field in fields], schema=pa.schema(fields))
        complete, *values, _, vectors = self.layout.order.of_rows(batch, schema)
        return pa.RecordBatch.from_arrays([*batch.columns, complete, *values, vectors], schema=self.schema)

    def finished(self, group: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a row group, once they are sorted: they have all columns already."""
        return group

    def without_statistics(self, actions: pa.RecordBatch) -> tuple[dict[str, pa.Array], pa.StringArray]:
        """The columns of rows that are not from the statistics, and the statistics' texts."""
        schema, rows = self.layout.schema, actions.num_rows
        add = dict(zip(actions.schema.names, actions.columns, strict=True))
        # Partition values are taken apart here, by their physical names.
        rest = {name: column for name, column in add.items() if not name.startswith("partitionValues")}
        files = FileColumns((), self.instants).batch(rest, rows)
        partitions = {physical: partition_texts(add, physical, rows) for physical in partition_columns(schema)}
        return file_columns(files, partitions, schema), files.column("stats")

    def statistics(self, texts: pa.StringArray) -> dict[str, pa.Array]:
        """The columns of rows that are from the statistics."""
        return statistics_columns(texts, self.layout.schema, self.stats_format)


def _key_fields(layout: PlannedLayout) -> list[pa.Field]:
    """Columns that rows have for the order alone."""
    values = [pa.field(f"#{number}", value.type) for number, value in enumerate(layout.order.sort)]
    return [pa.field("#complete", pa.int8()), *values, pa.field("#vector", pa.string())]


# Rows that are too large to be sorted: their statistics wait in a file of their own, as compressed text.
#
# A sort holds some hundred thousand rows in memory, whatever its limit. Where a table has statistics of very many
# columns that is too much; so only the rest of each row is sorted, and its statistics are fetched from the file
# afterwards.


_PLACE, _PACKED, _LENGTH = "#place", "#packed", "#length"


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Makes rows in two steps, before and after the sort."""

    maker: RowMaker
    partition_columns: tuple[tuple[str, str], ...]  # (logical, physical) names
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
        return pa.schema([*plain, *places, *_key_fields(layout)])

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
    """Texts in a temporary file, each compressed by itself. From any thread."""

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
