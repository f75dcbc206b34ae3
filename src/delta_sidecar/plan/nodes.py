"""The nodes of a plan. Every one is a value: it pickles, and it says nothing of how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa
from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE_LABEL = "__file"
"""Column that a `ScanJson` adds: the label of the file that a row comes from."""

HEAD_BYTES = 4096
"""Bytes at the beginning of a file that are its head."""

TAIL_BYTES = 64 << 10
"""Bytes at the end of a file that are its tail; a smaller file is all tail."""

WHOLE_PIECE_BYTES = 1 << 20
"""Larger pieces are read by columns, where not all of them are wanted."""

LINE = "__line"
"""Column that a `ScanJson` adds: the row's own text, or null where it wasn't asked for."""

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch | None]
RowTest: TypeAlias = "Callable[[pa.RecordBatch], NDArray[np.bool_]]"


class FileRef(Struct, frozen=True):
    """A file to read.

    Attributes:
        path: Relative to the table.
        size: In bytes; None where it is not known.
        label: A number that the plan's maker knows the file by.
        e_tag: What identifies its contents; None where that is not known.
    """

    path: str
    size: int | None = None
    label: int = 0
    e_tag: str | None = None


class Piece(Struct, frozen=True):
    """A range of a file that is a whole Parquet file of its own, of one row group.

    Attributes:
        path: The file.
        offset: Where the range begins.
        length: Its bytes.
        digest: Their XXH3 digest of 128 bits; nothing is decoded that does not have it.
        footer_length: How many of the last bytes are its footer; 0 where a piece is only ever read whole.
        footer_digest: The digest of those bytes.
    """

    path: str
    offset: int
    length: int
    digest: str
    footer_length: int = 0
    footer_digest: str = ""

    @property
    def end(self) -> int:
        """The end of the range, exclusive."""
        return self.offset + self.length


class PieceGroup(Struct, frozen=True):
    """Pieces with different columns of the same rows.

    Attributes:
        number: What the plan's maker knows it by.
        rows: How many rows each of them has.
        pieces: The pieces.
    """

    number: int
    rows: int
    pieces: tuple[Piece, ...]


class Chunk(Protocol):
    """One column of a piece: the bytes from `start` up to `end` of the piece, and their digest where it is known."""

    @property
    def start(self) -> int:
        """Its first byte, from the piece's start on."""

    @property
    def end(self) -> int:
        """The byte after its last."""

    @property
    def digest(self) -> str | None:
        """The digest of its bytes."""


class PieceDirectory(Protocol):
    """The places of the columns of a piece."""

    @property
    def ranges(self) -> Mapping[str, Chunk]:
        """By name."""

    def excerpt(self, chunks: Mapping[str, bytes]) -> bytes:
        """Makes a Parquet file of some columns."""


class ListFiles(Struct, frozen=True):
    """Lists what is below a folder: batches of `path`, `size`, `last_modified`, `e_tag`.

    Attributes:
        prefix: The folder.
        after: Only paths that sort after this one.
    """

    prefix: str
    after: str | None = None


class ReadFiles(Struct, frozen=True):
    """Reads small files whole: batches of `path`, `size`, `data`. An absent file gives no row.

    Attributes:
        paths: The files.
        max_bytes: A larger file gives its size and no data.
        beginning: Whether a larger file gives as many bytes of its beginning.
        keep: Whether a later plan may read them again, so that they are worth keeping.
        heads: Files of which `HEAD_BYTES` are read, after the others.
        tails: Files of known size of which `TAIL_BYTES` of the end are read, after those.
    """

    paths: tuple[str, ...]
    max_bytes: int = 8 << 20
    beginning: bool = False
    keep: bool = True
    heads: tuple[str, ...] = ()
    tails: tuple[FileRef, ...] = ()


class ScanJson(Struct, frozen=True):
    """Reads files of JSON lines, block by block, in the order given.

    Attributes:
        files: The files.
        schema: What to read of each line; the rest is passed over.
        lines_with: Rows of a block that holds one of these texts come with their own text. Empty: none do.
        only_with: Blocks that hold none of these texts need not be read now: a later plan does. Empty: all are read.
        keep: Whether a later plan reads the same files again, so that what was fetched is worth keeping.
        keep_rows: Whether it reads the same of them, so that the batches are worth keeping, too.
        all_needed: Whether most likely all files are read, so that many may be asked for at once.
        kept_only: Whether only the first files are read, as long as they were kept whole: nothing is asked for.
        at_once: How many files are fetched at once; None for the executor's own number.
        together: How many small files may come in one batch in the beginning; twice as many each time. 0: none do.
    """

    files: tuple[FileRef, ...]
    schema: pa.Schema
    lines_with: tuple[bytes, ...] = ()
    only_with: tuple[bytes, ...] = ()
    keep: bool = False
    keep_rows: bool = False
    all_needed: bool = False
    kept_only: bool = False
    at_once: int | None = None
    together: int = 0


class Substitute(Struct, frozen=True):
    """A column that stands in for another: it is read where `missing` has more nulls than `beside`.

    Attributes:
        column: Dotted name of the column that stands in.
        missing: The column that may lack values.
        beside: A column that has a value in every row where `missing` should have one.
    """

    column: str
    missing: str
    beside: str


