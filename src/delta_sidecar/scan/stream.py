"""The batches of one scan, taken by one consumer and stopped from anywhere; and where that consumer stands."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from delta_sidecar._threads import ThreadPool
from delta_sidecar.errors import PageTokenExpiredError, ScanClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    import pyarrow as pa

    from delta_sidecar.plan import Batches, Place


_INTERRUPTED = "the scan was interrupted before its end: start another one"
_CLOSED = "the stream was closed before its end, and gives no more: take all of it first, or start another scan"
_SHARED = "two take from one stream at the same time: let one of them do it, or start another scan"


class Cancellable(Protocol):
    """The handle that stops a stream, such as a `RequestLog`."""

    def cancel(self) -> None:
        """Lets no further request go out, from any thread."""


class BatchStream:
    """Gives the batches of a scan. One that failed or was stopped before its end says so however often it is asked."""

    def __init__(self, batches: Batches, requests: Cancellable) -> None:
        self._batches = batches
        self._requests = requests
        self.failure: Exception | None = None  # why it gives no more; None as long as it does
        self._is_over = False

    def __iter__(self) -> BatchStream:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self.failure is not None:
            # Who stopped it could not end what the consumer was inside of.
            self._end()
            raise self.failure
        try:
            return next(self._batches)
        except StopIteration:
            # Stopped from outside just now: what looks like the end is none.
            if self.failure is not None:
                raise self.failure from None
            self._is_over = True
            raise
        except BaseException as error:
            if _is_taken(error):
                self._give_up(_SHARED)
                self._requests.cancel()
            if self.failure is not None:
                raise self.failure from error
            self.failure = error if isinstance(error, Exception) else ScanClosedError(_INTERRUPTED)
            raise

    def close(self) -> None:
        """Stops for the consumer, who is done. Who takes on all the same gets an error, unless it was at its end."""
        self._give_up(_CLOSED)
        if not self._end():
            self.stop()

    def stop(self) -> None:
        """Stops from outside, from any thread: no request follows, and who takes on gets an error."""
        self._give_up()
        self._requests.cancel()
        self._end()

    def _give_up(self, *message: str) -> None:
        if self.failure is None and not self._is_over:
            self.failure = ScanClosedError(*message)

    def _end(self) -> bool:
        """Ends the batches; not where somebody takes from them right now, whose next request ends them."""
        try:
            self._batches.close()
        except ValueError as error:
            if not _is_taken(error):
                raise
            return False
        return True


def _is_taken(error: BaseException) -> bool:
    """Whether a generator says that another thread is in it."""
    return isinstance(error, ValueError) and str(error) == "generator already executing"


# The files of one scan for a consumer that must not block: an asyncio task.
#
#     async for file in scanner.scan_files_async():
#         ...
#
# The engine is the one that `scan_files` has. It runs in a thread of the scan's own, and only while somebody awaits the
# next item: a consumer that stalls asks the store for nothing beyond the bounded look-ahead, and no other work of the
# loop's threads can hold a scan up. The event loop itself neither waits for the store nor decodes anything.


T = TypeVar("T")

_STOPPED = "the scan was stopped before its end: its iterator was closed, or the task that awaited it was cancelled"
_ASYNCHRONOUS_SHARED = (
    "another task awaits the next item of this scan: one task takes from it, or each starts a scan of its own"
)


class AsyncStream(AsyncIterator[T]):
    """Gives the items of a scan to one task at a time.

    A task that is cancelled while it awaits an item ends at once, and so does the scan: no
    request follows. The same happens with `aclose`, at the end of an `async with` block, and when the iterator is
    dropped. A scan that failed or was stopped before its end says so however often it is asked.
    """

    def __init__(
        self,
        stream: BatchStream,
        items_of: Callable[[pa.RecordBatch], Iterable[T]],
        given: Callable[[T], None] | None = None,
    ) -> None:
        """Makes the iterator; nothing is read yet.

        Args:
            stream: The batches of the scan.
            items_of: What a batch has to give; it runs in the scan's thread.
            given: Is called with each item that the task gets: one that a cancelled task waited for is not.
        """
        self._given = given
        self._stream = stream
        self._items_of = items_of
        self._items: deque[T] = deque()
        self._thread: ThreadPool | None = None
        self._is_awaited = False
        self._end: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __anext__(self) -> T:
        if self._is_awaited:
            raise RuntimeError(_ASYNCHRONOUS_SHARED)
        while not self._items:
            if self._end is not None:
                raise self._end
            await self._take()
        item = self._items.popleft()
        if self._given is not None:
            self._given(item)
        return item

    async def aclose(self) -> None:
        """Stops the scan. It does not wait for a request under way; a task that awaits an item gets an error then."""
        self._items.clear()
        self._stop(ScanClosedError(_STOPPED))

    async def _take(self) -> None:
        # Who awaits has asyncio; who does not should not have to load it.
        from asyncio import wrap_future

        if self._thread is None:
            self._thread = ThreadPool(1, "delta-sidecar-async")
        taking = wrap_future(self._thread.submit(_next_items, self._stream, self._items_of))
        self._is_awaited = True
        try:
            found = await taking
        except Exception as error:  # noqa: BLE001 - raised each time it is asked, now and later
            self._stop(error)
        except BaseException:
            self._stop(ScanClosedError(_STOPPED))
            raise
        else:
            if found is None:
                self._stop(StopAsyncIteration())
            elif self._end is None:
                self._items.extend(found)
        finally:
            self._is_awaited = False

    def _stop(self, end: Exception) -> None:
        if self._end is not None:
            return
        self._end = end
        self._stream.stop()
        if self._thread is not None:
            # What was under way when the requests stopped is closed where it runs, once it is answered.
            self._thread.submit(self._stream.close)


def _next_items(stream: BatchStream, items_of: Callable[[pa.RecordBatch], Iterable[T]]) -> list[T] | None:
    """The next batch, or None at the end; a future cannot carry a `StopIteration`."""
    batch = next(stream, None)
    return None if batch is None else list(items_of(batch))


# Where a scan stands in what it emits, file by file: what page tokens are made of.


class Position(Struct, frozen=True):
    """Up to where a scan came."""

    place: Place  # where its last file is from
    rows: int  # how many files of that place were emitted


Places: TypeAlias = "tuple[tuple[int, Place | None], ...]"
"""The places of a batch's rows: from which row on each begins."""


