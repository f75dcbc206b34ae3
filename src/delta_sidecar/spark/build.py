"""Building a metadata sidecar on Spark: the work of the local build, spread over executors.

    Delta's live files -> ranges of the sidecar's order -> sorted -> rows -> row groups -> one part a task -> manifest

The driver opens the table, and in the end writes the manifest: it holds the manifest's facts about row groups, never
the list of files.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everywhere
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from delta_sidecar._arrow import from_numpy, to_numpy
from delta_sidecar.build.builder import BuildOptions, BuildPlan, BuildProgress, SidecarBuilder, version_proof
from delta_sidecar.build.live_rows import RowMaker, gathered, sampled
from delta_sidecar.build.publish import BuiltSidecar, Levels, publish_manifest, put_row_groups
from delta_sidecar.build.write import (
    Pieces,
    cut,
    joined_pieces,
    temporary_folder,
    unwritable,
    write_footer,
    write_pieces,
)
from delta_sidecar.errors import BuildError, ObjectNotFoundError, ObjectTruncatedError, SidecarError
from delta_sidecar.events import Events
from delta_sidecar.log.names import SIDECAR_FOLDER, part_name
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT
from delta_sidecar.options import checked, whole_number
from delta_sidecar.sidecar.manifest import (
    NO_FILES,
    SidecarFile,
    Totals,
    decode_groups,
    encode_groups,
    seal,
    with_row_groups,
)
from delta_sidecar.sidecar.order import comparable, key_scalars, typed, without_nan
from delta_sidecar.sidecar.rows import read_statistics
from delta_sidecar.sidecar.schema import FORMAT_VERSION
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.access import grant, hadoop_url, without_py4j_log
from delta_sidecar.spark.session import check_session
from delta_sidecar.spark.spark_errors import SPARK_ERRORS, build_failures
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from delta_sidecar.build.builder import BuildSummary, ProgressListener
    from delta_sidecar.build.publish import PieceRange
    from delta_sidecar.events import Listener
    from delta_sidecar.sidecar.groups import RowGroup
    from delta_sidecar.sidecar.manifest import Manifest, SortColumn
    from delta_sidecar.sidecar.order import SidecarOrder
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
        levels: From how many row groups on the manifest has segments, and how large those are.
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
    files = checked(
        "rows_per_part", ROWS_PER_PART if rows_per_part is None else rows_per_part, whole_number(1, 1 << 31)
    )
    check_session(spark)
    if storage_options:
        grant(spark, table_url, storage_options)
    used = store or open_store(table_url, storage_options)
    url = hadoop_url(table_url, storage_options)
    return _SparkBuilder(spark, url, used, files, options, progress, Events(tuple(listeners))).run()


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

    def _check_pieces(self, pieces: Iterator[PieceRange], total: int) -> None:
        self._progress(BuildProgress("checking", 0, total))
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
        records = _written(state.files(), writer, tasks)
        whole = joined_records(records, replace(plan.facts, stats_format=maker.stats_format))
        if whole.num_files != total and whole.num_files != (total := state.num_files()):
            msg = f"{self._store.url} has {total} files, but the parts have {whole.num_files}: nothing was published"
            raise BuildError(msg)
        if not total:
            return self._make_empty(plan)
        self._progress(BuildProgress("publishing", total, total))
        self._check_proof(plan.facts, version_proof(self._store, plan.snapshot))
        with tempfile.TemporaryDirectory(prefix="delta-sidecar-build-") as folder:
            groups, levels = whole.row_groups, self._options.levels
            body = put_row_groups(self._store, Path(folder), whole, groups, plan.layout, levels)
        manifest, size = publish_manifest(self._store, body)
        return BuiltSidecar(manifest, size, groups, sum(record.kept_texts for record in records))

    def _make_empty(self, plan: BuildPlan) -> BuiltSidecar:
        """Makes the sidecar of a table without files: one file, as the local build makes it."""
        maker = RowMaker(plan.layout, plan.snapshot.columns.instants, DEFAULT_STATS_FORMAT)
        with tempfile.TemporaryDirectory(prefix="delta-sidecar-build-") as folder:
            pieces = write_pieces((), maker, plan.layout, Path(folder))
            return self._publish(plan, pieces, DEFAULT_STATS_FORMAT)


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


# Parts of a metadata sidecar: what one task of Spark writes, straight into the table.
#
# A task gets the files of its range in order, makes rows and row groups of them, and puts one data file under a name
# that no other attempt has. The driver gets a record of a few bytes for each row group. What an attempt leaves behind
# that did not win is named by no manifest: vacuum removes it.


class PartRecord(msgspec.Struct, frozen=True):
    """A part as the driver learns of it."""

    part: int
    file: SidecarFile
    kept_texts: int
    totals: Totals
    groups: bytes  # as a segment of a manifest has them


RECORD = pa.schema([("record", pa.binary())])
"""The rows that tasks return: each has a `PartRecord` in MessagePack."""

_MOST_ATTEMPTS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes parts, on executors. The store travels with its credentials."""

    store: Store
    maker: RowMaker
    version: int
    build: str
    rows_per_group: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the part of a task and yields its record; a task without files yields none."""
        context: Any = TaskContext.get()
        record = self.write(batches, context.partitionId(), context.taskAttemptId())
        if record is not None:
            yield pa.RecordBatch.from_pylist([{"record": msgspec.msgpack.encode(record)}], RECORD)

    def write(self, batches: Iterable[pa.RecordBatch], part: int, attempt: int) -> PartRecord | None:
        """Writes a part of files in order, and returns its record; None where there are no files.

        No other attempt, at this or another part, has the number of this one.
        """
        # Inside of what Spark removes at the executor's end.
        local = [each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each and Path(each).is_dir()]
        with temporary_folder("delta-sidecar-part-", local[0] if local else None) as folder:
            pieces = self._pieces(batches, folder)
            if not pieces.groups:
                return None
            mark = seal({"format_version": FORMAT_VERSION, "version": self.version})
            size = write_footer(pieces, self.maker.layout, mark)
            name = part_name(self.version, self.build, part, attempt % _MOST_ATTEMPTS)
            self.store.put_file(SIDECAR_FOLDER + name, str(pieces.path))
        file, groups = SidecarFile(name, size), encode_groups(pieces.groups)
        return PartRecord(part, file, pieces.kept_texts, pieces.totals, groups)

    def _pieces(self, batches: Iterable[pa.RecordBatch], folder: Path) -> Pieces:
        """The pieces of all files, those of incomplete ones in front."""
        aside = folder / "incomplete"
        rows = map(self.maker.rows, gathered(map(actions_of, batches), self.maker.most_rows))
        complete = self._written(_complete(rows, aside), folder / "complete.pieces")
        if not aside.exists():
            return complete
        with pa.OSFile(str(aside)) as file:
            incomplete = self._written(pa.ipc.open_stream(file), folder / "incomplete.pieces")
        return joined_pieces(incomplete, complete, folder) if complete.groups else incomplete

    def _written(self, rows: Iterable[pa.RecordBatch], folder: Path) -> Pieces:
        folder.mkdir()
        return write_pieces(cut(rows, self.rows_per_group), self.maker, self.maker.layout, folder, threads=1)


def actions_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch from Spark in the types that rows are made of."""
    # Delta's descriptor of a deletion vector has fields that are not kept.
    return batch.select(delta_log.ACTIONS.names).cast(delta_log.ACTIONS)


