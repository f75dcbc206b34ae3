"""Runs `ScanJson`: files of JSON lines in order, the next ones already on their way, block by block."""

from __future__ import annotations

import re
from collections import deque
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from delta_sidecar._arrow import from_numpy, strings
from delta_sidecar.errors import NotEnoughMemoryError, ObjectTruncatedError, StorageError, UnreadableFileError
from delta_sidecar.execute.fetch import FIRST_BYTES, Asked, Fetcher, Pending, Work, unreadable
from delta_sidecar.plan import FILE_LABEL, LINE, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from delta_sidecar.plan import Batches, FileRef, ScanJson
    from delta_sidecar.store import Buffer, Fetched


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
    for refs, batch in fetcher.take_rows(files, _way(plan)):
        files = files[len(refs) :]
        work.count(batches=1)
        _placed(work, refs)
        yield batch
    queue = _Queue(fetcher, files, plan.together, most, all_needed=plan.all_needed)
    try:
        while group := queue.next_group():
            work.count(files=sum(pending.kept is None for _, pending in group))
            refs = tuple(ref for ref, _ in group)
            for size, batch in _batches(work, fetcher, plan, group, queue):
                if batch is not None:
                    work.count(batches=1)
                    _placed(work, refs)
                    yield batch
                parsed, untidy = parsed + size, untidy + size
                if untidy >= _TIDY_BYTES:
                    # Arrow's allocator keeps what a thread frees; over a long commit, or many, that adds up.
                    untidy = 0
                    pa.default_memory_pool().release_unused()
    finally:
        queue.put_back()
    if parsed >= _TIDY_BYTES:
        pa.default_memory_pool().release_unused()


def _way(plan: ScanJson) -> tuple[pa.Schema, tuple[bytes, ...]]:
    """What the rows of a file depend on besides the file."""
    return plan.schema, plan.lines_with


def _placed(work: Work, files: tuple[FileRef, ...]) -> None:
    work.paths = {ref.label: ref.path for ref in files}
    work.place = Place(files[0].path)


def _batches(
    work: Work, fetcher: Fetcher, plan: ScanJson, group: Sequence[tuple[FileRef, Pending]], queue: _Queue
) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """The size and the rows of each block of one file, or of several small ones; no rows where none are wanted."""
    ref, pending = group[0]
    if _is_small(ref):
        yield from _together(fetcher, plan, group, queue)
        return
    with _naming(ref):
        yield from _blocks(_chunks(work, fetcher, ref, pending, queue, keep=plan.keep), plan, ref.label)


def _together(
    fetcher: Fetcher, plan: ScanJson, group: Sequence[tuple[FileRef, Pending]], queue: _Queue
) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """Parses small files together, or one by one where that fails: those before a torn one are given."""
    texts: list[tuple[FileRef, Buffer]] = []
    failure: UnreadableFileError | NotEnoughMemoryError | None = None
    for ref, pending in group:
        try:
            with _naming(ref):
                text = _first(fetcher, ref, pending, keep=plan.keep).data
        except (UnreadableFileError, NotEnoughMemoryError) as error:
            failure = error
            break
        if not plan.only_with or not _holds_none(text, plan.only_with):
            texts.append((ref, text))
    queue.ask_next()
    batch = _joined(texts, plan) if texts else None
    if batch is not None:
        if plan.keep_rows and len(texts) == len(group):
            fetcher.keep_rows(tuple(ref for ref, _ in texts), _way(plan), batch)
        yield sum(len(text) for _, text in texts), batch
    else:
        for ref, text in texts:
            with _naming(ref):
                yield from _blocks(iter((text,)), plan, ref.label)
    if failure is not None:
        raise failure


def _joined(texts: Sequence[tuple[FileRef, Buffer]], plan: ScanJson) -> pa.RecordBatch | None:
    """The rows of files; None where one of them, or a line of it, is not what it should be."""
    parts, rows = [], []
    for _, text in texts:
        parts.append(bytes(text) if text[-1:] == b"\n" else bytes(text) + b"\n")
        rows.append(parts[-1].count(b"\n"))
    block = b"".join(parts)
    try:
        batch = parse_lines(block, plan.schema, lines=any(text in block for text in plan.lines_with))
    except (pa.ArrowException, MemoryError):
        return None
    if batch is None or batch.num_rows != sum(rows):
        return None
    labels = np.array([ref.label for ref, _ in texts], dtype=np.int64)
    return batch.append_column(FILE_LABEL, from_numpy(labels.repeat(rows)))


def _blocks(chunks: Iterator[Buffer], plan: ScanJson, label: int) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """The size and the rows of each block of a file; no rows where it has none that are wanted."""
    is_empty = True
    for block in line_blocks(chunks):
        if plan.only_with and _holds_none(block, plan.only_with):
            is_empty = False
            continue
        batch = parse_lines(block, plan.schema, lines=any(text in block for text in plan.lines_with))
        if batch is not None:
            is_empty = False
            batch = batch.append_column(FILE_LABEL, from_numpy(np.full(batch.num_rows, label, dtype=np.int64)))
        yield len(block), batch
    if is_empty:
        msg = "there is no JSON object in it"
        raise pa.ArrowInvalid(msg)


