"""The table's schema: Arrow types from the JSON in metaData, column mapping, and the features that are supported.

With column mapping, everything in the log (partition values, statistics) and in the data files is under *physical*
names; users see *logical* ones. A `TableSchema` maps one to the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar.errors import InvalidMetadataError, UnsupportedFeatureError, UnsupportedProtocolVersionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.log.actions import Metadata, Protocol


ColumnPath = tuple[str, ...]

COLUMN_MAPPING_READER_VERSION = 2


@dataclass(frozen=True, slots=True)
class TableSchema:
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
    # Arrow type of every column that may have comparable bounds in the log, by its physical path.
    bounded_types: Mapping[ColumnPath, pa.DataType]
    # Physical paths of the columns of type `timestamp`, which are in UTC (`timestamp_ntz` is not).
    instants: frozenset[ColumnPath]
    # Changes of types, under type widening, that this reader does not know.
    unknown_changes: tuple[TypeChange, ...] = ()


def read_schema(metadata: Metadata, protocol: Protocol, table: str) -> TableSchema:
    """Reads the schema of a metaData action.

    Raises:
        InvalidMetadataError: The schema is not valid, or a partition column is not in it.
    """
    mode = _mapping_mode(metadata, protocol, table)
    try:
        root = json.loads(metadata.schema_string)
        walk = _Walk(mode)
        logical, physical = walk.struct(root, (), ())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        msg = f"the schema in metaData of {table} cannot be read: {error}"
        raise InvalidMetadataError(msg) from error
    partition_columns = tuple(_resolve(name, walk.names, table) for name in metadata.partition_columns)
    if mode == "none":
        # The log has partition values under the names in metaData, even if their case in the schema differs.
        walk.names |= {(name,): (raw,) for name, raw in zip(partition_columns, metadata.partition_columns, strict=True)}
    types = {physical: walk.types[path] for path, physical in walk.names.items()}
    incomparable = {walk.names[path] for path in walk.incomparable}
    return TableSchema(
        logical=pa.schema(list(logical)),
        physical=pa.schema(list(physical)),
        physical_names=walk.names,
        partition_columns=partition_columns,
        column_mapping=mode,
        incomparable=frozenset(walk.incomparable),
        physical_partition_columns=tuple(walk.names[(name,)][0] for name in partition_columns),
        bounded_types={
            path: kind for path, kind in types.items() if path not in incomparable and not pa.types.is_nested(kind)
        },
        instants=frozenset(path for path, kind in types.items() if kind == _PRIMITIVES["timestamp"]),
        unknown_changes=tuple(change for change in walk.changes if not change.is_known),
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
    def __init__(self, mode: str) -> None:
        self.mapped = mode != "none"
        self.by_id = mode == "id"
        self.names: dict[ColumnPath, ColumnPath] = {}
        self.types: dict[ColumnPath, pa.DataType] = {}
        self.incomparable: set[ColumnPath] = set()
        self.changes: list[TypeChange] = []

    def struct(
        self, node: Mapping[str, Any], logical: ColumnPath | None, physical: ColumnPath | None
    ) -> tuple[pa.StructType, pa.StructType]:
        pairs = [self._field(child, logical, physical) for child in node["fields"]]
        return pa.struct([pair[0] for pair in pairs]), pa.struct([pair[1] for pair in pairs])

    def _field(
        self, node: Mapping[str, Any], logical: ColumnPath | None, physical: ColumnPath | None
    ) -> tuple[pa.Field, pa.Field]:
        name = str(node["name"])
        metadata = node.get("metadata") or {}
        if isinstance(node["type"], str) and (collated := _COLLATED.fullmatch(node["type"])):
            metadata = {COLLATIONS: {name: collated[1]}, **metadata}
        other = str(metadata["delta.columnMapping.physicalName"]) if self.mapped else name
        inner_logical = None if logical is None else (*logical, name)
        inner_physical = None if physical is None else (*physical, other)
        if inner_logical is not None and inner_physical is not None:
            self.names[inner_logical] = inner_physical
            if COLLATIONS in metadata or TYPE_CHANGES in metadata:
                self.incomparable.add(inner_logical)
        self.changes.extend(type_changes(".".join(inner_logical or (name,)), metadata))
        kind, kind_physical, extra = self._type(node["type"], inner_logical, inner_physical)
        if inner_logical is not None:
            self.types[inner_logical] = kind
        kept = {str(key): json.dumps(value) for key, value in metadata.items()}
        if self.by_id or (self.mapped and "delta.columnMapping.id" in metadata):
            kept["PARQUET:field_id"] = str(metadata["delta.columnMapping.id"])
        # Arrow has no null type without nulls; such a column of the table is unreadable, its files are not.
        nullable = bool(node.get("nullable", True)) or pa.types.is_null(kind)
        kept |= extra
        return (
            pa.field(name, kind, nullable=nullable, metadata=kept or None),
            pa.field(other, kind_physical, nullable=nullable, metadata=kept or None),
        )

    def _type(
        self, node: object, logical: ColumnPath | None, physical: ColumnPath | None
    ) -> tuple[pa.DataType, pa.DataType, dict[str, str]]:
        if isinstance(node, str):
            known = _primitive(node)
            if known is None:
                return pa.null(), pa.null(), {UNKNOWN_TYPE.decode(): node}
            return known, known, {VARIANT_TYPE.decode(): node} if node == "variant" else {}
        if not isinstance(node, Mapping):
            msg = f"a type is neither a name nor an object: {node!r}"
            raise TypeError(msg)
        if node["type"] == "struct":
            return *self.struct(node, logical, physical), {}
        if node["type"] == "array":
            item, item_physical, extra = self._inner("element", node["elementType"])
            nullable = bool(node.get("containsNull", True)) or pa.types.is_null(item.type)
            return pa.list_(item.with_nullable(nullable)), pa.list_(item_physical.with_nullable(nullable)), extra
        if node["type"] == "map":
            key, key_physical, extra = self._inner("key", node["keyType"])
            value, value_physical, more = self._inner("value", node["valueType"])
            nullable = bool(node.get("valueContainsNull", True)) or pa.types.is_null(value.type)
            return (
                pa.map_(key.with_nullable(nullable=False), value.with_nullable(nullable)),
                pa.map_(key_physical.with_nullable(nullable=False), value_physical.with_nullable(nullable)),
                extra | more,
            )
        return self._type(str(node["type"]), logical, physical)

    def _inner(self, name: str, node: object) -> tuple[pa.Field, pa.Field, dict[str, str]]:
        """A field of a list or map, logical and physical, and metadata for the column around it."""
        kind, kind_physical, extra = self._type(node, None, None)
        own = {key: extra.pop(key) for key in (VARIANT_TYPE.decode(),) if key in extra} or None
        return pa.field(name, kind, metadata=own), pa.field(name, kind_physical, metadata=own), extra


def _primitive(name: str) -> pa.DataType | None:
    if name in _PRIMITIVES:
        return _PRIMITIVES[name]
    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if _CHARACTERS.fullmatch(name):
        return pa.string()
    return None


_PRIMITIVES = {
    "string": pa.string(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "integer": pa.int32(),
    "int": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
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

_HINTS = {
    "catalogManaged": "its newest commits are known to its catalog only; open it through the catalog",
    "catalogOwned": "its newest commits are known to its catalog only; open it through the catalog",
    "catalogOwned-preview": "its newest commits are known to its catalog only; open it through the catalog",
}


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
        hints = "; ".join(_HINTS[name] for name in unknown if name in _HINTS)
        msg = (
            f"{table} uses reader features that are not supported: {', '.join(unknown)}. "
            f"{hints[:1].upper() + hints[1:] if hints else 'Upgrade delta-sidecar, or read it with its own writer'}."
        )
        raise UnsupportedFeatureError(msg, unknown)


# Type widening: a column becomes wider while its older files stay as they are. The schema keeps each change in the
# field's `delta.typeChanges`, so a reader finds a change that it does not know before it reads a row.


TYPE_CHANGES = "delta.typeChanges"

_INTEGERS = ("byte", "short", "integer", "long")
# The fewest digits before the point that hold every value of an integer.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}


@dataclass(frozen=True, slots=True)
class TypeChange:
    """One change of a column's type."""

    column: str  # with the path to the part of it that changed
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.column} from {self.before} to {self.after}"

    @property
    def is_known(self) -> bool:
        """True if every value of the old type is a value of the new one."""
        before, after = self.before, self.after
        if before == after:
            return True
        if before in _INTEGERS and after in _INTEGERS:
            return _INTEGERS.index(before) < _INTEGERS.index(after)
        if after == "double":
            return before in ("float", "byte", "short", "integer")
        if (before, after) == ("date", "timestamp_ntz"):
            return True
        wider = _decimal(after)
        narrower = (_DIGITS[before], 0) if before in _DIGITS else _decimal(before)
        if wider is None or narrower is None:
            return False
        more_digits, more_scale = wider[0] - narrower[0], wider[1] - narrower[1]
        return more_digits >= more_scale >= 0


def type_changes(column: str, metadata: Mapping[str, Any]) -> Iterator[TypeChange]:
    """The type changes in a field's metadata.

    Raises:
        KeyError: A change is malformed; also ValueError, TypeError and AttributeError.
    """
    for change in metadata.get(TYPE_CHANGES) or ():
        inside = change.get("fieldPath")
        name = f"{column}.{inside}" if inside else column
        yield TypeChange(name, _name(change["fromType"]), _name(change["toType"]))


def _name(kind: object) -> str:
    return {"int": "integer", "bigint": "long"}.get(str(kind), str(kind))


def _decimal(kind: str) -> tuple[int, int] | None:
    if kind == "decimal":
        return 10, 0
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]), int(found[2])) if found else None
