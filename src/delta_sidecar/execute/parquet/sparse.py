"""A remote file of which only some ranges are in memory, as a file object that Arrow can read.

Ranges that are known to be needed are loaded together, in one round trip. A range too large to hold is read through a
window that moves ahead of the reader. Anything else is fetched when it is touched.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from msgspec import Struct

from delta_sidecar.store import Store, TripClock, current_clock, run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from delta_sidecar._threads import ThreadPool

Bytes = bytes | memoryview
Range = tuple[int, int]

_SMALLEST_READ = 64 << 10


class Window(Struct, frozen=True):
    """A large range to be read bit by bit."""

    start: int
    end: int
    first: int  # bytes that are fetched in the beginning
    width: int  # bytes that are fetched at once later on


class SparseFile:
    """Reads one file of a store by ranges. The threads of Arrow may share it."""

    closed = False

    def __init__(self, store: Store, path: str, size: int, pool: ThreadPool) -> None:
        self.path = path
        self.size_in_bytes = size
        self._store = store
        self._pool = pool
        self._clock = current_clock()
        self._position = 0
        self._loaded: list[tuple[int, Bytes]] = []
        self._longest = 0
        self._windows: list[_Window] = []
        self._lock = threading.RLock()

    @property
    def has_windows(self) -> bool:
        """Whether something of it is read through windows."""
        return bool(self._windows)

    def hand_over(self) -> None:
        """Counts what is read later among the trips of the work that is running now."""
        clock = current_clock()
        clock.depth = max(clock.depth, self._clock.depth)
        self._clock = clock

    def load(self, ranges: Sequence[Range], windows: Sequence[Window] = ()) -> None:
        """Fetches ranges, to be held whole, and the beginnings of windows together."""
        whole = [needed for needed in ranges if self._find(*needed) is None]
        missing = whole + [(window.start, window.start + window.first) for window in windows]
        parts = run_in(self._clock, lambda: self._store.get_ranges(self.path, missing)) if missing else []
        for (start, _), data in zip(whole, parts, strict=False):
            self.keep(start, data)
        for window, data in zip(windows, parts[len(whole) :], strict=True):
            self._windows.append(_Window(window, data))

    def keep(self, start: int, data: Bytes) -> None:
        """Holds bytes that are already here."""
        with self._lock:
            insort(self._loaded, (start, data), key=_start)
            self._longest = max(self._longest, len(data))

    def read(self, length: int = -1) -> Bytes:
        """Reads from the current position."""
        with self._lock:
            start = self._position
            end = self.size_in_bytes if length < 0 else min(start + length, self.size_in_bytes)
            data: Bytes = self._get(start, end) if end > start else b""
            self._position = max(start, end)
            return data

    def read_at(self, start: int, end: int) -> Bytes:
        """Reads a range, wherever the current position is."""
        with self._lock:
            return self._get(start, min(end, self.size_in_bytes))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Moves the current position."""
        with self._lock:
            origin = (0, self._position, self.size_in_bytes)[whence]
            self._position = origin + offset
            return self._position

    def tell(self) -> int:
        """The current position."""
        return self._position

    def close(self) -> None:
        """Forgets everything that was loaded."""
        with self._lock:
            self._loaded.clear()
            self._windows.clear()
        self.closed = True

    def _find(self, start: int, end: int) -> Bytes | None:
        index = bisect_right(self._loaded, start, key=_start) - 1
        while index >= 0:
            at, data = self._loaded[index]
            if end <= at + len(data):
                return memoryview(data)[start - at : end - at]
            if end > at + self._longest:
                # What begins further in front does not reach as far.
                return None
            index -= 1
        return None

    def _get(self, start: int, end: int) -> Bytes:
        found = self._find(start, end)
        if found is not None:
            return found
        for moving in self._windows:
            if moving.start <= start and end <= moving.end:
                return self._through(moving, start, end)
        upto = min(max(end, start + _SMALLEST_READ), self.size_in_bytes)
        data = self._fetch(start, upto)
        self.keep(start, data)
        return memoryview(data)[: end - start]

    def _fetch(self, start: int, end: int) -> Bytes:
        return run_in(self._clock, lambda: self._store.get_range(self.path, start, end))

    def _through(self, moving: _Window, start: int, end: int) -> Bytes:
        pieces = []
        while start < end:
            at, data = moving.at(start, self._fetch)
            pieces.append(memoryview(data)[start - at : end - at])
            start += len(pieces[-1])
            moving.read_on(self._pool, self._store, self.path, self._clock)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _start(entry: tuple[int, Bytes]) -> int:
    return entry[0]


class _Window:
    """The bytes of a large range around its reader's position, and the next ones on their way."""

    def __init__(self, window: Window, data: Bytes) -> None:
        self.start = window.start
        self.end = window.end
        self._width = window.width
        self._at = window.start
        self._data = data
        self._before: tuple[int, Bytes] = (window.start, b"")
        self._next: tuple[int, TripClock, Future[Bytes]] | None = None

    def at(self, position: int, fetch: Callable[[int, int], Bytes]) -> tuple[int, Bytes]:
        start, data = self._before
        if start <= position < start + len(data):
            return start, data
        if not self._at <= position < self._at + len(self._data):
            ahead, self._next = self._next, None
            # A reader that looked a little way into the next window comes back for the rest of this one.
            self._before = self._at, self._data
            if ahead is not None and ahead[0] <= position < ahead[0] + self._width:
                start, clock, future = ahead
                self._at, self._data = start, future.result()
                now = current_clock()
                now.depth = max(now.depth, clock.depth)
            else:
                self._at, self._data = position, fetch(position, min(position + self._width, self.end))
        return self._at, self._data

    def read_on(self, pool: ThreadPool, store: Store, path: str, clock: TripClock) -> None:
        start = self._at + len(self._data)
        if self._next is None and start < self.end:
            end = min(start + self._width, self.end)
            ahead = TripClock(clock.depth)
            self._next = (start, ahead, pool.submit(run_in, ahead, lambda: store.get_range(path, start, end)))
