"""Checkpoints of every kind, written from a state that is given, not read."""

from __future__ import annotations

import json
import uuid
import zlib
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.builder.actions import NOW, dump
from tests.builder.int96 import rewrite_as_spark
from tests.builder.values import arrow_type, bounds_type, null_count_type, physical_name, typed

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

KINDS = ("v1", "v1-multipart", "v2-json", "v2-parquet", "v2-classic")
_STRINGS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.field("element", pa.string()))
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _STRINGS),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
    ]
)
_TOP = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _NAMES),
            ("configuration", _STRINGS),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _NAMES),
            ("writerFeatures", _NAMES),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}
_V2 = {
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", _STRINGS)]),
    "sidecar": pa.struct(
        [
            ("path", pa.string()),
            ("sizeInBytes", pa.int64()),
            ("modificationTime", pa.int64()),
            ("tags", _STRINGS),
        ]
    ),
}


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint of one version holds."""

    version: int
    adds: list[dict[str, Any]]
    removes: list[dict[str, Any]]
    top: list[dict[str, Any]]
    zone: dt.timedelta


@dataclass(frozen=True)
class CheckpointForm:
    """How it is written; see `TableBuilder.checkpoint`."""

    kind: str
    struct_stats: bool
    json_stats: bool
    row_group_rows: int | None
    parts: int
    sidecars: int
    top_last: bool
    int96: bool = False
    partition_maps: bool = True


@dataclass
class CheckpointFiles:
    """The files of a written checkpoint, and what `_last_checkpoint` says of it."""

    paths: list[Path] = field(default_factory=list)
    hint: dict[str, Any] = field(default_factory=dict)


def write_checkpoint(log: Path, state: CheckpointState, form: CheckpointForm) -> CheckpointFiles:
    """Writes a checkpoint into a `_delta_log` directory."""
    if form.kind not in KINDS:
        msg = f"no checkpoint kind {form.kind!r}: {', '.join(KINDS)}"
        raise ValueError(msg)
    table = next(action["metaData"] for action in state.top if "metaData" in action)
    add = _add_type(json.loads(table["schemaString"]), table["partitionColumns"], form)
    files = [{"add": _checkpoint_add(action, add, state.zone)} for action in state.adds]
    files += [{"remove": action} for action in state.removes]
    written = CheckpointFiles()
    if form.kind.startswith("v1"):
        _write_v1(log, state, form, add, files, written)
    else:
        _write_v2(log, state, form, add, files, written)
    written.hint |= {
        "version": state.version,
        "size": len(files) + len(state.top),
        "sizeInBytes": sum(path.stat().st_size for path in written.paths),
        "numOfAddFiles": len(state.adds),
    }
    return written


def _write_v1(
    log: Path,
    state: CheckpointState,
    form: CheckpointForm,
    add: pa.StructType,
    files: list[dict[str, Any]],
    written: CheckpointFiles,
) -> None:
    schema = pa.schema([("add", add), ("remove", _REMOVE), *_TOP.items()])
    parts = form.parts if form.kind == "v1-multipart" else 1
    for part, share in enumerate(_by_path(files, parts)):
        tail = f"{part + 1:010}.{parts:010}.parquet" if form.kind == "v1-multipart" else "parquet"
        path = log / f"{state.version:020}.checkpoint.{tail}"
        _write_rows(path, _with_top(state.top if part == 0 else [], share, form), schema, form)
        written.paths.append(path)
    if form.kind == "v1-multipart":
        written.hint["parts"] = parts


def _write_v2(
    log: Path,
    state: CheckpointState,
    form: CheckpointForm,
    add: pa.StructType,
    files: list[dict[str, Any]],
    written: CheckpointFiles,
) -> None:
    top = [{"checkpointMetadata": {"version": state.version, "tags": {}}}, *state.top]
    inside = files
    if form.sidecars:
        inside = []
        folder = log / "_sidecars"
        folder.mkdir(exist_ok=True)
        schema = pa.schema([("add", add), ("remove", _REMOVE)])
        for share in _by_path(files, form.sidecars):
            path = folder / f"{uuid.uuid4()}.parquet"
            _write_rows(path, share, schema, form)
            written.paths.append(path)
            size = path.stat().st_size
            top.append({"sidecar": {"path": path.name, "sizeInBytes": size, "modificationTime": NOW}})
    rows = _with_top(top, inside, form)
    stem = f"{state.version:020}.checkpoint"
    if form.kind == "v2-json":
        path = log / f"{stem}.{uuid.uuid4()}.json"
        path.write_text("".join(dump(_json_action(row)) + "\n" for row in rows), encoding="utf-8")
    else:
        path = log / (f"{stem}.parquet" if form.kind == "v2-classic" else f"{stem}.{uuid.uuid4()}.parquet")
        schema = pa.schema([("add", add), ("remove", _REMOVE), *_TOP.items(), *_V2.items()])
        _write_rows(path, rows, schema, form)
    written.paths.append(path)


def _with_top(top: list[dict[str, Any]], files: list[dict[str, Any]], form: CheckpointForm) -> list[dict[str, Any]]:
    return [*files, *top] if form.top_last else [*top, *files]


def _by_path(files: list[dict[str, Any]], parts: int) -> list[list[dict[str, Any]]]:
    shares: list[list[dict[str, Any]]] = [[] for _ in range(parts)]
    for action in files:
        (content,) = action.values()
        shares[zlib.crc32(content["path"].encode()) % parts].append(action)
    return shares


def _write_rows(path: Path, rows: list[dict[str, Any]], schema: pa.Schema, form: CheckpointForm) -> None:
    table = pa.Table.from_pylist(rows, schema=schema)
    options = {"use_deprecated_int96_timestamps": True, "compression": "none"} if form.int96 else {}
    pq.write_table(table, path, row_group_size=form.row_group_rows, store_schema=False, **options)
    if form.int96:
        rewrite_as_spark(path, rows, schema)


def _add_type(struct: dict[str, Any], partition_columns: list[str], form: CheckpointForm) -> pa.StructType:
    fields = [
        ("path", pa.string()),
        *([("partitionValues", _STRINGS)] if form.partition_maps else []),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", _STRINGS),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
    if form.json_stats:
        fields.append(("stats", pa.string()))
    if form.struct_stats:
        data = {"fields": [column for column in struct["fields"] if column["name"] not in partition_columns]}
        stats = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
        bounds, nulls = bounds_type(data), null_count_type(data)
        # Parquet has no struct without fields.
        if len(bounds):
            stats += [("minValues", bounds), ("maxValues", bounds)]
        if len(nulls):
            stats.append(("nullCount", nulls))
        fields.append(("stats_parsed", pa.struct(stats)))
        by_name = {column["name"]: column for column in struct["fields"]}
        keys = [by_name[name] for name in partition_columns]
        if keys:
            parsed = pa.struct([(physical_name(column), arrow_type(column["type"])) for column in keys])
            fields.append(("partitionValues_parsed", parsed))
    return pa.struct(fields)


def _checkpoint_add(action: dict[str, Any], kind: pa.StructType, zone: dt.timedelta) -> dict[str, Any]:
    row = {**action, "dataChange": False}
    if kind.get_field_index("stats") < 0:
        row.pop("stats", None)
    if kind.get_field_index("stats_parsed") >= 0 and action.get("stats"):
        row["stats_parsed"] = typed(json.loads(action["stats"], parse_float=Decimal), kind.field("stats_parsed").type)
    if kind.get_field_index("partitionValues_parsed") >= 0:
        parsed = kind.field("partitionValues_parsed").type
        values = action["partitionValues"]
        row["partitionValues_parsed"] = {
            column.name: typed(values.get(column.name) or None, column.type, zone) for column in parsed
        }
    return row


def _json_action(row: dict[str, Any]) -> dict[str, Any]:
    ((kind, content),) = row.items()
    parsed = ("stats_parsed", "partitionValues_parsed")
    return {kind: {name: value for name, value in content.items() if name not in parsed}}
