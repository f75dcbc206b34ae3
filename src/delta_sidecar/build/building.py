"""Building a metadata sidecar on this machine, in bounded memory.

    live files -> rows -> sorted, on disk where they do not fit -> row groups -> pieces -> data file -> manifest

Every arrow is a stream. Nothing is written into the table before the last two, and only into `_delta_log/_sidecars/`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from delta_sidecar.build.assembling import Assembly
from delta_sidecar.build.existing import Existing, find_existing
from delta_sidecar.build.layout import PlannedLayout, lay_out
from delta_sidecar.build.manifest_facts import commit_mark, expected_files, manifest_facts
from delta_sidecar.build.publishing import Levels, Published, publish
from delta_sidecar.build.sampling import sampled
from delta_sidecar.build.settings import BuildOptions
from delta_sidecar.build.sorting import DEFAULT_MEMORY, require_duckdb
from delta_sidecar.build.summary import BuildProgress, BuildSummary, ProgressListener
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.events import BuildEnded, Events, PropertyIgnored
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.options import SCAN_OPTIONS, resolve
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.predicate.names import written
from delta_sidecar.replay.opening import Opening
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.sidecar.names import manifest_name
from delta_sidecar.store import RequestLog, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from delta_sidecar.build.writing import Pieces
    from delta_sidecar.events import Listener
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.store import Store, TokenCredential

_ROW_GROUPS_AHEAD = 4
_BUCKET_OPTION = tuple(option for option in SCAN_OPTIONS if option.name == "bucket_column")


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
        summaries: Names of other columns whose bounds every row group tells.
        rows_per_group: Files in a row group: what a reader fetches at once. None for 10,000, or fewer where the table
            has thousands of columns.
        bucket_column: The partition column that holds the time bucket; a table need not have it.
        storage_options: Options of the store, by name.
        store: A store that is open already, in the place of `table_url`'s.
        credential: For Azure, an object that gives tokens.
        progress: Is told how far the build is, from whatever thread.
        memory_limit: Most bytes of rows that are sorted in memory, as a number or a text such as `1GB`; the rest is on
            disk. The process takes about half a gigabyte more.
        temp_directory: Where temporary files go, in a folder of their own that is removed in the end.
        threads: How many threads sort and encode.
        levels: When the manifest gets a second level.
        listeners: Are told of events.

    Raises:
        OptionError: A value is not valid, a name is no column, or DuckDB is not installed.
        TableNotFoundError: There is no Delta table.
        VersionNotFoundError: The table has no such version.
        DeltaProtocolError: The table asks its readers for more than this library can do.
        LogCorruptionError: The log cannot be read.
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
    return _Build(used, options, progress or _nobody, Events(listeners)).run()


class _Build:
    """One build of a table's sidecar."""

    def __init__(self, store: Store, options: BuildOptions, progress: ProgressListener, events: Events) -> None:
        self._requests = RequestLog()
        self._store = store.bind(self._requests)
        self._options = options
        self._progress = progress
        self._events = events
        self._version: int | None = None
        self._began = time.monotonic()

    def run(self) -> BuildSummary:
        summary = None
        outcome: Literal["complete", "already_there", "stopped", "failed"] = "failed"
        error = None
        try:
            summary = self._run()
            outcome = "already_there" if summary.already_there else "complete"
        except Exception as failure:
            error = type(failure).__name__
            raise
        except KeyboardInterrupt:
            outcome = "stopped"
            raise
        finally:
            self._tell_end(outcome, error, summary)
        return summary

    def _run(self) -> BuildSummary:
        self._progress(BuildProgress("opening"))
        with closing(LocalExecutor(self._store, row_groups_ahead=_ROW_GROUPS_AHEAD)) as executor:
            try:
                return self._built(executor)
            finally:
                self._requests.cancel()

    def _built(self, executor: LocalExecutor) -> BuildSummary:
        options = self._options
        snapshot = self._open(executor)
        self._version = snapshot.version
        layout = lay_out(snapshot, bucket=self._bucket(snapshot), sort=options.sort, summaries=options.summaries)
        facts = manifest_facts(snapshot, layout, commit_mark(self._store, snapshot.version))
        there = find_existing(self._store, facts, options.group_rows(layout), options.levels, self._checked)
        if there is not None:
            return self._summary(layout, snapshot, there)
        sample = sampled(snapshot, layout, executor)
        with self._temporary_folder() as folder:
            assembly = Assembly(
                snapshot,
                layout,
                options,
                executor,
                expected_files(self._store, snapshot),
                self._progress,
                self._events,
                partial(self._abandon, folder),
            )
            pieces = assembly.pieces(sample, folder)
            self._progress(BuildProgress("publishing", pieces.num_rows, pieces.num_rows))
            facts = replace(facts, num_files=pieces.num_rows, stats_format=sample.stats_format)
            published = publish(self._store, pieces, layout, facts, options.levels)
        return self._summary(layout, snapshot, published, pieces)

    def _open(self, executor: LocalExecutor) -> Snapshot:
        # The state comes from Delta's own log, never from another sidecar.
        opening = Opening(
            self._store.url,
            self._options.version,
            whole_tail=True,
            whole_base=True,
            sidecars=False,
            events=self._events,
        )
        return StateMachineIterator(open_snapshot(opening), executor).run_to_terminal()

    def _bucket(self, snapshot: Snapshot) -> str:
        given = {"bucket_column": self._options.bucket_column}
        values = resolve(_BUCKET_OPTION, given, snapshot.metadata.configuration, self._ignored)
        name: str = values["bucket_column"]
        return name

    def _checked(self, done: int, total: int) -> None:
        self._progress(BuildProgress("checking", done, total))

    @contextmanager
    def _temporary_folder(self) -> Iterator[Path]:
        where = self._options.temp_directory
        try:
            folder = Path(tempfile.mkdtemp(prefix="delta-sidecar-build-", dir=where))
        except OSError as error:
            msg = f"no temporary folder can be made in {where or tempfile.gettempdir()}: {error.strerror}"
            raise TemporaryFileError(msg) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _abandon(self, folder: Path) -> None:
        """After an interrupt: what is on disk goes at once, for nobody waits for threads to come to their end."""
        shutil.rmtree(folder, ignore_errors=True)
        self._requests.cancel()

    def _tell_end(
        self,
        outcome: Literal["complete", "already_there", "stopped", "failed"],
        error: str | None,
        summary: BuildSummary | None,
    ) -> None:
        counts = self._requests.snapshot()
        self._events(
            BuildEnded(
                table=self._store.url,
                outcome=outcome,
                error=error,
                milliseconds=round((time.monotonic() - self._began) * 1000, 3),
                version=self._version,
                files=summary.files if summary else 0,
                row_groups=summary.row_groups if summary else 0,
                sidecar_bytes=summary.bytes if summary else 0,
                requests=counts.requests,
                bytes=counts.bytes,
                trips=counts.trips,
            )
        )

    def _ignored(self, name: str, reason: str) -> None:
        self._events(PropertyIgnored(table=self._store.url, property=name, reason=reason))

    def _summary(
        self, layout: PlannedLayout, snapshot: Snapshot, made: Existing | Published, pieces: Pieces | None = None
    ) -> BuildSummary:
        manifest = made.manifest
        names = {physical: logical for logical, physical in snapshot.columns.physical_names.items()}
        time_column = layout.schema.time
        there = made if isinstance(made, Existing) else None
        return BuildSummary(
            table=self._store.url,
            version=manifest.version,
            file=manifest.sidecar_file.name,
            manifest=manifest_name(manifest.version),
            bytes=sum(each.size for each in manifest.files),
            index_bytes=there.index_bytes if there else pieces.index_bytes if pieces else 0,
            stats_bytes=there.stats_bytes if there else pieces.stats_bytes if pieces else 0,
            manifest_bytes=made.manifest_bytes,
            files=manifest.num_files,
            row_groups=manifest.num_row_groups,
            sorted_by=layout.sorted_by,
            time_column=None if time_column is None else written(names[time_column]),
            stats_columns=len(layout.schema.statistics),
            stats_format=manifest.stats_format,
            kept_texts=None if pieces is None else pieces.kept_texts,
            seconds=round(time.monotonic() - self._began, 3),
            already_there=there is not None,
        )


def _nobody(_: BuildProgress) -> None:
    return
