"""Sorting more rows than fit into memory, by DuckDB.

Rows go in as they come and come out in order; in between they are on disk as far as memory does not hold them. Nothing
that DuckDB has an opinion on goes through it: texts travel as bytes, times as numbers, and columns without their names.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar.errors import OptionError, TemporaryFileError, to_install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from delta_sidecar.plan import Batches

DEFAULT_MEMORY = 1 << 30
LEAST_MEMORY = 128 << 20

# Rows that DuckDB holds in each thread while it merges, and its bytes for each column, however few rows there are.
_MERGED_ROWS = 122_880
_BYTES_PER_COLUMN = 256 << 10


class SortMemoryError(TemporaryFileError):
    """The rows are too large to be sorted in the memory that there is."""


def sort_threads(row_bytes: float, columns: int, memory: int, threads: int) -> int:
    """The number of threads that can sort rows of a size in some memory; 0 where not even one can."""
    spare = memory * 0.8 - columns * _BYTES_PER_COLUMN
    return max(0, min(threads, int(spare // (max(1.0, row_bytes) * _MERGED_ROWS))))


def require_duckdb() -> None:
    """Checks that DuckDB is there.

    Raises:
        OptionError: It is not; the message says how to get it.
    """
    try:
        import duckdb  # noqa: F401
    except ImportError:
        msg = f"a metadata sidecar is sorted by DuckDB, which is not installed: {to_install('build')}"
        raise OptionError(msg) from None


@contextmanager
def sorted_rows(
    schema: pa.Schema,
    batches: Batches,
    keys: Sequence[str],
    *,
    memory: int,
    folder: str,
    threads: int,
    batch_rows: int,
    abandon: Callable[[], None] | None = None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Sorts rows by some columns: upward, nulls first, texts by their bytes. They come out lazily, batch by batch.

    There are at most `memory` bytes of rows in memory, the rest is in a folder; about `batch_rows` come out at once.
    Unsorted batches are taken in other threads, one at a time, when the first row is asked for. After an interrupt
    `abandon` is called at once, before anything is waited for.

    Raises:
        SortMemoryError: The memory does not suffice.
        TemporaryFileError: DuckDB could not do it, such as when a disk is full.
    """
    import duckdb

    failures: list[BaseException] = []
    packed = _packed(schema, batches, failures)
    source = pa.RecordBatchReader.from_batches(_passing(schema), packed)
    connection = duckdb.connect(
        config={
            "memory_limit": f"{memory}B",
            "temp_directory": folder,
            "threads": threads,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    # DuckDB runs in a thread of its own, so that an interrupt reaches this one while it waits.
    worker = ThreadPoolExecutor(1, thread_name_prefix="delta-sidecar-sort")
    try:
        # It would go to stdout.
        connection.execute("SET enable_progress_bar = false")
        connection.register("unsorted", source)
        order = ", ".join(f"c{schema.get_field_index(key)} ASC NULLS FIRST" for key in keys)
        columns = ", ".join(f"c{number}" for number in range(len(schema)))
        query = f"SELECT {columns} FROM unsorted ORDER BY {order}"  # noqa: S608 - made of numbers

        def start() -> Any:  # noqa: ANN401 - a reader of DuckDB's
            return connection.sql(query).to_arrow_reader(batch_rows)

        with closing(_pulled(worker, start, schema, failures)) as found:
            yield found
    except KeyboardInterrupt:
        if abandon is not None:
            abandon()
        raise
    finally:
        connection.interrupt()
        worker.shutdown(wait=True, cancel_futures=True)
        connection.close()
        packed.close()


def _pulled(
    worker: ThreadPoolExecutor, start: Callable[[], Any], schema: pa.Schema, failures: list[BaseException]
) -> Batches:
    """The sorted rows, fetched one batch ahead."""
    import duckdb

    try:
        reader = worker.submit(start).result()
        ahead = worker.submit(next, reader, None)
        while (batch := ahead.result()) is not None:
            ahead = worker.submit(next, reader, None)
            if batch.num_rows:
                yield _unpacked(schema, batch)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if failures:
            raise failures[0] from None
        msg = f"the rows could not be sorted: {_first_line(error)}"
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
            msg = f"{msg}. Give it a larger memory_limit"
            raise SortMemoryError(msg) from error
        raise TemporaryFileError(msg) from error


def _packed(schema: pa.Schema, batches: Batches, failures: list[BaseException]) -> Batches:
    passing = _passing(schema)
    try:
        with closing(batches):
            for batch in batches:
                columns = zip(batch.columns, passing, strict=True)
                yield pa.RecordBatch.from_arrays([_viewed(column, field) for column, field in columns], schema=passing)
    except GeneratorExit:
        raise
    except BaseException as error:
        # DuckDB would only pass its text on.
        failures.append(error)
        raise


def _unpacked(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    # DuckDB may return a wider type than it was given.
    columns = zip(batch.cast(_passing(schema)).columns, schema, strict=True)
    return pa.RecordBatch.from_arrays([_viewed(column, field) for column, field in columns], schema=schema)


def _viewed(column: pa.Array, field: pa.Field) -> pa.Array:
    return column if column.type == field.type else column.view(field.type)


def _passing(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f"c{number}", _passing_type(field.type)) for number, field in enumerate(schema)])


def _passing_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
