"""The data file of a metadata sidecar: pieces as they come, then one combined footer.

Index pieces go to the file itself and statistics pieces beside it, for where those stand is known only once all index
pieces are. In memory there are a few row groups, and of each one a few numbers.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build.groups import GroupFacts, facts_of
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.sidecar.footer import MAGIC
from delta_sidecar.sidecar.groups import RowGroup, StatsFooter
from delta_sidecar.sidecar.manifest import FOOTER_KEY, NO_FILES, Totals
from delta_sidecar.sidecar.pieces import GroupFooters, encode_piece, join_footers, piece_footer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    import pyarrow as pa

    from delta_sidecar.build.layout import PlannedLayout
    from delta_sidecar.build.rows import PackedRows, RowMaker

_COPIED_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a data file, all in one file on the local disk; its footer may still be missing.

    Attributes:
        path: The file.
        groups: The row groups in order.
        index_footers: Bytes of the footer of each index piece.
        index_bytes: Bytes of all index pieces.
        stats_bytes: Bytes of all statistics pieces.
        num_rows: Rows of all of them.
        kept_texts: Rows whose statistics are kept as text.
        totals: What the files of all rows have.
    """

    path: Path
    groups: list[RowGroup]
    index_footers: list[int]
    index_bytes: int
    stats_bytes: int
    num_rows: int
    kept_texts: int
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
    """Writes the pieces of row groups.

    Args:
        groups: The row groups as `cut` gives them.
        maker: What made their rows, and finishes them.
        layout: The layout of the sidecar.
        folder: Where the file is written.
        threads: How many pieces are made at once.
        written: Is told how many rows are written so far.

    Raises:
        TemporaryFileError: The file cannot be written.
    """
    path = folder / "data.parquet"
    try:
        with ExitStack() as stack:
            index = stack.enter_context(path.open("xb"))
            statistics = stack.enter_context((folder / "statistics").open("x+b"))
            spool = _Spool(index, statistics)
            for made in _encoded(groups, maker, layout, threads):
                spool.add(made)
                if written is not None:
                    written(spool.num_rows)
            if not spool.groups:
                index.write(MAGIC)
            statistics.seek(0)
            while block := statistics.read(_COPIED_AT_ONCE):
                index.write(block)
        (folder / "statistics").unlink()
    except OSError as error:
        raise unwritable(folder, error) from error
    return spool.pieces(path)


def joined_pieces(first: Pieces, second: Pieces, folder: Path) -> Pieces:
    """Joins the pieces of two files into a third one, the row groups of the first in front.

    Args:
        first: Some pieces.
        second: Others.
        folder: Where the file is made.

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
    in_front = len(first.groups)
    groups = [replace(group, stats_offset=group.stats_offset + second.index_bytes) for group in first.groups]
    groups += [
        replace(
            group,
            index=in_front + group.index,
            byte_offset=first.index_bytes + group.byte_offset,
            stats_offset=first.index_bytes + first.stats_bytes + group.stats_offset,
        )
        for group in second.groups
    ]
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
    """Writes the combined footer behind the pieces, in the place of one that is there.

    Args:
        pieces: The pieces.
        layout: The layout of the sidecar.
        body: The manifest's body, for readers that find no manifest.

    Returns:
        The size of the whole file.

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
class _Made:
    """A row group as two pieces."""

    index: bytes
    statistics: bytes
    facts: GroupFacts
    kept_texts: int


class _Spool:
    def __init__(self, index: BinaryIO, statistics: BinaryIO) -> None:
        self.groups: list[RowGroup] = []
        self.num_rows = 0
        self._index, self._statistics = index, statistics
        self._index_footers: list[int] = []
        self._index_bytes = self._stats_bytes = self._kept_texts = 0
        self._totals = NO_FILES

    def add(self, made: _Made) -> None:
        self._index.write(made.index)
        self._statistics.write(made.statistics)
        facts, footer = made.facts, piece_footer(made.statistics)
        self.groups.append(
            RowGroup(
                index=len(self.groups),
                byte_offset=self._index_bytes,
                byte_length=len(made.index),
                num_rows=facts.num_rows,
                digest=xxh3_128(made.index),
                # From the first statistics piece on, until it is known where that one stands.
                stats_offset=self._stats_bytes,
                stats_length=len(made.statistics),
                stats_digest=xxh3_128(made.statistics),
                stats_footer=StatsFooter(len(footer), xxh3_128(footer)),
                first_key=facts.first_key,
                last_key=facts.last_key,
                event_hour_min=facts.event_hour_min,
                event_hour_max=facts.event_hour_max,
                null_buckets=facts.null_buckets,
                odd_buckets=facts.odd_buckets,
                columns=facts.columns,
            )
        )
        self._index_footers.append(len(piece_footer(made.index)))
        self._index_bytes += len(made.index)
        self._stats_bytes += len(made.statistics)
        self.num_rows += facts.num_rows
        self._kept_texts += made.kept_texts
        self._totals += facts.totals

    def pieces(self, path: Path) -> Pieces:
        moved = [replace(group, stats_offset=self._index_bytes + group.stats_offset) for group in self.groups]
        return Pieces(
            path,
            moved,
            self._index_footers,
            self._index_bytes,
            self._stats_bytes,
            self.num_rows,
            self._kept_texts,
            self._totals,
        )


def _encoded(
    groups: Iterable[pa.RecordBatch], maker: RowMaker | PackedRows, layout: PlannedLayout, threads: int
) -> Iterator[_Made]:
    """Makes pieces in some threads, in order, a few row groups ahead."""
    waiting: deque[Future[_Made]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="delta-sidecar-encode")
    try:
        for group in groups:
            waiting.append(pool.submit(_made, group, maker, layout))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _made(sorted_rows: pa.RecordBatch, maker: RowMaker | PackedRows, layout: PlannedLayout) -> _Made:
    schema = layout.schema
    group = maker.finished(sorted_rows)
    index = group.select(schema.index.names).cast(schema.index)
    statistics = group.select(schema.statistics_schema.names)
    kept = group.column("stats_json")
    return _Made(
        encode_piece(index, chunk_digests=False, skippable=_skippable(layout)),
        encode_piece(statistics, chunk_digests=True),
        facts_of(group, layout),
        len(kept) - kept.null_count,
    )


def _skippable(layout: PlannedLayout) -> list[str]:
    """Index columns by which other engines can pass over row groups."""
    schema = layout.schema
    names = [] if schema.bucket_column is None else [schema.bucket_column]
    return names if schema.time is None else [*names, *(name for name in schema.index.names[-3:])]


def _footers(pieces: Pieces, source: BinaryIO) -> Iterator[GroupFooters]:
    for group, length in zip(pieces.groups, pieces.index_footers, strict=True):
        source.seek(group.byte_offset + group.byte_length - length)
        index = source.read(length)
        source.seek(group.stats_offset + group.stats_length - group.stats_footer_length)
        statistics = source.read(group.stats_footer_length)
        yield GroupFooters(index, group.byte_offset, statistics, group.stats_offset)
