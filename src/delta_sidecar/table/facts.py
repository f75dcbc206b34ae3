"""Schema, protocol and metadata of a table, under the names of deltalake."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from delta_sidecar.table.writing import deltalake_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
        protocol = snapshot.protocol
        writer, reader = protocol.writer_features, protocol.reader_features
        return cls(
            protocol.min_reader_version,
            protocol.min_writer_version,
            list(writer) if writer else None,
            list(reader) if reader else None,
        )


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """Identity, partitioning and properties of a table.

    Attributes:
        id: The table's identifier.
        name: The name that its users gave it.
        description: Likewise.
        partition_columns: Names of its partition columns.
        created_time: When this metadata was made, in milliseconds since the epoch.
        configuration: The table's properties.
    """

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int | None
    configuration: Mapping[str, str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableMetadata:
        """The metadata in force."""
        metadata = snapshot.metadata
        return cls(
            metadata.id,
            metadata.name,
            metadata.description,
            list(snapshot.partition_columns),
            metadata.created_time,
            dict(metadata.configuration),
        )


def schema_of(snapshot: Snapshot) -> Any:  # noqa: ANN401 - a class that may not be there
    """The schema in force, as a `Schema` of deltalake if that can be made, else as a `DeltaSchema`.

    deltalake accepts its own objects only, and only those are equal to its own both ways.
    """
    text = snapshot.metadata.schema_string
    try:
        return deltalake_module().Schema.from_json(text)
    except (ImportError, ValueError):
        # It is not installed, or does not know a type.
        return DeltaSchema(snapshot.schema, text)


@dataclass(frozen=True, slots=True)
class DeltaType:
    """A type of the table's schema, under the names of deltalake.

    Attributes:
        node: A name such as `long`, or an object of the schema's JSON.
        arrow: As an Arrow type.
    """

    node: str | Mapping[str, Any]
    arrow: pa.DataType = field(compare=False)

    @property
    def type(self) -> str:
        """Its name: that of a primitive type, or `struct`, `array` or `map`."""
        return self.node if isinstance(self.node, str) else str(self.node["type"])

    @property
    def fields(self) -> list[DeltaField]:
        """The fields of a struct."""
        return _fields(self._member("fields"), self.arrow)

    @property
    def element_type(self) -> DeltaType:
        """The type of an array's elements."""
        return DeltaType(self._member("elementType"), self.arrow.value_type)

    @property
    def contains_null(self) -> bool:
        """True if an array's elements may be null."""
        return bool(self._member("containsNull"))

    @property
    def key_type(self) -> DeltaType:
        """The type of a map's keys."""
        return DeltaType(self._member("keyType"), self.arrow.key_type)

    @property
    def value_type(self) -> DeltaType:
        """The type of a map's values."""
        return DeltaType(self._member("valueType"), self.arrow.item_type)

    @property
    def value_contains_null(self) -> bool:
        """True if a map's values may be null."""
        return bool(self._member("valueContainsNull"))

    def to_arrow(self) -> pa.DataType:
        """The type of pyarrow."""
        return self.arrow

    def to_json(self) -> str:
        """The JSON that the log has."""
        return json.dumps(self.node, separators=(",", ":"))

    def _member(self, name: str) -> Any:  # noqa: ANN401 - any value of JSON
        if isinstance(self.node, str) or name not in self.node:
            msg = f"the type {self.type} has no {name}"
            raise AttributeError(msg)
        return self.node[name]


@dataclass(frozen=True, slots=True)
class DeltaField:
    """A column of the table's schema.

    Attributes:
        node: Its object of the schema's JSON.
        arrow: As an Arrow field.
    """

    node: Mapping[str, Any]
    arrow: pa.Field = field(compare=False)

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

    def to_arrow(self) -> pa.Field:
        """The field of pyarrow."""
        return self.arrow

    def to_json(self) -> str:
        """The JSON that the log has."""
        return json.dumps(self.node, separators=(",", ":"))

    def __arrow_c_schema__(self) -> object:
        return self.arrow.__arrow_c_schema__()


def _fields(nodes: list[Mapping[str, Any]], arrow: Iterable[pa.Field]) -> list[DeltaField]:
    return list(map(DeltaField, nodes, arrow))


@dataclass(frozen=True, slots=True, eq=False)
class DeltaSchema:
    """A table's schema under the names of deltalake, if that is not installed or does not know a type.

    Two are equal if their columns are, with all their metadata.

    Attributes:
        arrow: As an Arrow schema, under the names that users see.
        text: As the JSON in the log.
    """

    arrow: pa.Schema
    text: str
    type: ClassVar[str] = "struct"

    @property
    def fields(self) -> list[DeltaField]:
        """Its columns, in order."""
        return _fields(self.json()["fields"], self.arrow)

    def to_arrow(self, as_large_types: bool = False) -> pa.Schema:  # noqa: FBT001, FBT002 - as deltalake has it
        """The schema of pyarrow.

        Args:
            as_large_types: Whether texts, bytes and lists are of the types with offsets of 64 bits.
        """
        return pa.schema([_large_field(field) for field in self.arrow]) if as_large_types else self.arrow

    def to_json(self) -> str:
        """The JSON text that the log has."""
        return self.text

    def json(self) -> dict[str, Any]:
        """The JSON of the log as Python values."""
        root: dict[str, Any] = json.loads(self.text)
        return root

    def __arrow_c_schema__(self) -> object:
        return self.arrow.__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        return self.json() == other.json() if isinstance(other, DeltaSchema) else NotImplemented

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
