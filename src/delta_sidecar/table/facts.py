"""What a table says of itself, under the names that deltalake has for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.replay.snapshot import Snapshot


class ProtocolVersions(NamedTuple):
    """What a client must implement to read or write the table."""

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


@dataclass(frozen=True, slots=True)
class DeltaField:
    """A column as the table's schema has it.

    Attributes:
        name: Its name.
        type: Its Delta type: a name such as `long`, or an object of the schema's JSON.
        nullable: Whether it may be null.
        metadata: The schema's notes on it.
    """

    name: str
    type: str | Mapping[str, Any]
    nullable: bool
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class DeltaSchema:
    """A table's schema. Two are equal where their columns are, with all that the log notes of them.

    Attributes:
        arrow: As an Arrow schema, under the names that users see.
        text: As the JSON in the log.
    """

    arrow: pa.Schema
    text: str
    type: ClassVar[str] = "struct"

    @classmethod
    def of(cls, snapshot: Snapshot) -> DeltaSchema:
        """The schema in force."""
        return cls(snapshot.schema, snapshot.metadata.schema_string)

    @property
    def fields(self) -> list[DeltaField]:
        """Its columns, in order."""
        return [
            DeltaField(node["name"], node["type"], node.get("nullable", True), node.get("metadata") or {})
            for node in self.json()["fields"]
        ]

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
