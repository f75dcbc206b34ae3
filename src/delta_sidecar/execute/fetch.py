"""Requests of one scan: made by a few threads, beginnings of small files fetched once and shared by its plans."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa
from msgspec import Struct, field

from delta_sidecar._threads import ThreadPool
from delta_sidecar.errors import NotEnoughMemoryError, ObjectNotFoundError, UnreadableFileError
from delta_sidecar.plan import HEAD_BYTES, ExecutionCounts
from delta_sidecar.store import Fetched, Store, TripClock, run_in
from delta_sidecar.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from delta_sidecar.plan import FileRef, Place

T = TypeVar("T")
Bytes = bytes | memoryview

FIRST_BYTES = 8 << 20
AHEAD_BYTES = 4 << 20
KEPT_BYTES = 64 << 20
_UNPACKED_BYTES = 4 << 20
_MOST_DECODERS = 4


def decoders() -> int:
    """The number of threads that decode at once: one for each core that this process is bound to, but a few at most.

    A share of the cores' time, as containers have it, is not seen.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_MOST_DECODERS, cores)


class Work:
    """Makes the requests of one scan, and counts what its plans come to.

    They are made in threads, a few at once: those that a round trip has no thread left for are part of the next trip.
    All calls but `count` come from the consumer's thread.
    """

    def __init__(self, store: Store, file_parallelism: int, other_requests: int = 4) -> None:
        self.store = store  # the table's, bound to the account of the scan
        # Besides the commits, a listing, a checksum file, a manifest and a head are asked for at the same time.
        self._other_requests = other_requests
        self.clock = TripClock()  # the consumer's, of dependent round trips
        self.counts = ExecutionCounts()
        # The places of the last batch's rows: from which row on each begins. None where it is not from a file.
        self.places: tuple[tuple[int, Place | None], ...] = ((0, None),)
        self.paths: dict[int, str] = {}  # of the files of JSON lines that are read, by their labels
        self.dry = 0  # batches in a row of which a filter left nothing
        self._is_local = isinstance(store, LocalStore)
        self._lock = threading.Lock()
        self.pool = ThreadPool(0, "delta-sidecar-io")
        self.resize(file_parallelism)

    @property
    def place(self) -> Place | None:
        """The place of the last batch's first row."""
        return self.places[0][1]

    @place.setter
    def place(self, place: Place | None) -> None:
        self.places = ((0, place),)

    def resize(self, file_parallelism: int) -> None:
        """Sets how many files are fetched at once from now on; what is under way goes on."""
        self.file_parallelism = file_parallelism
        self.pool.size, self._trip, self._in_trip = file_parallelism + self._other_requests, 0, 0

    def submit(self, request: Callable[[], T]) -> Asked[T]:
        """Asks something of the store in a thread."""
        asked = Asked(self._next_clock(), request)
        asked.future = self.pool.submit(asked.make)
        return asked

    def ask(self, request: Callable[[], T]) -> Asked[T]:
        """Asks the store for something small: it is read where it is taken if it is near, else in a thread."""
        return Asked(self._next_clock(), request) if self._is_local else self.submit(request)

    def take(self, asked: Asked[T]) -> T:
        """Waits for the answer."""
        try:
            return asked.result()
        finally:
            self.clock.depth = max(self.clock.depth, asked.clock.depth)

    def _next_clock(self) -> TripClock:
        if self.clock.depth > self._trip or self._in_trip >= self.pool.size:
            # A clock never goes back, so every trip between it and the last one that was taken from is full.
            self._trip, self._in_trip = max(self.clock.depth, self._trip + 1), 0
        self._in_trip += 1
        return TripClock(self._trip)

    def count(
        self, *, files: int = 0, read: int = 0, skipped: int = 0, batches: int = 0, of_pieces: bool = False
    ) -> None:
        """Counts files of JSON lines, row groups that were read or skipped, and batches, from any thread."""
        with self._lock:
            so_far = self.counts
            self.counts = ExecutionCounts(
                so_far.files_read + files,
                so_far.row_groups_read + read,
                so_far.row_groups_skipped + skipped,
                so_far.piece_groups_read + read * of_pieces,
                so_far.piece_groups_skipped + skipped * of_pieces,
                so_far.batches_decoded + batches,
            )

    def close(self) -> None:
        """Drops the requests that have not begun. What is under way is not waited for."""
        self.pool.close()


