"""Building a metadata sidecar on this machine, in bounded memory.

    live files -> rows -> sorted, on disk where they do not fit -> row groups -> pieces -> data file -> manifest

Every arrow is a stream. Nothing is written into the table before the last two, and only into `_delta_log/_sidecars/`.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from delta_sidecar.build.builder import (
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
from delta_sidecar.build.sort import (
    DEFAULT_MEMORY,
    SortMemoryError,
    require_duckdb,
    sort_threads,
    sorted_rows,
)
from delta_sidecar.build.write import cut, temporary_folder, write_pieces
from delta_sidecar.events import Events
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        levels: When the manifest gets a second level.
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
    return _LocalBuilder(used, options, progress, Events(listeners)).run()


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
        with WaitingTexts(inside / "texts") as texts:
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
