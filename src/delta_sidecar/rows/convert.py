"""From what a data file holds to what the table's schema says: names, order, types and missing columns.

A file keeps the schema of its day. Columns have been renamed, dropped, added and made wider since, at every depth, so
that each value goes through the path of its field: found by name or by id, cast where the type is a wider one, and null
where the file has no such field. What cannot be cast without changing a value is refused by name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar._arrow import from_numpy, strings, to_numpy
from delta_sidecar.errors import LogCorruptionError, UnreadableFileError, UnsupportedFeatureError
from delta_sidecar.log.partition_values import read_partition_column
from delta_sidecar.log.schema import VARIANT_TYPE
from delta_sidecar.rows.columns import nullable_type, struct_of
from delta_sidecar.rows.locations import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from delta_sidecar.log.partition_values import PartitionColumn


Convert: TypeAlias = Callable[[pa.Array], pa.Array]
"""Makes a column of the table from a column of a file."""

FIELD_ID = b"PARQUET:field_id"


class Matching(Struct, frozen=True):
    """The way in which the fields of a table are found in a file."""

    by_id: bool  # by the ids of column mapping; else by physical name
    folds: bool  # a name in another case is as good
    file: str  # for messages

    def inside(self, field: pa.Field) -> Matching:
        """The way to find the fields of a struct: those of a variant have names of their own, and no ids."""
        return replace(self, by_id=False) if is_variant(field) else self


class FileFields:
    """The fields of a file, or of a struct in it, where those of a table are looked up."""

    def __init__(self, fields: Iterable[pa.Field], matching: Matching) -> None:
        self.fields = tuple(fields)
        self._matching = matching
        self._places = self._by(_id if matching.by_id else attrgetter("name"))
        self._inside: dict[tuple[int, bool], FileFields] = {}

    def find(self, sought: pa.Field) -> int | None:
        """The number of a field of the table among those of the file; None where the file does not have it.

        Raises:
            UnreadableFileError: The file has it more than once, or has no ids to find it by.
        """
        file = self._matching.file
        if not self._matching.by_id:
            found = self._places.get(sought.name, [])
            if not found and self._matching.folds:
                found = self._folded.get(sought.name.lower(), [])
        elif self._places.keys() <= {None}:
            names = ", ".join(field.name for field in self.fields[:_SHOWN]) or "nothing"
            msg = (
                f"the table finds columns by their ids (delta.columnMapping.mode is id), and {file} has none at "
                f"{names}: its values cannot be told apart, so that it is not read"
            )
            raise UnreadableFileError(msg, file)
        else:
            found = [] if _id(sought) is None else self._places.get(_id(sought), [])
        if len(found) > 1:
            msg = f"{file} has {len(found)} columns that are {sought.name!r}: it cannot be told which one counts"
            raise UnreadableFileError(msg, file)
        return found[0] if found else None

    def inside(self, at: int, matching: Matching) -> FileFields:
        """The fields of the struct with a number."""
        key = (at, matching.by_id)
        if key not in self._inside:
            self._inside[key] = FileFields(self.fields[at].type, matching)
        return self._inside[key]

    @cached_property
    def first_leaves(self) -> tuple[int, ...]:
        """For each field, the number of leaf columns in front of it."""
        return tuple(accumulate((_leaves(field.type) for field in self.fields), initial=0))

    @cached_property
    def _folded(self) -> dict[object, list[int]]:
        return self._by(lambda field: field.name.lower())

    def _by(self, key: Callable[[pa.Field], object]) -> dict[object, list[int]]:
        places: dict[object, list[int]] = {}
        for at, field in enumerate(self.fields):
            places.setdefault(key(field), []).append(at)
        return places


def _id(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(FIELD_ID)


def _leaves(kind: pa.DataType) -> int:
    """The number of leaf columns in Parquet that a column of Arrow is made of."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    if not pa.types.is_nested(kind):
        return 1
    return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields))


_SHOWN = 3


def is_variant(field: pa.Field) -> bool:
    """Whether a field of a table is a variant."""
    return VARIANT_TYPE in (field.metadata or {})


