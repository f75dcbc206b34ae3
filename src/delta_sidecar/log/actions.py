"""The actions of a commit or checkpoint: protocol and metaData as values, add and remove as Arrow schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from delta_sidecar.errors import InvalidMetadataError

DELETION_VECTOR = pa.struct(
    [
        pa.field("storageType", pa.string()),
        pa.field("pathOrInlineDv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
    ]
)

_KEY = pa.struct([pa.field("path", pa.string()), pa.field("deletionVector", DELETION_VECTOR)])


@dataclass(frozen=True, slots=True)
class Protocol:
    """The `protocol` action: what a client must implement to read or write the table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @classmethod
    def from_action(cls, action: object, source: str) -> Protocol:
        """Reads the action's fields.

        Raises:
            InvalidMetadataError: A field is missing or has the wrong type; the message names `source`.
        """
        fields = _mapping(action, "protocol", source)
        reader, writer = fields.get("minReaderVersion"), fields.get("minWriterVersion")
        if not isinstance(reader, int) or not isinstance(writer, int | None):
            msg = f"protocol in {source} has no whole number as minReaderVersion: {reader!r}"
            raise InvalidMetadataError(msg)
        return cls(
            min_reader_version=reader,
            min_writer_version=writer or 0,
            reader_features=_names(fields.get("readerFeatures")),
            writer_features=_names(fields.get("writerFeatures")),
        )

    def to_action(self) -> dict[str, Any]:
        """The action's fields, as a commit has them."""
        fields: dict[str, Any] = {"minReaderVersion": self.min_reader_version}
        fields["minWriterVersion"] = self.min_writer_version
        features = {"readerFeatures": self.reader_features, "writerFeatures": self.writer_features}
        return fields | {name: list(names) for name, names in features.items() if names is not None}


@dataclass(frozen=True, slots=True)
class Metadata:
    """The `metaData` action: identity, schema, partitioning and properties of the table."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str | None = None
    description: str | None = None
    format_provider: str = "parquet"
    created_time: int | None = None

    @classmethod
    def from_action(cls, action: object, source: str) -> Metadata:
        """Reads the action's fields.

        Raises:
            InvalidMetadataError: A field is missing or has the wrong type; the message names `source`.
        """
        fields = _mapping(action, "metaData", source)
        schema = fields.get("schemaString")
        if not isinstance(schema, str):
            msg = f"metaData in {source} has no schemaString; the protocol requires one, so its columns are unknown"
            raise InvalidMetadataError(msg)
        provider = _pairs(fields.get("format"), source).get("provider") or "parquet"
        if provider != "parquet":
            msg = f"metaData in {source} says that data files are {provider!r}; only parquet can be read"
            raise InvalidMetadataError(msg)
        return cls(
            id=str(fields.get("id") or ""),
            schema_string=schema,
            partition_columns=_names(fields.get("partitionColumns")) or (),
            configuration={str(k): v for k, v in _pairs(fields.get("configuration"), source).items() if v is not None},
            name=fields.get("name"),
            description=fields.get("description"),
            format_provider=provider,
            created_time=fields.get("createdTime"),
        )

    def to_action(self) -> dict[str, Any]:
        """The action's fields, as a commit has them."""
        told = {"name": self.name, "description": self.description, "createdTime": self.created_time}
        return {
            "id": self.id,
            **{name: value for name, value in told.items() if value is not None},
            "format": {"provider": self.format_provider, "options": {}},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
        }


def commit_schema(partition_columns: tuple[str, ...] = ()) -> pa.Schema:
    """What a replay reads of a commit's lines; `partition_columns` are physical names."""
    add = [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("stats", pa.string()),
        # Which tags there are is in the text of a line: here only that they are an object.
        pa.field("tags", pa.struct([])),
        pa.field("deletionVector", DELETION_VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
        pa.field("clusteringProvider", pa.string()),
    ]
    if partition_columns:
        values = pa.struct([pa.field(name, pa.string()) for name in partition_columns])
        add.append(pa.field("partitionValues", values))
    return pa.schema([pa.field("add", pa.struct(add)), pa.field("remove", _KEY)])


KEYS_SCHEMA = pa.schema([pa.field("add", _KEY), pa.field("remove", _KEY)])
"""What is read of a commit where only the keys of its actions are wanted."""

TABLE_SCHEMA = pa.schema(
    [
        pa.field("protocol", pa.struct([pa.field("minReaderVersion", pa.int32())])),
        pa.field("metaData", pa.struct([pa.field("id", pa.string())])),
    ]
)
"""What is read of a commit to find its lines with protocol and metaData."""

TOP_SCHEMA = pa.schema(
    [
        *TABLE_SCHEMA,
        pa.field("sidecar", pa.struct([pa.field("path", pa.string()), pa.field("sizeInBytes", pa.int64())])),
    ]
)
"""What is read of the top file of a checkpoint in JSON."""


def line_action(line: str, name: str, source: str) -> object:
    """The action of a name in one line of a commit.

    Raises:
        InvalidMetadataError: The line is no JSON object.
    """
    try:
        return json.loads(line)[name]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"a line of {source} with {name} is not a JSON object: {error}"
        raise InvalidMetadataError(msg) from error


def _mapping(action: object, name: str, source: str) -> dict[str, Any]:
    if not isinstance(action, Mapping):
        msg = f"{name} in {source} is not an object"
        raise InvalidMetadataError(msg)
    return dict(action)


def _pairs(value: object, source: str) -> dict[str, Any]:
    """A map as JSON gives it (an object) or as Arrow gives it (a list of pairs)."""
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return dict(value) if isinstance(value, list) else {}
    except (TypeError, ValueError) as error:
        msg = f"metaData in {source} has a list where an object should be"
        raise InvalidMetadataError(msg) from error


def _names(value: object) -> tuple[str, ...] | None:
    return tuple(str(name) for name in value) if isinstance(value, list | tuple) else None