class FileSummary(Struct, frozen=True):
    """Facts from the footer of a Parquet file.

    Attributes:
        path: The file.
        rows: How many rows it has.
        values: In how many of them a leaf column has a value, None where that is not known; only columns that it has.
    """

    path: str
    rows: int
    values: Mapping[str, int | None]


class FooterTest(Protocol):
    """Refuses files by their footers."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Dotted names of the leaf columns that it wants to know of."""

    def __call__(self, files: Sequence[FileSummary]) -> None:
        """Looks at all files of a plan.

        Raises:
            UnreadableFileError: One is not what it should be.
        """


class ScanParquet(Struct, frozen=True):
    """Reads Parquet files, a bounded batch at a time.

    Attributes:
        files: The files.
        columns: Dotted names of the columns, and so all below them; those that a file lacks are left out.
        early: Those of them to read first, for `test`.
        test: Tells which rows are worth the other columns; None: all.
        non_null: Only row groups where one of these columns has a value are read. Empty: all.
        substitutes: Columns to read only where others lack values.
        check: Whether every file must prove to be whole (there, with a footer) before the first row.
        content: Tells then whether they are what they should be; None: they are. Only with `check`.
        start: Number of the first row group of the first file that is wanted.
        enough: So many rows are likely to be enough: row groups beyond those that hold them are not asked for before
            these are given. None: all rows are wanted.
        at_once: How many row groups may be under way at once; None for the executor's own number.
    """

    files: tuple[FileRef, ...]
    columns: tuple[str, ...]
    early: tuple[str, ...] = ()
    test: RowTest | None = None
    non_null: tuple[str, ...] = ()
    substitutes: tuple[Substitute, ...] = ()
    check: bool = False
    content: FooterTest | None = None
    start: int = 0
    enough: int | None = None
    at_once: int | None = None


class ScanPieces(Struct, frozen=True):
    """Reads row groups out of pieces, in the order given: a batch each, with the columns of all its pieces.

    A row group that cannot be read, or is not what its digests say, is an `UnreadableFileError` with its number as
    label. It is raised when all before it have been given.

    Attributes:
        groups: The row groups.
        columns: For each piece of a group the names of the columns that are wanted; None for all.
        schemas: What columns each piece of a group has; one that has others is not read.
        at_once: How many groups are asked for together.
        at_first: How many of them in the beginning.
        directory: Tells where the columns of a piece are, given its footer: of a large piece only those that are wanted
            are read. None: pieces are read whole.
        skipped: How many groups the plan's maker passed over.
    """

    groups: tuple[PieceGroup, ...]
    columns: tuple[tuple[str, ...] | None, ...]
    schemas: tuple[pa.Schema, ...]
    at_once: int = 5
    at_first: int = 5
    directory: Callable[[bytes], PieceDirectory] | None = None
    skipped: int = 0


class ReadRanges(Struct, frozen=True):
    """Reads ranges of one file: batches of `number` (that of the range) and `data`, in order.

    Attributes:
        file: The file.
        ranges: Start and end of each.
    """

    file: FileRef
    ranges: tuple[tuple[int, int], ...]


class ReadKeyValue(Struct, frozen=True):
    """Reads a value out of the footer of a Parquet file: one batch of `value`, null where there is none.

    Attributes:
        file: The file.
        key: Its key among the footer's own metadata.
    """

    file: FileRef
    key: str


class ReadFooters(Struct, frozen=True):
    """Reads what footers of Parquet files tell: a batch a file of `path, group, rows, column, values, lower, upper`.

    A file gives one row for itself, with `column` null and the number of its row groups as `group`; then one for each
    chosen column that it has and each of its row groups: in how many rows there is a value, the smallest and the
    largest as texts. Null is what is not known.

    Attributes:
        files: The files.
        columns: Dotted names of leaf columns.
        most_requests: No more are made, and files that would take more give no row; None: there is no such limit. A
            footer that was kept takes none, others one, or two where they are unusually large.
    """

    files: tuple[FileRef, ...]
    columns: tuple[str, ...]
    most_requests: int | None = None


class Filter(Struct, frozen=True):
    """Gives each batch to a function without state, which returns what becomes of it; None drops the batch."""

    source: Plan
    function: BatchFunction


class FilterOrdered(Struct, frozen=True):
    """As `Filter`, with a function that has state: batches reach it one at a time and in order.

    Of a batch with rows of several files it may keep `FILE_LABEL`, as the last column: it tells the places of the rows,
    and is taken out.
    """

    source: Plan
    function: BatchFunction


class Place(Struct, frozen=True):
    """The place of a batch in the files of a plan. Places of one plan follow each other in the plan's order.

    Attributes:
        path: The file.
        part: Number of the row group in it; 0 for a file of JSON lines.
    """

    path: str
    part: int = 0


Plan = (
    ListFiles
    | ReadFiles
    | ScanJson
    | ScanParquet
    | ScanPieces
    | ReadRanges
    | ReadKeyValue
    | ReadFooters
    | Filter
    | FilterOrdered
)
