"""The rows of a metadata sidecar, both ways: an `add` action becomes a row, and a row becomes an `add` action again.

row                                   action
path                                  path, raw
size, tags, ... (`ADD_FIELDS`)        the field
dv.<field>                            deletionVector, null without one
<bucket>, partition.<column>, untold  partitionValues; `untold` lists those that the log does not give
num_records, tight_bounds, min.<column>, max.<column>, null_count.<column>, stats_json
stats; `stats_json` is the text, where the other columns do not say all of it
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import from_numpy, scalar, strings, to_numpy
from delta_sidecar.log.actions import ADD_FIELDS, DELETION_VECTOR
from delta_sidecar.log.stats import ColumnStatistics, FileStatistics, parse_statistics, uniform_statistics
from delta_sidecar.log.stats_text import STATS_FORMATS, say_the_same, statistics_text
from delta_sidecar.sidecar.schema import column_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.log.partition_values import PartitionTexts
    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.sidecar.schema import SidecarSchema

    Kinds = Mapping[ColumnPath, pa.DataType | None]


INDEX_FIELDS = {field.column: field.name for field in ADD_FIELDS if field.piece == "index"}
STATISTICS_FIELDS = {field.column: field.name for field in ADD_FIELDS if field.piece == "statistics"}
"""Fields of the `add` action that a row has as they are, by its column: in the index, and in the statistics."""

VECTOR_COLUMNS = tuple(f"dv.{field.name}" for field in DELETION_VECTOR)
"""Columns that hold the descriptor of a deletion vector."""


# From actions to rows.


def file_columns(
    files: pa.RecordBatch, partitions: Mapping[str, PartitionTexts], schema: SidecarSchema
) -> dict[str, pa.Array]:
    """The columns of rows that are not from the statistics, of files and their partition values by physical name."""
    columns = {name: files.column(name) for name in (*INDEX_FIELDS, *STATISTICS_FIELDS)}
    columns["path"] = files.column("raw_path")
    columns |= dict(zip(VECTOR_COLUMNS, files.column("deletion_vector").flatten(), strict=True))
    columns |= {name: partitions[physical].texts for physical, name in schema.partition_columns.items()}
    columns["untold"] = _lists_of_untold(partitions, files.num_rows)
    return columns


def statistics_columns(texts: pa.StringArray, schema: SidecarSchema, stats_format: str) -> dict[str, pa.Array]:
    """The columns of rows that are from the statistics. Arguments as for `native_statistics`."""
    found, kept = native_statistics(texts, schema.statistics, stats_format)
    columns = {"num_records": found.num_records, "tight_bounds": found.tight, "stats_json": kept}
    return columns | named_statistics(found.columns)


def named_statistics(statistics: Mapping[ColumnPath, ColumnStatistics]) -> dict[str, pa.Array]:
    """The statistics of columns, all of them there, by the names of the columns that hold them."""
    columns = {}
    for path, found in statistics.items():
        name = column_name(path)
        if found.lower is not None:
            columns[f"min.{name}"], columns[f"max.{name}"] = found.lower, found.upper
        columns[f"null_count.{name}"] = found.null_count
    return columns


def native_statistics(texts: pa.StringArray, kinds: Kinds, stats_format: str) -> tuple[FileStatistics, pa.StringArray]:
    """Reads texts of statistics; every column is there, if only as nulls.

    Args:
        texts: The texts; null where a file has none.
        kinds: Type of each column by its path, None for one that has no bounds.
        stats_format: The layout that texts are rebuilt in.

    Returns:
        The statistics, and the texts that say more than can be rebuilt from them.
    """
    guess = _uniform(texts, kinds, stats_format)
    if guess is not None:
        return _filled(guess, kinds, len(texts)), pa.nulls(len(texts), pa.string())
    found = read_statistics(texts, kinds)
    return found, _kept(texts, rebuilt_texts(found, len(texts), stats_format), kinds)


def _uniform(texts: pa.StringArray, kinds: Kinds, stats_format: str) -> FileStatistics | None:
    """Reads texts that differ in their values alone, and that are rebuilt to the byte; None for others."""
    # Few texts show if it is worth while to take all of them for uniform, and that the first one is rebuilt.
    few, style = texts.slice(0, 100), STATS_FORMATS[stats_format]
    guess = uniform_statistics(few, kinds, style)
    if guess is None or not rebuilt_texts(guess, len(few), stats_format).equals(few):
        return None
    return guess if len(few) == len(texts) else uniform_statistics(texts, kinds, style)


def read_statistics(texts: pa.StringArray, kinds: Kinds) -> FileStatistics:
    """Reads texts of statistics; every column is there, if only as nulls. Arguments as for `native_statistics`."""
    if texts.null_count == len(texts):
        return _filled(FileStatistics(None, None, {}), kinds, len(texts))
    found = parse_statistics(texts, {path: pa.binary() if kind is None else kind for path, kind in kinds.items()})
    return _filled(found, kinds, len(texts))


def _lists_of_untold(partitions: Mapping[str, PartitionTexts], rows: int) -> pa.StringArray:
    """The partition values that the log does not give: a JSON list of physical names; null where it gives all."""
    string = pa.string()
    untold = {physical: ~found.known for physical, found in partitions.items() if not found.known.all()}
    if not untold:
        return pa.nulls(rows, string)
    nothing = scalar("", string)
    names = [
        pc.if_else(from_numpy(mask), scalar(json.dumps(name, ensure_ascii=False) + ",", string), nothing)
        for name, mask in untold.items()
    ]
    listed = pc.utf8_rtrim(pc.binary_join_element_wise(*names, nothing), characters=",")
    text = pc.binary_join_element_wise(scalar("[", string), listed, scalar("]", string), nothing)
    return pc.if_else(pc.equal(listed, nothing), scalar(None, string), text)


def _filled(found: FileStatistics, kinds: Kinds, rows: int) -> FileStatistics:
    # Columns of nulls share their memory: a wide table may have no statistics at all.
    nulls: dict[pa.DataType, pa.Array] = {}

    def filled(column: pa.Array | None, kind: pa.DataType) -> pa.Array:
        if column is None and kind not in nulls:
            nulls[kind] = pa.nulls(rows, kind)
        return nulls[kind] if column is None else column

    unknown = ColumnStatistics(None, None, None)
    columns = {}
    for path, kind in kinds.items():
        column = found.columns.get(path, unknown)
        lower, upper = (None if kind is None else filled(side, kind) for side in (column.lower, column.upper))
        columns[path] = ColumnStatistics(lower, upper, filled(column.null_count, pa.int64()))
    return FileStatistics(filled(found.num_records, pa.int64()), filled(found.tight, pa.bool_()), columns)


def _kept(texts: pa.StringArray, rebuilt: pa.StringArray, kinds: Kinds) -> pa.StringArray:
    """The texts that say something else than what is rebuilt."""
    kept = to_numpy(texts.is_valid()) & ~to_numpy(pc.equal(texts, rebuilt))
    if kept.any():
        differing = from_numpy(kept)
        kept[kept] = ~say_the_same(texts.filter(differing), rebuilt.filter(differing), kinds)
    if not kept.any():
        return pa.nulls(len(texts), pa.string())
    # Taking copies what is kept and nothing else.
    return texts.take(from_numpy(np.arange(len(texts), dtype=np.int64), kept))


# From rows to actions.


def row_keys(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """The fields of the `add` action that keys are made of."""
    add = {"path": rows.column("path")}
    if rows.column("dv.storageType").null_count < rows.num_rows:
        add["deletionVector"] = row_vectors(rows)
    return add


def other_fields(rows: pa.RecordBatch, schema: SidecarSchema, stats_format: str | None) -> dict[str, pa.Array]:
    """The other fields of the `add` action, as far as their columns were read.

    Args:
        rows: The rows.
        schema: The sidecar's columns.
        stats_format: The layout of statistics as text; None to leave them out.
    """
    names = set(rows.schema.names)
    fields = (INDEX_FIELDS | STATISTICS_FIELDS).items()
    add = {field: rows.column(column) for column, field in fields if column in names}
    if stats_format is not None:
        add["stats"] = stats_texts(rows, schema, stats_format)
    return add | partition_values(rows, schema)


def partition_values(rows: pa.RecordBatch, schema: SidecarSchema) -> dict[str, pa.Array]:
    """The partition values as a field of the `add` action: a struct, or a map where the log does not give all."""
    columns = {physical: rows.column(name) for physical, name in schema.partition_columns.items()}
    if not columns:
        return {}
    untold = rows.column("untold")
    if untold.null_count < len(untold):
        return {"partitionValues": _maps(columns, untold)}
    return {"partitionValues": pa.StructArray.from_arrays(list(columns.values()), names=list(columns))}


def untold_names(text: str | None) -> frozenset[Any]:
    """Physical names of the partition columns whose values the log does not give, out of a row's `untold`.

    Raises:
        pa.ArrowInvalid: It is no JSON list.
    """
    if text is None:
        return frozenset()
    try:
        return frozenset(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        msg = f"the names of partition values that are not told cannot be read: {error}"
        raise pa.ArrowInvalid(msg) from error


def row_vectors(rows: pa.RecordBatch) -> pa.StructArray:
    """The deletion vectors of rows; null without one."""
    children = [rows.column(name) for name in VECTOR_COLUMNS]
    return pa.StructArray.from_arrays(children, fields=list(DELETION_VECTOR), mask=children[0].is_null())


def bound_column(rows: pa.RecordBatch, side: str, path: ColumnPath) -> pa.Array:
    """The lower (`min`) or upper (`max`) bounds of a column."""
    return rows.column(f"{side}.{column_name(path)}")


def statistics_in(rows: pa.RecordBatch, schema: SidecarSchema, kinds: Kinds) -> FileStatistics:
    """The statistics of some columns, by the types that they have now.

    Columns that the sidecar does not have statistics of are looked for in `stats_json`, where that was read.
    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    found = {path: _column_statistics(columns, path) for path in kinds if path in schema.statistics}
    others = {path: kind for path, kind in kinds.items() if kind is not None and path not in found}
    if others and "stats_json" in columns:
        found |= parse_statistics(columns["stats_json"], others).columns
    return FileStatistics(columns["num_records"], columns["tight_bounds"], found)


