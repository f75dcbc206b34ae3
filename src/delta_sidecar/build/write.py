"""The data file of a metadata sidecar: pieces as they come, then one combined footer.

Index pieces go to the file itself and statistics pieces beside it, for where those stand is known only once all index
pieces are. In memory there are a few row groups, and of each one a few numbers.
"""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import asdict, replace

from delta_sidecar._arrow import from_numpy, scalar, to_numpy, xxh3_128
from delta_sidecar.build.live_rows import joined
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.execute.lanes import in_threads
from delta_sidecar.log.values import ARROW, value_text
from delta_sidecar.plan import WHOLE_PIECE_BYTES
from delta_sidecar.sidecar.groups import LARGEST, RowGroup, RowSummary, StatsFooter, SummaryBounds
from delta_sidecar.sidecar.manifest import FOOTER_KEY, NO_FILES, Totals
from delta_sidecar.sidecar.pieces import MAGIC, GroupFooters, encode_piece, join_footers, piece_footer
from delta_sidecar.sidecar.rows import bound_column, untold_names
from delta_sidecar.sidecar.schema import column_name

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from delta_sidecar.build.live_rows import PackedRows, RowMaker
    from delta_sidecar.sidecar.groups import JsonScalar, Key, RowGroups
    from delta_sidecar.sidecar.layout import PlannedLayout

