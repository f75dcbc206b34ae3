"""Runs `ScanPieces`: row groups out of ranges of a file, a few at once, each checked before it is decoded."""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from msgspec import Struct

from delta_sidecar._arrow import xxh3_128
from delta_sidecar._threads import ThreadPool
from delta_sidecar.errors import SidecarError, StorageError
from delta_sidecar.execute.fetch import Asked, Work, decoders, unreadable
from delta_sidecar.execute.lanes import in_lanes
from delta_sidecar.plan import WHOLE_PIECE_BYTES, FileRef, Piece, Place
from delta_sidecar.store import TripClock, current_clock, run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from delta_sidecar.plan import Batches, PieceGroup, ScanPieces
    from delta_sidecar.store import Buffer

    Functions = tuple[Callable[[pa.RecordBatch], pa.RecordBatch | None], ...]

T = TypeVar("T")
_Placed = tuple[Place, pa.RecordBatch]

_DECODED_BYTES = 4 << 20
MOST_PIECE_BYTES = 1 << 30
"""Wanted columns of a piece that take more once they are decompressed are not decoded: the next base is read."""

# What a piece is made of: see the format. Nothing of it takes more room in memory than its pages do.
_ENCODINGS = frozenset({"PLAIN", "RLE", "DELTA_BINARY_PACKED"})
# The header of a data page up to its statistics, of which most have none: read_page_header takes ten times as long.
_VARINT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_HEADER = re.compile(rb"\x15\x00\x15%b\x15%b(?:\x15%b\x1c|\x2c)\x15%b\x15[\x00\x0a]\x15\x06\x15\x06" % ((_VARINT,) * 4))
_STOP, _TRUE, _FALSE, _NUMBER, _BYTES, _STATISTICS = 0, 1, 2, 6, 8, 0x1C
_LONGEST_HEADER = 64 << 10


