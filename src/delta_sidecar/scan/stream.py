"""The batches of one scan, taken by one consumer and stopped from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from delta_sidecar.errors import ScanClosedError

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.plan import Batches

_INTERRUPTED = "the scan was interrupted before its end: start another one"
_CLOSED = "the stream was closed before its end, and gives no more: take all of it first, or start another scan"
_SHARED = "two take from one stream at the same time: let one of them do it, or start another scan"


class Cancellable(Protocol):
    """What a stream is stopped through, such as a `RequestLog`."""

    def cancel(self) -> None:
        """Lets no further request go out, from any thread."""


class BatchStream:
    """Gives the batches of a scan. One that failed or was stopped before its end says so however often it is asked."""

    def __init__(self, batches: Batches, requests: Cancellable) -> None:
        self._batches = batches
        self._requests = requests
        self._failure: Exception | None = None
        self._is_over = False

    def __iter__(self) -> BatchStream:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._failure is not None:
            # Who stopped it could not end what the consumer was inside of.
            self._end()
            raise self._failure
        try:
            return next(self._batches)
        except StopIteration:
            # Stopped from outside just now: what looks like the end is none.
            if self._failure is not None:
                raise self._failure from None
            self._is_over = True
            raise
        except BaseException as error:
            if _is_taken(error):
                self._give_up(_SHARED)
                self._requests.cancel()
            if self._failure is not None:
                raise self._failure from error
            self._failure = error if isinstance(error, Exception) else ScanClosedError(_INTERRUPTED)
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
        if self._failure is None and not self._is_over:
            self._failure = ScanClosedError(*message)

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
