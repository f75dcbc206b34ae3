"""Parts of a metadata sidecar: what one task of Spark writes, straight into the table.

A task gets the files of its range in order, makes rows and row groups of them, and puts one data file under a name
that no other attempt has. The driver gets a record of a few bytes for each row group. What an attempt leaves behind
that did not win is named by no manifest: vacuum removes it.
"""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everywhere
from pyspark.sql.pandas.types import from_arrow_type

from delta_sidecar._arrow import booleans, numbers_of
from delta_sidecar.build.live_rows import MOST_ROWS, gathered
from delta_sidecar.build.row_groups import cut
from delta_sidecar.build.write import Pieces, joined_pieces, temporary_folder, unwritable, write_footer, write_pieces
from delta_sidecar.errors import BuildError
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.sidecar.manifest import NO_FILES, SidecarFile, Totals, decode_groups, encode_segment, seal
from delta_sidecar.sidecar.names import part_name
from delta_sidecar.sidecar.order import key_scalars, typed, without_nan
from delta_sidecar.sidecar.schema import FORMAT_VERSION
from delta_sidecar.spark.delta_log import ACTIONS, vector_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from delta_sidecar.build.live_rows import RowMaker
    from delta_sidecar.sidecar.groups import RowGroup
    from delta_sidecar.sidecar.manifest import Manifest, SortColumn
    from delta_sidecar.sidecar.order import SidecarOrder, SortValue
    from delta_sidecar.store import Store


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
            mark = seal({"format_version": FORMAT_VERSION, "version": self.version}).decode()
            size = write_footer(pieces, self.maker.layout, mark)
            name = part_name(self.version, self.build, part, attempt % _MOST_ATTEMPTS)
            self.store.put_file(SIDECAR_FOLDER + name, str(pieces.path))
        file, groups = SidecarFile(name, size), encode_segment(pieces.groups)
        return PartRecord(part, file, pieces.kept_texts, pieces.totals, groups)

    def _pieces(self, batches: Iterable[pa.RecordBatch], folder: Path) -> Pieces:
        """The pieces of all files, those of incomplete ones in front."""
        aside = folder / "incomplete"
        rows = map(self.maker.rows, gathered(map(actions_of, batches), min(MOST_ROWS, self.maker.most_rows)))
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
    return batch.select(ACTIONS.names).cast(ACTIONS)


def _complete(rows: Iterable[pa.RecordBatch], aside: Path) -> Iterator[pa.RecordBatch]:
    """Passes complete rows on; the others go to a file, which is made with the first of them."""
    with ExitStack() as opened:
        writer = None
        for batch in rows:
            complete = numbers_of(batch.column("#complete")).astype(np.bool_)
            if complete.all():
                yield batch
                continue
            try:
                writer = writer or opened.enter_context(pa.ipc.new_stream(str(aside), batch.schema, options=_ASIDE))
                writer.write_batch(batch.filter(booleans(~complete)))
            except OSError as error:
                raise unwritable(aside.parent, error) from error
            if complete.any():
                yield batch.filter(booleans(complete))


_ASIDE = pa.ipc.IpcWriteOptions(compression="zstd")


# The driver's side: the records of all tasks become the files and row groups of one manifest, checked.


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts of a sidecar: their files and row groups in order, and sums over them."""

    files: tuple[SidecarFile, ...]
    groups: list[RowGroup]
    num_rows: int
    kept_texts: int
    totals: Totals


def joined_records(records: Iterable[PartRecord], facts: Manifest) -> Parts:
    """Joins the records of all tasks, in any order.

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
    return Parts(
        tuple(record.file for record in ordered),
        [replace(group, index=index) for index, group in enumerate(groups)],
        sum(group.num_rows for group in groups),
        sum(record.kept_texts for record in ordered),
        sum((record.totals for record in ordered), NO_FILES),
    )


def _check_order(groups: Sequence[RowGroup], sort: Sequence[SortColumn]) -> None:
    keys = [
        [_comparable(value) for value in key_scalars(key, sort)]
        for group in groups
        for key in (group.first_key, group.last_key)
    ]
    # A row group of one row has its key twice.
    for place, (before, after) in enumerate(pairwise(keys)):
        if before > after or (place % 2 and before == after):
            msg = f"the parts of the sidecar are out of order at row group {place // 2}: nothing was published"
            raise BuildError(msg)


def _comparable(value: pa.Scalar) -> tuple[bool, Any]:
    """A value that Python orders as a sidecar does: null first, texts by their bytes."""
    # Moments and days that Python cannot hold are numbers here.
    return value.is_valid, value.value if pa.types.is_temporal(value.type) else value.as_py()


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
    sort = {f"#{at}": _sort_key(value) for at, value in enumerate(order.sort) if not pa.types.is_binary(value.type)}
    keyed = files.withColumns({**sort, "#vector": vector_id(F.col("deletionVector"))})
    return keyed, [*sort, "path", "#vector"]


def _sort_key(value: SortValue) -> Any:  # noqa: ANN401 - a column, but functions of Spark's are untyped
    is_bound = value.kind == "lower_bound"
    text = F.col("stats") if is_bound else F.col("partitionValues")[value.path[0]]
    if pa.types.is_string(value.type) and not is_bound:
        return F.nullif(text, F.lit(""))
    read = partial(_lower_bounds if is_bound else _partition_values, value)

    def values(texts: pa.Array) -> pa.Array:
        return _sortable(read(texts.cast(pa.string())))

    with warnings.catch_warnings():
        # Spark looks whether pandas is there, and finds it too new.
        warnings.simplefilter("ignore", FutureWarning)
        arrow_udf: Any = F.arrow_udf  # type: ignore[attr-defined]
        return arrow_udf(values, from_arrow_type(values(pa.nulls(0, pa.string())).type))(text)


def _partition_values(value: SortValue, texts: pa.Array) -> pa.Array:
    return typed(texts, value.type)


def _lower_bounds(value: SortValue, texts: pa.Array) -> pa.Array:
    lower = None
    if texts.null_count < len(texts):
        lower = parse_statistics(texts, {value.path: value.type}).columns[value.path].lower
    return pa.nulls(len(texts), value.type) if lower is None else without_nan(lower)


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
