"""The actions of a commit or checkpoint: `protocol` and `metaData` as values, `add` and `remove` as Arrow schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from msgspec import Struct

from delta_sidecar.errors import InvalidMetadataError

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)


class AddField(NamedTuple):
    """A field of the `add` action, and the column of a batch of files that is made of it."""

    name: str  # in the log
    column: str  # in a batch of files
    type: pa.DataType  # of the column
    piece: Literal["index", "statistics"] | None = None  # of a metadata sidecar, where the column stands there as it is
    optional: bool = True  # a scan can do without it


_TEXTS = pa.map_(pa.string(), pa.string())

ADD_FIELDS = (
    AddField("path", "path", pa.string(), optional=False),
    AddField("size", "size", pa.int64(), "index"),
    AddField("modificationTime", "modification_time", pa.int64(), "index"),
    AddField("partitionValues", "partition_values", _TEXTS, optional=False),
    AddField("stats", "stats", pa.string()),
    AddField("deletionVector", "deletion_vector", DELETION_VECTOR, optional=False),
    AddField("tags", "tags", pa.string(), "statistics"),
    AddField("baseRowId", "base_row_id", pa.int64(), "statistics"),
    AddField("defaultRowCommitVersion", "default_row_commit_version", pa.int64(), "statistics"),
    AddField("clusteringProvider", "clustering_provider", pa.string(), "statistics"),
)
"""The fields of `add` that are read: every other list of them is made from this one.

`modificationTime` is in milliseconds; `stats` is a JSON text, and so is the column of `tags`. Besides the decoded path
a batch of files has the path as the log writes it, in `raw_path`.
"""

ADD_SCHEMA = pa.schema([pa.field(each.name, _TEXTS if each.name == "tags" else each.type) for each in ADD_FIELDS])
"""The fields of `add` as Delta's own checkpoints have them."""

KEY = pa.struct([("path", pa.string()), ("deletionVector", DELETION_VECTOR)])
"""The fields of `add` and `remove` that make up the key of a file."""


class Protocol(Struct, frozen=True):
    """The `protocol` action: the features that a client must implement to read or write the table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @classmethod
    def from_action(cls, action: object, source: str) -> Protocol:
        """Reads a `protocol`; an `InvalidMetadataError` names the source."""
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
        fields = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
            "readerFeatures": self.reader_features,
            "writerFeatures": self.writer_features,
        }
        return _present(fields)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The `metaData` action: identity, schema, partitioning and properties of the table."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str | None = None
    description: str | None = None
    created_time: int | None = None

    @classmethod
    def from_action(cls, action: object, source: str) -> Metadata:
        """Reads a `metaData`; an `InvalidMetadataError` names the source."""
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
            created_time=fields.get("createdTime"),
        )

    def to_action(self) -> dict[str, Any]:
        """The action's fields, as a commit has them."""
        fields = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "createdTime": self.created_time,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": self.schema_string,
            "partitionColumns": self.partition_columns,
            "configuration": dict(self.configuration),
        }
        return _present(fields)


KEYS_SCHEMA = pa.schema({"add": KEY, "remove": KEY})
"""The fields of a commit that make up the keys of its actions."""

TABLE_SCHEMA = pa.schema(
    {"protocol": pa.struct([("minReaderVersion", pa.int32())]), "metaData": pa.struct([("id", pa.string())])}
)
"""Fields that tell the lines with `protocol` and `metaData` from others."""

TOP_SCHEMA = TABLE_SCHEMA.append(pa.field("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())])))
"""Fields of the top file of a checkpoint in JSON."""


def line_action(line: str, name: str, source: str) -> object:
    """Parses one action out of a line; raises `InvalidMetadataError` if the line is no JSON object."""
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
    # JSON has an object for a map, Arrow a list of pairs.
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return dict(value) if isinstance(value, list) else {}
    except (TypeError, ValueError) as error:
        msg = f"metaData in {source} has a list where an object should be"
        raise InvalidMetadataError(msg) from error


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    lists = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return {name: value for name, value in lists.items() if value is not None}


def _names(value: object) -> tuple[str, ...] | None:
    return tuple(str(name) for name in value) if isinstance(value, list | tuple) else None
