"""Statistics of data files as Arrow columns: from their JSON text, in bulk, or from the struct of a checkpoint.

Only requested columns are decoded. A text that cannot be parsed, or a value of another type than the column, is
*unknown* (null), which never drops a file.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import Struct

from delta_sidecar._arrow import from_numpy, scalar, strings
from delta_sidecar.log.digits import TextRanges
from delta_sidecar.log.values import is_text_of, parse_timestamps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.log.values import ValueStyle


SIDES = ("minValues", "maxValues", "nullCount")
"""The objects of statistics with a member for each column."""


class ColumnStatistics(Struct, frozen=True):
    """Statistics of one column, a row a file; null is unknown."""

    lower: pa.Array | None
    upper: pa.Array | None
    null_count: pa.Array | None


class FileStatistics(Struct, frozen=True):
    """Statistics of a batch of files, a row a file."""

    num_records: pa.Array | None  # deleted rows included
    tight: pa.Array | None  # bounds are exact values of valid rows; null counts as true
    columns: Mapping[ColumnPath, ColumnStatistics]  # by physical path


def parse_statistics(text: pa.StringArray, columns: Mapping[ColumnPath, pa.DataType]) -> FileStatistics:
    """Parses the statistics of some columns out of JSON texts."""
    schema = _json_schema(columns)
    try:
        parsed = _parse_all(text, schema)
    except pa.ArrowInvalid:
        parsed = _parse_each(text, schema)
    return struct_statistics(parsed, columns)


def uniform_statistics(
    texts: pa.StringArray, columns: Mapping[ColumnPath, pa.DataType | None], style: ValueStyle
) -> FileStatistics | None:
    """Reads texts that differ in their values alone, as those of one writer mostly do, faster than as JSON.

    The first text shows between which commas the values stand. Each value is just as `value_text` writes it, and the
    rest of each text as in the first one: so `statistics_text` makes the same texts of the result if it does so of the
    first. None for texts that are not like that.
    """
    first = texts[0].as_py() if len(texts) and not texts.null_count else ""
    pieces, paths = first.split(","), _value_paths(first)
    kinds = {path: kind for path, kind in _kinds(columns).items() if kind is not None and _json_type(kind) is not None}
    if len(paths) != len(pieces) or not kinds.keys() >= set(paths):
        return None
    members = [_Member.of(kinds[path], piece) for path, piece in zip(paths, pieces, strict=True)]
    found: list[list[pa.Array]] = []
    # Every value is looked for in a text by itself: so many texts stay in the processor's cache.
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        values = _uniform_values(texts.slice(start, _TEXTS_AT_ONCE), members, style)
        if values is None:
            return None
        found.append(values)
    together = (pa.concat_arrays(each) for each in zip(*found, strict=True))
    return _statistics(dict(zip(paths, together, strict=True)), columns)


class _Member(Struct, frozen=True):
    """What is around a value in a text of statistics, up to the commas."""

    kind: pa.DataType
    before: bytes
    after: bytes
    is_quoted: bool

    @classmethod
    def of(cls, kind: pa.DataType, piece: str) -> Self:
        place = _LAST_VALUE.search(piece)
        start, end = (0, 0) if place is None else place.span(2)
        return cls(kind, piece[:start].encode(), piece[end:].encode(), place is not None and bool(place[1]))


def _uniform_values(texts: pa.StringArray, members: Sequence[_Member], style: ValueStyle) -> list[pa.Array] | None:
    """The values of texts, member by member; None where a text has others, or a value is in another form."""
    rows = len(texts)
    _, offsets, buffer = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + rows + 1].astype(np.int64)
    data = np.frombuffer(buffer, dtype=np.uint8)
    commas = np.flatnonzero(data[ends[0] : ends[-1]] == _COMMA) + ends[0]
    if len(commas) != rows * (len(members) - 1):
        return None
    borders = np.ascontiguousarray(np.column_stack([ends[:-1] - 1, commas.reshape(rows, -1), ends[1:]]).T)
    found = []
    between, last = b"", ends[:-1]
    for number, member in enumerate(members):
        starts = borders[number] + (1 + len(member.before))
        values = TextRanges(data, starts, borders[number + 1] - len(member.after))
        if (starts > values.ends).any() or not TextRanges(data, last, starts).all_are(between + member.before):
            return None
        column = _written(values, texts, member, style)
        if column is None:
            return None
        found.append(column)
        between, last = member.after + b",", values.ends
    return found if TextRanges(data, last, ends[1:]).all_are(between[:-1]) else None


def _written(ranges: TextRanges, texts: pa.StringArray, member: _Member, style: ValueStyle) -> pa.Array | None:
    """The values in ranges of texts; None where one is not written as `value_text` does."""
    kind, is_quoted = member.kind, member.is_quoted
    numbers: NDArray[Any] | None = None
    if kind == pa.int64() and not is_quoted:
        numbers = ranges.whole_numbers()
    elif kind == pa.float64() and not is_quoted and style.numbers != "arrow":
        numbers = ranges.decimals()
    if numbers is not None:
        return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])
    cuts = np.empty(2 * len(texts), dtype=np.int32)
    cuts[0::2], cuts[1::2] = ranges.starts, ranges.ends
    between = pa.Array.from_buffers(pa.string(), len(cuts) - 1, [None, pa.py_buffer(cuts), texts.buffers()[2]])
    raw = between.take(from_numpy(np.arange(0, len(cuts), 2)))
    values = _typed(_typed(raw, _json_type(kind)), kind)
    return values if is_text_of(values, raw, style, is_quoted=is_quoted) else None


def parse_members(text: pa.StringArray, columns: Mapping[ColumnPath, pa.DataType | None]) -> pa.StructArray:
    """Parses JSON texts strictly: they hold statistics of the columns and nothing else.

    Timestamps and dates stay texts. The bounds of a column without a type (None) can only be null.

    Raises:
        pa.ArrowInvalid: A text is no object, has an unknown or repeated member, or a value of another type than its
            column.
    """
    if not pc.all(_begins(text), min_count=0).as_py():
        msg = "a text is no JSON object"
        raise pa.ArrowInvalid(msg)
    schema = _json_schema(columns)
    absent = [side for side in SIDES if side not in schema.names]
    # Arrow does not descend into a member that it refuses, so no text can nest too deep for it.
    return _parse_all(text, pa.schema([*schema, *(pa.field(side, pa.struct([])) for side in absent)]), others="error")


def parse_num_records(text: pa.StringArray) -> pa.Int64Array:
    """Parses only the number of rows out of JSON texts; null is unknown."""
    return parse_statistics(text, {}).num_records


def struct_statistics(stats: pa.StructArray, columns: Mapping[ColumnPath, pa.DataType]) -> FileStatistics:
    """The statistics of some columns, from a struct such as a checkpoint's `stats_parsed`."""
    kinds = _kinds(columns)
    return _statistics({path: _typed(leaf, kinds[path]) for path, leaf in leaves(stats) if path in kinds}, columns)


def struct_leaves(columns: Iterable[ColumnPath]) -> list[ColumnPath]:
    """The paths below a `stats_parsed` struct that `struct_statistics` reads."""
    return list(_kinds(dict.fromkeys(columns)))


def leaves(struct: pa.StructArray, above: ColumnPath = ()) -> Iterator[tuple[ColumnPath, pa.Array]]:
    """The columns in a struct that are no structs themselves, with their paths; a repeated name is unknown."""
    # flatten() lays the parent's nulls over the child.
    for number, (field, column) in enumerate(zip(struct.type, struct.flatten(), strict=True)):
        path = (*above, field.name)
        if struct.type.get_field_index(field.name) == number:
            yield from leaves(column, path) if pa.types.is_struct(field.type) else [(path, column)]


def insert(tree: dict[str, Any], path: ColumnPath, value: object) -> None:
    """Puts a value into nested objects, which are made; None stands for an absent one."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    if value is not None:
        tree[path[-1]] = value


def _kinds(columns: Mapping[ColumnPath, pa.DataType | None]) -> dict[ColumnPath, pa.DataType | None]:
    """The types of all statistics of some columns."""
    kinds: dict[ColumnPath, pa.DataType | None] = {("numRecords",): pa.int64(), ("tightBounds",): pa.bool_()}
    for path, kind in columns.items():
        kinds |= {("minValues", *path): kind, ("maxValues", *path): kind, ("nullCount", *path): pa.int64()}
    return kinds


def _statistics(leaves: Mapping[ColumnPath, pa.Array], columns: Iterable[ColumnPath]) -> FileStatistics:
    by_column = {path: ColumnStatistics(*(leaves.get((side, *path)) for side in SIDES)) for path in columns}
    return FileStatistics(leaves.get(("numRecords",)), leaves.get(("tightBounds",)), by_column)


def _typed(array: pa.Array | None, kind: pa.DataType) -> pa.Array | None:
    # Arrow accepts numbers in JSON with more digits than their decimal type has.
    is_decimal = array is not None and pa.types.is_decimal(array.type)
    if array is None or (array.type == kind and not is_decimal):
        return array
    try:
        if pa.types.is_timestamp(kind):
            return _timestamps(array, kind)
        if is_decimal:
            array.validate(full=True)
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _cast_each(array, kind)


def _timestamps(array: pa.Array, kind: pa.TimestampType) -> pa.Array:
    if not pa.types.is_string(array.type):
        return array.cast(pa.timestamp("us")).cast(kind) if kind.tz is None else array.cast(kind)
    values, zoneless = parse_timestamps(array)
    if kind.tz is None:
        return values.cast(kind)
    # Without a zone the instant is unknown.
    known = pc.if_else(zoneless, scalar(None, pa.timestamp("us")), values)
    return known.cast(pa.timestamp("us", kind.tz)).cast(kind)


def _cast_each(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Casts by halves, so that only the values that do not fit become unknown."""
    if len(array) == 1 or array.null_count == len(array):
        return pa.nulls(len(array), kind)
    half = len(array) // 2
    parts = [_typed(array.slice(0, half), kind), _typed(array.slice(half), kind)]
    return pa.concat_arrays(parts)