_COPIED_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a data file, all in one file on the local disk; its footer may still be missing."""

    path: Path
    groups: RowGroups
    footers: list[tuple[int, int]]  # bytes of the footers of each row group's pieces
    index_bytes: int
    stats_bytes: int
    num_rows: int
    kept_texts: int  # rows whose statistics are kept as text
    totals: Totals


def write_pieces(
    groups: Iterable[pa.RecordBatch],
    maker: RowMaker | PackedRows,
    layout: PlannedLayout,
    folder: Path,
    *,
    threads: int = 2,
    written: Callable[[int], object] = lambda _: None,
) -> Pieces:
    """Writes the pieces of row groups, as `cut` makes them, into a file in a folder.

    So many `threads` encode row groups; `written` is called with the number of rows that are written so far.

    Raises:
        TemporaryFileError: The file cannot be written.
    """
    path, beside = folder / "data.parquet", folder / "statistics"
    found: list[RowGroup] = []
    footers: list[tuple[int, int]] = []
    index_bytes = stats_bytes = num_rows = kept_texts = 0
    totals = NO_FILES
    try:
        with (
            closing(in_threads(partial(_encoded, maker=maker, layout=layout), groups, threads, "encode")) as encoded,
            path.open("xb") as index,
            beside.open("x+b") as statistics,
        ):
            for index_piece, statistics_piece, footer_bytes, group, sums, kept in encoded:
                index.write(index_piece)
                statistics.write(statistics_piece)
                # The statistics pieces stand behind all index pieces, whose length is known in the end.
                places = {"index": len(found), "byte_offset": index_bytes, "stats_offset": stats_bytes}
                found.append(replace(group, **places))
                footers.append(footer_bytes)
                index_bytes += len(index_piece)
                stats_bytes += len(statistics_piece)
                num_rows += group.num_rows
                kept_texts += kept
                totals += sums
                written(num_rows)
            if not found:
                index.write(MAGIC)
            statistics.seek(0)
            shutil.copyfileobj(statistics, index, _COPIED_AT_ONCE)
        beside.unlink()
    except OSError as error:
        raise unwritable(folder, error) from error
    placed = tuple(replace(group, stats_offset=index_bytes + group.stats_offset) for group in found)
    return Pieces(path, placed, footers, index_bytes, stats_bytes, num_rows, kept_texts, totals)


def joined_pieces(first: Pieces, second: Pieces, folder: Path) -> Pieces:
    """Joins the pieces of two files into a third one in a folder, the row groups of the first in front.

    Raises:
        TemporaryFileError: The file cannot be written.
    """
    path = folder / "data.parquet"
    ranges = [(each.path, 0, each.index_bytes) for each in (first, second)]
    ranges += [(each.path, each.index_bytes, each.stats_bytes) for each in (first, second)]
    try:
        with path.open("xb") as file:
            for source, start, length in ranges:
                _copy(source, start, length, file)
    except OSError as error:
        raise unwritable(folder, error) from error
    groups = [replace(group, stats_offset=group.stats_offset + second.index_bytes) for group in first.groups]
    for group in second.groups:
        byte_offset = first.index_bytes + group.byte_offset
        stats_offset = first.index_bytes + first.stats_bytes + group.stats_offset
        groups.append(replace(group, index=len(groups), byte_offset=byte_offset, stats_offset=stats_offset))
    return Pieces(
        path,
        tuple(groups),
        [*first.footers, *second.footers],
        first.index_bytes + second.index_bytes,
        first.stats_bytes + second.stats_bytes,
        first.num_rows + second.num_rows,
        first.kept_texts + second.kept_texts,
        first.totals + second.totals,
    )


def write_footer(pieces: Pieces, layout: PlannedLayout, body: bytes) -> int:
    """Writes the combined footer behind the pieces, in the place of one that is there; returns the size of the file.

    The manifest's body is for readers that find no manifest.

    Raises:
        TemporaryFileError: The file cannot be written.
    """
    try:
        with pieces.path.open("r+b") as file, pieces.path.open("rb") as source:
            file.seek((pieces.index_bytes + pieces.stats_bytes) or len(MAGIC))
            file.truncate()
            blocks = join_footers(
                layout.schema,
                _footers(source, pieces),
                num_row_groups=len(pieces.groups),
                num_rows=pieces.num_rows,
                key_values={FOOTER_KEY: body.decode()},
            )
            for block in blocks:
                file.write(block)
            return file.tell()
    except OSError as error:
        raise unwritable(pieces.path.parent, error) from error


@contextmanager
def temporary_folder(prefix: str, inside: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Makes a folder that is removed in the end, inside of another one or of the machine's own for such.

    Raises:
        TemporaryFileError: It cannot be made.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=inside))
    except OSError as error:
        msg = f"no temporary folder can be made in {inside or tempfile.gettempdir()}: {error.strerror}"
        raise TemporaryFileError(msg) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unwritable(folder: Path, error: OSError) -> TemporaryFileError:
    """The error for a temporary file that cannot be written."""
    reason = error.strerror or error
    return TemporaryFileError(f"a temporary file in {folder} cannot be written: {reason}; name another temp_directory")


def _copy(source: Path, start: int, length: int, file: BinaryIO) -> None:
    with source.open("rb") as opened:
        opened.seek(start)
        while length and (block := opened.read(min(length, _COPIED_AT_ONCE))):
            file.write(block)
            length -= len(block)


def _footers(source: BinaryIO, pieces: Pieces) -> Iterator[GroupFooters]:
    """Reads the footers of the pieces back, a row group at a time."""
    for group, (index_length, stats_length) in zip(pieces.groups, pieces.footers, strict=True):
        source.seek(group.byte_offset + group.byte_length - index_length)
        index = source.read(index_length)
        source.seek(group.stats_offset + group.stats_length - stats_length)
        statistics = source.read(stats_length)
        yield GroupFooters(index, group.byte_offset, statistics, group.stats_offset)


def _encoded(
    sorted_rows: pa.RecordBatch, *, maker: RowMaker | PackedRows, layout: PlannedLayout
) -> tuple[bytes, bytes, tuple[int, int], RowGroup, Totals, int]:
    """The index piece and the statistics piece, how long their footers are, and what they hold.

    That is the row group without its places, its totals, and how many texts are kept.
    """
    schema = layout.schema
    rows = maker.finished(sorted_rows)
    indexed = rows.select(schema.index.names).cast(schema.index)
    index = encode_piece(indexed, chunk_digests=False, skippable=_skippable(layout))
    statistics = encode_piece(rows.select(schema.statistics_schema.names), chunk_digests=True)
    footer = piece_footer(statistics)
    group = RowGroup(
        index=0,
        byte_offset=0,
        byte_length=len(index),
        digest=xxh3_128(index),
        stats_offset=0,
        stats_length=len(statistics),
        stats_digest=xxh3_128(statistics),
        stats_footer=StatsFooter(len(footer), xxh3_128(footer)) if len(statistics) > WHOLE_PIECE_BYTES else None,
        **asdict(summary_of(rows, layout)),
    )
    kept = rows.column("stats_json")
    footers = len(piece_footer(index)), len(footer)
    return index, statistics, footers, group, totals_of(rows), len(kept) - kept.null_count


def _skippable(layout: PlannedLayout) -> list[str]:
    """Index columns by which other engines can pass over row groups."""
    schema = layout.schema
    names = [] if schema.bucket_column is None else [schema.bucket_column]
    return names if schema.time is None else [*names, *(name for name in schema.index.names[-3:])]


# Row groups: sorted rows cut into groups, and the summary of each for the manifest.


def cut(batches: Iterable[pa.RecordBatch], rows_per_group: int) -> Iterator[pa.RecordBatch]:
    """Cuts sorted rows into groups. Those of complete rows and of others have each a last one with fewer rows."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        for part in _of_one_kind(batch):
            if held and _is_complete(held[0]) != _is_complete(part):
                yield joined(held)
                held, rows = [], 0
            held.append(part)
            rows += part.num_rows
            while rows >= rows_per_group:
                last = held.pop()
                extra = rows - rows_per_group
                yield joined([*held, last.slice(0, last.num_rows - extra)])
                held, rows = [last.slice(last.num_rows - extra)] if extra else [], extra
    if held:
        yield joined(held)