def converter(logical: pa.Field, physical: pa.Field, found: pa.Field, matching: Matching, name: str) -> Convert:
    """Makes the function that turns a column of a file, `found`, into one of the table.

    The type that comes out is the `nullable_type` of the logical field. The dotted name is for messages.

    Raises:
        UnreadableFileError: The file's type cannot be read as the table's.
        UnsupportedFeatureError: The file has a variant in shreds.
    """
    kind, held = logical.type, found.type
    if pa.types.is_null(held) or pa.types.is_null(kind):
        return lambda array: pa.nulls(len(array), nullable_type(kind))
    if (stored := _stored_as(held)) is not None:
        inner = converter(logical, physical, found.with_type(stored), matching, name)
        return lambda array: inner(_storage(array, stored))
    if pa.types.is_struct(kind) and pa.types.is_struct(held):
        if is_variant(logical):
            _check_variant(held, matching, name)
        return _struct_converter(kind, physical.type, held, matching.inside(logical), name)
    if pa.types.is_list(kind) and pa.types.is_list(held):
        listed = nullable_type(kind)
        inner = converter(kind.value_field, physical.type.value_field, held.value_field, matching, f"{name}.element")
        return lambda array: _relisted(array, listed, inner(array.values))
    if pa.types.is_map(kind) and pa.types.is_map(held):
        return _map_converter(kind, physical.type, held, matching, name)
    if pa.types.is_nested(kind) or pa.types.is_nested(held):
        msg = f"column {name} is {held} in {matching.file}, and {kind} in the table: it cannot be read"
        raise UnreadableFileError(msg, matching.file)
    return lambda array: cast_values(array, kind, name, matching.file)


def _stored_as(held: pa.DataType) -> pa.DataType | None:
    """The plain type that an extension type, or a list of one length, is stored in; None for others."""
    if isinstance(held, pa.BaseExtensionType):
        return held.storage_type
    return pa.list_(held.value_field) if pa.types.is_fixed_size_list(held) else None


