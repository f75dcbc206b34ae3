"""Partition values as columns: the text in the log, as a value of the column's type, in every row of a file."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import nullable_int64s, numbers_of, strings, valid_mask
from delta_sidecar.errors import LogCorruptionError
from delta_sidecar.log.partition_values import read_partition_column
from delta_sidecar.rows.locations import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.log.partition_values import PartitionColumn


def partition_value(field: pa.Field, values: Mapping[str, str | None], file: str, zone: str) -> pa.Scalar:
    """A partition value of a file, whose path is for messages; a timestamp without a zone is in `zone`.

    Raises:
        LogCorruptionError: The text is no value of the column's type, or there is none.
    """
    if field.name not in values:
        msg = f"the log tells no value of partition column {field.name} for {shown(file)}"
        raise LogCorruptionError(msg)
    text = values[field.name]
    value = _value(text, field.type, zone)
    if value is None:
        msg = f"the log has {text!r} for partition column {field.name} of {shown(file)}, which is no {field.type}"
        raise LogCorruptionError(msg)
    return value


@lru_cache(maxsize=256)
def _value(text: str | None, kind: pa.DataType, zone: str) -> pa.Scalar | None:
    if text is None or text == "" or pa.types.is_null(kind):
        return pa.nulls(1, kind)[0]
    one = strings([text])
    if pa.types.is_binary(kind):
        return one.cast(pa.binary())[0]
    column = read_partition_column(one, kind)
    return None if column is None else in_zone(column, zone)[0]


def in_zone(column: PartitionColumn, zone: str) -> pa.Array:
    """Values of a partition column, of which timestamps without a zone are what clocks of a zone showed.

    Where they showed it twice, it is the earlier moment.
    """
    if column.zoneless is None or zone == "UTC":
        return column.values
    local = column.values.filter(column.zoneless)
    return pc.replace_with_mask(column.values, column.zoneless, _moments(local, zone))


def _moments(readings: pa.TimestampArray, zone: str) -> pa.TimestampArray:
    clock, micros = ZoneInfo(zone), np.where(valid_mask(readings), numbers_of(readings), 0)
    # Clocks are the same in all years before the first one that Python has, and after the last.
    near = np.clip(micros, _FIRST, _LAST)
    local = [(_EPOCH + dt.timedelta(microseconds=number)).replace(tzinfo=clock) for number in near.tolist()]
    ahead = np.array([(each.utcoffset() or dt.timedelta()) // _MICROSECOND for each in local], dtype=np.int64)
    return nullable_int64s(micros - ahead, valid_mask(readings)).view(readings.type)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_FIRST = (dt.datetime(2, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND
_LAST = (dt.datetime(9998, 12, 31, tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND
