"""Beginnings of files: fetched once, ahead of need where somebody said so, and shared by the plans of a scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.plan import HEAD_BYTES
from delta_sidecar.store import Fetched, Store, TripClock, TripQueue, run_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

Bytes = bytes | memoryview

FIRST_BYTES = 8 << 20
AHEAD_BYTES = 4 << 20
KEPT_BYTES = 64 << 20


class Fetcher:
    """Fetches the first bytes of files through a pool of threads.

    `ahead` asks for a file that may not be there. `start` asks for one that is needed; what `ahead` already brought
    is taken. A file that was absent when asked for ahead is asked for again. All calls come from the consumer's thread.
    """

    def __init__(self, store: Store, pool: ThreadPoolExecutor, clock: TripClock, queue: TripQueue) -> None:
        self._store = store
        self._pool = pool
        self._queue = queue
        self._clock = clock
        self._ahead: dict[str, Pending] = {}
        self._heads: dict[str, Pending] = {}
        self._kept: dict[str, _Kept] = {}
        self._kept_bytes = 0

    def use(self, pool: ThreadPoolExecutor, queue: TripQueue) -> None:
        """Asks through another pool from now on."""
        self._pool = pool
        self._queue = queue

    def ahead(self, path: str) -> None:
        """Asks for a file that is likely to be needed."""
        if path not in self._kept and path not in self._ahead:
            self._ahead[path] = self._submit(path, AHEAD_BYTES, speculative=True)

    def ahead_head(self, path: str) -> None:
        """Asks for the head of a file that is likely to be needed."""
        if path not in self._kept and path not in self._heads:
            self._heads[path] = self._submit(path, HEAD_BYTES, speculative=True)

    def start_head(self, path: str) -> Pending:
        """Asks for the head of a file, unless it is on its way."""
        if (kept := self._kept.get(path)) is not None:
            return Pending(path, self._clock, kept=kept)
        return self._heads.pop(path, None) or self._submit(path, HEAD_BYTES)

    def take_head(self, pending: Pending) -> Fetched:
        """Waits for a head. One that was absent when it was asked for ahead is asked for again.

        Raises:
            ObjectNotFoundError: It is not there.
        """
        try:
            return pending.result(self._clock)
        except ObjectNotFoundError:
            if not pending.speculative:
                raise
            return self._submit(pending.path, HEAD_BYTES).result(self._clock)

    def start(self, path: str, first_bytes: int | None = None) -> Pending:
        """Asks for the first bytes of a file, as many as are read at once by default, unless it is on its way."""
        if (kept := self._kept.get(path)) is not None:
            return Pending(path, self._clock, kept=kept)
        return self._ahead.pop(path, None) or self._submit(path, FIRST_BYTES if first_bytes is None else first_bytes)

    def take(self, pending: Pending, *, keep: bool = False) -> Fetched:
        """Waits for a file that was started.

        Args:
            pending: What `start` gave.
            keep: Whether to keep the bytes, as long as there is room, for who asks for the file again.

        Raises:
            ObjectNotFoundError: It is not there.
        """
        try:
            fetched = pending.result(self._clock)
        except ObjectNotFoundError:
            if not pending.speculative:
                raise
            fetched = self._submit(pending.path, FIRST_BYTES).result(self._clock)
        if keep and pending.path not in self._kept and self._has_room(fetched.data):
            self._kept[pending.path] = _Kept(fetched.size, fetched.e_tag, [_Packed.of(fetched.data)])
            self._kept_bytes += len(fetched.data)
        elif not keep and pending.path in self._kept:
            self._kept_bytes -= self._kept.pop(pending.path).length
        pending.let_go()
        return fetched

    def kept_after_first(self, path: str) -> Iterator[Bytes]:
        """What is kept of a file after its first bytes, piece by piece without a gap."""
        kept = self._kept.get(path)
        return iter(()) if kept is None else map(_Packed.data, kept.pieces[1:])

    def keeps_all(self, path: str) -> bool:
        """Whether all of a file is kept."""
        kept = self._kept.get(path)
        return kept is not None and kept.length >= kept.size

    def keep_more(self, path: str, start: int, data: Bytes) -> None:
        """Keeps the next bytes of a file, if all before them are kept and there is room."""
        kept = self._kept.get(path)
        if kept is not None and kept.length == start and self._has_room(data):
            kept.pieces.append(_Packed.of(data))
            self._kept_bytes += len(data)

    def _has_room(self, data: Bytes) -> bool:
        return self._kept_bytes + len(data) <= KEPT_BYTES

    def put_back(self, pending: Pending) -> None:
        """Keeps a file that was started and not taken for who asks for it next."""
        if not pending.was_kept:
            self._ahead[pending.path] = pending

    def drop_ahead(self) -> None:
        """Forgets what was asked for ahead and not taken."""
        for pending in self._ahead.values():
            pending.cancel()
        for pending in self._heads.values():
            pending.cancel()
        self._ahead.clear()
        self._heads.clear()

    def _submit(self, path: str, max_bytes: int, *, speculative: bool = False) -> Pending:
        clock = self._queue.fork(self._clock)
        future = self._pool.submit(run_in, clock, lambda: self._store.get(path, max_bytes=max_bytes))
        return Pending(path, clock, future, speculative=speculative)


@dataclass(frozen=True, slots=True)
class _Packed:
    """Bytes that take little memory: the text of a log shrinks to a fraction."""

    content: bytes
    length: int

    @classmethod
    def of(cls, data: Bytes) -> _Packed:
        return cls(bytes(_CODEC.compress(data)), len(data))

    def data(self) -> memoryview:
        return memoryview(_CODEC.decompress(self.content, self.length))


_CODEC = pa.Codec("zstd", 1)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The beginning of a file, in pieces without a gap."""

    size: int
    e_tag: str | None
    pieces: list[_Packed]

    @property
    def length(self) -> int:
        return sum(piece.length for piece in self.pieces)

    def first(self) -> Fetched:
        return Fetched(self.pieces[0].data(), self.size, self.e_tag)


class Pending:
    """A file on its way."""

    def __init__(
        self,
        path: str,
        clock: TripClock,
        future: Future[Fetched] | None = None,
        kept: _Kept | None = None,
        *,
        speculative: bool = False,
    ) -> None:
        self.path = path
        self.speculative = speculative
        self._clock = clock
        self._future = future
        self._kept = kept

    def result(self, clock: TripClock) -> Fetched:
        """Waits for the file; `clock` is who waits."""
        if self._kept is not None:
            return self._kept.first()
        if self._future is None:
            raise ObjectNotFoundError(self.path)
        try:
            return self._future.result()
        finally:
            clock.join(self._clock)

    @property
    def was_kept(self) -> bool:
        """Whether the file was here already."""
        return self._kept is not None

    def let_go(self) -> None:
        """Forgets the file, which was taken."""
        self._future = None

    def cancel(self) -> None:
        """Gives the file up if it has not been asked for yet."""
        if self._future is not None:
            self._future.cancel()