def _storage(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array.cast(kind)


def _struct_converter(
    kind: pa.StructType, physical: pa.StructType, held: pa.StructType, matching: Matching, name: str
) -> Convert:
    there = FileFields(held, matching)
    fields = list(nullable_type(kind))
    children: list[tuple[int, Convert] | pa.DataType] = []
    for child, inner, made in zip(kind, physical, fields, strict=True):
        at = there.find(inner)
        if at is None:
            children.append(made.type)
        else:
            children.append((at, converter(child, inner, there.fields[at], matching, f"{name}.{child.name}")))

    def convert_struct(array: pa.StructArray) -> pa.StructArray:
        parts = [
            child[1](array.field(child[0])) if isinstance(child, tuple) else pa.nulls(len(array), child)
            for child in children
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)

    return convert_struct


def _map_converter(kind: pa.MapType, physical: pa.MapType, held: pa.MapType, matching: Matching, name: str) -> Convert:
    keys = converter(kind.key_field, physical.key_field, held.key_field, matching, f"{name}.key")
    items = converter(kind.item_field, physical.item_field, held.item_field, matching, f"{name}.value")
    made = nullable_type(kind)
    fields = [made.key_field, made.item_field]
    return lambda array: _relisted(
        array, made, pa.StructArray.from_arrays([keys(array.keys), items(array.items)], fields=fields)
    )


def _relisted(column: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists, or maps, over other values."""
    valid, offsets = column.buffers()[:2]
    return pa.Array.from_buffers(
        kind, len(column), [valid, offsets], null_count=column.null_count, offset=column.offset, children=[values]
    )


def _check_variant(held: pa.StructType, matching: Matching, name: str) -> None:
    names = {field.name for field in held}
    if "typed_value" in names:
        msg = (
            f"column {name} of {matching.file} is a shredded variant (variantShredding), which cannot be read here: "
            "leave the column out, or read it with Spark"
        )
        raise UnsupportedFeatureError(msg, ("variantShredding",))
    if not {"metadata", "value"} <= names:
        msg = f"column {name} is {held} in {matching.file}, and a variant in the table: it cannot be read"
        raise UnreadableFileError(msg, matching.file)


def filtered(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows of a batch that a mask keeps, also where it has no columns."""
    if batch.num_columns:
        return batch.filter(mask)
    return struct_of((), batch.schema, int(to_numpy(mask).sum()))


# Values of a data file in the type that the table has today.
#
# Delta lets a column become wider (an int a long, a float a double, a decimal one with more digits, a date a
# timestamp), and writers differ in how they lay out the same type: timestamps in milliseconds or nanoseconds, with or
# without a zone, texts without a mark that they are texts. All of that is read; a cast that could change a value is
# refused.


_WIDEST = 76


def cast_values(array: pa.Array, kind: pa.DataType, column: str, file: str) -> pa.Array:
    """Casts values of a file to the table's type, which is not nested; column and file are for messages.

    Raises:
        UnreadableFileError: They cannot be cast, or not without a change.
    """
    held = array.type
    if held == kind:
        return array
    if not _is_readable_as(held, kind):
        msg = f"column {column} is {held} in {file}, and {kind} in the table: it cannot be read"
        raise UnreadableFileError(msg, file)
    try:
        return _cast(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = f"column {column} is {held} in {file}, and {kind} in the table, which cannot hold its values: {error}"
        raise UnreadableFileError(msg, file) from error


def _is_readable_as(held: pa.DataType, kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(held):
        return True
    if types.is_integer(held):
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
    if types.is_floating(held):
        return bool(types.is_floating(kind) and held.bit_width <= kind.bit_width)
    if types.is_decimal(held):
        return bool(types.is_decimal(kind))
    if types.is_date(held):
        # Midnight in which zone, nobody can tell.
        return bool(types.is_date(kind) or (types.is_timestamp(kind) and kind.tz is None))
    if types.is_timestamp(held):
        return bool(types.is_timestamp(kind))
    if types.is_fixed_size_binary(held):
        return bool(types.is_binary(kind))
    return bool(_is_bytes(held) and _is_bytes(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(array.type):
        # Whether a reading of the clock or a moment, the file has the same number.
        if array.type.unit == "ns":
            # What is finer is cut off, towards the past, as with Parquet's oldest timestamps.
            return from_numpy(to_numpy(array) // 1000, to_numpy(array.is_valid())).view(kind)
        return array.cast(pa.timestamp("us", array.type.tz)).view(kind)
    if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
        return array.cast(pa.decimal256(_WIDEST, kind.scale)).cast(kind)
    return array.cast(kind)


# Partition values as columns: the text in the log, as a value of the column's type.


def partition_value(field: pa.Field, values: Mapping[str, str | None], file: str, zone: str) -> pa.Scalar:
    """A partition value of a file, whose path is for messages; a timestamp without a zone is in `zone`.

    Raises:
        LogCorruptionError: The text is no value of the column's type, or there is none.
    """
    if field.name not in values:
        msg = f"the log tells no value of partition column {field.name} for {shown(file)}"
        raise LogCorruptionError(msg)
    text = values[field.name]
    value = _value(text, field.type, zone)
    if value is None:
        msg = f"the log has {text!r} for partition column {field.name} of {shown(file)}, which is no {field.type}"
        raise LogCorruptionError(msg)
    return value


@lru_cache(maxsize=256)
def _value(text: str | None, kind: pa.DataType, zone: str) -> pa.Scalar | None:
    if text is None or text == "" or pa.types.is_null(kind):
        return pa.nulls(1, kind)[0]
    one = strings([text])
    if pa.types.is_binary(kind):
        return one.cast(pa.binary())[0]
    column = read_partition_column(one, kind)
    return None if column is None else in_zone(column, zone)[0]


def in_zone(column: PartitionColumn, zone: str) -> pa.Array:
    """Values of a partition column, of which timestamps without a zone are what clocks of a zone showed.

    Where they showed it twice, it is the earlier moment.
    """
    if column.zoneless is None or zone == "UTC":
        return column.values
    local = column.values.filter(column.zoneless)
    return pc.replace_with_mask(column.values, column.zoneless, _moments(local, zone))


def _moments(readings: pa.TimestampArray, zone: str) -> pa.TimestampArray:
    clock, micros = ZoneInfo(zone), np.where(to_numpy(readings.is_valid()), to_numpy(readings), 0)
    # Clocks are the same in all years before the first one that Python has, and after the last.
    near = np.clip(micros, _FIRST, _LAST)
    local = [(_EPOCH + dt.timedelta(microseconds=number)).replace(tzinfo=clock) for number in near.tolist()]
    ahead = np.array([(each.utcoffset() or dt.timedelta()) // _MICROSECOND for each in local], dtype=np.int64)
    return from_numpy(micros - ahead, to_numpy(readings.is_valid())).view(readings.type)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_FIRST = (dt.datetime(2, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND
_LAST = (dt.datetime(9998, 12, 31, tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND
