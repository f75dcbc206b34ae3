"""The actions of a log, with the fields that tests care about first, and statistics that are true of rows."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NOW = 1_770_000_000_000
STRING_PREFIX = 32
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


def stats_of(
    rows: Sequence[Row],
    *,
    exclude: Iterable[str] = (),
    tight: bool | None = None,
    num_records: int | None = None,
    mark_cut_strings: bool = True,
) -> dict[str, Any]:
    """Makes statistics that are true of some rows, as Spark writes them.

    Args:
        rows: The rows; every type that has bounds is recognised by its Python values.
        exclude: Columns to leave out: partition columns have no statistics.
        tight: What `tightBounds` says; None leaves it out.
        num_records: The records of the file, where they are more than the rows.
        mark_cut_strings: Whether the upper bound of long strings is made greater than them, or is a mere prefix.
    """
    left_out = set(exclude)
    names = list(dict.fromkeys(name for row in rows for name in row if name not in left_out))
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        present = [value for value in values if value is not None]
        nulls[name] = len(values) - len(present)
        ordered = not any(isinstance(value, bool | bytes) or _is_nan(value) for value in present)
        if present and ordered:
            low[name], high[name] = _lower(min(present)), _upper(max(present), mark_cut=mark_cut_strings)
    stats: dict[str, Any] = {"numRecords": len(rows) if num_records is None else num_records}
    stats |= {"minValues": low, "maxValues": high, "nullCount": nulls}
    return stats if tight is None else stats | {"tightBounds": tight}


def struct_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a schema as Delta's struct."""
    if "fields" in schema:
        return schema
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in schema.items()]
    return {"type": "struct", "fields": fields}


def dump(value: object) -> str:
    """Writes compact JSON, decimals as numbers with all their digits."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_decimal, allow_nan=False)


def _decimal(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value)
    msg = f"no JSON for {value!r}"
    raise TypeError(msg)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _lower(value: Any) -> Any:  # noqa: ANN401 - a value of any column type
    if isinstance(value, str):
        return value[:STRING_PREFIX]
    return _plain(value)


def _upper(value: Any, *, mark_cut: bool) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        cut = value[:STRING_PREFIX]
        return cut + "\U0010ffff" if mark_cut and cut != value else cut
    return _plain(value)


def _plain(value: Any) -> Any:  # noqa: ANN401
    # A timestamp's bounds are cut down to milliseconds, the upper one too.
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else text + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