class Asked(Struct, Generic[T], eq=False):
    """A request: under way in a thread, or to be made by who takes its answer first."""

    clock: TripClock
    request: Callable[[], T]
    future: Future[T] | None = None
    _answer: list[T] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_here(self) -> bool:
        """Whether nobody has to wait for the answer."""
        return self.future is None or self.future.done()

    def result(self) -> T:
        """The answer; it may be asked for by several threads."""
        if self.future is not None:
            return self.future.result()
        with self._lock:
            if not self._answer:
                self._answer.append(self.make())
        return self._answer[0]

    def make(self) -> T:
        """Makes the request."""
        return run_in(self.clock, self.request)

    def cancel(self) -> None:
        """It is not made, unless it was begun."""
        if self.future is not None:
            self.future.cancel()


class Fetcher:
    """Fetches the first bytes of files, or their heads (`HEAD_BYTES`).

    `ahead` asks for a file that may not be there. `start` asks for one that is needed; what `ahead` already brought
    is taken. A file that was absent when asked for ahead is asked for again. All calls come from the consumer's thread.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ahead: dict[tuple[str, bool], Pending] = {}
        self._kept: dict[str, _Kept] = {}
        self._kept_bytes = 0
        self._rows: deque[tuple[tuple[FileRef, ...], object, pa.RecordBatch]] = deque()

    def ahead(self, path: str, *, head: bool = False) -> None:
        """Asks for a file that is likely to be needed."""
        if path not in self._kept and (path, head) not in self._ahead:
            first_bytes = HEAD_BYTES if head else AHEAD_BYTES
            self._ahead[path, head] = self._submit(path, first_bytes, head=head, speculative=True)

    def start(self, path: str, first_bytes: int | None = None, *, head: bool = False) -> Pending:
        """Asks for the first bytes of a file, as many as are read at once by default, unless it is on its way."""
        if path in self._kept:
            return Pending(path, kept=self._kept[path])
        return self._ahead.pop((path, head), None) or self._submit(path, first_bytes or FIRST_BYTES, head=head)

    def take(self, pending: Pending, *, keep: bool = False) -> Fetched:
        """Waits for a file that was started.

        Args:
            pending: What `start` gave.
            keep: Whether to keep the bytes, as long as there is room, for who asks for the file again.

        Raises:
            ObjectNotFoundError: It is not there.
        """
        path = pending.path
        try:
            fetched = self._result(pending)
        except ObjectNotFoundError:
            if not pending.speculative:
                raise
            again = self._submit(path, HEAD_BYTES if pending.head else FIRST_BYTES, head=pending.head)
            fetched = self._result(again)
        if keep and path not in self._kept and self._kept_bytes + len(fetched.data) <= KEPT_BYTES:
            self._kept[path] = _Kept(fetched.size, fetched.e_tag, [self._packed(fetched.data)])
            self._kept_bytes += len(fetched.data)
        elif not keep:
            self._drop(path)
        pending.asked = None
        return fetched

    def kept_after_first(self, path: str) -> Iterator[Bytes]:
        """The kept bytes of a file after its first ones, piece by piece without a gap."""
        return (piece.unpacked() for piece in self._kept[path].pieces[1:]) if path in self._kept else iter(())

    def keeps_all(self, path: str) -> bool:
        """Whether all of a file is kept."""
        kept = self._kept.get(path)
        return kept is not None and kept.length >= kept.size

    def keep_more(self, path: str, start: int, data: Bytes) -> None:
        """Keeps the next bytes of a file, if all before them are kept and there is room."""
        kept = self._kept.get(path)
        if kept is not None and kept.length == start and self._kept_bytes + len(data) <= KEPT_BYTES:
            kept.pieces.append(self._packed(data))
            self._kept_bytes += len(data)

    def keep_rows(self, files: tuple[FileRef, ...], way: object, batch: pa.RecordBatch) -> None:
        """Keeps all rows of some files, as they were parsed in some way."""
        self._rows.append((files, way, batch))

    def take_rows(
        self, files: tuple[FileRef, ...], way: object
    ) -> Iterator[tuple[tuple[FileRef, ...], pa.RecordBatch]]:
        """Gives the rows that are kept of the first of some files, if they were parsed in the same way."""
        while self._rows:
            of, how, batch = self._rows.popleft()
            if files[: len(of)] != of or how != way:
                self._rows.clear()
                return
            files = files[len(of) :]
            for ref in of:
                self._drop(ref.path)
            yield of, batch

    def put_back(self, pending: Pending) -> None:
        """Keeps a file that was started and not taken for who asks for it next."""
        if pending.kept is None:
            self._ahead[pending.path, pending.head] = pending

    def drop_ahead(self) -> None:
        """Forgets what was asked for ahead and not taken."""
        for pending in self._ahead.values():
            if pending.asked is not None:
                pending.asked.cancel()
        self._ahead.clear()

    def _drop(self, path: str) -> None:
        if path in self._kept:
            self._kept_bytes -= self._kept.pop(path).length

    def _submit(self, path: str, max_bytes: int, *, head: bool, speculative: bool = False) -> Pending:
        asked = self._work.ask(lambda: self._work.store.get(path, max_bytes=max_bytes))
        return Pending(path, asked, head=head, speculative=speculative)

    def _packed(self, data: Bytes) -> _Piece:
        # The text of a log shrinks to a fraction, and most is too little to be worth it.
        if self._kept_bytes < _UNPACKED_BYTES:
            return _Piece(data, len(data), is_packed=False)
        # A copy, for Arrow's buffer is as large as the data.
        return _Piece(bytes(_CODEC.compress(data)), len(data), is_packed=True)

    def _result(self, pending: Pending) -> Fetched:
        if pending.kept is not None:
            return Fetched(pending.kept.pieces[0].unpacked(), pending.kept.size, pending.kept.e_tag)
        if pending.asked is None:
            raise ObjectNotFoundError(pending.path)
        return self._work.take(pending.asked)


class _Piece(Struct, frozen=True):
    """Bytes of a file, as they are or compressed."""

    content: Bytes
    length: int
    is_packed: bool

    def unpacked(self) -> Bytes:
        return memoryview(_CODEC.decompress(self.content, self.length)) if self.is_packed else self.content


class _Kept(Struct, frozen=True):
    """The beginning of a file, in pieces without a gap."""

    size: int
    e_tag: str | None
    pieces: list[_Piece]

    @property
    def length(self) -> int:
        return sum(piece.length for piece in self.pieces)


class Pending(Struct):
    """A file on its way, or here already."""

    path: str  # the file
    asked: Asked[Fetched] | None = None  # the request; None once its answer was taken
    kept: _Kept | None = None  # the file, where it is here already
    head: bool = False  # whether only its head was asked for
    speculative: bool = False  # whether it was asked for before it was known to be there

    @property
    def is_here(self) -> bool:
        """Whether nobody has to wait for it."""
        return self.asked is None or self.asked.is_here

    @property
    def trip(self) -> int:
        """The round trip that it comes with; 0 where it is here already."""
        return 0 if self.asked is None or self.asked.future is None else self.asked.clock.depth


_CODEC = pa.Codec("zstd", 1)


def unreadable(ref: FileRef, error: Exception) -> UnreadableFileError | NotEnoughMemoryError:
    """The error for a file of a plan that cannot be fetched or decoded."""
    return out_of_memory(ref.path, error) or UnreadableFileError(f"{ref.path}: {error}", ref.path, ref.label)


def out_of_memory(path: str, error: Exception) -> NotEnoughMemoryError | None:
    """The error for a file whose content does not fit into memory; None where that is not what happened.

    It says nothing of whether the file is whole.
    """
    is_no_room = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if not isinstance(error, MemoryError | pa.ArrowCapacityError) and not is_no_room:
        return None
    why = str(error) or "there is none left"
    return NotEnoughMemoryError(f"{path} takes more memory than there is, or than is allowed: {why}", path)