def stats_texts(rows: pa.RecordBatch, schema: SidecarSchema, stats_format: str) -> pa.StringArray:
    """The statistics of each file as the log has them; null where it has none.

    It is the text that was kept, where one was; null, where no statistic is there; else it is rebuilt.
    """
    kept = rows.column("stats_json")
    rebuilt = rebuilt_texts(statistics_in(rows, schema, schema.statistics), rows.num_rows, stats_format)
    return rebuilt if kept.null_count == len(kept) else pc.coalesce(kept, rebuilt)


def rebuilt_texts(stats: FileStatistics, rows: int, stats_format: str) -> pa.StringArray:
    """Statistics as text, null where there is no statistic at all."""
    known = np.zeros(rows, dtype=np.bool_)
    columns = [stats.num_records, stats.tight]
    columns += [side for each in stats.columns.values() for side in (each.null_count, each.lower, each.upper)]
    for column in columns:
        if known.all():
            break
        if column is not None and column.null_count < rows:
            known |= to_numpy(column.is_valid())
    if not known.any():
        return pa.nulls(rows, pa.string())
    text = statistics_text(stats, rows, stats_format)
    return text if known.all() else pc.if_else(from_numpy(known), text, scalar(None, pa.string()))


def _column_statistics(columns: Mapping[str, pa.Array], path: ColumnPath) -> ColumnStatistics:
    name = column_name(path)
    # A column of a type without bounds has a count of nulls only.
    return ColumnStatistics(columns.get(f"min.{name}"), columns.get(f"max.{name}"), columns[f"null_count.{name}"])


def _maps(columns: Mapping[str, pa.StringArray], untold: pa.StringArray) -> pa.MapArray:
    """Partition values as maps, without those that the log does not give."""
    values = {name: column.to_pylist() for name, column in columns.items()}
    keys: list[str] = []
    items: list[str | None] = []
    offsets = [0]
    for row, text in enumerate(untold.to_pylist()):
        missing = untold_names(text)
        present = [name for name in values if name not in missing]
        keys += present
        items += [values[name][row] for name in present]
        offsets.append(len(keys))
    ends = from_numpy(np.array(offsets, dtype=np.int64)).cast(pa.int32())
    return pa.MapArray.from_arrays(ends, strings(keys), strings(items))
