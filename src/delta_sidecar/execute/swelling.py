"""Rows that take far more room in memory than in their file: how many of them to decode at once.

A text that is stored once, in a dictionary, may stand in every row; a list of a million equal numbers takes a few
bytes. So the size of a row group says little of what comes out of it. What a footer and its dictionaries say is the
most that a row can come to: so many rows are decoded in a step that even the longest texts fit, and steps are put
together again as long as they are small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar.execute.page_headers import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow.parquet as pq

    from delta_sidecar.execute.page_headers import PageHeader

    Longest = Callable[[Sequence[int]], Sequence[int]]
    Pages = Callable[[int], Sequence[PageHeader]]

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
_WIDTH = 8
# Each of these texts may begin with all of the text before it.
_SHARING, _SHARING_ROWS = "DELTA_BYTE_ARRAY", 128


def rows_of_a_step(
    metadata: pq.FileMetaData,
    group: int,
    leaves: Sequence[int],
    rows: int,
    most_bytes: int,
    longest: Longest,
    pages: Pages | None = None,
) -> int:
    """How many rows can be decoded at once, so that they take no more than some bytes.

    Args:
        metadata: The file's footer.
        group: The row group.
        leaves: Numbers of the columns that are decoded.
        rows: So many at most.
        most_bytes: So many bytes, roughly; a single row may take more.
        longest: Tells how long the longest texts in the dictionaries of some columns are.
        pages: Gives headers of the pages of a column; None where the footer is believed.
    """
    row_group = metadata.row_group(group)
    rows = min(rows, max(1, row_group.num_rows))
    of_a_row, doubtful = 0.0, []
    for leaf in leaves:
        chunk = row_group.column(leaf)
        values = max(1.0, chunk.num_values / max(1, row_group.num_rows))
        is_text = chunk.physical_type == "BYTE_ARRAY"
        of_a_row += values * max(metadata.schema.column(leaf).length, _WIDTHS.get(chunk.physical_type, _WIDTH))
        size, is_shared = chunk.total_uncompressed_size, chunk.has_dictionary_page
        of_a_value = 0.0
        for page in pages(leaf) if pages is not None else ():
            if page.kind == DICTIONARY_PAGE:
                size, is_shared = page.uncompressed, True
            elif is_text and page.kind in (DATA_PAGE, DATA_PAGE_V2):
                of_a_value = max(of_a_value, page.uncompressed / max(1, page.values))
        of_a_row += values * of_a_value
        if is_text and is_shared and rows * values * size > most_bytes:
            doubtful.append((leaf, values))
        elif is_text and _SHARING in chunk.encodings:
            rows = min(rows, _SHARING_ROWS)
    if doubtful:
        found = longest([leaf for leaf, _ in doubtful])
        of_a_row += sum(length * values for length, (_, values) in zip(found, doubtful, strict=True))
    return max(1, min(rows, int(most_bytes / max(1.0, of_a_row))))


def longest_texts(batch: pa.RecordBatch) -> list[int]:
    """How long the longest text of each leaf is, of columns that were read as dictionaries as far as they can be."""
    return [length for column in batch.columns for length in _longest(column)]


def put_together(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Puts batches together that come one after another.

    Args:
        batches: The batches.
        rows: At most so many rows in one, unless they come so.
        size: It is given out as soon as it has so many bytes.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        if held and held_rows + batch.num_rows > rows:
            yield _one(held)
            held, held_rows, held_bytes = [], 0, 0
        held.append(batch)
        held_rows += batch.num_rows
        held_bytes += batch.nbytes
        if held_bytes >= size:
            yield _one(held)
            held, held_rows, held_bytes = [], 0, 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _longest(column: pa.Array) -> Iterator[int]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    elif pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from _longest(column.field(at))
    elif pa.types.is_map(kind):
        yield from _longest(column.keys)
        yield from _longest(column.items)
    elif pa.types.is_nested(kind):
        yield from _longest(column.values)
    elif isinstance(column, pa.ExtensionArray):
        yield from _longest(column.storage)
    else:
        yield column.nbytes