def _complete(rows: Iterable[pa.RecordBatch], aside: Path) -> Iterator[pa.RecordBatch]:
    """Passes complete rows on; the others go to a file, which is made with the first of them."""
    with ExitStack() as opened:
        writer = None
        for batch in rows:
            complete = to_numpy(batch.column("#complete")).astype(np.bool_)
            if complete.all():
                yield batch
                continue
            try:
                writer = writer or opened.enter_context(pa.ipc.new_stream(str(aside), batch.schema, options=_ASIDE))
                writer.write_batch(batch.filter(from_numpy(~complete)))
            except OSError as error:
                raise unwritable(aside.parent, error) from error
            if complete.any():
                yield batch.filter(from_numpy(complete))


_ASIDE = pa.ipc.IpcWriteOptions(compression="zstd")


# The driver's side: the records of all tasks become the files and row groups of one manifest, checked.


def joined_records(records: Iterable[PartRecord], facts: Manifest) -> Manifest:
    """Joins the records of all tasks, in any order, to a manifest with the rest of `facts` and with all row groups.

    Raises:
        BuildError: The row groups do not follow one another in the order of the sidecar.
    """
    ordered = sorted(records, key=lambda record: record.part)
    groups = [
        replace(group, file=number)
        for number, record in enumerate(ordered)
        for group in decode_groups(record.groups, first_index=0, sizes=[record.file.size], form=facts.key_form())
    ]
    # Every part has its incomplete files in front; here all of those come before all others.
    groups.sort(key=lambda group: bool(group.first_key[0]))
    _check_order(groups, facts.sort)
    first, *others = [record.file for record in ordered] or [SidecarFile(facts.sidecar_file, 0)]
    whole = replace(
        facts,
        sidecar_file=first.name,
        sidecar_size_bytes=first.size,
        other_files=tuple(others),
        num_files=sum(group.num_rows for group in groups),
        totals=sum((record.totals for record in ordered), NO_FILES),
    )
    return with_row_groups(whole, tuple(replace(group, index=index) for index, group in enumerate(groups)))


