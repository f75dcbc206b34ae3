"""What the parts of an executor share."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from delta_sidecar.errors import NotEnoughMemoryError, UnreadableFileError
from delta_sidecar.plan import ExecutionCounts
from delta_sidecar.store import TripClock, TripQueue, run_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

    from delta_sidecar.plan import FileRef, Place
    from delta_sidecar.store import Store

T = TypeVar("T")

_MOST_DECODERS = 4


def decoders() -> int:
    """How many threads decode at once: one for each core that this process is bound to, but a few at most.

    A share of the cores' time, as containers have it, is not seen.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_MOST_DECODERS, cores)


class WorkCounter:
    """Counts what running plans comes to, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = ExecutionCounts()

    def add(
        self, *, files: int = 0, read: int = 0, skipped: int = 0, batches: int = 0, of_pieces: bool = False
    ) -> None:
        """Counts files of JSON lines, row groups that were read or skipped, and batches."""
        with self._lock:
            so_far = self._counts
            self._counts = ExecutionCounts(
                so_far.files_read + files,
                so_far.row_groups_read + read,
                so_far.row_groups_skipped + skipped,
                so_far.piece_groups_read + read * of_pieces,
                so_far.piece_groups_skipped + skipped * of_pieces,
                so_far.batches_decoded + batches,
            )

    @property
    def counts(self) -> ExecutionCounts:
        """What it came to so far."""
        return self._counts


@dataclass(slots=True)
class Output:
    """What the consumer got last.

    Attributes:
        dry: Batches in a row of which a filter left nothing.
        place: Where the last batch comes from; None where it is not from a file.
    """

    dry: int = 0
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What the plans of one scan are run with.

    Attributes:
        store: The table's store, bound to the account of the scan.
        pool: Threads that wait for the store.
        clock: The consumer's clock of dependent round trips.
        counts: What it comes to.
        file_parallelism: How many small files are fetched at once.
        queue: Tells which trips the requests of the pool are part of.
        output: What the consumer got last.
    """

    store: Store
    pool: ThreadPoolExecutor
    clock: TripClock
    counts: WorkCounter
    file_parallelism: int
    queue: TripQueue
    output: Output = field(default_factory=Output)

    def submit(self, request: Callable[[], T]) -> Asked[T]:
        """Asks something of the store in a thread of the pool."""
        clock = self.queue.fork(self.clock)
        return Asked(clock, self.pool.submit(run_in, clock, request))

    def take(self, asked: Asked[T]) -> T:
        """Waits for the answer."""
        found = asked.future.result()
        self.clock.join(asked.clock)
        return found


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """A request under way."""

    clock: TripClock
    future: Future[T]


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
