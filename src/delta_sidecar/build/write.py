"""The data file of a metadata sidecar: pieces as they come, then one combined footer.

Index pieces go to the file itself and statistics pieces beside it, for where those stand is known only once all index
pieces are. In memory there are a few row groups, and of each one a few numbers.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import asdict, replace

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build.live_rows import in_threads
from delta_sidecar.build.row_groups import summary_of, totals_of
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.sidecar.groups import RowGroup, StatsFooter
from delta_sidecar.sidecar.manifest import FOOTER_KEY, NO_FILES
from delta_sidecar.sidecar.pieces import MAGIC, GroupFooters, encode_piece, join_footers, piece_footer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from delta_sidecar.build.live_rows import PackedRows, RowMaker
    from delta_sidecar.build.planned_layout import PlannedLayout
    from delta_sidecar.sidecar.manifest import Totals

_COPIED_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a data file, all in one file on the local disk; its footer may still be missing."""

    path: Path
    groups: list[RowGroup]
    index_footers: list[int]  # bytes of the footer of each index piece
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
    written: Callable[[int], None] | None = None,
) -> Pieces:
    """Writes the pieces of row groups, as `cut` makes them, into a file in a folder.

    So many `threads` encode row groups; `written` is called with the number of rows that are written so far.

    Raises:
        TemporaryFileError: The file cannot be written.
    """
    path, beside = folder / "data.parquet", folder / "statistics"
    found: list[RowGroup] = []
    index_footers: list[int] = []
    index_bytes = stats_bytes = num_rows = kept_texts = 0
    totals = NO_FILES
    try:
        with (
            closing(in_threads(partial(_encoded, maker=maker, layout=layout), groups, threads, "encode")) as encoded,
            path.open("xb") as index,
            beside.open("x+b") as statistics,
        ):
            for made in encoded:
                index.write(made.index)
                statistics.write(made.statistics)
                # The statistics pieces stand behind all index pieces, whose length is known in the end.
                places = {"index": len(found), "byte_offset": index_bytes, "stats_offset": stats_bytes}
                found.append(replace(made.group, **places))
                index_footers.append(len(piece_footer(made.index)))
                index_bytes += len(made.index)
                stats_bytes += len(made.statistics)
                num_rows += made.group.num_rows
                kept_texts += made.kept_texts
                totals += made.totals
                if written is not None:
                    written(num_rows)
            if not found:
                index.write(MAGIC)
            statistics.seek(0)
            shutil.copyfileobj(statistics, index, _COPIED_AT_ONCE)
        beside.unlink()
    except OSError as error:
        raise unwritable(folder, error) from error
    placed = [replace(group, stats_offset=index_bytes + group.stats_offset) for group in found]
    return Pieces(path, placed, index_footers, index_bytes, stats_bytes, num_rows, kept_texts, totals)


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
        groups,
        [*first.index_footers, *second.index_footers],
        first.index_bytes + second.index_bytes,
        first.stats_bytes + second.stats_bytes,
        first.num_rows + second.num_rows,
        first.kept_texts + second.kept_texts,
        first.totals + second.totals,
    )


def write_footer(pieces: Pieces, layout: PlannedLayout, body: str) -> int:
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
                _footers(pieces, source),
                num_row_groups=len(pieces.groups),
                num_rows=pieces.num_rows,
                key_values={FOOTER_KEY: body},
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


@dataclass(frozen=True, slots=True)
class _EncodedGroup:
    index: bytes
    statistics: bytes
    group: RowGroup  # without its places
    totals: Totals
    kept_texts: int


def _encoded(sorted_rows: pa.RecordBatch, *, maker: RowMaker | PackedRows, layout: PlannedLayout) -> _EncodedGroup:
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
        stats_footer=StatsFooter(len(footer), xxh3_128(footer)),
        **asdict(summary_of(rows, layout)),
    )
    kept = rows.column("stats_json")
    return _EncodedGroup(index, statistics, group, totals_of(rows), len(kept) - kept.null_count)


def _skippable(layout: PlannedLayout) -> list[str]:
    """Index columns by which other engines can pass over row groups."""
    schema = layout.schema
    names = [] if schema.bucket_column is None else [schema.bucket_column]
    return names if schema.time is None else [*names, *(name for name in schema.index.names[-3:])]


def _footers(pieces: Pieces, source: BinaryIO) -> Iterator[GroupFooters]:
    for group, length in zip(pieces.groups, pieces.index_footers, strict=True):
        source.seek(group.byte_offset + group.byte_length - length)
        index = source.read(length)
        source.seek(group.stats_offset + group.stats_length - group.stats_footer.length)
        statistics = source.read(group.stats_footer.length)
        yield GroupFooters(index, group.byte_offset, statistics, group.stats_offset)
