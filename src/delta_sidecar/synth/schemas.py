"""The schemas of a telemetry table: its own, as Delta's JSON, and its checkpoints', as Arrow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from delta_sidecar.log.actions import DELETION_VECTOR

BUCKET_COLUMN = "_event_hour"
STAT_TYPES = {
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "double": pa.float64(),
    "long": pa.int64(),
}
_NAMED_COLUMNS = 6
_DEFAULT_INDEXED_COLUMNS = 32


@dataclass(frozen=True, slots=True)
class StatColumn:
    """A column and the range of its statistics."""

    name: str
    delta_type: str
    width: int  # digits of a value's text
    low: int  # the least minimum of a file
    high: int  # the least maximum of a file
    spread: int  # how far minima and maxima vary from file to file
    stream: int  # the first of its three random streams


def table_columns(stats_columns: int) -> tuple[StatColumn, ...]:
    """Returns the table's columns without the bucket: six with names, the rest signals."""
    named = (
        StatColumn("event_ts", "timestamp", 24, 0, 0, 300_000, 20),
        StatColumn("device_id", "string", 6, 0, 950_000, 50_000, 30),
        StatColumn("temperature", "double", 5, 1_000, 2_500, 1_000, 40),
        StatColumn("humidity", "double", 5, 2_000, 6_000, 3_000, 50),
        StatColumn("pressure", "double", 7, 100_000, 101_500, 1_000, 60),
        StatColumn("sequence", "long", 15, 0, 0, 1, 70),
    )
    signals = (
        StatColumn(f"signal_{number:02}", "double", 5, 1_000, 5_000, 4_000, 70 + 10 * number)
        for number in range(1, stats_columns - _NAMED_COLUMNS + 1)
    )
    return (*named, *signals)


def metadata_action(columns: tuple[StatColumn, ...], stats_columns: int, table_id: str, created: int) -> dict[str, Any]:
    """Returns the content of the table's metaData action."""
    names = [(column.name, column.delta_type) for column in columns] + [(BUCKET_COLUMN, "string")]
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in names]
    indexed = min(len(columns), _DEFAULT_INDEXED_COLUMNS)
    configuration = {"delta.dataSkippingNumIndexedCols": str(stats_columns)} if stats_columns != indexed else {}
    return {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}, separators=(",", ":")),
        "partitionColumns": [BUCKET_COLUMN],
        "configuration": configuration,
        "createdTime": created,
    }


def protocol_action(features: tuple[str, ...]) -> dict[str, Any]:
    """Returns the content of the table's protocol action; without features, the oldest that serves."""
    if not features:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(features),
        "writerFeatures": [*features, "appendOnly", "invariants"],
    }


_MAP = pa.map_(pa.string(), pa.string())

DV_TYPE = pa.struct([*DELETION_VECTOR, ("maxRowIndex", pa.int64())])
"""The type of a deletion-vector descriptor in a checkpoint."""

REMOVE_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("deletionVector", DV_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
"""The type of the `remove` column of a checkpoint: tombstones have no statistics and no tags."""


def add_type(columns: tuple[StatColumn, ...], *, json_stats: bool, struct_stats: bool, dv: bool) -> pa.StructType:
    """The type of the `add` column of a checkpoint."""
    fields = [
        ("path", pa.string()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", _MAP),
        ("deletionVector", DV_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
    if json_stats:
        fields.append(("stats", pa.string()))
    if struct_stats:
        bounds = pa.struct([(column.name, STAT_TYPES[column.delta_type]) for column in columns])
        nulls = pa.struct([(column.name, pa.int64()) for column in columns])
        stats = [("numRecords", pa.int64())]
        # Parquet has no struct without fields.
        if columns:
            stats += [("minValues", bounds), ("maxValues", bounds), ("nullCount", nulls)]
        if dv:
            stats.append(("tightBounds", pa.bool_()))
        fields.append(("partitionValues_parsed", pa.struct([(BUCKET_COLUMN, pa.string())])))
        fields.append(("stats_parsed", pa.struct(stats)))
    return pa.struct(fields)


def checkpoint_schema(add: pa.StructType, *, v2: bool) -> pa.Schema:
    """The schema of a checkpoint file, in the order in which Spark writes its columns."""
    texts = pa.list_(pa.field("element", pa.string()))
    form = pa.struct([("provider", pa.string()), ("options", _MAP)])
    metadata = [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", form),
        ("schemaString", pa.string()),
        ("partitionColumns", texts),
        ("configuration", _MAP),
        ("createdTime", pa.int64()),
    ]
    protocol = [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", texts),
        ("writerFeatures", texts),
    ]
    columns = [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        ("add", add),
        ("remove", REMOVE_TYPE),
        ("metaData", pa.struct(metadata)),
        ("protocol", pa.struct(protocol)),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
    ]
    if v2:
        sidecar = [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]
        columns.append(("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", _MAP)])))
        columns.append(("sidecar", pa.struct([*sidecar, ("tags", _MAP)])))
    return pa.schema(columns)


def v2_sidecar_schema(add: pa.StructType) -> pa.Schema:
    """The schema of a V2-checkpoint sidecar: file actions alone."""
    return pa.schema([("add", add), ("remove", REMOVE_TYPE)])
