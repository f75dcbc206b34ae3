"""Building a metadata sidecar on this machine, in bounded memory.

    live files -> rows -> sorted, on disk where they do not fit -> row groups -> pieces -> data file -> manifest

Every arrow is a stream. Nothing is written into the table before the last two, and only into `_delta_log/_sidecars/`.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar.build.builder import (
    DEFAULT_MEMORY,
    BuildOptions,
    BuildPlan,
    BuildProgress,
    BuildSummary,
    ProgressListener,
    SidecarBuilder,
    expected_files,
)
from delta_sidecar.build.live_rows import PackedRows, RowMaker, WaitingTexts, live_rows, sampled
from delta_sidecar.build.publish import Levels
from delta_sidecar.build.write import cut, temporary_folder, write_pieces
from delta_sidecar.errors import OptionError, TemporaryFileError, to_install
from delta_sidecar.events import Events
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from delta_sidecar.build.live_rows import Sample
    from delta_sidecar.build.publish import BuiltSidecar, PieceRange
    from delta_sidecar.build.write import Pieces
    from delta_sidecar.events import Listener
    from delta_sidecar.plan import Batches
    from delta_sidecar.store import Store, TokenCredential


def build_sidecar(  # noqa: PLR0913 - a call for people: every option by its name
    table_url: str | os.PathLike[str],
    *,
    version: int | None = None,
    sort: str | None = None,
    summaries: Sequence[str] = (),
    rows_per_group: int | None = None,
    bucket_column: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    credential: TokenCredential | None = None,
    progress: ProgressListener | None = None,
    memory_limit: int | str = DEFAULT_MEMORY,
    temp_directory: str | os.PathLike[str] | None = None,
    threads: int = 2,
    levels: Levels | None = None,
    listeners: Iterable[Listener] = (),
) -> BuildSummary:
    """Builds the metadata sidecar of a table at a version, and puts it into the table's `_delta_log/_sidecars/`.

    What is there already and good is not built again. The table stays readable all the while, and other readers do not
    notice.

    Args:
        table_url: The table's root.
        version: The version; None for the newest.
        sort: Name of the time column, whose bounds are kept beside the paths; it orders the files of a table without
            partitions. None for the first timestamp with statistics.
        summaries: Names of other columns whose bounds are kept of every row group.
        rows_per_group: Files in a row group: what a reader fetches at once. None for 10,000, or fewer where the table
            has thousands of columns.
        bucket_column: The partition column that holds the time bucket; a table need not have it.
        storage_options: Options of the store, by name.
        store: A store that is open already, in the place of `table_url`'s.
        credential: For Azure, an object that gives tokens.
        progress: Is called with the progress of the build, from any thread.
        memory_limit: Most bytes of rows that are sorted in memory, as a number or a text such as `1GB`; the rest is on
            disk. The process takes about half a gigabyte more.
        temp_directory: Where temporary files go, in a folder of their own that is removed in the end.
        threads: How many threads sort and encode.
        levels: From how many row groups on the manifest has segments, and how large those are.
        listeners: Are called with events.

    Raises:
        OptionError: A value is not valid, a name is no column, or DuckDB is not installed.
        TableNotFoundError: There is no Delta table.
        VersionNotFoundError: The table has no such version.
        DeltaProtocolError: The table asks its readers for more than this library can do.
        LogCorruptionError: The log cannot be read.
        BuildError: The table was replaced or restored meanwhile, or nothing that is there proves its version.
        TemporaryFileError: A temporary file cannot be written.
        StorageError: The store did not do what was asked.
    """
    options = BuildOptions(
        version=version,
        sort=sort,
        summaries=summaries,
        rows_per_group=rows_per_group,
        bucket_column=bucket_column,
        memory_limit=memory_limit,
        temp_directory=temp_directory,
        threads=threads,
        levels=levels or Levels(),
    )
    require_duckdb()
    used = store or open_store(table_url, storage_options, credential=credential)
    return _LocalBuilder(used, options, progress, Events(tuple(listeners))).run()


class _LocalBuilder(SidecarBuilder):
    """One build of a table's sidecar on this machine."""

    def _check_pieces(self, pieces: Iterator[PieceRange], total: int) -> None:
        done = 0
        for piece in pieces:
            piece.check(self._store)
            done += piece.end - piece.start
            self._progress(BuildProgress("checking", done, total))

    def _make(self, plan: BuildPlan) -> BuiltSidecar:
        sample = sampled(plan.snapshot, plan.layout, plan.executor)
        with temporary_folder("delta-sidecar-build-", self._options.temp_directory) as folder:
            pieces = self._pieces(plan, sample, folder)
            self._progress(BuildProgress("publishing", pieces.num_rows, pieces.num_rows))
            return self._publish(plan, pieces, sample.stats_format)

    def _pieces(self, plan: BuildPlan, sample: Sample, folder: Path) -> Pieces:
        """Makes the pieces, in a file in a folder.

        Rows that prove too large to be sorted are read again, and sorted without their statistics.
        """
        options, snapshot = self._options, plan.snapshot
        maker = RowMaker(plan.layout, snapshot.columns.instants, sample.stats_format)
        threads = sort_threads(sample.row_bytes, len(maker.schema), options.memory, options.threads)
        write = partial(self._written, plan, expected_files(self._store, snapshot))
        if threads:
            try:
                return write(maker, _subfolder(folder, "whole"), threads)
            except SortMemoryError:
                shutil.rmtree(folder / "whole", ignore_errors=True)
        inside = _subfolder(folder, "packed")
        with closing(WaitingTexts(inside / "texts")) as texts:
            return write(PackedRows(maker, texts), inside, 1)

    def _written(
        self, plan: BuildPlan, total: int | None, maker: RowMaker | PackedRows, folder: Path, threads: int
    ) -> Pieces:
        options, layout = self._options, plan.layout
        files = 0

        def counted(batches: Batches) -> Batches:
            nonlocal files
            self._progress(BuildProgress("reading", 0, total))
            with closing(batches):
                for batch in batches:
                    files += batch.num_rows
                    self._progress(BuildProgress("reading", files, total))
                    yield batch
            self._progress(BuildProgress("sorting", files, files))

        rows_per_group = options.group_rows(layout)
        columns = len(layout.schema.index) + len(layout.schema.statistics_schema)
        live = counted(live_rows(plan.snapshot, maker, plan.executor, self._events, options.threads))
        keys = ["#complete", *(f"#{number}" for number in range(len(layout.order.sort))), "path", "#vector"]
        with sorted_rows(
            maker.schema,
            live,
            keys,
            memory=options.memory,
            folder=str(_subfolder(folder, "sort")),
            threads=threads,
            batch_rows=rows_per_group,
            abandon=partial(self._abandon, folder.parent),
        ) as found:
            return write_pieces(
                cut(found, rows_per_group),
                maker,
                layout,
                folder,
                threads=1 if rows_per_group * columns > _MANY_CELLS else options.threads,
                written=lambda done: self._progress(BuildProgress("writing", done, files)),
            )

    def _abandon(self, folder: Path) -> None:
        """After an interrupt: the files on disk go at once, for nobody waits for threads to come to their end."""
        shutil.rmtree(folder, ignore_errors=True)
        self._requests.cancel()


_MANY_CELLS = 8 << 20


def _subfolder(folder: Path, name: str) -> Path:
    inside = folder / name
    inside.mkdir()
    return inside


# Sorting more rows than fit into memory, by DuckDB.
#
# Rows go in as they come and come out in order; in between they are on disk as far as memory does not hold them.
# Nothing that DuckDB has an opinion on goes through it: texts travel as bytes, times as numbers, and columns without
# their names.


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
