"""Building a metadata sidecar on Spark: the work of the local build, spread over executors.

    Delta's live files -> ranges of the sidecar's order -> sorted -> rows -> row groups -> one part a task -> manifest

The driver opens the table, and in the end writes the manifest: it holds what a manifest tells of row groups, never the
list of files.
"""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from delta_sidecar import errors
from delta_sidecar.build.builder import BuildOptions, BuildPlan, SidecarBuilder
from delta_sidecar.build.existing import BuiltSidecar
from delta_sidecar.build.live_rows import RowMaker, sampled
from delta_sidecar.build.publish import Levels, publish, publish_parts
from delta_sidecar.build.summary import BuildProgress
from delta_sidecar.build.write import write_pieces
from delta_sidecar.errors import (
    BuildError,
    DeltaSidecarError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    OptionError,
    SidecarError,
)
from delta_sidecar.events import Events
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT
from delta_sidecar.options import whole_number
from delta_sidecar.sidecar.manifest import NO_FILES
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.build.parts import RECORD, PartWriter, joined_records, with_keys
from delta_sidecar.spark.failures import SPARK_ERRORS, error_line
from delta_sidecar.spark.session.access import grant, hadoop_url, unheard
from delta_sidecar.spark.session.session import check_session
from delta_sidecar.store import open_store
from delta_sidecar.store.redaction import Scrubber

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

