"""The files of one scan for a consumer that must not block: an asyncio task.

    async for file in scanner.scan_files_async():
        ...

The engine is the one that `scan_files` has. It runs in a thread of the scan's own, and only while somebody awaits the
next item: a consumer that stalls asks the store for nothing beyond the bounded look-ahead, and no other work of the
loop's threads can hold a scan up. The event loop itself neither waits for the store nor decodes anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from delta_sidecar.errors import ScanClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    import pyarrow as pa

    from delta_sidecar.scan.stream import BatchStream

T = TypeVar("T")

_STOPPED = "the scan was stopped before its end: its iterator was closed, or the task that awaited it was cancelled"
_SHARED = "another task awaits the next item of this scan: one task takes from it, or each starts a scan of its own"


class AsyncStream(AsyncIterator[T]):
    """Gives the items of a scan to one task at a time.

    A task that is cancelled while it awaits an item ends at once, whatever the store does, and so does the scan: no
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
            given: Is told of each item that is given out: one that a cancelled task waited for is not.
        """
        self._given = given
        self._stream = stream
        self._items_of = items_of
        self._items: deque[T] = deque()
        self._thread: ThreadPoolExecutor | None = None
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
            raise RuntimeError(_SHARED)
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
        from asyncio import get_running_loop

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="delta-sidecar-async")
        taking = get_running_loop().run_in_executor(self._thread, _next_items, self._stream, self._items_of)
        self._is_awaited = True
        try:
            found = await taking
        except Exception as error:  # noqa: BLE001 - raised to whoever asks, now and later
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
            self._thread.shutdown(wait=False)


def _next_items(stream: BatchStream, items_of: Callable[[pa.RecordBatch], Iterable[T]]) -> list[T] | None:
    """What the next batch has to give, or None at the end; a future cannot carry a `StopIteration`."""
    batch = next(stream, None)
    return None if batch is None else list(items_of(batch))
