"""Row groups out of pieces: each is checked, they come in order, and only what is wanted is asked for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.plan import (
    HEAD_BYTES,
    WHOLE_PIECE_BYTES,
    Ahead,
    FileRef,
    Filter,
    ListFiles,
    Piece,
    PieceGroup,
    Place,
    ReadFiles,
    ReadKeyValue,
    ReadRanges,
    ScanPieces,
)
from delta_sidecar.sidecar.pieces import encode_piece, piece_footer, read_piece_footer
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.plan import Plan


FIRST = pa.schema([("n", pa.int64()), ("m", pa.string())])


@dataclass
class Pieces:
    """A file of pieces, two for each row group."""

    store: RecordingStore
    groups: tuple[PieceGroup, ...]
    data: bytes
    columns: int

    def damage(self, place: int) -> None:
        data = bytearray(self.data)
        data[place] ^= 4
        self.store.put("f", bytes(data), overwrite=True)


def pieces_of(groups: int, rows: int = 4, columns: int = 1) -> Pieces:
    """Makes row groups with `n` in their first piece and `s0`, `s1`... in their second one."""
    noise = np.random.default_rng(7)
    data, made = b"", []
    for number in range(groups):
        first = pa.RecordBatch.from_pydict({"n": list(range(number * rows, (number + 1) * rows)), "m": ["x"] * rows})
        second = pa.RecordBatch.from_pydict({f"s{column}": noise.random(rows) for column in range(columns)})
        found = []
        for batch in (first, second):
            piece = encode_piece(batch, chunk_digests=True)
            footer = piece_footer(piece)
            told = (len(footer), xxh3_128(footer)) if batch is second else (0, "")
            found.append(Piece("f", len(data), len(piece), xxh3_128(piece), *told))
            data += piece
        made.append(PieceGroup(number, rows, tuple(found)))
    store = RecordingStore(open_store(f"memory://{uuid.uuid4().hex}"))
    store.put("f", data)
    return Pieces(store, tuple(made), data, columns)


def run(pieces: Pieces, plan: Plan) -> Iterator[pa.RecordBatch]:
    executor = LocalExecutor(pieces.store)
    try:
        yield from executor.execute_parallel(plan)
    finally:
        executor.close()


def scan(pieces: Pieces, *wanted: tuple[str, ...] | None, at_once: int = 5) -> ScanPieces:
    groups = tuple(replace(group, pieces=group.pieces[: len(wanted)]) for group in pieces.groups)
    schemas = (FIRST, pa.schema([(f"s{column}", pa.float64()) for column in range(pieces.columns)]))[: len(wanted)]
    return ScanPieces(groups, wanted, schemas, at_once=at_once, at_first=at_once, directory=read_piece_footer)


def starts(pieces: Pieces) -> set[int | None]:
    """Where the ranges begin that were asked for."""
    return {attempt.start for attempt in pieces.store.attempts if attempt.kind != "put"}


def test_groups_come_in_order_with_the_columns_of_all_pieces() -> None:
    pieces = pieces_of(12)
    found = list(run(pieces, scan(pieces, ("n",), None)))
    assert [batch.column("n").to_pylist() for batch in found] == [
        [4 * at + row for row in range(4)] for at in range(12)
    ]
    assert found[0].schema.names == ["n", "s0"]


def test_only_the_pieces_that_are_wanted_are_read() -> None:
    pieces = pieces_of(3)
    found = list(run(pieces, scan(pieces, ("m", "n"))))
    assert [batch.schema.names for batch in found] == [["m", "n"]] * 3
    assert starts(pieces) == {group.pieces[0].offset for group in pieces.groups}


@pytest.mark.parametrize("piece", [0, 1])
def test_a_damaged_piece_fails_when_all_before_it_are_given(piece: int) -> None:
    pieces = pieces_of(7)
    pieces.damage(pieces.groups[4].pieces[piece].offset + 20)
    batches = run(pieces, scan(pieces, ("n",), None, at_once=2))
    assert [next(batches).column("n")[0].as_py() for _ in range(4)] == [0, 4, 8, 12]
    with pytest.raises(UnreadableFileError, match="damaged") as caught:
        next(batches)
    assert (caught.value.label, caught.value.path) == (4, "f")


@pytest.mark.parametrize(
    ("wanted", "match"),
    [
        ((("n",), ("s0", "s7")), "no column s7"),
        ((("n",), None), "promised"),
        ((("n",), None), "of the type"),
    ],
)
def test_what_is_not_as_promised_fails(wanted: tuple[tuple[str, ...] | None, ...], match: str) -> None:
    pieces = pieces_of(1)
    plan = scan(pieces, *wanted)
    if match == "no column s7":
        plan = replace(plan, schemas=(FIRST, pa.schema([("s0", pa.float64()), ("s7", pa.float64())])))
    if match == "promised":
        plan = replace(plan, groups=(replace(plan.groups[0], rows=5),))
    if match == "of the type":
        plan = replace(plan, schemas=(pa.schema([("n", pa.string())]), plan.schemas[1]))
    with pytest.raises(UnreadableFileError, match=match):
        list(run(pieces, plan))


def test_filters_without_state_are_applied() -> None:
    pieces = pieces_of(4)
    plan = Filter(scan(pieces, ("n",)), lambda batch: batch if batch.column("n")[0].as_py() % 8 == 0 else None)
    assert [batch.column("n")[0].as_py() for batch in run(pieces, plan)] == [0, 8]


@pytest.mark.parametrize("damage", [None, "footer", "column"])
def test_of_a_large_piece_only_the_wanted_columns_are_read(damage: str | None) -> None:
    pieces = pieces_of(1, rows=9_000, columns=20)
    piece = pieces.groups[0].pieces[1]
    assert piece.length > WHOLE_PIECE_BYTES
    directory = read_piece_footer(
        pieces.data[piece.offset + piece.length - piece.footer_length :][: piece.footer_length]
    )
    chunk = directory.ranges["s3"]
    if damage is not None:
        pieces.damage(piece.offset + (chunk.start + 40 if damage == "column" else piece.length - 30))
        with pytest.raises(UnreadableFileError, match=damage):
            list(run(pieces, scan(pieces, ("n",), ("s3",))))
        return
    (found,) = run(pieces, scan(pieces, ("n",), ("s3",)))
    footer = piece.offset + piece.length - piece.footer_length
    assert starts(pieces) == {pieces.groups[0].pieces[0].offset, footer, piece.offset + chunk.start}
    (whole,) = run(pieces, scan(pieces, ("n",), None))
    assert found.column("s3") == whole.column("s3")


def test_nothing_more_is_asked_for_than_the_first_groups_while_they_last() -> None:
    pieces = pieces_of(40)
    plan = replace(scan(pieces, ("n",)), at_first=2, at_once=5)
    batches = run(pieces, plan)
    next(batches)
    next(batches)
    assert starts(pieces) == {group.pieces[0].offset for group in pieces.groups[:2]}
    next(batches)
    assert starts(pieces) <= {group.pieces[0].offset for group in pieces.groups[:12]}
    batches.close()


def test_pieces_that_are_asked_for_ahead_again_are_fetched_once() -> None:
    pieces = pieces_of(9)
    plan = scan(pieces, ("n",), None)
    executor = LocalExecutor(pieces.store)
    for _ in range(3):
        list(executor.execute(ListFiles("l/"), Ahead(row_groups=plan)))
    # By other columns, they are the same pieces.
    list(executor.execute(ListFiles("l/"), Ahead(row_groups=replace(plan, columns=(None, None)))))
    assert [batch.num_rows for batch in executor.execute_parallel(plan)] == [4] * 9
    asked = [attempt.start for attempt in pieces.store.attempts if (attempt.kind, attempt.path) == ("get", "f")]
    assert sorted(asked) == sorted(piece.offset for group in pieces.groups for piece in group.pieces)
    executor.close()


@pytest.mark.parametrize("beside", [ListFiles("l/"), ReadFiles(("g",))], ids=lambda plan: type(plan).__name__)
def test_pieces_that_were_asked_for_along_with_a_plan_are_not_asked_for_again(beside: Plan) -> None:
    pieces = pieces_of(3)
    executor = LocalExecutor(pieces.store)
    some = tuple(piece for group in pieces.groups[:2] for piece in group.pieces)
    plan = scan(pieces, ("n",), None)
    absent = replace(pieces.groups[0], pieces=tuple(replace(piece, path="absent") for piece in some[:2]))
    list(executor.execute(beside, Ahead(row_groups=replace(plan, groups=(*pieces.groups[:2], absent)))))
    batches = list(executor.execute_parallel(replace(plan, groups=plan.groups[:2])))
    assert [batch.num_rows for batch in batches] == [4, 4]
    assert executor.progress.trips == 1
    asked = [attempt.start for attempt in pieces.store.attempts if (attempt.kind, attempt.path) == ("get", "f")]
    assert sorted(asked) == [piece.offset for piece in some], "each of them once"
    executor.close()


def test_counts_tell_row_groups_of_pieces_from_others() -> None:
    pieces = pieces_of(3)
    executor = LocalExecutor(pieces.store)
    batches = executor.execute(replace(scan(pieces, ("n",)), skipped=7))
    for group in pieces.groups:
        next(batches)
        assert executor.progress.place == Place("f", group.number)
    assert list(batches) == []
    counts = executor.progress.counts
    assert (counts.row_groups_read, counts.piece_groups_read) == (3, 3)
    assert (counts.row_groups_skipped, counts.piece_groups_skipped) == (7, 7)
    executor.close()


def test_ranges_and_values_of_footers() -> None:
    pieces = pieces_of(2)
    ref = FileRef("f", len(pieces.data))
    found = list(run(pieces, ReadRanges(ref, ((0, 4), (8, 12)))))
    assert [batch.column("data")[0].as_py() for batch in found] == [b"PAR1", pieces.data[8:12]]
    (value,) = run(pieces, ReadKeyValue(ref, "delta-sidecar.chunks"))
    assert len(value.column("value")[0].as_py()) == 32
    (value,) = run(pieces, ReadKeyValue(ref, "nothing"))
    assert value.column("value")[0].as_py() is None
    with pytest.raises(UnreadableFileError):
        list(run(pieces, ReadRanges(FileRef("g", 9), ((0, 4),))))


def test_heads_come_after_whole_files_and_large_files_are_read_to_their_end() -> None:
    pieces = pieces_of(1)
    large = bytes(9 << 20)
    pieces.store.put("large", large)
    found = list(run(pieces, ReadFiles(("large",), max_bytes=10 << 20, heads=("f", "absent"))))
    assert [batch.column("path")[0].as_py() for batch in found] == ["large", "f"]
    assert found[0].column("data")[0].as_py() == large
    assert found[1].column("data")[0].as_py() == pieces.data[:HEAD_BYTES]
    (kept,) = run(pieces, ReadFiles(("large",), max_bytes=1 << 20))
    assert kept.column("data")[0].as_py() is None