def summary_of(group: pa.RecordBatch, layout: PlannedLayout) -> RowSummary:
    """The summary of a row group, from its rows in order."""
    low, high, nulls, odd = _buckets(group, layout)
    return RowSummary(
        num_rows=group.num_rows,
        first_key=_key(group, 0, layout),
        last_key=_key(group, group.num_rows - 1, layout),
        event_hour_min=low,
        event_hour_max=high,
        null_buckets=nulls,
        odd_buckets=odd,
        columns=_bounds(group, layout),
    )


def totals_of(group: pa.RecordBatch) -> Totals:
    """The sums over the files of a row group."""
    size, records, deleted = (group.column(name) for name in ("size", "num_records", "dv.cardinality"))
    totals = Totals(*_sum_and_largest(size), *_sum_and_largest(records))
    has_vector = to_numpy(group.column("dv.storageType").is_valid())
    if totals.rows is None or not has_vector.any():
        return totals
    hidden = to_numpy(pc.fill_null(deleted, scalar(0, pa.int64())))
    is_known = bool((to_numpy(deleted.is_valid()) | ~has_vector).all()) and hidden.min() >= 0
    rows = _sum_and_largest(from_numpy(to_numpy(records) - hidden)) if is_known else (None, None)
    return Totals(totals.bytes, totals.largest, *rows)


def json_value(value: pa.Scalar) -> JsonScalar | None:
    """A bound as Delta's statistics write it, to the last digit."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_timestamp(kind):
        return _moment(value)
    found: Any = value.as_py()
    if isinstance(found, dt.date):
        return found.isoformat()
    if isinstance(found, float):
        if not np.isfinite(found):
            return "NaN" if np.isnan(found) else "Infinity" if found > 0 else "-Infinity"
        return Decimal(repr(found))
    result: JsonScalar = found
    return result


def _sum_and_largest(column: pa.Array) -> tuple[int | None, int | None]:
    """None and None where a value is missing, or negative."""
    values = to_numpy(column) if not column.null_count else None
    if values is None or (len(values) and values.min() < 0):
        return None, None
    # In halves, for the sum of numbers that are no sizes at all may not fit.
    total = (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
    return (total if total <= LARGEST else None), int(values.max(initial=0))


def _of_one_kind(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The incomplete rows of sorted ones, then the complete ones."""
    complete = int(np.count_nonzero(to_numpy(batch.column("#complete"))))
    incomplete = batch.num_rows - complete
    if incomplete:
        yield batch.slice(0, incomplete)
    if complete:
        yield batch.slice(incomplete)


def _is_complete(batch: pa.RecordBatch) -> bool:
    return bool(batch.column("#complete")[0].as_py())


def _key(group: pa.RecordBatch, row: int, layout: PlannedLayout) -> Key:
    values: list[JsonScalar | None] = []
    for number, value in enumerate(layout.order.sort):
        typed = group.column(f"#{number}")[row]
        if value.kind == "lower_bound":
            values.append(json_value(typed))
        else:
            text = group.column(layout.schema.partition_columns[value.column[0]])[row].as_py()
            values.append(text if typed.is_valid else None)
    path, vector = (group.column(name)[row].as_py() for name in ("path", "#vector"))
    return (group.column("#complete")[row].as_py(), *values, path, vector)


def _buckets(group: pa.RecordBatch, layout: PlannedLayout) -> tuple[str | None, str | None, int, int]:
    """Raw texts of the lowest and highest bucket, rows without one, and rows with one that is no value."""
    schema = layout.schema
    if schema.bucket is None:
        return None, None, 0, 0
    texts, typed = group.column(schema.bucket_column), group.column("#0")
    without = typed.null_count
    empty = ~to_numpy(texts.is_valid()) | to_numpy(pc.equal(texts, scalar("", pa.string())))
    is_known = ~_untold(group.column("untold"), schema.bucket)
    nulls = int(np.count_nonzero(empty & is_known & ~to_numpy(typed.is_valid())))
    low = high = None
    if without < group.num_rows:
        # Nulls come first.
        low, high = texts[without].as_py(), texts[group.num_rows - 1].as_py()
    return low, high, nulls, without - nulls


def _untold(column: pa.StringArray, physical: str) -> np.ndarray:
    if column.null_count == len(column):
        return np.zeros(len(column), dtype=np.bool_)
    return np.array([physical in untold_names(text) for text in column.to_pylist()], dtype=np.bool_)


def _bounds(group: pa.RecordBatch, layout: PlannedLayout) -> dict[str, SummaryBounds]:
    if not _is_complete(group):
        return {}
    found = {}
    for path in layout.order.summaries:
        low, high = pc.min(bound_column(group, "min", path)), pc.max(bound_column(group, "max", path))
        lower, upper = json_value(low), json_value(high)
        if lower is not None and upper is not None:
            found[column_name(path)] = SummaryBounds(lower, upper)
    return found


def _moment(value: pa.TimestampScalar) -> str:
    # Arrow writes moments that Python's datetime cannot hold.
    text: str = value_text(pa.repeat(value, 1), ARROW)[0].as_py().strip('"')
    return text.replace("000Z", "Z") if text.endswith("Z") else text.removesuffix("000")