# Whatever a checksum file tells. Parts of larger tables are larger.
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

    What is there already and good is not built again. The table stays readable all the while, and other readers do not
    notice. Executors need this library, and write into the store themselves.

    Args:
        spark: A session that can reach the table, see `spark_session`.
        table_url: The table's root.
        version: The version; None for the newest.
        sort: Name of the time column, whose bounds are kept beside the paths; it orders the files of a table without
            partitions. None for the first timestamp with statistics.
        summaries: Names of other columns whose bounds every row group tells.
        rows_per_group: Files in a row group: what a reader fetches at once. None for 10,000, or fewer where the table
            has thousands of columns.
        bucket_column: The partition column that holds the time bucket; a table need not have it.
        storage_options: Options of the store, by name, for this library and for Spark.
        store: A store that is open already, in the place of `table_url`'s. It travels to the executors.
        progress: Is told how far the build is.
        rows_per_part: Files in a part, about: what one task sorts and writes. None for 250,000.
        levels: When the manifest gets a second level.
        listeners: Are told of events.

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
    cluster = _Cluster(spark, hadoop_url(table_url, storage_options), used, files)
    return _SparkBuilder(cluster, options, progress, Events(listeners)).run()


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Where a build runs.

    Attributes:
        spark: The session.
        url: The table as Spark calls it.
        store: The table's store, as it travels to executors.
        rows_per_part: Files in a part, about.
    """

    spark: SparkSession
    url: str
    store: Store
    rows_per_part: int


class _SparkBuilder(SidecarBuilder):
    """One build of a table's sidecar on Spark."""

    def __init__(
        self, cluster: _Cluster, options: BuildOptions, progress: ProgressListener | None, events: Events
    ) -> None:
        super().__init__(cluster.store, options, progress, events)
        self._cluster = cluster

    def _piece_check(self) -> PieceCheck:
        def check(pieces: Iterator[PieceRange], total: int) -> None:
            self._checked(0, total)
            with told_in_our_words(self._store.url):
                check_on_executors(self._cluster.spark, self._cluster.store, pieces)

        return check

    def _make(self, plan: BuildPlan) -> BuiltSidecar:
        cluster, properties = self._cluster, plan.snapshot.metadata.configuration
        with (
            told_in_our_words(self._store.url),
            delta_log.replayed(cluster.spark, cluster.url, plan.snapshot.version, properties) as state,
        ):
            try:
                return self._made(plan, state)
            finally:
                # Where the JVM is gone there is nothing to let go of.
                with suppress(*SPARK_ERRORS):
                    state.release()

    def _made(self, plan: BuildPlan, state: delta_log.DeltaSnapshot) -> BuiltSidecar:
        self._progress(BuildProgress("reading"))
        # A checksum file saves a replay; what it tells is checked by the rows that are found.
        told = state.told_files()
        total = told if told is not None and told > 0 else state.num_files()
        if not total:
            return self._nothing(plan)
        files = state.files()
        maker = RowMaker(plan.layout, plan.snapshot.columns.instants(), _stats_format(plan))
        writer = PartWriter(
            self._cluster.store,
            maker,
            plan.snapshot.version,
            token_hex(8),
            self._options.group_rows(plan.layout),
        )
        self._progress(BuildProgress("writing", 0, total))
        tasks = min(-(-total // self._cluster.rows_per_part), _MOST_PARTS)
        parts = joined_records(self._records(files, writer, tasks), plan.facts)
        if parts.num_rows != total and parts.num_rows != (total := state.num_files()):
            msg = f"{self._store.url} has {total} files, but the parts have {parts.num_rows}: nothing was published"
            raise BuildError(msg)
        if not total:
            return self._nothing(plan)
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
        return BuiltSidecar(*published, parts.index_bytes, parts.stats_bytes, parts.kept_texts)

    def _records(self, files: DataFrame, writer: PartWriter, parts: int) -> list[dict[str, Any]]:
        keyed, keys = with_keys(files, writer.maker.layout.order)
        ranged = keyed.repartitionByRange(parts, *keys).sortWithinPartitions(*keys).select(*delta_log.FIELDS)
        # The store travels in what is sent here, with its credentials.
        with warnings.catch_warnings(), unheard():
            # Spark looks whether pandas is there, and finds it too new.
            warnings.simplefilter("ignore", FutureWarning)
            written = ranged.mapInArrow(writer.__call__, RECORD)
        return [row.asDict() for row in written.collect()]

    def _nothing(self, plan: BuildPlan) -> BuiltSidecar:
        """The sidecar of a table without files: one file, as the local build makes it."""
        maker = RowMaker(plan.layout, plan.snapshot.columns.instants(), DEFAULT_STATS_FORMAT)
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


# What Spark says when a build fails, as errors of this library: in one line, without secrets.


logger = logging.getLogger("delta_sidecar.spark")

_OURS = re.compile(r"^(?:.*\s)?delta_sidecar\.errors\.([A-Za-z]+): (.*)$", re.MULTILINE)


@contextmanager
def told_in_our_words(table: str) -> Iterator[None]:
    """Raises what Spark, Delta or a task raises as an error of this library.

    Args:
        table: The table, for messages.

    Raises:
        DeltaSidecarError: A task raised it.
        BuildError: Anything else.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        # What the JVM says besides may hold anything.
        logger.debug("%s: %s", table, Scrubber().scrub(str(error)))
        raise failure_of(error, table) from None


def failure_of(error: Exception, table: str) -> DeltaSidecarError:
    """The error for what Spark raised."""
    if isinstance(error, ConnectionError):
        msg = f"{table}: the JVM of Spark is gone, and with it the build. Nothing was published: build it again"
        return BuildError(msg)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, DeltaSidecarError):
            return kind(Scrubber().scrub(message))
    msg = f"{table}: Spark could not build the metadata sidecar: {error_line(text)}. Nothing was published"
    return BuildError(msg)


# Reading the pieces of a sidecar that is there, on executors: whether it is whole.


_PIECES_AT_ONCE = 64


def check_on_executors(spark: SparkSession, store: Store, pieces: Iterator[PieceRange]) -> None:
    """Reads pieces on executors, each of them all of its bytes.

    Args:
        spark: The session.
        store: The table's store; it travels with its credentials.
        pieces: The pieces: as many as there are row groups, twice.

    Raises:
        SidecarError: One is not what the manifest says, or gone.
    """
    listed = list(pieces)
    if not listed:
        return
    tasks = -(-len(listed) // _PIECES_AT_ONCE)
    # The store travels in what is sent here, with its credentials.
    with unheard():
        damaged = spark.sparkContext.parallelize(listed, tasks).mapPartitions(_Check(store).__call__).take(1)
    if damaged:
        raise SidecarError(damaged[0])


@dataclass(frozen=True, slots=True)
class _Check:
    """Finds pieces that are not whole, on an executor."""

    store: Store

    def __call__(self, pieces: Iterable[PieceRange]) -> Iterator[str]:
        for piece in pieces:
            try:
                piece.check(self.store)
            except (SidecarError, ObjectNotFoundError, ObjectTruncatedError) as error:
                yield str(error)
