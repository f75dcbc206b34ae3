"""The actions of a log, with the fields that tests care about first."""

from __future__ import annotations

import json
import re
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.builder.statistics import stats_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NOW = 1_770_000_000_000
# json.dumps has no number with so many digits: decimals are marked, and unwrapped afterwards.
_MARKED = re.compile(r'"\\u0000(-?[0-9.]+)\\u0000"')
_FROM_ROWS: dict[str, Any] = {"of": "rows"}

Row = dict[str, Any]


class AddAction(dict[str, Any]):
    """The content of an add action, with the live rows of the file where a test gave them."""

    rows: tuple[Row, ...] = ()


def add(  # noqa: PLR0913 - the fields of the action
    path: str,
    *,
    rows: Sequence[Row] = (),
    deleted: Iterable[int] = (),
    stats: Mapping[str, Any] | str | None = _FROM_ROWS,
    partition_values: Mapping[str, str | None] | None = None,
    dv: Mapping[str, Any] | None = None,
    tags: Mapping[str, str | None] | None = None,
    size: int = 1_000,
    modification_time: int = NOW,
    data_change: bool = True,
    **extra: object,
) -> dict[str, Any]:
    """Makes an add action.

    Args:
        path: The path as the log holds it, URL-encoded.
        rows: The rows of the data file.
        deleted: The positions of the rows that the deletion vector hides.
        stats: A mapping, JSON text, or None for none; true ones of the rows unless given.
        partition_values: Raw partition values.
        dv: A deletion vector's descriptor.
        tags: Tags of the file.
        size: Size of the file.
        modification_time: In milliseconds.
        data_change: The flag of that name.
        extra: More fields, such as `baseRowId`.
    """
    action = AddAction(
        path=path,
        partitionValues=dict(partition_values or {}),
        size=size,
        modificationTime=modification_time,
        dataChange=data_change,
    )
    hidden = set(deleted)
    action.rows = tuple(row for place, row in enumerate(rows) if place not in hidden)
    if stats is _FROM_ROWS:
        stats = stats_of(rows, exclude=partition_values or ()) if rows else None
    if stats is not None:
        action["stats"] = stats if isinstance(stats, str) else dump(stats)
    if tags is not None:
        action["tags"] = dict(tags)
    if dv is not None:
        action["deletionVector"] = dict(dv)
    action.update(extra)
    return {"add": action}


def remove(
    path: str,
    *,
    dv: Mapping[str, Any] | None = None,
    partition_values: Mapping[str, str | None] | None = None,
    size: int = 1_000,
    deletion_timestamp: int | None = NOW,
    data_change: bool = True,
    extended: bool = True,
) -> dict[str, Any]:
    """Makes a remove action; without `extended` it has the required fields alone."""
    action: dict[str, Any] = {"path": path, "dataChange": data_change}
    if deletion_timestamp is not None:
        action["deletionTimestamp"] = deletion_timestamp
    if extended:
        action |= {"extendedFileMetadata": True, "partitionValues": dict(partition_values or {}), "size": size}
    if dv is not None:
        action["deletionVector"] = dict(dv)
    return {"remove": action}


def metadata(
    schema: Mapping[str, Any],
    partition_columns: Sequence[str] = (),
    *,
    configuration: Mapping[str, str] | None = None,
    table_id: str = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
    **extra: object,
) -> dict[str, Any]:
    """Makes a metaData action of a schema: names to Delta types, or the whole struct with its `fields`."""
    return {
        "metaData": {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": dump(struct_of(schema)),
            "partitionColumns": list(partition_columns),
            "configuration": dict(configuration or {}),
            "createdTime": NOW,
            **extra,
        }
    }


def protocol(
    reader: int = 1,
    writer: int = 2,
    *,
    features: Iterable[str] | None = None,
    writer_features: Iterable[str] = (),
) -> dict[str, Any]:
    """Makes a protocol action; `features` are for readers and writers and imply versions 3 and 7."""
    if features is None:
        return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}}
    both = list(features)
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": both,
            "writerFeatures": [*both, *writer_features],
        }
    }


def txn(app_id: str, version: int) -> dict[str, Any]:
    """Makes a transaction identifier."""
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": NOW}}


def commit_info(operation: str = "WRITE") -> dict[str, Any]:
    """Makes the provenance line of a commit."""
    return {"commitInfo": {"timestamp": NOW, "operation": operation, "operationParameters": {}}}


def deletion_vector(
    name: str, *, storage_type: str = "u", offset: int | None = 1, cardinality: int = 1
) -> dict[str, Any]:
    """Makes a deletion vector's descriptor; its place follows from the name, and no bitmap is written."""
    letters = uuid.uuid5(uuid.NAMESPACE_OID, name).hex
    place = {"u": letters[:20], "i": letters[:40], "p": f"file:///vectors/{letters}.bin"}[storage_type]
    vector: dict[str, Any] = {"storageType": storage_type, "pathOrInlineDv": place}
    if offset is not None and storage_type != "i":
        vector["offset"] = offset
    return vector | {"sizeInBytes": 36, "cardinality": cardinality}


def struct_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a schema as Delta's struct."""
    if "fields" in schema:
        return schema
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in schema.items()]
    return {"type": "struct", "fields": fields}


def dump(value: object) -> str:
    """Writes compact JSON, decimals as numbers with all their digits."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_marked, allow_nan=False)
    return _MARKED.sub(r"\1", text)


def _marked(value: object) -> str:
    if isinstance(value, Decimal):
        return f"\0{value:f}\0"
    msg = f"no JSON for {value!r}"
    raise TypeError(msg)
