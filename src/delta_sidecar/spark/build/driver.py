"""Building a metadata sidecar on Spark: the work of the local build, spread over executors.

    Delta's live files -> ranges of the sidecar's order -> sorted -> rows -> row groups -> one part a task -> manifest

The driver opens the table, and in the end writes the manifest: it holds the manifest's facts about row groups, never
the list of files.
"""

from __future__ import annotations

import tempfile
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.pandas.types import from_arrow_schema

from delta_sidecar.build.builder import BuildOptions, BuildPlan, SidecarBuilder
from delta_sidecar.build.existing import BuiltSidecar
from delta_sidecar.build.live_rows import RowMaker, sampled
from delta_sidecar.build.publish import Levels, publish, publish_parts
from delta_sidecar.build.summary import BuildProgress
from delta_sidecar.build.write import write_pieces
from delta_sidecar.errors import BuildError, ObjectNotFoundError, ObjectTruncatedError, OptionError, SidecarError
from delta_sidecar.events import Events
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT
from delta_sidecar.options import whole_number
from delta_sidecar.sidecar.manifest import NO_FILES
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.access import grant, hadoop_url, without_py4j_log
from delta_sidecar.spark.build.parts import RECORD, PartRecord, PartWriter, joined_records, with_keys
from delta_sidecar.spark.session import check_session
from delta_sidecar.spark.spark_errors import SPARK_ERRORS, build_failures
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from delta_sidecar.build.existing import PieceCheck, PieceRange
    from delta_sidecar.build.summary import BuildSummary, ProgressListener
    from delta_sidecar.events import Listener
    from delta_sidecar.store import Store


ROWS_PER_PART = 250_000
"""Files in a part, about."""

# For any count in a checksum file. Parts of larger tables are larger.
_MOST_PARTS = 4_000


def build_sidecar(  # noqa: PLR0913 - a call for people: every option by its name
    spark: SparkSession,
    table_url: str | os.PathLike[str],
    *,
    version: int | None = None,
    sort: str | None = None,
    summaries: Sequence[str] = (),
    rows_per_group: int | None = None,
    bucket_column: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    progress: ProgressListener | None = None,
    rows_per_part: int | None = None,
    levels: Levels | None = None,
    listeners: Iterable[Listener] = (),
) -> BuildSummary:
    """Builds the metadata sidecar of a table at a version on Spark, and puts it into `_delta_log/_sidecars/`.

    A sidecar that is there already and good is not built again. The table stays readable all the while, and other
    readers do not notice. Executors need this library, and write into the store themselves.

    Args:
        spark: A session that can reach the table, see `spark_session`.
        table_url: The table's root.
        version: The version; None for the newest.
        sort: Name of the time column, whose bounds are kept beside the paths; it orders the files of a table without
            partitions. None for the first timestamp with statistics.
        summaries: Names of other columns to keep the bounds of, for every row group.
        rows_per_group: Files in a row group: what a reader fetches at once. None for 10,000, or fewer where the table
            has thousands of columns.
        bucket_column: The partition column that holds the time bucket; a table need not have it.
        storage_options: Options of the store, by name, for this library and for Spark.
        store: An open store to use instead of `table_url`'s. It travels to the executors.
        progress: Called with the progress of the build.
        rows_per_part: Files in a part, about: what one task sorts and writes. None for 250,000.
        levels: When the manifest gets a second level.
        listeners: Called with each event.

    Raises:
        OptionError: A value is not valid, or a name is no column.
        TableNotFoundError: There is no Delta table.
        VersionNotFoundError: The table has no such version.
        DeltaProtocolError: The table asks its readers for more than this library can do.
        LogCorruptionError: The log cannot be read.
        BuildError: Spark could not do it. Nothing was published.
        StorageError: The store did not do what was asked.
    """
    options = BuildOptions(
        version=version,
        sort=sort,
        summaries=summaries,
        rows_per_group=rows_per_group,
        bucket_column=bucket_column,
        levels=levels or Levels(),
    )
    try:
        files = whole_number(1, 1 << 31)(ROWS_PER_PART if rows_per_part is None else rows_per_part)
    except ValueError as error:
        msg = f"rows_per_part must be {error}, not {rows_per_part!r}"
        raise OptionError(msg) from None
    check_session(spark)
    if storage_options:
        grant(spark, table_url, storage_options)
    used = store or open_store(table_url, storage_options)
    url = hadoop_url(table_url, storage_options)
    return _SparkBuilder(spark, url, used, files, options, progress, Events(listeners)).run()


