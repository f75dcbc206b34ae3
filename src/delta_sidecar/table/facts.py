"""What a table says of itself, under the names that deltalake has for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

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
            None if writer is None else list(writer),
            None if reader is None else list(reader),
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


@dataclass(frozen=True, slots=True)
class DeltaSchema:
    """A table's schema.

    Attributes:
        arrow: As an Arrow schema, under the names that users see.
        text: As the JSON in the log.
    """

    arrow: pa.Schema
    text: str

    @classmethod
    def of(cls, snapshot: Snapshot) -> DeltaSchema:
        """The schema in force."""
        return cls(snapshot.schema, snapshot.metadata.schema_string)

    @property
    def fields(self) -> list[DeltaField]:
        """Its columns, in order."""
        return [
            DeltaField(node["name"], node["type"], node.get("nullable", True), node.get("metadata") or {})
            for node in json.loads(self.text)["fields"]
        ]

    def to_arrow(self) -> pa.Schema:
        """The schema of pyarrow."""
        return self.arrow

    def to_json(self) -> str:
        """The JSON text that the log has."""
        return self.text

    def __arrow_c_schema__(self) -> object:
        return self.arrow.__arrow_c_schema__()
