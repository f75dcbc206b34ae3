"""The batches of one scan, taken by one consumer and stopped from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from delta_sidecar.errors import ScanClosedError

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.plan import Batches

_INTERRUPTED = "the scan was interrupted before its end: start another one"


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

    def __iter__(self) -> BatchStream:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._failure is not None:
            raise self._failure
        try:
            return next(self._batches)
        except StopIteration:
            # Stopped from outside just now: what looks like the end is none.
            if self._failure is not None:
                raise self._failure from None
            raise
        except BaseException as error:
            if self._failure is not None:
                raise self._failure from error
            self._failure = error if isinstance(error, Exception) else ScanClosedError(_INTERRUPTED)
            raise

    def close(self) -> None:
        """Stops for the consumer, who is done."""
        self._batches.close()

    def stop(self) -> None:
        """Stops from outside, from any thread: no request follows, and who takes on gets an error."""
        self._failure = self._failure or ScanClosedError()
        self._requests.cancel()
        try:
            self._batches.close()
        except ValueError:
            # The consumer waits in it right now; its next request ends it.
            return
