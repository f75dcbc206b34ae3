"""The table's schema: Arrow types from the JSON in metaData, column mapping, and the features that are supported.

With column mapping, everything in the log (partition values, statistics) and in the data files is under *physical*
names; users see *logical* ones. A `TableSchema` maps one to the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from delta_sidecar.errors import InvalidMetadataError, UnsupportedFeatureError, UnsupportedProtocolVersionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.log.actions import Metadata, Protocol


ColumnPath = tuple[str, ...]

COLUMN_MAPPING_READER_VERSION = 2


class TableSchema(Struct, frozen=True):
    """A table's columns."""

    # Arrow schema under the names that users see. A field's Delta metadata is kept as Arrow metadata.
    logical: pa.Schema
    physical: pa.Schema  # the same fields under the names in data files and statistics
    # Physical path of every struct field that is no array element or map entry, by logical path.
    physical_names: Mapping[ColumnPath, ColumnPath]
    partition_columns: tuple[str, ...]  # logical names of the partition columns, in order
    column_mapping: str  # `none`, `name` or `id`
    # Logical paths of columns whose bounds in the log cannot be compared with a value of the column: those with a
    # collation (another order than that of bytes), and those whose type has changed (the bounds of older files
    # were rounded as the old type).
    incomparable: frozenset[ColumnPath]
    physical_partition_columns: tuple[str, ...]  # names of the partition columns as the log has them
    types: Mapping[ColumnPath, pa.DataType]  # of those struct fields, by physical path
    # Arrow type of every column that may have comparable bounds in the log, by its physical path.
    bounded_types: Mapping[ColumnPath, pa.DataType]
    # Physical paths of the columns of type `timestamp`, which are in UTC (`timestamp_ntz` is not).
    instants: frozenset[ColumnPath]
    # Changes of types, under type widening, that this reader does not know: column, old and new type.
    unknown_changes: tuple[str, ...] = ()


def read_schema(metadata: Metadata, protocol: Protocol, table: str) -> TableSchema:
    """Reads the schema of a metaData action.

    Raises:
        InvalidMetadataError: The schema is not valid, or a partition column is not in it.
    """
    mode = _mapping_mode(metadata, protocol, table)
    try:
        root = json.loads(metadata.schema_string)
        walk = _Walk(mode)
        logical = physical = walk.struct(root, ())
        names = dict(zip(walk.paths, walk.paths, strict=True))
        if mode != "none":
            mapped = _Walk(mode, "delta.columnMapping.physicalName")
            physical = mapped.struct(root, ())
            names = dict(zip(walk.paths, mapped.paths, strict=True))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        msg = f"the schema in metaData of {table} cannot be read: {error}"
        raise InvalidMetadataError(msg) from error
    partition_columns = tuple(_resolve(name, names, table) for name in metadata.partition_columns)
    if mode == "none":
        # The log has partition values under the names in metaData, even if their case in the schema differs.
        names |= {(name,): (raw,) for name, raw in zip(partition_columns, metadata.partition_columns, strict=True)}
    types = {physical: walk.types[path] for path, physical in names.items()}
    incomparable = {names[path] for path in walk.incomparable}
    return TableSchema(
        logical=pa.schema(list(logical)),
        physical=pa.schema(list(physical)),
        physical_names=names,
        partition_columns=partition_columns,
        column_mapping=mode,
        incomparable=frozenset(walk.incomparable),
        physical_partition_columns=tuple(names[(name,)][0] for name in partition_columns),
        types=types,
        bounded_types={
            path: kind for path, kind in types.items() if path not in incomparable and not pa.types.is_nested(kind)
        },
        instants=frozenset(path for path, kind in types.items() if kind == _PRIMITIVES["timestamp"]),
        unknown_changes=tuple(walk.unknown_changes),
    )


def type_at(schema: pa.Schema, path: ColumnPath) -> pa.DataType:
    """The type of a column, or of a field of a struct."""
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


UNKNOWN_TYPE = b"delta.unknownType"
"""Key in a field's Arrow metadata: the name of a Delta type without an Arrow type."""

