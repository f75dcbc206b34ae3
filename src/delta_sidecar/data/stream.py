"""The rows of one scan: a stream that tells its schema, can be handed to Arrow and be stopped from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from weakref import finalize

import pyarrow as pa

from delta_sidecar.scan.stream import BatchStream

if TYPE_CHECKING:
    from delta_sidecar.data.scan import RowMetrics, RowScan


class RowStream:
    """Streams the rows of a scan as Arrow batches, to one consumer.

    Nothing of the files is read before the first batch is asked for. `close`, the end of a `with` block and dropping
    the stream all stop the requests.
    """

    def __init__(self, scan: RowScan) -> None:
        """Makes a stream of a scan; the table is opened, where it is not open yet.

        Args:
            scan: The scan.
        """
        self._scan = scan
        self._schema = scan.schema
        self._batches = BatchStream(scan.batches(), scan)
        # A table that was opened reads ahead, and its batches end nothing that they have not begun.
        finalize(self, scan.cancel)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    @property
    def metrics(self) -> RowMetrics:
        """What the scan has done so far."""
        return self._scan.metrics()

    def reader(self) -> pa.RecordBatchReader:
        """The same stream as a reader of Arrow; taking from one takes from the other."""
        return pa.RecordBatchReader.from_batches(self._schema, self)

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch, as a reader of Arrow gives it.

        Raises:
            StopIteration: There is none left.
        """
        return next(self)

    def read_all(self) -> pa.Table:
        """All rows that are left, in memory."""
        return self.reader().read_all()

    def close(self) -> None:
        """Stops for the consumer, who is done."""
        self._batches.close()
        self._scan.cancel()

    def stop(self) -> None:
        """Stops from outside, from any thread; who goes on taking gets a `ScanClosedError`."""
        self._batches.stop()
