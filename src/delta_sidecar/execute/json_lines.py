"""Blocks of JSON lines to Arrow batches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.json as pj

from delta_sidecar._arrow import int64s, scalar
from delta_sidecar.plan import FILE_LABEL, LINE

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BYTES = 8 << 20
"""How much of a long file is fetched at once."""

PARSED_BYTES = 2 << 20
"""How much of it is parsed at once: that takes several times as much memory."""

MOST_LINE_BYTES = 256 << 20
"""A longer line is not parsed: that would take several times as much memory."""

Bytes = bytes | memoryview


def line_blocks(chunks: Iterator[Bytes]) -> Iterator[bytes]:
    """Cuts the content of a file, chunk by chunk, into blocks of whole lines that are not much larger than needed.

    Raises:
        pa.ArrowMemoryError: A line is too long.
    """
    held: list[bytes] = []
    for chunk in chunks:
        for start in range(0, len(chunk), PARSED_BYTES):
            data = bytes(memoryview(chunk)[start : start + PARSED_BYTES])
            end = data.rfind(b"\n") + 1
            if end:
                block = b"".join((*held, data[:end]))
                held.clear()
                yield block
                del block
            held.append(data[end:])
            del data
            if sum(map(len, held)) > MOST_LINE_BYTES:
                msg = f"a line has more than {MOST_LINE_BYTES:,} bytes"
                raise pa.ArrowMemoryError(msg)
        del chunk
    if any(held):
        yield b"".join(held)


def parse_lines(block: bytes, schema: pa.Schema, label: int, *, lines: bool) -> pa.RecordBatch | None:
    """Reads a block of JSON lines.

    Args:
        block: Whole lines.
        schema: What to read of them.
        label: Goes into a column of its own.
        lines: Whether each row comes with its own text.

    Returns:
        None where there is nothing but white space.

    Raises:
        pa.ArrowInvalid: A line is not JSON, or a value has another type than the schema says.
    """
    is_object = _OBJECT.match(block) is not None
    if not is_object and not block.strip():
        return None
    # The parser crashes on a first value that is null, and takes a later one for an object with nothing in it.
    if not is_object or _NULL.search(block):
        msg = "a line is not a JSON object"
        raise pa.ArrowInvalid(msg)
    _check_text(block)
    # All in one block. A reader does it in this thread, where `read_json` would wait for another one.
    reader = pj.open_json(
        pa.BufferReader(block),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    batch = reader.read_all().combine_chunks().to_batches()[0]
    text = _texts(block, batch.num_rows) if lines else pa.nulls(batch.num_rows, pa.string())
    labels = int64s(np.full(batch.num_rows, label, dtype=np.int64))
    return pa.RecordBatch.from_arrays([*batch.columns, labels, text], names=[*batch.schema.names, FILE_LABEL, LINE])


_OBJECT = re.compile(rb"\s*\{")
_NULL = re.compile(rb"\n[ \t\r]*null")


def _check_text(block: bytes) -> None:
    """Refuses bytes that are no UTF-8: the parser lets them through."""
    offsets = pa.py_buffer(np.array([0, len(block)], dtype=np.int64))
    pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(block)]).validate(full=True)


def _texts(block: bytes, rows: int) -> pa.StringArray:
    # A control character never stands in JSON, so that a line is one field of a CSV without quotes.
    table = pv.read_csv(
        pa.BufferReader(block),
        read_options=pv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=[LINE]),
        parse_options=pv.ParseOptions(delimiter="\x01", quote_char=False, newlines_in_values=False),
        convert_options=pv.ConvertOptions(column_types={LINE: pa.string()}, strings_can_be_null=False),
    )
    texts = table.column(0).combine_chunks()
    if not pc.all(pc.starts_with(texts, pattern="{")).as_py():
        texts = texts.filter(pc.not_equal(pc.utf8_trim_whitespace(texts), scalar("", pa.string())))
    if len(texts) != rows:
        msg = f"{rows} JSON objects in {len(texts)} lines"
        raise pa.ArrowInvalid(msg)
    return texts