COLLATIONS = "__COLLATIONS"
"""Key in a field's metadata: the collations of its texts."""

VARIANT_TYPE = b"delta.variantType"
"""Key in the Arrow metadata of a variant; inside lists and maps it is at their own fields."""


class _Walk:
    """Reads the schema under one kind of names."""

    def __init__(self, mode: str, name_key: str | None = None) -> None:
        self.mode = mode
        self.name_key = name_key  # of the metadata of a field, where its name is not the one that users see
        # Paths of the struct fields that are no array element or map entry; those of two walks are in one order.
        self.paths: list[ColumnPath] = []
        self.types: dict[ColumnPath, pa.DataType] = {}
        self.incomparable: set[ColumnPath] = set()
        self.unknown_changes: list[str] = []

    def struct(self, node: Mapping[str, Any], path: ColumnPath | None) -> pa.StructType:
        return pa.struct([self._field(child, path) for child in node["fields"]])

    def _field(self, node: Mapping[str, Any], above: ColumnPath | None) -> pa.Field:
        name = str(node["name"])
        metadata = node.get("metadata") or {}
        if isinstance(node["type"], str) and (collated := _COLLATED.fullmatch(node["type"])):
            metadata = {COLLATIONS: {name: collated[1]}, **metadata}
        name = name if self.name_key is None else str(metadata[self.name_key])
        path = None if above is None else (*above, name)
        if path is not None:
            self.paths.append(path)
            if COLLATIONS in metadata or TYPE_CHANGES in metadata:
                self.incomparable.add(path)
        self.unknown_changes.extend(_unknown_changes(".".join(path or (name,)), metadata))
        kind, extra = self._type(node["type"], path)
        if path is not None:
            self.types[path] = kind
        kept = {str(key): json.dumps(value) for key, value in metadata.items()}
        if self.mode == "id" or (self.mode == "name" and "delta.columnMapping.id" in metadata):
            kept["PARQUET:field_id"] = str(metadata["delta.columnMapping.id"])
        # Arrow has no null type without nulls; such a column of the table is unreadable, its files are not.
        nullable = bool(node.get("nullable", True)) or pa.types.is_null(kind)
        return pa.field(name, kind, nullable=nullable, metadata=(kept | extra) or None)

    def _type(self, node: object, path: ColumnPath | None) -> tuple[pa.DataType, dict[str, str]]:
        """A type, and metadata for the column of it."""
        if isinstance(node, str):
            known = _primitive(node)
            if known is None:
                return pa.null(), {UNKNOWN_TYPE.decode(): node}
            return known, {VARIANT_TYPE.decode(): node} if node == "variant" else {}
        if not isinstance(node, Mapping):
            msg = f"a type is neither a name nor an object: {node!r}"
            raise TypeError(msg)
        if node["type"] == "struct":
            return self.struct(node, path), {}
        if node["type"] == "array":
            item, extra = self._inner("element", node["elementType"], nullable=node.get("containsNull", True))
            return pa.list_(item), extra
        if node["type"] == "map":
            key, extra = self._inner("key", node["keyType"], nullable=False)
            value, more = self._inner("value", node["valueType"], nullable=node.get("valueContainsNull", True))
            # The key of a map is never null, whatever its type.
            return pa.map_(key.with_nullable(nullable=False), value), extra | more
        return self._type(str(node["type"]), path)

    def _inner(self, name: str, node: object, *, nullable: object) -> tuple[pa.Field, dict[str, str]]:
        """A field of a list or map, and metadata for the column around it."""
        kind, extra = self._type(node, None)
        own = {key: extra.pop(key) for key in (VARIANT_TYPE.decode(),) if key in extra} or None
        return pa.field(name, kind, nullable=bool(nullable) or pa.types.is_null(kind), metadata=own), extra


def _primitive(name: str) -> pa.DataType | None:
    if name in _PRIMITIVES:
        return _PRIMITIVES[name]
    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if _CHARACTERS.fullmatch(name):
        return pa.string()
    return None


