"""Runs `ScanJson`: files of JSON lines in order, the next ones already on their way, block by block."""

from __future__ import annotations

import re
from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.json as pj

from delta_sidecar._arrow import from_numpy, scalar
from delta_sidecar.errors import ObjectTruncatedError, StorageError
from delta_sidecar.execute.fetch import FIRST_BYTES, Asked, Fetcher, Pending, Work, unreadable
from delta_sidecar.plan import FILE_LABEL, LINE, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from delta_sidecar.plan import Batches, FileRef, ScanJson
    from delta_sidecar.store import Buffer


AHEAD_BYTES = 16 << 20
MOST_AHEAD = 1_000
_TIDY_BYTES = 2 << 20


def scan_json(work: Work, fetcher: Fetcher, plan: ScanJson) -> Batches:
    """Reads files of JSON lines.

    Raises:
        UnreadableFileError: One cannot be fetched, or is not what it should be.
    """

    def most() -> int:
        # Who has found nothing so far will want many more; each time in vain doubles the look-ahead.
        return MOST_AHEAD if plan.all_needed else min(MOST_AHEAD, work.file_parallelism << min(work.dry, 16))

    work.dry = 0
    parsed = untidy = 0
    files = plan.files
    if plan.kept_only:
        files = tuple(takewhile(lambda ref: fetcher.keeps_all(ref.path), files))
    for ref, pending in _started(fetcher, files, most):
        work.count(files=pending.kept is None)
        try:
            for size, batch in _blocks(_chunks(work, fetcher, ref, pending, keep=plan.keep), plan, ref.label):
                if batch is not None:
                    work.count(batches=1)
                    work.place = Place(ref.path)
                    yield batch
                parsed, untidy = parsed + size, untidy + size
                if untidy >= _TIDY_BYTES:
                    # Arrow's allocator keeps what a thread frees; over a long commit, or many, that adds up.
                    untidy = 0
                    pa.default_memory_pool().release_unused()
        except (pa.ArrowException, MemoryError, StorageError) as error:
            raise unreadable(ref, error) from error
    if parsed >= _TIDY_BYTES:
        pa.default_memory_pool().release_unused()


def _blocks(chunks: Iterator[Buffer], plan: ScanJson, label: int) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """The size and the rows of each block of a file; no rows where it has none that are wanted."""
    is_empty = True
    for block in line_blocks(chunks):
        if plan.only_with and _holds_none(block, plan.only_with):
            is_empty = False
            continue
        batch = parse_lines(block, plan.schema, label, lines=any(text in block for text in plan.lines_with))
        is_empty = is_empty and batch is None
        yield len(block), batch
    if is_empty:
        msg = "there is no JSON object in it"
        raise pa.ArrowInvalid(msg)


def _holds_none(block: bytes, texts: tuple[bytes, ...]) -> bool:
    # A name may be written with escapes.
    return b"\\u" not in block and not any(text in block for text in texts)


def within(files: Sequence[FileRef], budget: int) -> Iterator[FileRef]:
    """The first files that together stay within a number of bytes and of files; an unknown size counts as none."""
    for ref in files[:MOST_AHEAD]:
        budget -= min(ref.size or 0, FIRST_BYTES)
        if budget < 0:
            return
        yield ref


def _started(fetcher: Fetcher, files: Sequence[FileRef], most: Callable[[], int]) -> Iterator[tuple[FileRef, Pending]]:
    """Files in order, the next ones already asked for, as far as their sizes allow.

    What was asked for and not taken stays for a later plan.
    """
    waiting: deque[tuple[FileRef, Pending]] = deque()
    held = 0
    position = 0
    try:
        while position < len(files) or waiting:
            while position < len(files) and len(waiting) < most():
                size = _first_bytes(files[position])
                if waiting and held + size > AHEAD_BYTES:
                    break
                waiting.append((files[position], fetcher.start(files[position].path)))
                held += size
                position += 1
            ref, pending = waiting.popleft()
            held -= _first_bytes(ref)
            yield ref, pending
    finally:
        for _, pending in waiting:
            fetcher.put_back(pending)


def _first_bytes(ref: FileRef) -> int:
    return min(ref.size or FIRST_BYTES, FIRST_BYTES)


def _chunks(work: Work, fetcher: Fetcher, ref: FileRef, pending: Pending, *, keep: bool) -> Iterator[Buffer]:
    """The content of a file, the next chunk already asked for."""
    more = fetcher.kept_after_first(ref.path)
    first = fetcher.take(pending, keep=keep)
    if ref.size is not None and first.size != ref.size:
        msg = f"the listing says {ref.size} bytes, the file has {first.size}"
        raise ObjectTruncatedError(msg)
    start, size = len(first.data), first.size
    yield first.data
    del first, pending
    for piece in more:
        yield piece
        start += len(piece)
        del piece
    ahead: Asked[Buffer] | None = None
    while start < size:
        asked = ahead or _ask(work, ref.path, start, size)
        here, start = start, min(start + BLOCK_BYTES, size)
        ahead = _ask(work, ref.path, start, size) if start < size else None
        data = work.take(asked)
        if keep:
            fetcher.keep_more(ref.path, here, data)
        yield data
        del asked, data


def _ask(work: Work, path: str, start: int, size: int) -> Asked[Buffer]:
    end = min(start + BLOCK_BYTES, size)
    return work.submit(lambda: work.store.get_range(path, start, end))


# Blocks of JSON lines to Arrow batches.


BLOCK_BYTES = 8 << 20
"""Bytes of a long file that are fetched at once."""

PARSED_BYTES = 2 << 20
"""Bytes of it that are parsed at once, which takes several times as much memory."""

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
    labels = from_numpy(np.full(batch.num_rows, label, dtype=np.int64))
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