def _check_order(groups: Sequence[RowGroup], sort: Sequence[SortColumn]) -> None:
    keys = [
        [comparable(value) for value in key_scalars(key, sort)]
        for group in groups
        for key in (group.first_key, group.last_key)
    ]
    # A row group of one row has its key twice.
    for place, (before, after) in enumerate(pairwise(keys)):
        if before > after or (place % 2 and before == after):
            msg = f"the parts of the sidecar are out of order at row group {place // 2}: nothing was published"
            raise BuildError(msg)


# The order of a metadata sidecar in Spark: columns that Spark sorts as the local build does.
#
#     sort values (nulls first), path, id of the deletion vector
#
# In a sidecar incomplete files come first of all. That is not sorted here: each part keeps both kinds of files apart,
# and the manifest names the row groups of incomplete files first.
#
# Texts are sorted by Spark itself, which compares their bytes. Values of other types come from our own code, in the
# executors' Python, as numbers: what a text counts as must not depend on who reads it.


def with_keys(files: DataFrame, order: SidecarOrder) -> tuple[DataFrame, list[str]]:
    """Adds the columns that files are sorted by, and names all columns to sort by."""
    # A type without an order counts as null in every row.
    sort = {
        f"#{at}": _sort_key(value) for at, value in enumerate(order.sort) if not pa.types.is_binary(value.arrow_type)
    }
    keyed = files.withColumns({**sort, "#vector": delta_log.vector_id(F.col("deletionVector"))})
    return keyed, [*sort, "path", "#vector"]


def _sort_key(value: SortColumn) -> Any:  # noqa: ANN401 - a column, but functions of Spark's are untyped
    is_bound = value.kind == "lower_bound"
    text = F.col("stats") if is_bound else F.col("partitionValues")[value.column[0]]
    if pa.types.is_string(value.arrow_type) and not is_bound:
        return F.nullif(text, F.lit(""))

    def values(texts: pa.Array) -> pa.Array:
        texts = texts.cast(pa.string())
        if not is_bound:
            return _sortable(typed(texts, value.arrow_type))
        found = read_statistics(texts, {value.column: value.arrow_type}).columns[value.column]
        return _sortable(without_nan(found.lower))

    with warnings.catch_warnings():
        # Spark looks whether pandas is there, and finds it too new.
        warnings.simplefilter("ignore", FutureWarning)
        arrow_udf: Any = F.arrow_udf  # type: ignore[attr-defined]
        return arrow_udf(values, from_arrow_type(values(pa.nulls(0, pa.string())).type))(text)


def _sortable(values: pa.Array) -> pa.Array:
    """Values without anything that Spark has an opinion on: times are numbers."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.view(pa.int64())
    if pa.types.is_date32(kind):
        return values.view(pa.int32()).cast(pa.int64())
    if pa.types.is_integer(kind):
        return values.cast(pa.int64())
    return values.cast(pa.float64()) if pa.types.is_floating(kind) else values
