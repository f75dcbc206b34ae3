"""A table of many small data files, real ones, made in a few seconds.

An hour has some files and one commit, the newest hour comes last, and all but a short tail of commits is in a V1
checkpoint. File `number` holds `rows` rows of one device, spread over its hour:

    device_id     device-00042, of file 42
    event_ts      START plus the hour, plus `3600 / rows` seconds a row
    value         the row's number in the file, and `hour / 1000`; NaN in the last row of every second hour
    _event_hour   such as 2026010100, the partition
"""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from tests.builder import commit_info, metadata, protocol

if TYPE_CHECKING:
    from pathlib import Path

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
FILES_AN_HOUR = 20
TAIL = 5

_SCHEMA = {"device_id": "string", "event_ts": "timestamp", "value": "double", "_event_hour": "string"}
_NUMBER = "?????"


def small_files(root: Path, files: int = 10_000, rows: int = 20) -> None:
    """Writes the table.

    Args:
        root: Its folder, which may not be there yet.
        files: How many data files.
        rows: How many rows each has.
    """
    log = root / "_delta_log"
    log.mkdir(parents=True)
    hours = -(-files // FILES_AN_HOUR)
    in_checkpoint = max(hours - TAIL, 1)
    _commit(log, 0, [protocol(), metadata(_SCHEMA, ["_event_hour"])])
    for hour in range(hours):
        numbers = range(hour * FILES_AN_HOUR, min((hour + 1) * FILES_AN_HOUR, files))
        _commit(log, hour + 1, _hour(root, hour, numbers, rows))
        if hour + 1 == in_checkpoint:
            DeltaTable(root).create_checkpoint()


def hour_name(hour: int) -> str:
    """The partition value of an hour."""
    return format(START + dt.timedelta(hours=hour), "%Y%m%d%H")


def _hour(root: Path, hour: int, numbers: range, rows: int) -> list[dict[str, Any]]:
    """Writes the files of an hour: one is encoded, the others differ in the name of their device only."""
    name = hour_name(hour)
    folder = root / f"_event_hour={name}"
    folder.mkdir()
    data, stats = _template(hour, rows)
    actions = []
    for number in numbers:
        text = f"{number:05}"
        path = folder / f"part-{text}.parquet"
        path.write_bytes(data.replace(_NUMBER.encode(), text.encode()))
        add = {
            "path": f"{folder.name}/{path.name}",
            "partitionValues": {"_event_hour": name},
            "size": len(data),
            "modificationTime": int(START.timestamp() * 1000) + hour,
            "dataChange": True,
            "stats": stats.replace(_NUMBER, text),
        }
        actions.append({"add": add})
    return actions


def _template(hour: int, rows: int) -> tuple[bytes, str]:
    begin = START + dt.timedelta(hours=hour)
    moments = [begin + dt.timedelta(seconds=3600 / rows * row) for row in range(rows)]
    values = [row + hour / 1000 for row in range(rows)]
    has_nan = hour % 2 == 1
    if has_nan:
        values[-1] = float("nan")
    device = f"device-{_NUMBER}"
    table = pa.table(
        {
            "device_id": [device] * rows,
            "event_ts": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "value": pa.array(values, pa.float64()),
        }
    )
    into = io.BytesIO()
    # Plain bytes, so that a name of the same length can take another's place.
    pq.write_table(table, into, compression="none", use_dictionary=False)
    # Statistics without NaN, as writers leave it out.
    known = values[:-1] if has_nan else values
    stats = {
        "numRecords": rows,
        "minValues": {"device_id": device, "event_ts": _text(moments[0]), "value": min(known, default=None)},
        "maxValues": {"device_id": device, "event_ts": _text(moments[-1]), "value": max(known, default=None)},
        "nullCount": {"device_id": 0, "event_ts": 0, "value": 0},
    }
    return into.getvalue(), json.dumps(stats)


def _text(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def _commit(log: Path, version: int, actions: list[dict[str, Any]]) -> None:
    lines = [json.dumps(action) for action in [commit_info(), *actions]]
    (log / f"{version:020}.json").write_text("\n".join(lines) + "\n")
