"""Partition values as columns: the text in the log, as a value of the column's type, in every row of a file."""

from __future__ import annotations

import datetime as dt
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


class PartitionColumns:
    """Makes the partition columns of files; `zone` is that of timestamps which were written without one."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._known: dict[tuple[str, str | None], pa.Scalar] = {}

    def column(self, field: pa.Field, values: Mapping[str, str | None], rows: int, file: str) -> pa.Array:
        """The column of a partition value of a file, in so many rows.

        Raises:
            LogCorruptionError: The text is no value of the column's type, or there is none.
        """
        key = (field.name, values.get(field.name))
        value = self._known.get(key) if field.name in values else None
        if value is None:
            value = partition_value(field, values, file, self._zone)
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = value
        return pa.repeat(value, rows)


_KEPT = 4096


def partition_value(field: pa.Field, values: Mapping[str, str | None], file: str, zone: str) -> pa.Scalar:
    """A partition value of a file, whose path is for messages.

    Raises:
        LogCorruptionError: The text is no value of the column's type, or there is none.
    """
    if field.name not in values:
        msg = f"the log tells no value of partition column {field.name} for {shown(file)}"
        raise LogCorruptionError(msg)
    text = values[field.name]
    if text is None or text == "" or pa.types.is_null(field.type):
        return pa.nulls(1, field.type)[0]
    one = strings([text])
    if pa.types.is_binary(field.type):
        typed = one.cast(pa.binary())
    else:
        column = read_partition_column(one, field.type)
        if column is None:
            msg = f"the log has {text!r} for partition column {field.name} of {shown(file)}, which is no {field.type}"
            raise LogCorruptionError(msg)
        typed = in_zone(column, zone)
    return typed[0]


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
