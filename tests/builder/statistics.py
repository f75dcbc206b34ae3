"""Statistics that are true of rows, in the ways of different writers."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.builder.values import short_float32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.builder.columns import Kind

STRING_PREFIX = 32
NOT_A_NUMBER = ("absent", "passed over", "greatest")


@dataclass(frozen=True)
class Habits:
    """What writers do in different ways.

    Attributes:
        nan: Bounds of a column with NaN in it: none, those of the other values, or NaN as the upper one.
        after_cut: What comes behind a string's upper bound that is cut off; nothing makes it a mere prefix.
        booleans: Whether booleans have bounds.
        zone: In which zone timestamps are written; None is `Z`.
        timespec: To what unit timestamps are cut, the upper one too: `milliseconds`, or `microseconds` for not at all.
        through_double: Whether decimals go through a double.
        short_floats: Whether 32-bit floats are written with as few digits as they need.
    """

    nan: str = "absent"
    after_cut: str = "\U0010ffff"
    booleans: bool = False
    zone: dt.timedelta | None = None
    timespec: str = "milliseconds"
    through_double: bool = True
    short_floats: bool = False


def stats_of(
    rows: Sequence[Mapping[str, Any]],
    *,
    exclude: Iterable[str] = (),
    columns: Mapping[str, Kind] | None = None,
    tight: bool | None = None,
    num_records: int | None = None,
    habits: Habits | None = None,
) -> dict[str, Any]:
    """Makes statistics that are true of some rows.

    Args:
        rows: The rows; every type that has bounds is recognised by its Python values.
        exclude: Columns to leave out: partition columns have no statistics.
        columns: The columns and their types; without, those that some row has. A column that no row has is null.
        tight: What `tightBounds` says; None leaves it out.
        num_records: The records of the file, where they are more than the rows.
        habits: How they are written; as Spark does without.
    """
    kinds = dict(columns) if columns is not None else {name: _guessed(rows, name) for row in rows for name in row}
    left_out = set(exclude)
    sides = _Sides(habits or Habits())
    low, high, nulls = sides.of(rows, {name: kind for name, kind in kinds.items() if name not in left_out})
    stats: dict[str, Any] = {"numRecords": len(rows) if num_records is None else num_records}
    stats |= {"minValues": low, "maxValues": high, "nullCount": nulls}
    return stats if tight is None else stats | {"tightBounds": tight}


@dataclass(frozen=True)
class _Sides:
    habits: Habits

    def of(
        self, rows: Sequence[Mapping[str, Any] | None], columns: Mapping[str, Kind]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Gives lower bounds, upper bounds and null counts; a field of a null struct is null."""
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for name, kind in columns.items():
            values = [None if row is None else row.get(name) for row in rows]
            if isinstance(kind, dict):
                low[name], high[name], nulls[name] = self.of(values, kind)
                continue
            present = [value for value in values if value is not None]
            nulls[name] = len(values) - len(present)
            bounds = self._bounds(present)
            if bounds is not None:
                low[name], high[name] = self._lower(bounds[0], kind), self._upper(bounds[1], kind)
        return low, high, nulls

    def _bounds(self, present: list[Any]) -> tuple[Any, Any] | None:
        if any(isinstance(value, bytes) or (isinstance(value, bool) and not self.habits.booleans) for value in present):
            return None
        numbers = [value for value in present if not _is_nan(value)]
        if len(numbers) < len(present) and self.habits.nan == "absent":
            return None
        if len(numbers) < len(present) and self.habits.nan == "greatest":
            return min(numbers, default=math.nan), math.nan
        return (min(numbers), max(numbers)) if numbers else None

    def _lower(self, value: Any, kind: str) -> Any:  # noqa: ANN401 - a value of any column type
        return value[:STRING_PREFIX] if isinstance(value, str) else self._plain(value, kind)

    def _upper(self, value: Any, kind: str) -> Any:  # noqa: ANN401
        if isinstance(value, str):
            cut = value[:STRING_PREFIX]
            return cut if cut == value else cut + self.habits.after_cut
        return self._plain(value, kind)

    def _plain(self, value: Any, kind: str) -> Any:  # noqa: ANN401
        if isinstance(value, dt.datetime):
            return self._moment(value)
        if isinstance(value, dt.date):
            return value.isoformat()
        if isinstance(value, Decimal):
            return float(value) if self.habits.through_double else value
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if kind == "float" and self.habits.short_floats:
            return short_float32(value)
        return value

    def _moment(self, value: dt.datetime) -> str:
        if value.tzinfo is None:
            return value.isoformat(timespec=self.habits.timespec)
        if self.habits.zone is None:
            return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec=self.habits.timespec) + "Z"
        return value.astimezone(dt.timezone(self.habits.zone)).isoformat(timespec=self.habits.timespec)


def _guessed(rows: Sequence[Mapping[str, Any]], name: str) -> Kind:
    shape = next((row[name] for row in rows if isinstance(row.get(name), dict)), None)
    return "" if shape is None else {inner: _guessed([shape], inner) for inner in shape}


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