def _json_schema(columns: Mapping[ColumnPath, pa.DataType | None]) -> pa.Schema:
    tree: dict[str, Any] = {}
    for path, kind in _kinds(columns).items():
        as_json = pa.null() if kind is None else _json_type(kind)
        if as_json is not None:
            insert(tree, path, as_json)
    return pa.schema(list(_struct(tree)))


def _json_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of a column's bounds in JSON; None if it has none there."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return kind
    if pa.types.is_string(kind) or pa.types.is_temporal(kind):
        return pa.string()
    return None


def _struct(tree: dict[str, Any]) -> pa.StructType:
    return pa.struct([pa.field(name, _struct(kind) if isinstance(kind, dict) else kind) for name, kind in tree.items()])


def _parse_all(
    text: pa.StringArray, schema: pa.Schema, others: Literal["ignore", "error"] = "ignore"
) -> pa.StructArray:
    if not len(text):
        return pa.nulls(0, pa.struct(list(schema)))
    filled = _objects(text)
    one = pa.ListArray.from_arrays(from_numpy(np.array([0, len(filled)])).cast(pa.int32()), filled)
    joined = pc.binary_join(one, scalar("\n", pa.string()))
    data = joined.buffers()[2]
    newlines = np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE)
    # `open_json` parses in this thread; `read_json` would wait for another one.
    table = pj.open_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, newlines_in_values=newlines >= len(text), unexpected_field_behavior=others
        ),
    ).read_all()
    if table.num_rows != len(text):
        msg = "a text holds more or less than one JSON object"
        raise pa.ArrowInvalid(msg)
    return table.to_struct_array().combine_chunks()


def _value_paths(text: str) -> tuple[ColumnPath, ...]:
    """The paths to the values of a JSON object, in its order; none where the text is no object."""

    def paths(members: list[tuple[str, Any]]) -> tuple[ColumnPath, ...]:
        inner = ((name, member if isinstance(member, tuple) else ((),)) for name, member in members)
        return tuple((name, *rest) for name, below in inner for rest in below)

    try:
        found = json.loads(text, object_pairs_hook=paths)
    except (ValueError, RecursionError):
        return ()
    return found if isinstance(found, tuple) else ()


def _objects(text: pa.StringArray) -> pa.StringArray:
    """Replaces texts that begin no object by an empty one: then as many rows as texts means one row each."""
    nothing = scalar("{}", pa.string())
    filled = pc.fill_null(text, nothing) if text.null_count else text
    begins = _begins(filled)
    return filled if pc.all(begins).as_py() else pc.if_else(begins, filled, nothing)


_NEWLINE, _COMMA = 0x0A, 0x2C
_TEXTS_AT_ONCE = 4096
_LAST_VALUE = re.compile(r':("?)([^"{}]*)\1\}*$')


def _begins(text: pa.StringArray) -> pa.BooleanArray:
    begins = pc.starts_with(text, pattern="{")
    return begins if pc.all(begins).as_py() else pc.starts_with(pc.utf8_ltrim_whitespace(text), pattern="{")


def _parse_each(text: pa.StringArray, schema: pa.Schema) -> pa.StructArray:
    """Parses texts one by one if Arrow refuses any: only what does not fit its type becomes unknown."""
    return _column([_parse_one(value) for value in text.to_pylist()], pa.struct(list(schema)))


def _parse_one(text: str | None) -> object:
    try:
        return json.loads(text or "{}", parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def _column(rows: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        dicts = [row if isinstance(row, dict) else {} for row in rows]
        children = [_column([row.get(field.name) for row in dicts], field.type) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind))
    texts = [_as_text(row, kind) for row in rows]
    column = strings(texts)
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return _cast_each(column, kind)


def _as_text(value: object, kind: pa.DataType) -> str | None:
    if isinstance(value, str) and value != value.encode(errors="replace").decode():
        # Half a pair of surrogates: the writer cut the text in the middle of a character.
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(kind):
        return str(value).lower() if isinstance(value, bool) else None
    # A float is an infinity or NaN here: other numbers are parsed as decimals.
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    return format(value, "f") if isinstance(value, Decimal) and value.is_finite() else str(value)