class PieceScan:
    """Reads pieces. Row groups that are asked for ahead are fetched, and the first ones decoded in threads."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ahead: dict[Piece, Asked[Mapping[Piece, Buffer]]] = {}
        self._decoded: dict[tuple[PieceGroup, object], Asked[pa.RecordBatch]] = {}
        self._decoding = ThreadPool(decoders(), "delta-sidecar-decode")

    def ahead(self, plan: ScanPieces) -> None:
        """Asks for row groups that are needed soon."""
        first_reads = {group: _first_reads(plan, group) for group in plan.groups}
        pieces = chain.from_iterable(first_reads.values())
        self._ahead |= self._ask([piece for piece in pieces if piece not in self._ahead])
        for group in plan.groups[: decoders()]:
            if (group, plan.columns) in self._decoded:
                continue
            task = _GroupTask(self._work, plan, group, {piece: self._ahead[piece] for piece in first_reads[group]})
            asked = Asked(TripClock(self._work.clock.depth), task.decoded)
            asked.future = self._decoding.submit(asked.make)
            self._decoded[group, plan.columns] = asked

    def close(self) -> None:
        """Forgets what was asked for ahead."""
        self._decoding.close()
        self._ahead.clear()
        self._decoded.clear()

    def run(self, plan: ScanPieces, functions: Functions = ()) -> Batches:
        """Reads row groups.

        Args:
            plan: Which ones.
            functions: Filters without state, applied where the batches are made.

        Raises:
            UnreadableFileError: A row group cannot be fetched, or is not what it should be.
        """
        self._work.count(skipped=plan.skipped, of_pieces=True)
        if len(plan.groups) == 1:
            # The consumer waits for it anyway.
            for place, batch in run_in(self._work.clock, lambda: list(next(self._tasks(plan, functions))())):
                self._work.place = place
                yield batch
            return
        given = 0

        def ahead() -> int:
            # Nothing more is asked for before the first groups, which may be enough, are given.
            return plan.at_once if given >= plan.at_first else plan.at_first - given

        decoded = in_lanes(
            min(decoders(), plan.at_once),
            self._work.clock,
            self._tasks(plan, functions),
            ahead=ahead,
            budget=_DECODED_BYTES,
            weigh=_weight,
        )
        with closing(decoded):
            for place, batch in decoded:
                given += 1
                self._work.place = place
                yield batch

    def _ask(self, pieces: Sequence[Piece]) -> dict[Piece, Asked[Mapping[Piece, Buffer]]]:
        """Asks for pieces whole, those of one file together."""
        asked: dict[Piece, Asked[Mapping[Piece, Buffer]]] = {}
        for path in dict.fromkeys(piece.path for piece in pieces):
            of_file = tuple(piece for piece in pieces if piece.path == path)
            asked |= dict.fromkeys(of_file, self._work.ask(partial(_fetch, self._work, of_file)))
        return asked

    def _tasks(self, plan: ScanPieces, functions: Functions) -> Iterator[Callable[[], Iterator[_Placed]]]:
        remaining = iter(plan.groups)
        many = plan.at_first
        while groups := tuple(islice(remaining, many)):
            many = plan.at_once
            first_reads = {group: _first_reads(plan, group) for group in groups}
            asked = self._ask([piece for group in groups for piece in first_reads[group] if piece not in self._ahead])
            for group, pieces in first_reads.items():
                found = {piece: asked[piece] if piece in asked else self._ahead.pop(piece) for piece in pieces}
                ready = self._decoded.pop((group, plan.columns), None)
                yield _GroupTask(self._work, plan, group, found, functions, ready)


class _GroupTask(Struct):
    """Checks and decodes one row group, and applies the filters that have no state, all in one thread."""

    work: Work
    plan: ScanPieces
    group: PieceGroup
    asked: dict[Piece, Asked[Mapping[Piece, Buffer]]]
    functions: Functions = ()
    ready: Asked[pa.RecordBatch] | None = None  # the row group, where it is decoded already, or by another thread

    def __call__(self) -> Iterator[_Placed]:
        group = self.group
        path = group.pieces[0].path
        try:
            batch: pa.RecordBatch | None = self.decoded() if self.ready is None else _answer(self.ready)
            self.work.count(read=1, batches=1, of_pieces=True)
            for function in self.functions:
                batch = function(batch) if batch is not None and batch.num_rows else None
        except (pa.ArrowException, MemoryError, SidecarError, StorageError, OSError) as error:
            raise unreadable(FileRef(path, label=group.number), error) from error
        if group.number % self.plan.at_once == 0:
            # Arrow's allocator keeps what a thread frees; over many row groups that adds up.
            pa.default_memory_pool().release_unused()
        if batch is not None and batch.num_rows:
            yield Place(path, group.number), batch

    def decoded(self) -> pa.RecordBatch:
        """The row group as it is in the file."""
        columns: dict[str, pa.Array] = {}
        for piece, names, schema in zip(self.group.pieces, self.plan.columns, self.plan.schemas, strict=True):
            for name, column in self._columns(piece, names, schema):
                if len(column) != self.group.rows:
                    msg = f"it has {len(column)} rows where {self.group.rows} are promised"
                    raise pa.ArrowInvalid(msg)
                columns[name] = column
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _columns(
        self, piece: Piece, names: tuple[str, ...] | None, schema: pa.Schema
    ) -> Iterator[tuple[str, pa.Array]]:
        import pyarrow.parquet as pq

        first = _first_read(self.plan, piece, names)
        data = _answer(self.asked.pop(first))[first]
        _check(data, first.digest, "the row group" if first is piece else "the footer of the statistics")
        content = memoryview(data if first is piece else self._excerpt(piece, data, names or ()))
        with pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)), memory_map=False) as file:
            _check_columns(file.schema_arrow, names, schema)
            _check_pages(file.metadata, content, schema.names, schema.names if names is None else names)
            table = file.read(columns=None if names is None else list(names), use_threads=False)
        for name in table.column_names if names is None else names:
            chunks = table.column(name).chunks
            yield name, chunks[0] if len(chunks) == 1 else pa.concat_arrays([*chunks, pa.nulls(0, table[name].type)])

    def _excerpt(self, piece: Piece, footer: Buffer, names: tuple[str, ...]) -> bytes:
        """A Parquet file of some columns of a large piece."""
        if self.plan.directory is None:
            msg = "a piece is read by columns only where a directory tells of them"
            raise RuntimeError(msg)
        store = self.work.store
        directory = self.plan.directory(bytes(footer))
        chunks = {name: directory.ranges[name] for name in names if name in directory.ranges}
        ranges = [(piece.offset + chunk.start, piece.offset + chunk.end) for chunk in chunks.values()]
        found = dict(zip(chunks, map(bytes, store.get_ranges(piece.path, ranges)), strict=True))
        for name, data in found.items():
            _check(data, chunks[name].digest, f"column {name} of the statistics")
        return directory.excerpt(found)


def _answer(asked: Asked[T]) -> T:
    """Waits for an answer, which may have taken more trips than this thread knows of."""
    answer, clock = asked.result(), current_clock()
    clock.depth = max(clock.depth, asked.clock.depth)
    return answer


def _check_columns(found: pa.Schema, names: tuple[str, ...] | None, schema: pa.Schema) -> None:
    """Refuses a piece that lacks a wanted column, or has it with another type."""
    for name in schema.names if names is None else names:
        at = found.get_field_index(name)
        if at < 0 or found.field(at).type != schema.field(name).type:
            msg = f"it has no column {name} of the type that it should have"
            raise pa.ArrowInvalid(msg)


def _check_pages(metadata: pq.FileMetaData, data: memoryview, known: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuses a piece whose wanted columns are not as the format has them, or take more memory than any should."""
    if not metadata.num_rows:
        return
    if metadata.num_row_groups != 1:
        msg = f"it has {metadata.num_row_groups} row groups where one is promised"
        raise pa.ArrowInvalid(msg)
    unwanted = {*known} - {*wanted}
    group, size = metadata.row_group(0), 0
    for leaf in range(metadata.num_columns):
        chunk = group.column(leaf)
        if chunk.path_in_schema in unwanted:
            continue
        if chunk.has_dictionary_page or not _ENCODINGS.issuperset(chunk.encodings):
            msg = f"column {chunk.path_in_schema} is not encoded as in a metadata sidecar"
            raise pa.ArrowInvalid(msg)
        uncompressed, values = _first_page(data, chunk.data_page_offset)
        if values != chunk.num_values:
            msg = f"column {chunk.path_in_schema} is not one page"
            raise pa.ArrowInvalid(msg)
        size += uncompressed
    if size > MOST_PIECE_BYTES:
        msg = f"it comes to {size} bytes once it is decompressed, and a row group has at most {MOST_PIECE_BYTES}"
        raise pa.ArrowInvalid(msg)


