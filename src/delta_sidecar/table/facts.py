"""Schema, protocol and metadata of a table, under the names of deltalake."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from delta_sidecar.table.writing import deltalake_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.replay.snapshot import Snapshot


class ProtocolVersions(NamedTuple):
    """The features that a client must implement to read or write the table."""

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> ProtocolVersions:
        """The protocol in force."""
        found = snapshot.protocol
        features = (list(names) if names else None for names in (found.writer_features, found.reader_features))
        return cls(found.min_reader_version, found.min_writer_version, *features)


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """Identity, partitioning and properties of a table."""

    id: str  # the table's identifier
    name: str | None  # the name that its users gave it
    description: str | None  # likewise
    partition_columns: list[str]  # names of its partition columns
    created_time: int | None  # when this metadata was made, in milliseconds since the epoch
    configuration: Mapping[str, str]  # the table's properties

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableMetadata:
        """The metadata in force."""
        found, columns = snapshot.metadata, list(snapshot.partition_columns)
        return cls(found.id, found.name, found.description, columns, found.created_time, dict(found.configuration))


def schema_of(snapshot: Snapshot) -> Any:  # noqa: ANN401 - a class that may not be there
    """The schema in force, as a `Schema` of deltalake if that can be made, else as a `DeltaSchema`.

    deltalake accepts its own objects only, and only those are equal to its own both ways.
    """
    text = snapshot.metadata.schema_string
    try:
        return deltalake_module().Schema.from_json(text)
    except (ImportError, ValueError):
        # It is not installed, or does not know a type.
        return DeltaSchema(json.loads(text), snapshot.schema, text)


@dataclass(frozen=True, slots=True)
class _SchemaPart:
    node: Any  # of the schema's JSON
    arrow: Any = field(compare=False)

    def to_arrow(self) -> Any:  # noqa: ANN401 - a schema, a field or a type
        """The same in pyarrow."""
        return self.arrow

    def to_json(self) -> str:
        """Its JSON in the log."""
        return json.dumps(self.node, separators=(",", ":"))


class DeltaType(_SchemaPart):
    """A type of the table's schema, under the names of deltalake.

    A struct has `fields`; an array `element_type` and `contains_null`; a map `key_type`, `value_type` and
    `value_contains_null`.
    """

    __slots__ = ()

    @property
    def type(self) -> str:
        """Its name: that of a primitive type, or `struct`, `array` or `map`."""
        return self.node if isinstance(self.node, str) else str(self.node["type"])

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of a type with parts
        if name not in _MEMBERS:
            msg = f"{type(self).__name__!r} has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=self)
        member, inner = _MEMBERS[name]
        if isinstance(self.node, str) or member not in self.node:
            msg = f"the type {self.type} has no {name}"
            raise AttributeError(msg, name=name, obj=self)
        found = self.node[member]
        if member == "fields":
            return list(map(DeltaField, found, self.arrow))
        return DeltaType(found, getattr(self.arrow, inner)) if inner else bool(found)


# By the name in deltalake: the name in the schema's JSON, and that of a type inside in pyarrow.
_MEMBERS = {
    "fields": ("fields", ""),
    "element_type": ("elementType", "value_type"),
    "contains_null": ("containsNull", ""),
    "key_type": ("keyType", "key_type"),
    "value_type": ("valueType", "item_type"),
    "value_contains_null": ("valueContainsNull", ""),
}


class DeltaField(_SchemaPart):
    """A column of the table's schema, under the names of deltalake."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.node["name"])

    @property
    def type(self) -> DeltaType:
        """Its type."""
        return DeltaType(self.node["type"], self.arrow.type)

    @property
    def nullable(self) -> bool:
        """True if it may be null."""
        return bool(self.node.get("nullable", True))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata in the schema."""
        return self.node.get("metadata") or {}

    def __arrow_c_schema__(self) -> object:
        return self.arrow.__arrow_c_schema__()


@dataclass(frozen=True, slots=True)
class DeltaSchema(DeltaType):
    """A table's schema under the names of deltalake, if that is not installed or does not know a type.

    Two are equal if their columns are, with all their metadata.
    """

    text: str = field(default="", compare=False, repr=False)  # as the log has it

    def to_json(self) -> str:
        """The JSON of the log."""
        return self.text or _SchemaPart.to_json(self)

    def to_arrow(self, as_large_types: bool = False) -> pa.Schema:  # noqa: FBT001, FBT002 - as deltalake has it
        """The schema of pyarrow, under the names that users see.

        Args:
            as_large_types: Whether texts, bytes and lists are of the types with offsets of 64 bits.
        """
        return pa.schema([_large_field(field) for field in self.arrow]) if as_large_types else self.arrow

    def json(self) -> dict[str, Any]:
        """The JSON of the log as Python values."""
        return deepcopy(self.node)

    def __arrow_c_schema__(self) -> object:
        return self.arrow.__arrow_c_schema__()

    def __hash__(self) -> int:
        return hash(tuple(self.arrow.names))


def _large_field(field: pa.Field) -> pa.Field:
    return field.with_type(_large(field.type))


def _large(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.large_list(_large_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_large_field(kind.key_field), _large_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_large_field(field) for field in kind])
    return kind
