"""The rows that a scan emits, one live file each, from any part of the log; and which files may match."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from delta_sidecar._arrow import from_numpy, scalar, strings, to_numpy
from delta_sidecar.log.actions import ADD_FIELDS, DELETION_VECTOR
from delta_sidecar.log.identity import decode_paths
from delta_sidecar.log.partition_values import PartitionTexts, lookup, read_known_values, read_partition_column
from delta_sidecar.log.stats import FileStatistics, parse_statistics, struct_leaves, struct_statistics
from delta_sidecar.log.values import in_four_digits, map_text, struct_text
from delta_sidecar.predicate import (
    BoundPredicate,
    ColumnBounds,
    KnownBounds,
    Predicate,
    bind,
    columns,
    may_match,
    to_physical,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath, TableSchema

_FIELDS = {field.column: field.name for field in ADD_FIELDS}

FILE_SCHEMA = pa.schema([pa.field(field.column, field.type) for field in ADD_FIELDS])
FILE_SCHEMA = FILE_SCHEMA.insert(1, pa.field("raw_path", pa.string()))
"""Columns of a batch of files. `stats` and `tags` are JSON texts, a tag is a text or null; `modification_time` is in
milliseconds."""

REQUIRED_COLUMNS = frozenset({"raw_path", *(field.column for field in ADD_FIELDS if not field.optional)})
"""Columns of a batch that tell files apart: a scan cannot do without them."""


class FileColumns(Struct, frozen=True):
    """Makes batches of `FILE_SCHEMA` from the fields of `add` actions."""

    partition_columns: tuple[tuple[str, str], ...]  # (logical, physical) names
    # Physical paths of the timestamps that are moments in time, not readings of a clock.
    instants: frozenset[tuple[str, ...]] = frozenset()
    # Columns of `FILE_SCHEMA` that are read; the others are all null.
    columns: frozenset[str] = frozenset(FILE_SCHEMA.names)

    @classmethod
    def of(cls, schema: TableSchema, columns: Iterable[str] = FILE_SCHEMA.names) -> Self:
        """Makes batches with some columns, and those that tell files apart, of the files of a table."""
        partitions = zip(schema.partition_columns, schema.physical_partition_columns, strict=True)
        return cls(tuple(partitions), schema.instants, REQUIRED_COLUMNS | frozenset(columns))

    def fields(self) -> tuple[str, ...]:
        """Fields of the action that a batch is made of."""
        return tuple(field for column, field in _FIELDS.items() if column in self.columns)

    def batch(self, add: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        """Makes a batch of the fields of actions, by name; what a file of the log lacks may be missing."""
        raw = add["path"]
        wanted = {"stats_parsed", "partitionValues_parsed", *self.fields()}
        add = {name: column for name, column in add.items() if name in wanted}
        columns = {
            "path": decode_paths(raw),
            "raw_path": raw,
            "partition_values": self._partition_map(add, rows),
            "stats": _statistics(add if "stats" in self.columns else {}, rows, self.instants),
            "deletion_vector": _deletion_vectors(add.get("deletionVector"), rows),
            "tags": _tags(add.get("tags"), rows),
        }
        for column, name in _FIELDS.items():
            if column not in columns:
                columns[column] = _field(add, name, FILE_SCHEMA.field(column).type, rows)
        return pa.RecordBatch.from_arrays([columns[name] for name in FILE_SCHEMA.names], schema=FILE_SCHEMA)

    def _partition_map(self, add: Mapping[str, pa.Array], rows: int) -> pa.MapArray:
        width = len(self.partition_columns)
        values = [partition_texts(add, physical, rows).texts for _, physical in self.partition_columns]
        names = strings([logical for logical, _ in self.partition_columns])
        offsets = from_numpy(np.arange(rows + 1, dtype=np.int64) * width).cast(pa.int32())
        if not width:
            nothing = pa.nulls(0, pa.string())
            return pa.MapArray.from_arrays(offsets, nothing, nothing)
        entries = np.arange(rows * width, dtype=np.int64)
        keys = names.take(from_numpy(entries % width))
        # One column after another becomes one row after another.
        order = entries.reshape(width, rows).T.ravel()
        items = values[0] if width == 1 else pa.concat_arrays(values).take(from_numpy(order))
        return pa.MapArray.from_arrays(offsets, keys, items)


def struct_fields(column: pa.StructArray) -> dict[str, pa.Array]:
    """The fields of a struct column by name, its own nulls laid over them."""
    return dict(zip((field.name for field in column.type), column.flatten(), strict=True))


def partition_texts(add: Mapping[str, pa.Array], physical: str, rows: int) -> PartitionTexts:
    """The raw partition values of one column.

    They are in the struct of a parsed commit or in the map of a checkpoint. What that does not tell, a checkpoint may
    have as a typed column.
    """
    texts = _texts(add.get("partitionValues"), physical, rows)
    if pa.types.is_dictionary(texts.texts.type):
        texts = PartitionTexts(texts.texts.dictionary_decode(), texts.known)
    if texts.known.all():
        return texts
    typed = _typed_texts(add.get("partitionValues_parsed"), physical)
    if typed is None:
        return texts
    both = pc.if_else(from_numpy(texts.known), texts.texts, typed)
    return PartitionTexts(both, texts.known | to_numpy(typed.is_valid()))


def _texts(values: pa.Array | None, physical: str, rows: int) -> PartitionTexts:
    if values is not None and pa.types.is_map(values.type):
        return lookup(values, physical)
    found = _struct_field(values, physical)
    if values is None or found is None:
        return PartitionTexts(pa.nulls(rows, pa.string()), np.zeros(rows, dtype=np.bool_))
    return PartitionTexts(found, to_numpy(values.is_valid()))


def _struct_field(values: pa.Array | None, name: str) -> pa.Array | None:
    """A field of a struct column, its nulls laid over it; None where there is none."""
    if values is None or not pa.types.is_struct(values.type):
        return None
    at = values.type.get_field_index(name)
    return pc.struct_field(values, [at]) if at >= 0 else None


def _typed_texts(values: pa.Array | None, physical: str) -> pa.StringArray | None:
    """Typed partition values as the log writes them; null does not tell whether it is the value or no value."""
    column = _struct_field(values, physical)
    if column is None:
        return None
    if pa.types.is_timestamp(column.type):
        column = in_four_digits(column)
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return pc.replace_substring(column.cast(pa.string()), pattern=" ", replacement="T")
    return column.cast(pa.string())


def tags_in_lines(lines: pa.StringArray, present: NDArray[np.bool_]) -> pa.StringArray:
    """The tags of `add` actions as JSON objects of texts; null where an action has none.

    By the protocol a tag's value is a text. One that is none is given as its JSON text.

    Args:
        lines: The text of each action; null where it does not hold the name `tags`.
        present: Which actions have tags.

    Raises:
        pa.ArrowInvalid: There are tags that cannot be read.
    """
    if not present.any():
        return pa.nulls(len(lines), pa.string())
    # A quote inside a JSON string is escaped, so that the name and the brace after it can only be a field.
    found = pc.struct_field(pc.extract_regex(lines, pattern=_TAGS), [0])
    found = pc.if_else(from_numpy(present), found, scalar(None, pa.string()))
    several = to_numpy(pc.greater(pc.count_substring(lines, pattern='"tags"'), scalar(1, pa.int32())))
    odd = np.flatnonzero(present & (several | ~to_numpy(found.is_valid())))
    if not len(odd):
        return found
    texts = found.to_pylist()
    for row in odd.tolist():
        texts[row] = _tags_in_line(lines[row].as_py())
    return strings(texts)


def _tags_in_line(line: str | None) -> str:
    if line is None:
        msg = "the name of its tags is written with escapes"
        raise pa.ArrowInvalid(msg)
    try:
        tags = json.loads(line)["add"]["tags"].items()
        texts = {name: value if isinstance(value, str | None) else json.dumps(value) for name, value in tags}
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        msg = f"the tags of a file cannot be read: {error}"
        raise pa.ArrowInvalid(msg) from error
    return json.dumps(texts)


_STRING = r'"(?:[^"\\]|\\.)*"'
_ENTRY = rf"\s*{_STRING}\s*:\s*(?:{_STRING}|null)\s*"
_TAGS = rf'"tags"\s*:\s*(?P<tags>\{{\s*(?:{_ENTRY}(?:,{_ENTRY})*)?\}})'


def _field(add: Mapping[str, pa.Array], name: str, kind: pa.DataType, rows: int) -> pa.Array:
    column = add.get(name)
    if column is None:
        return pa.nulls(rows, kind)
    return column if column.type == kind else column.cast(kind)


def _statistics(add: Mapping[str, pa.Array], rows: int, instants: frozenset[tuple[str, ...]]) -> pa.StringArray:
    text = _field(add, "stats", pa.string(), rows)
    parsed = add.get("stats_parsed")
    if parsed is None or text.null_count == 0 or not pa.types.is_struct(parsed.type):
        return text
    return pc.coalesce(text, struct_text(parsed, instants))


def _deletion_vectors(column: pa.Array | None, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, DELETION_VECTOR)
    if column.type == DELETION_VECTOR:
        return column
    fields = struct_fields(column)
    children = [_field(fields, field.name, field.type, rows) for field in DELETION_VECTOR]
    return pa.StructArray.from_arrays(children, fields=list(DELETION_VECTOR), mask=column.is_null())


def _tags(column: pa.Array | None, rows: int) -> pa.StringArray:
    if column is None or column.null_count == rows:
        return pa.nulls(rows, pa.string())
    return map_text(column) if pa.types.is_map(column.type) else column


# Which files may match: partition values as they are, statistics out of JSON or structs.
#
# This is the only place that knows where in the log a bound comes from; what a bound means is `may_match`'s business.


class Pruning(BoundPredicate, frozen=True):
    """Tests a predicate on `add` actions."""

    @property
    def struct_columns(self) -> tuple[str, ...]:
        """Dotted names, below `add`, of the struct statistics that it looks at."""
        return tuple(".".join(("add", "stats_parsed", *leaf)) for leaf in struct_leaves(self.statistics))

    def by_partition(self, add: Mapping[str, pa.Array], present: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The files that may match, by what is known without the text of statistics; `present` marks rows of files."""
        parsed = add.get("stats_parsed")
        found = None if parsed is None or not self.statistics else struct_statistics(parsed, self.statistics)
        kept = self._by_distinct_value(add, present) if found is None else None
        return present & (self._may_match(add, present, found) if kept is None else kept)

    def by_statistics(self, add: Mapping[str, pa.Array], rows: int) -> NDArray[np.bool_]:
        """The files that may match, by their partition values and the statistics in their text."""
        text = add.get("stats")
        found = None if text is None or not self.statistics else parse_statistics(text, self.statistics)
        return self.by_values(add, rows, found)

    def by_values(self, add: Mapping[str, pa.Array], rows: int, found: FileStatistics | None) -> NDArray[np.bool_]:
        """The files that may match, by their partition values and by statistics that were found for them."""
        return self._may_match(add, np.ones(rows, dtype=np.bool_), found)

    def _by_distinct_value(self, add: Mapping[str, pa.Array], present: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """As `_may_match`, by the values of one partition column that is a dictionary, each tested once; else None."""
        values = add.get("partitionValues")
        if len(self.partitions) != 1 or values is None:
            return None
        ((name, *_),) = self.partitions
        texts = _texts(values, name, len(present))
        coded = texts.texts
        if not pa.types.is_dictionary(coded.type) or len(coded.dictionary) > len(coded):
            return None
        if not (texts.known | ~present).all():
            return None
        # A null stands behind the values.
        each = pa.concat_arrays([coded.dictionary, pa.nulls(1, coded.dictionary.type)])
        kept = self.by_values({"partitionValues": pa.StructArray.from_arrays([each], names=[name])}, len(each), None)
        return kept[to_numpy(pc.fill_null(coded.indices, scalar(len(coded.dictionary), coded.indices.type)))]  # type: ignore[no-any-return]

    def _may_match(
        self, add: Mapping[str, pa.Array], present: NDArray[np.bool_], found: FileStatistics | None
    ) -> NDArray[np.bool_]:
        """The files that may match; the answer is right for rows that are files."""
        rows = len(present)
        known: dict[ColumnPath, ColumnBounds | None] = {} if found is None else _bounds(found)
        untold: dict[ColumnPath, NDArray[np.bool_]] = {}
        for path, kind in self.partitions.items():
            texts = partition_texts(add, path[0], rows)
            values = read_partition_column(texts.texts, kind)
            if values is None:
                texts, values = read_known_values(texts, kind)
            if not (texts.known | ~present).all():
                untold[path] = present & ~texts.known
            if values is not None:
                exact, zoneless = values.values, values.zoneless
                known[path] = ColumnBounds(exact, exact, None, None, exact=True, zoneless=zoneless)
        kept = to_numpy(may_match(self.predicate, KnownBounds(rows, known)))
        if not untold:
            return kept
        # Where a value is not known, null would be taken for it: those files are tested without such columns.
        without = {path: bounds for path, bounds in known.items() if path not in untold}
        kept_without = to_numpy(may_match(self.predicate, KnownBounds(rows, without)))
        return np.where(np.logical_or.reduce(list(untold.values())), kept_without, kept)


def bind_predicate(schema: TableSchema, predicate: Predicate | None) -> Pruning | None:
    """Binds a predicate to a table's columns, in physical names.

    Raises:
        PredicateError: It names an unknown column, or compares one with a value of another type.
    """
    if predicate is None:
        return None
    physical = to_physical(bind(predicate, schema.logical), schema.physical_names)
    named, types = columns(physical), schema.bounded_types
    partitions = {(name,) for name in schema.physical_partition_columns}
    return Pruning(
        physical,
        partitions={path: types[path] for path in named if path in types and path in partitions},
        statistics={path: types[path] for path in named if path in types and path not in partitions},
    )


def _bounds(found: FileStatistics) -> dict[ColumnPath, ColumnBounds | None]:
    return {
        path: ColumnBounds(each.lower, each.upper, each.null_count, found.num_records, found.tight)
        for path, each in found.columns.items()
    }