class _At(NamedTuple):
    """The position of a scan in the files that it emitted last: a stretch of a batch as the executor gave it."""

    before: Position | None  # before that stretch
    places: Places = ()
    carried: int = 0  # files of the first place that came in batches before
    rows: int = 0  # files of the batch
    start: int = 0  # where the stretch begins
    taken: int = 0  # files of the stretch that the user has

    def position(self, row: int) -> Position | None:
        """After so many files of the batch."""
        begin, place = next(each for each in reversed(self.places) if each[0] < row)
        return None if place is None else Position(place, row - begin + (0 if begin else self.carried))


class Cursor:
    """Follows what a scan emits, file by file. Its position can be asked for from any thread."""

    def __init__(self, start: Position | None) -> None:
        # One value, so that another thread finds what belongs together.
        self._at = _At(start)

    def give(self, places: Places, rows: int, start: int) -> None:
        """A batch of some rows is emitted from one of them on; the user has none of these files yet."""
        last, carried = self._at, self._at.carried
        if places is not last.places:
            goes_on = last.places and last.places[-1][1] == places[0][1]
            end = last.position(last.rows) if goes_on else None
            carried = 0 if end is None else end.rows
        self._at = _At(self.position(), places, carried, rows, start)

    def take(self, files: int) -> None:
        """The user has so many more of its files."""
        self._at = self._at._replace(taken=self._at.taken + files)

    def position(self) -> Position | None:
        """After the last file that the user has; None before the first."""
        at = self._at
        return at.position(at.start + at.taken) if at.taken else at.before


class EarlierFiles(Struct):
    """Passes over the files that another scan emitted of the place where this one begins."""

    position: Position
    _passed: int = 0

    def passed_over(self, rows: int, places: Places) -> int:
        """How many of the first rows of a batch another scan emitted."""
        at = self.position
        if self._passed == at.rows:
            return 0
        if places[0][1] != at.place:
            self.check()
        of_place = places[1][0] if len(places) > 1 else rows
        passed = min(of_place, at.rows - self._passed)
        self._passed += passed
        if of_place < rows:
            self.check()
        return passed

    def check(self) -> None:
        """Refuses to go on where there are fewer files at the place than were emitted.

        Raises:
            PageTokenExpiredError: So it is.
        """
        at = self.position
        if self._passed < at.rows:
            msg = (
                f"{at.place.path} does not have the files any more that the page token is a place after: begin at the "
                f"first page"
            )
            raise PageTokenExpiredError(msg)
