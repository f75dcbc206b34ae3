"""Dates and timestamps of a Parquet file as everyone counts them, whichever form and calendar its writer used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.execute.int96 import is_moment, moments
from delta_sidecar.execute.legacy_calendar import LegacyCalendar, legacy_calendar
from delta_sidecar.execute.nested_values import replaced

if TYPE_CHECKING:
    import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class TimeRules:
    """What is made of dates and timestamps that leave room for doubt.

    Attributes:
        zone: The time zone of writers that do not tell theirs.
        is_strict: Whether one that cannot be known is an error; else they are taken for bounds, and it is null.
    """

    zone: str = "UTC"
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class FileTimes:
    """How dates and timestamps of one file are understood.

    Attributes:
        calendar: What is in the legacy calendar; None where nothing is.
        is_strict: Whether one that cannot be known is an error; else they are taken for bounds, and it is null.
    """

    calendar: LegacyCalendar | None
    is_strict: bool

    @classmethod
    def of(cls, metadata: pq.FileMetaData, rules: TimeRules) -> FileTimes:
        """What a footer says."""
        return cls(legacy_calendar(metadata, rules.zone), rules.is_strict)

    def understood(self, batch: pa.RecordBatch, *, with_int96: bool) -> pa.RecordBatch:
        """The same rows with dates and timestamps as everyone counts them.

        Args:
            batch: As the file has them.
            with_int96: Whether some are INT96, read by a footer that marks them.

        Raises:
            pa.ArrowInvalid: One cannot be known, and that is an error.
        """
        if with_int96:
            batch = replaced(batch, is_moment, self._moments)
        if self.calendar is not None and self.calendar.dates:
            batch = replaced(batch, is_in_calendar, self._moved)
        return batch

    def bounds(self, values: pa.Array) -> pa.Array:
        """Bounds out of a footer, of dates or timestamps but INT96; null where they are not known."""
        if self.calendar is None or not self.calendar.dates:
            return values
        return self.calendar.bounds(values)

    def _moments(self, values: pa.Array, name: str) -> pa.Array:
        if not pa.types.is_fixed_size_binary(values.type):
            return values
        found = moments(values)
        if self.is_strict and found.null_count > values.null_count:
            msg = f"column {name} has a timestamp that is beyond all that 64 bits of microseconds can tell"
            raise pa.ArrowInvalid(msg)
        if self.calendar is None or not self.calendar.int96:
            return found
        return self._moved(found, name)

    def _moved(self, values: pa.Array, name: str) -> pa.Array:
        calendar = self.calendar
        if calendar is None:
            return values
        if not self.is_strict:
            return calendar.bounds(values)
        found = calendar.moved(values)
        if found.null_count > values.null_count:
            msg = (
                f"column {name} has a timestamp from before 1900 in the legacy calendar of Spark, and the time zone "
                f"{calendar.zone}, whose clocks of that time are not known here: leave the column out, or read it with "
                "Spark"
            )
            raise pa.ArrowInvalid(msg)
        return found


def is_in_calendar(field: pa.Field) -> bool:
    """Whether a field is of days, or of moments: a reading of a clock is in no calendar of old."""
    kind = field.type
    return bool(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))
