"""The live files of a table as rows of its sidecar, with the columns of their order.

A scan passes files on as it decodes them, a page of a checkpoint at a time. Rows are made of many of those together,
in a few threads; a few batches are under way at once.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import from_numpy, strings
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.execute.lanes import in_threads
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT, choose_stats_format
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.replay.files import FileColumns, partition_texts
from delta_sidecar.replay.request import ScanRequest
from delta_sidecar.replay.snapshot import scan
from delta_sidecar.sidecar.rows import file_columns, named_statistics, read_statistics, statistics_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from delta_sidecar.events import Events
    from delta_sidecar.plan import Batches, Executor
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.sidecar.layout import PlannedLayout

T = TypeVar("T")
R = TypeVar("R")

MOST_ROWS = 65_536
MOST_BYTES = 32 << 20
"""Bytes of actions that rows are made of at once, about."""

MOST_CELLS = 2 << 20
"""Most values in one batch of rows: a wide table has few rows in it."""


class ActionColumns(FileColumns, frozen=True):
    """Passes the fields of `add` actions on as they are, for `RowMaker` to make rows of."""

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
        """The most rows that are made at once."""
        return max(1, min(MOST_ROWS, MOST_CELLS // len(self.schema)))

    def rows(self, actions: pa.RecordBatch) -> pa.RecordBatch:
        """Makes rows of a batch that `ActionColumns` made."""
        schema = self.layout.schema
        columns, texts = self.without_statistics(actions)
        columns |= self.statistics(texts)
        fields = [*schema.index, *schema.statistics_schema]
        plain = pa.schema(fields)
        batch = pa.RecordBatch.from_arrays([*map(columns.__getitem__, plain.names)], schema=plain)
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
        names = schema.partition_columns
        files = FileColumns((), self.instants).batch(rest, rows)
        partitions = {physical: partition_texts(add, physical, rows) for physical in names}
        return file_columns(files, partitions, schema), files.column("stats")

    def statistics(self, texts: pa.StringArray) -> dict[str, pa.Array]:
        """The columns of rows that are from the statistics."""
        return statistics_columns(texts, self.layout.schema, self.stats_format)


def _key_fields(layout: PlannedLayout) -> list[pa.Field]:
    """Columns that rows have for the order alone."""
    values = [pa.field(f"#{number}", value.arrow_type) for number, value in enumerate(layout.order.sort)]
    return [pa.field("#complete", pa.int8()), *values, pa.field("#vector", pa.string())]


# Rows that are too large to be sorted: their statistics wait in a file of their own, as compressed text.
#
# A sort holds some hundred thousand rows in memory, at any limit. Where a table has statistics of very many
# columns that is too much; so only the rest of each row is sorted, and its statistics are fetched from the file
# afterwards.


_PLACE, _PACKED, _LENGTH = "#place", "#packed", "#length"


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Makes rows in two steps, before and after the sort."""

    maker: RowMaker
    texts: WaitingTexts
    most_rows: int = MOST_ROWS

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
        layout, schema = self.maker.layout, self.schema
        keys = columns | named_statistics(read_statistics(texts, layout.order.summaries).columns)
        keyed = pa.RecordBatch.from_arrays(list(keys.values()), names=list(keys))
        complete, *values, _, vectors = layout.order.of_rows(keyed, layout.schema)
        plain = [columns[name] for name in schema.names if name in columns]
        return pa.RecordBatch.from_arrays([*plain, complete, *values, vectors], schema=schema)

    def finished(self, group: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a row group with all columns of a sidecar, once they are sorted."""
        step = self.maker.most_rows
        parts = [self._finished(group.slice(start, step)) for start in range(0, group.num_rows, step)]
        return joined(parts)

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

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def put(self, texts: pa.StringArray) -> dict[str, pa.Array]:
        """Keeps texts; returns the columns by which they are found again."""
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
        return {_PLACE: from_numpy(places), _PACKED: from_numpy(sizes), _LENGTH: from_numpy(lengths)}

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


# The live files of a table as rows, in batches that are worth the work.


def names_of_partitions(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """The partition columns of a table: logical and physical names."""
    columns = snapshot.columns
    return tuple(zip(columns.partition_columns, columns.physical_partition_columns, strict=True))


def live_rows(
    snapshot: Snapshot, maker: RowMaker | PackedRows, executor: Executor, events: Events, threads: int
) -> Batches:
    """The live files of a table as rows of its sidecar, in the order of the log."""
    columns = ActionColumns(names_of_partitions(snapshot))
    request = ScanRequest(snapshot.table, columns, forward=True, events=events)
    with closing(StateMachineIterator(scan(snapshot, request), executor)) as machine:
        actions = gathered(machine, maker.most_rows)
        with closing(in_threads(maker.rows, actions, threads, "rows")) as made:
            yield from made


def gathered(
    batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int = MOST_BYTES
) -> Iterator[pa.RecordBatch]:
    """Joins neighbours of one schema while they are small together, and cuts what is large."""
    held: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        for start in range(0, batch.num_rows, most_rows):
            part = batch.slice(start, most_rows)
            is_full = rows + part.num_rows > most_rows or nbytes + part.nbytes > most_bytes
            if held and (is_full or held[0].schema != part.schema):
                yield joined(held)
                held, rows, nbytes = [], 0, 0
            held.append(part)
            rows += part.num_rows
            nbytes += part.nbytes
    if held:
        yield joined(held)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema, at least one, as one batch."""
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


@dataclass(frozen=True, slots=True)
class Sample:
    """An estimate from the first files of a table."""

    stats_format: str  # the layout that most of their texts are rebuilt in
    row_bytes: float  # of a row, on average


def sampled(snapshot: Snapshot, layout: PlannedLayout, executor: Executor) -> Sample:
    """Makes rows of the first files, which are the same whenever the same log is read."""
    actions = _first_actions(snapshot, layout, executor)
    if actions is None:
        return Sample(DEFAULT_STATS_FORMAT, 0)
    instants, statistics = snapshot.columns.instants, layout.schema.statistics
    _, texts = RowMaker(layout, instants, DEFAULT_STATS_FORMAT).without_statistics(actions)
    texts = texts.drop_null()
    stats_format = DEFAULT_STATS_FORMAT
    if len(texts):
        stats_format = choose_stats_format(texts, read_statistics(texts, statistics), statistics)
    rows = RowMaker(layout, instants, stats_format).rows(actions)
    # In a row of DuckDB's a text takes 16 bytes besides its own, and so do offsets and nulls here.
    overhead = 16 * sum(pa.types.is_string(field.type) for field in rows.schema)
    return Sample(stats_format, rows.nbytes / rows.num_rows + overhead)


def _first_actions(snapshot: Snapshot, layout: PlannedLayout, executor: Executor) -> pa.RecordBatch | None:
    columns = ActionColumns(names_of_partitions(snapshot))
    most = max(1, min(_SAMPLED, _SAMPLED_CELLS // (3 * len(layout.schema.statistics) + 1)))
    request = ScanRequest(snapshot.table, columns, forward=True)
    found: list[pa.RecordBatch] = []
    rows = 0
    with closing(StateMachineIterator(scan(snapshot, request), executor)) as machine:
        for batch in islice(machine, _MOST_BATCHES):
            # A checkpoint and commits have other fields: what comes first counts.
            if found and found[0].schema != batch.schema:
                break
            found.append(batch)
            rows += batch.num_rows
            if rows >= most:
                break
    return joined(found).slice(0, most) if found else None


_SAMPLED = 1_000
_MOST_BATCHES = 32
_SAMPLED_CELLS = 1 << 20