class _SparkBuilder(SidecarBuilder):
    def __init__(
        self,
        spark: SparkSession,
        url: str,
        store: Store,
        rows_per_part: int,
        options: BuildOptions,
        progress: ProgressListener | None,
        events: Events,
    ) -> None:
        super().__init__(store, options, progress, events)
        self._spark = spark
        self._url = url
        # Without the count of requests, which stays here.
        self._travelling_store = store
        self._rows_per_part = rows_per_part

    def _piece_check(self) -> PieceCheck:
        return self._check_on_executors

    def _check_on_executors(self, pieces: Iterator[PieceRange], total: int) -> None:
        self._checked(0, total)
        # There are as many pieces as row groups, twice.
        ranges = list(pieces)
        tasks = max(1, -(-len(ranges) // _PIECES_AT_ONCE))
        # The store travels in what is sent here, with its credentials.
        with build_failures(self._store.url), without_py4j_log():
            sent = self._spark.sparkContext.parallelize(ranges, tasks)
            damaged = sent.mapPartitions(partial(_damage, self._travelling_store)).take(1)
        if damaged:
            raise SidecarError(damaged[0])

    def _make(self, plan: BuildPlan) -> BuiltSidecar:
        version, properties = plan.snapshot.version, plan.snapshot.metadata.configuration
        with (
            build_failures(self._store.url),
            delta_log.replayed(self._spark, self._url, version, properties) as state,
        ):
            try:
                return self._make_parts(plan, state)
            finally:
                # If the JVM is gone there is nothing to release.
                with suppress(*SPARK_ERRORS):
                    state.release()

    def _make_parts(self, plan: BuildPlan, state: delta_log.DeltaSnapshot) -> BuiltSidecar:
        self._progress(BuildProgress("reading"))
        # A checksum file saves a replay; its count is checked by the rows that are found.
        total = max(state.checksum_files() or 0, 0) or state.num_files()
        if not total:
            return self._make_empty(plan)
        maker = RowMaker(plan.layout, plan.snapshot.columns.instants, _stats_format(plan))
        group_rows = self._options.group_rows(plan.layout)
        writer = PartWriter(self._travelling_store, maker, plan.snapshot.version, token_hex(8), group_rows)
        self._progress(BuildProgress("writing", 0, total))
        tasks = min(-(-total // self._rows_per_part), _MOST_PARTS)
        parts = joined_records(_written(state.files(), writer, tasks), plan.facts)
        if parts.num_rows != total and parts.num_rows != (total := state.num_files()):
            msg = f"{self._store.url} has {total} files, but the parts have {parts.num_rows}: nothing was published"
            raise BuildError(msg)
        if not total:
            return self._make_empty(plan)
        self._progress(BuildProgress("publishing", total, total))
        facts = replace(
            plan.facts,
            files=parts.files,
            num_files=total,
            totals=parts.totals,
            stats_format=maker.stats_format,
        )
        self._check_unchanged(plan)
        with tempfile.TemporaryDirectory(prefix="delta-sidecar-build-") as folder:
            published = publish_parts(self._store, Path(folder), parts.groups, plan.layout, facts, self._options.levels)
        index_bytes = sum(group.byte_length for group in parts.groups)
        stats_bytes = sum(group.stats_length for group in parts.groups)
        return BuiltSidecar(*published, index_bytes, stats_bytes, parts.kept_texts)

    def _make_empty(self, plan: BuildPlan) -> BuiltSidecar:
        """Makes the sidecar of a table without files: one file, as the local build makes it."""
        maker = RowMaker(plan.layout, plan.snapshot.columns.instants, DEFAULT_STATS_FORMAT)
        facts = replace(plan.facts, totals=NO_FILES, stats_format=DEFAULT_STATS_FORMAT)
        with tempfile.TemporaryDirectory(prefix="delta-sidecar-build-") as folder:
            pieces = write_pieces((), maker, plan.layout, Path(folder))
            self._check_unchanged(plan)
            published = publish(self._store, pieces, plan.layout, facts, self._options.levels)
        return BuiltSidecar(*published, 0, 0, 0)


def _stats_format(plan: BuildPlan) -> str:
    """The layout of texts of statistics: as the local build chooses it, so that both keep the same texts."""
    if delta_log.has_structs_only(plan.snapshot.metadata.configuration):
        # There the texts are Delta's own.
        return DEFAULT_STATS_FORMAT
    return sampled(plan.snapshot, plan.layout, plan.executor).stats_format


def _written(files: DataFrame, writer: PartWriter, parts: int) -> list[PartRecord]:
    """Has the executors write the parts, and collects their records."""
    keyed, keys = with_keys(files, writer.maker.layout.order)
    ranged = keyed.repartitionByRange(parts, *keys).sortWithinPartitions(*keys).select(*delta_log.ACTIONS.names)
    # The store travels in what is sent here, with its credentials.
    with warnings.catch_warnings(), without_py4j_log():
        # Spark looks whether pandas is there, and finds it too new.
        warnings.simplefilter("ignore", FutureWarning)
        written = ranged.mapInArrow(writer.__call__, from_arrow_schema(RECORD))
    return [msgspec.msgpack.decode(row["record"], type=PartRecord) for row in written.collect()]


_PIECES_AT_ONCE = 64


def _damage(store: Store, pieces: Iterable[PieceRange]) -> Iterator[str]:
    for piece in pieces:
        try:
            piece.check(store)
        except (SidecarError, ObjectNotFoundError, ObjectTruncatedError) as error:
            yield str(error)
