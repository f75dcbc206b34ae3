"""Runs `ScanJson`: files of JSON lines in order, the next ones already on their way, block by block."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import ObjectTruncatedError, StorageError
from delta_sidecar.execute.fetcher import FIRST_BYTES, Fetcher, Pending
from delta_sidecar.execute.json_lines import BLOCK_BYTES, line_blocks, parse_lines
from delta_sidecar.execute.work import Asked, Work, unreadable
from delta_sidecar.plan import Place

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
        return MOST_AHEAD if plan.all_needed else min(MOST_AHEAD, work.file_parallelism << min(work.progress.dry, 16))

    work.progress.dry = 0
    tidiness = _Tidiness()
    files = plan.files
    if plan.kept_only:
        files = tuple(takewhile(lambda ref: fetcher.keeps_all(ref.path), files))
    for ref, pending in _started(fetcher, files, most):
        work.counts.add(files=not pending.was_kept)
        is_empty = True
        try:
            for block in line_blocks(_chunks(work, fetcher, ref, pending, keep=plan.keep)):
                lines = any(text in block for text in plan.lines_with)
                if plan.only_with and _holds_none(block, plan.only_with):
                    is_empty = False
                    continue
                batch = parse_lines(block, plan.schema, ref.label, lines=lines)
                if batch is not None:
                    is_empty = False
                    work.counts.add(batches=1)
                    work.progress.place = Place(ref.path)
                    yield batch
                tidiness.parsed(len(block))
            if is_empty:
                msg = "there is no JSON object in it"
                raise pa.ArrowInvalid(msg)
        except (pa.ArrowException, MemoryError, StorageError) as error:
            raise unreadable(ref, error) from error
    tidiness.restore()


class _Tidiness:
    """Arrow's allocator keeps what a thread frees; over a long commit, or many, that adds up."""

    def __init__(self) -> None:
        self._total = self._since = 0

    def parsed(self, size: int) -> None:
        """Gives it back every now and then."""
        self._total += size
        self._since += size
        if self._since >= _TIDY_BYTES:
            self.restore()

    def restore(self) -> None:
        """Gives it back, where it is much."""
        if self._total >= _TIDY_BYTES:
            self._since = 0
            pa.default_memory_pool().release_unused()


def _holds_none(block: bytes, texts: tuple[bytes, ...]) -> bool:
    # A name may be written with escapes.
    return b"\\u" not in block and not any(text in block for text in texts)


def within(files: Sequence[FileRef], budget: int) -> Iterator[FileRef]:
    """The first files that together stay within a number of bytes and of files."""
    for ref in files[:MOST_AHEAD]:
        budget -= _first_bytes(ref)
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
