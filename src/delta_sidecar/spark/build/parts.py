"""Parts of a metadata sidecar: what one task of Spark writes, straight into the table.

A task gets the files of its range in order, makes rows and row groups of them, and puts one data file under a name
that no other attempt has. The driver gets a record of a few bytes for each row group. What an attempt leaves behind
that did not win is named by no manifest: vacuum removes it.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everywhere

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
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from delta_sidecar.build.live_rows import RowMaker
    from delta_sidecar.sidecar.groups import Key, RowGroup
    from delta_sidecar.sidecar.manifest import Manifest, SortColumn
    from delta_sidecar.sidecar.order import SidecarOrder, SortValue
    from delta_sidecar.store import Store


_TOTALS = ("bytes", "largest", "rows", "most_rows")
_NUMBERS = ("size", "num_rows", "kept_texts", "index_bytes", "stats_bytes", *_TOTALS)

RECORD = f"part int, name string, {', '.join(f'{name} bigint' for name in _NUMBERS)}, groups binary"
"""The schema of a task's record, as Spark writes one."""

_RECORD_SCHEMA = pa.schema(
    [
        ("part", pa.int32()),
        ("name", pa.string()),
        *((name, pa.int64()) for name in _NUMBERS),
        ("groups", pa.binary()),
    ]
)

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
            yield pa.RecordBatch.from_pylist([record], _RECORD_SCHEMA)

    def write(self, batches: Iterable[pa.RecordBatch], part: int, attempt: int) -> dict[str, Any] | None:
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
        return {
            "part": part,
            "name": name,
            "size": size,
            "num_rows": pieces.num_rows,
            "kept_texts": pieces.kept_texts,
            "index_bytes": pieces.index_bytes,
            "stats_bytes": pieces.stats_bytes,
            **{name: getattr(pieces.totals, name) for name in _TOTALS},
            "groups": encode_segment(pieces.groups),
        }

    def _pieces(self, batches: Iterable[pa.RecordBatch], folder: Path) -> Pieces:
        """The pieces of all files, those of incomplete ones in front."""
        spill = _IncompleteRows(folder / "incomplete")
        complete = self._written(spill.complete(self._rows(batches)), folder / "complete.pieces")
        if not spill.rows:
            return complete
        incomplete = self._written(spill.read(), folder / "incomplete.pieces")
        return joined_pieces(incomplete, complete, folder) if complete.groups else incomplete

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        actions = (actions_of(batch) for batch in batches)
        for gathered_actions in gathered(actions, min(MOST_ROWS, self.maker.most_rows)):
            yield self.maker.rows(gathered_actions)

    def _written(self, rows: Iterable[pa.RecordBatch], folder: Path) -> Pieces:
        folder.mkdir()
        return write_pieces(cut(rows, self.rows_per_group), self.maker, self.maker.layout, folder, threads=1)


def actions_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch from Spark in the types that rows are made of."""
    columns = [_cast(batch.column(field.name), field.type) for field in ACTIONS]
    return pa.RecordBatch.from_arrays(columns, schema=ACTIONS)


class _IncompleteRows:
    """Writes incomplete rows to a file while the complete ones go on."""

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self._path = path

    def complete(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = None
        try:
            for batch in batches:
                complete = numbers_of(batch.column("#complete")).astype(np.bool_)
                if complete.all():
                    yield batch
                    continue
                others = batch.filter(booleans(~complete))
                writer = writer or pa.ipc.new_file(str(self._path), batch.schema, options=_SPILLED)
                writer.write_batch(others)
                self.rows += others.num_rows
                if complete.any():
                    yield batch.filter(booleans(complete))
        except OSError as error:
            raise unwritable(self._path.parent, error) from error
        finally:
            if writer is not None:
                writer.close()

    def read(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path)) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


_SPILLED = pa.ipc.IpcWriteOptions(compression="zstd")


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        # Delta's descriptor has fields that are not kept.
        fields = {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}
        children = [_cast(fields[field.name], field.type) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())
    return pc.cast(column, kind)


# The driver's side: the records of all tasks become the files and row groups of one manifest, checked.


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts of a sidecar: their files and row groups in order, and sums over them."""

    files: tuple[SidecarFile, ...]
    groups: list[RowGroup]
    num_rows: int
    kept_texts: int
    index_bytes: int
    stats_bytes: int
    totals: Totals