def _first_page(data: memoryview, position: int) -> tuple[int, int]:
    """The decompressed bytes and the values of a data page, by its header."""
    usual = _HEADER.match(data, position)
    if usual is not None and _is_end(data, usual.end()):
        return _unpacked(usual[1]), _unpacked(usual[4])
    from delta_sidecar.execute.parquet.pages import DATA_PAGE, read_page_header

    msg = "a page has no header as in a metadata sidecar"
    try:
        header = read_page_header(bytes(data[position : position + _LONGEST_HEADER]))
    except ValueError as error:
        raise pa.ArrowInvalid(msg) from error
    if header.kind != DATA_PAGE:
        raise pa.ArrowInvalid(msg)
    return header.uncompressed, header.values


def _is_end(data: memoryview, at: int) -> bool:
    """Whether a page header ends here, but for statistics of short values."""
    try:
        if data[at] == _STATISTICS:
            at += 1
            while (kind := data[at] & 0x0F) != _STOP:
                if kind not in (_TRUE, _FALSE):
                    if kind not in (_NUMBER, _BYTES) or data[at + 1] & 0x80:
                        return False
                    at += 1 + data[at + 1] * (kind == _BYTES)
                at += 1
            at += 1
        return bytes(data[at : at + 2]) == b"\0\0"
    except IndexError:
        return False


def _unpacked(varint: bytes) -> int:
    """A whole number from 0 on, out of Thrift's compact form."""
    number = 0
    for byte in reversed(varint):
        number = number << 7 | byte & 0x7F
    return number >> 1


def _first_reads(plan: ScanPieces, group: PieceGroup) -> list[Piece]:
    """The first range that is read of each piece of a row group."""
    return [_first_read(plan, piece, columns) for piece, columns in zip(group.pieces, plan.columns, strict=True)]


def _first_read(plan: ScanPieces, piece: Piece, names: tuple[str, ...] | None) -> Piece:
    """The first range read of a piece: all of it, or its footer where it is large and only some columns are needed."""
    is_large = piece.length > WHOLE_PIECE_BYTES and piece.footer_length > 0
    if not is_large or plan.directory is None or names is None:
        return piece
    return Piece(piece.path, piece.end - piece.footer_length, piece.footer_length, piece.footer_digest)


def _fetch(work: Work, pieces: tuple[Piece, ...]) -> Mapping[Piece, Buffer]:
    """Fetches pieces of one file whole."""
    ranges = [(piece.offset, piece.end) for piece in pieces]
    return dict(zip(pieces, work.store.get_ranges(pieces[0].path, ranges), strict=True))


def _check(data: Buffer, digest: str | None, what: str) -> None:
    if xxh3_128(data) != digest:
        msg = f"{what} is damaged: its digest is not the one of the manifest"
        raise pa.ArrowInvalid(msg)


def _weight(placed: _Placed) -> int:
    return placed[1].get_total_buffer_size()  # type: ignore[no-any-return]