NAMED_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""The types of columns by their names in a schema, but for decimals and those that have no bounds."""

_PRIMITIVES = NAMED_TYPES | {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "void": pa.null(),
    "null": pa.null(),
    "decimal": pa.decimal128(10, 0),
    "variant": pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())]),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_COLLATED = re.compile(r"string collate (.*)")
_CHARACTERS = re.compile(rf"(var)?char\(\d+\)|{_COLLATED.pattern}")


def _mapping_mode(metadata: Metadata, protocol: Protocol, table: str) -> str:
    mode = metadata.configuration.get("delta.columnMapping.mode", "none").lower()
    if mode not in ("none", "name", "id"):
        msg = f"{table} has an unknown delta.columnMapping.mode: {mode!r}; known are none, name and id"
        raise InvalidMetadataError(msg)
    if protocol.min_reader_version == COLUMN_MAPPING_READER_VERSION:
        return mode
    return mode if "columnMapping" in (protocol.reader_features or ()) else "none"


def _resolve(name: str, names: Mapping[ColumnPath, ColumnPath], table: str) -> str:
    if (name,) in names:
        return name
    folded = [path[0] for path in names if len(path) == 1 and path[0].lower() == name.lower()]
    if len(folded) == 1:
        return folded[0]
    msg = f"partition column {name!r} of {table} is not in the table's schema"
    raise InvalidMetadataError(msg)


# Supported protocol versions and reader features.


MAX_READER_VERSION = 3
TABLE_FEATURES_READER_VERSION = 3

READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)

_OF_CATALOGS = {"catalogManaged", "catalogOwned", "catalogOwned-preview"}


def check_readable(protocol: Protocol, table: str) -> None:
    """Refuses a table with an unknown reader version or reader feature.

    Raises:
        UnsupportedProtocolVersionError: The reader version is unknown.
        UnsupportedFeatureError: A reader feature is unknown; the error names it.
    """
    if protocol.min_reader_version > MAX_READER_VERSION:
        msg = (
            f"{table} needs a reader of protocol version {protocol.min_reader_version}; "
            f"this one reads up to {MAX_READER_VERSION}. Upgrade delta-sidecar."
        )
        raise UnsupportedProtocolVersionError(msg)
    if protocol.min_reader_version < TABLE_FEATURES_READER_VERSION:
        return
    unknown = tuple(sorted(set(protocol.reader_features or ()) - READER_FEATURES))
    if unknown:
        hint = "Upgrade delta-sidecar, or read it with its own writer."
        if _OF_CATALOGS.intersection(unknown):
            hint = "Its newest commits are known to its catalog only; open it through the catalog."
        msg = f"{table} uses reader features that are not supported: {', '.join(unknown)}. {hint}"
        raise UnsupportedFeatureError(msg, unknown)


# Type widening: a column becomes wider while its older files stay as they are. The schema keeps each change in the
# field's `delta.typeChanges`, so a reader finds a change that it does not know before it reads a row.


TYPE_CHANGES = "delta.typeChanges"

# The fewest digits before the point that hold every value of an integer.
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}


def _unknown_changes(column: str, metadata: Mapping[str, Any]) -> Iterator[str]:
    for change in metadata.get(TYPE_CHANGES) or ():
        name = f"{column}.{change['fieldPath']}" if change.get("fieldPath") else column
        before, after = str(change["fromType"]), str(change["toType"])
        old, new = _primitive(before), _primitive(after)
        if before != after and (old is None or new is None or not _is_wider(old, new)):
            yield f"{name} from {before} to {after}"


def _is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """True if every value of the old type is a value of the new one."""
    if old in _DIGITS and new in _DIGITS:
        return _DIGITS[old] <= _DIGITS[new]
    if new == pa.float64():
        return old in (pa.float32(), pa.int8(), pa.int16(), pa.int32())
    if not pa.types.is_decimal(new) or not (old in _DIGITS or pa.types.is_decimal(old)):
        return (old, new) == (pa.date32(), pa.timestamp("us"))
    digits, scale = (_DIGITS[old], 0) if old in _DIGITS else (old.precision, old.scale)
    return bool(new.precision - digits >= new.scale - scale >= 0)
