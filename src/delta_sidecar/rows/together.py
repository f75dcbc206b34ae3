"""Small files: decoded by the consumer, and their rows put together in batches.

To hand twenty rows over from another thread takes longer than to decode them, and an engine is called for every batch.
So a thread fetches no more than the bytes of a small file, and not even these where the store is near. Rows are put
together while the next file is there already, at most those of half as many files as were taken before: the first batch
is of one file, and who stops has had few files opened in vain.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from delta_sidecar.store import TripClock, run_in

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from delta_sidecar.rows.reader import FileReader
    from delta_sidecar.scan.files import DeltaFile
    from delta_sidecar.store import Buffer

SmallFile: TypeAlias = "tuple[DeltaFile, Buffer | None]"
"""A file and its bytes; None where it is read when its turn comes."""

RowItem: TypeAlias = "pa.RecordBatch | Sequence[SmallFile]"
"""Rows that are decoded, or small files. Where there are none of these, the next item is not there yet."""

NOT_YET: Sequence[SmallFile] = ()
_MOST_BYTES = 8 << 20
# An engine that takes batches ahead has few files opened in vain.
_FIRST_ALONE = 16


class Together:
    """Decodes small files for one consumer."""

    def __init__(self, reader: FileReader, rows_per_batch: int, limit: int | None) -> None:
        self.given = 0  # small files that had rows, and batches of other files
        self.dry = 0  # small files that had none
        self._reader = reader
        self._most_rows = rows_per_batch
        self._left = limit
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def batches(self, items: Iterable[RowItem]) -> Generator[pa.RecordBatch, None, None]:
        """Gives the rows of items in their order; those that were there before a file failed come before its error."""
        try:
            for item in items:
                if isinstance(item, pa.RecordBatch):
                    yield from self._joined()
                    self.given += 1
                    yield item
                elif item:
                    for file, data in item:
                        yield from self._of_file(file, data)
                else:
                    yield from self._joined()
                del item
        except Exception:
            yield from self._joined()
            raise
        yield from self._joined()

    def _of_file(self, file: DeltaFile, fetched: Buffer | None) -> Iterator[pa.RecordBatch]:
        # It needs the answer of no other request.
        data = run_in(TripClock(), partial(self._reader.read_whole, file)) if fetched is None else fetched
        batch = self._reader.decode_whole(file, data)
        if batch is None:
            yield from self._joined()
            self.given += 1
            yield from self._reader.batches(file, data)
            return
        size = batch.nbytes
        if self._rows + batch.num_rows > self._most_rows or self._bytes + size > _MOST_BYTES:
            yield from self._joined()
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += size
        # A limit opens no file that it may not need.
        is_enough = self._left is not None and self._rows >= self._left
        if is_enough or len(self._held) > (self.given + self.dry - _FIRST_ALONE) // 2:
            yield from self._joined()

    def _joined(self) -> Iterator[pa.RecordBatch]:
        """The rows that are held, filtered."""
        files, held = len(self._held), self._held
        if not files:
            return
        self._held, self._rows, self._bytes = [], 0, 0
        rows = self._reader.chosen(held[0] if files == 1 else pa.concat_batches(held))
        del held
        if rows.num_rows:
            self.given += files
            self._left = None if self._left is None else self._left - rows.num_rows
            yield rows
        else:
            self.dry += files