def joined_records(records: Iterable[Mapping[str, Any]], facts: Manifest) -> Parts:
    """Joins the records of all tasks, in any order.

    Raises:
        BuildError: The row groups do not follow one another in the order of the sidecar.
    """
    ordered = sorted(records, key=lambda record: record["part"])
    files = tuple(SidecarFile(record["name"], record["size"]) for record in ordered)
    found: list[RowGroup] = []
    for number, record in enumerate(ordered):
        groups = decode_groups(bytes(record["groups"]), first_index=0, sizes=[record["size"]], form=facts.key_form())
        found.extend(replace(group, file=number) for group in groups)
    # Every part has its incomplete files in front; here all of those come before all others.
    found.sort(key=lambda group: bool(group.first_key[0]))
    _check_order(found, facts.sort)
    return Parts(
        files,
        [replace(group, index=index) for index, group in enumerate(found)],
        sum(group.num_rows for group in found),
        sum(record["kept_texts"] for record in ordered),
        sum(record["index_bytes"] for record in ordered),
        sum(record["stats_bytes"] for record in ordered),
        sum((Totals(*(record[name] for name in _TOTALS)) for record in ordered), NO_FILES),
    )


def _check_order(groups: Sequence[RowGroup], sort: Sequence[SortColumn]) -> None:
    keys = [_comparable(key, sort) for group in groups for key in (group.first_key, group.last_key)]
    # A row group of one row has its key twice.
    for place, (before, after) in enumerate(pairwise(keys)):
        if before > after or (place % 2 and before == after):
            msg = f"the parts of the sidecar are out of order at row group {place // 2}: nothing was published"
            raise BuildError(msg)


def _comparable(key: Key, sort: Sequence[SortColumn]) -> tuple[tuple[Any, ...], ...]:
    """A key that Python orders as a sidecar does: null first, texts by their bytes."""
    return tuple((1, _value(each)) if each.is_valid else (0,) for each in key_scalars(key, sort))


def _value(value: pa.Scalar) -> Any:  # noqa: ANN401 - a value of any type that has an order
    kind = value.type
    if pa.types.is_string(kind):
        return value.as_py().encode()
    # Moments and days that Python cannot hold are numbers here.
    return value.value if pa.types.is_temporal(kind) else value.as_py()


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
    keys = {}
    for number, value in enumerate(order.sort):
        # A type without an order counts as null in every row.
        if not pa.types.is_binary(value.type):
            keys[f"#{number}"] = _sort_key(value)
    keys["#vector"] = vector_id(F.col("deletionVector"))
    names = [name for name in keys if name != "#vector"]
    return files.withColumns(keys), [*names, "path", "#vector"]


def _sort_key(value: SortValue) -> Any:  # noqa: ANN401 - a column, but functions of Spark's are untyped
    if value.kind == "lower_bound":
        return _function(partial(_lower_bounds, value), value.type)(F.col("stats"))
    text = F.col("partitionValues")[value.path[0]]
    if pa.types.is_string(value.type):
        return F.nullif(text, F.lit(""))
    return _function(partial(_partition_values, value), value.type)(text)


def _partition_values(value: SortValue, texts: pa.Array) -> pa.Array:
    return typed(texts.cast(pa.string()), value.type)


def _lower_bounds(value: SortValue, texts: pa.Array) -> pa.Array:
    texts, path = texts.cast(pa.string()), value.path
    lower = None
    if texts.null_count < len(texts):
        lower = parse_statistics(texts, {path: value.type}).columns[path].lower
    return pa.nulls(len(texts), value.type) if lower is None else without_nan(lower)


def _function(call: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> Any:  # noqa: ANN401 - a function of Spark's
    def values(texts: pa.Array) -> pa.Array:
        return _sortable(call(texts))

    with warnings.catch_warnings():
        # Spark looks whether pandas is there, and finds it too new.
        warnings.simplefilter("ignore", FutureWarning)
        arrow_udf: Any = F.arrow_udf  # type: ignore[attr-defined]
        return arrow_udf(values, _spark_type(kind))


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


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return "string" if pa.types.is_string(kind) else "boolean"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return "double" if pa.types.is_floating(kind) else "bigint"