@contextmanager
def _naming(ref: FileRef) -> Iterator[None]:
    """Names the file that cannot be fetched, or is not what it should be."""
    try:
        yield
    except (pa.ArrowException, MemoryError, StorageError) as error:
        raise unreadable(ref, error) from error


def _holds_none(block: Buffer, texts: tuple[bytes, ...]) -> bool:
    # A name may be written with escapes.
    text = bytes(block)
    return not any(found in text for found in (*texts, b"\\u"))


def within(files: Sequence[FileRef], budget: int) -> Iterator[FileRef]:
    """The first files that together stay within a number of bytes and of files; an unknown size counts as none."""
    for ref in files[:MOST_AHEAD]:
        budget -= min(ref.size or 0, FIRST_BYTES)
        if budget < 0:
            return
        yield ref


class _Queue:
    """Files in order, the next ones already asked for, as far as their sizes allow.

    What was asked for and not taken stays for a later plan.
    """

    def __init__(
        self, fetcher: Fetcher, files: Sequence[FileRef], together: int, most: Callable[[], int], *, all_needed: bool
    ) -> None:
        self._fetcher = fetcher
        self._remaining = deque(files)
        self._together = together
        self._is_patient = together <= 1
        self._all_needed = all_needed
        self._most = most
        self._waiting: deque[tuple[FileRef, Pending]] = deque()
        self._held = 0

    def ask_next(self) -> None:
        """Asks for the next files while a group that is fetched is parsed; not where one file may be enough."""
        if not self._is_patient:
            self.ask()

    def ask(self) -> None:
        """Asks for as many files as may be under way."""
        while self._remaining and (len(self._waiting) < self._most() or self._is_here(self._remaining[0])):
            size = _first_bytes(self._remaining[0])
            if self._waiting and self._held + size > AHEAD_BYTES:
                return
            ref = self._remaining.popleft()
            self._waiting.append((ref, self._fetcher.start(ref.path)))
            self._held += size

    def _is_here(self, ref: FileRef) -> bool:
        return len(self._waiting) < MOST_AHEAD and self._fetcher.keeps_all(ref.path)

    def next_group(self) -> list[tuple[FileRef, Pending]]:
        """The next files that are parsed together; none at the end."""
        self.ask()
        group: list[tuple[FileRef, Pending]] = []
        length = trip = 0
        while self._waiting and len(group) < max(1, self._together):
            ref, pending = self._waiting[0]
            # Nobody waits for one file to have those before it, nor for a trip more.
            is_soon = self._all_needed or (pending.is_here and pending.trip <= trip)
            if group and not (is_soon and _is_small(ref, length)):
                break
            trip = max(trip, pending.trip)
            group.append(self._waiting.popleft())
            length += _first_bytes(ref)
        self._held -= length
        self._together *= 2
        return group

    def put_back(self) -> None:
        """Leaves what was asked for to a later plan."""
        for _, pending in self._waiting:
            self._fetcher.put_back(pending)


def _is_small(ref: FileRef, before: int = 0) -> bool:
    """Whether a file comes at once and whole, and is parsed at once, together with so many bytes before it."""
    return ref.size is not None and ref.size <= FIRST_BYTES and before + ref.size <= PARSED_BYTES


def _first_bytes(ref: FileRef) -> int:
    return min(ref.size or FIRST_BYTES, FIRST_BYTES)


def _first(fetcher: Fetcher, ref: FileRef, pending: Pending, *, keep: bool) -> Fetched:
    """The first bytes of a file: all of a small one."""
    first = fetcher.take(pending, keep=keep)
    if ref.size is not None and first.size != ref.size:
        msg = f"the listing says {ref.size} bytes, the file has {first.size}"
        raise ObjectTruncatedError(msg)
    return first


def _chunks(
    work: Work, fetcher: Fetcher, ref: FileRef, pending: Pending, queue: _Queue, *, keep: bool
) -> Iterator[Buffer]:
    """The content of a file, the next chunk already asked for."""
    more = fetcher.kept_after_first(ref.path)
    first = _first(fetcher, ref, pending, keep=keep)
    queue.ask_next()
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


def parse_lines(block: bytes, schema: pa.Schema, *, lines: bool) -> pa.RecordBatch | None:
    """Reads a block of JSON lines.

    Args:
        block: Whole lines.
        schema: What to read of them.
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
    return batch.append_column(LINE, text)


_OBJECT = re.compile(rb"\s*\{")
_BREAKS = re.compile(rb"[\r\n]+")
_NULL = re.compile(rb"\n[ \t\r]*null")


def _check_text(block: bytes) -> None:
    """Refuses bytes that are no UTF-8: the parser lets them through."""
    offsets = pa.py_buffer(np.array([0, len(block)], dtype=np.int64))
    pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(block)]).validate(full=True)


def _texts(block: bytes, rows: int) -> pa.StringArray:
    # No line break stands in JSON's texts.
    texts = strings(text.decode() for line in _BREAKS.split(block) if (text := line.strip()))
    if len(texts) != rows:
        msg = f"{rows} JSON objects in {len(texts)} lines"
        raise pa.ArrowInvalid(msg)
    return texts
