"""Time buckets: the text of the month, day, hour, minute or second that a row belongs to, in UTC.

A bucket is a generated partition column of a Delta table, so the SQL of its expression is part of the table and every
writer runs it, in the time zone of its session. Functions that follow the session's zone are therefore not used:
not `hour` of a timestamp, and not `date_format`, which formats even a date in that zone, and so skips the day that
Samoa skipped. What is left are the seconds since 1970, whole division, and the calendar of dates, which has no zones:

    year(date_add(date'1970-01-01', day))

A `timestamp_ntz` has no zone to begin with: it is taken for UTC, and has all the fields by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from delta_sidecar.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

Granularity: TypeAlias = Literal["month", "day", "hour", "minute", "second"]
TimestampKind: TypeAlias = Literal["timestamp", "timestamp_ntz"]


@dataclass(frozen=True)
class TimeBucket:
    """A definition of time buckets: which bucket each row is in.

    Attributes:
        granularity: How long a bucket is: month, day, hour, minute or second.
        column: The partition column that holds the bucket, a text.
        timestamp_column: The column that the bucket is made of, a timestamp or a timestamp_ntz.
        format: How the text looks: the fields `yyyy MM dd HH mm ss` down to the granularity in this order, so that
            texts sort as times, with `-`, `_`, `.`, `:`, a space or `'T'` between them, or nothing. None is the format
            without separators.

    Raises:
        OptionError: A value is not valid.
    """

    granularity: Granularity = "hour"
    column: str = "_event_hour"
    timestamp_column: str = "event_ts"
    format: str = None  # type: ignore[assignment]  # it is a text as soon as the object is made

    def __post_init__(self) -> None:
        if self.granularity not in _FIELDS:
            msg = f"the granularity of a time bucket must be one of {', '.join(_FIELDS)}, not {self.granularity!r}"
            raise OptionError(msg)
        names: dict[str, object] = {"column": self.column, "timestamp_column": self.timestamp_column}
        for name, value in names.items():
            if not isinstance(value, str) or not value:
                msg = f"the {name} of a time bucket must be the name of a column, not {value!r}"
                raise OptionError(msg)
        if self.column.lower() == self.timestamp_column.lower():
            msg = f"the column of a time bucket and its timestamp column are both {self.column!r}"
            raise OptionError(msg)
        if self.format is None:
            object.__setattr__(self, "format", "".join(_FIELDS[self.granularity]))
        _pieces(self.granularity, self.format)

    def expression(self, kind: TimestampKind = "timestamp") -> str:
        """Makes the SQL of the bucket of the timestamp column.

        Delta takes it in a generated column. It is null for null, and outside of the years 1 to 9999.

        Args:
            kind: The type of the timestamp column.

        Raises:
            OptionError: The column has another type.
        """
        if kind not in get_args(TimestampKind):
            msg = (
                f"a time bucket needs a column of type timestamp or timestamp_ntz; {self.timestamp_column!r} is {kind}"
            )
            raise OptionError(msg)
        column = "`" + self.timestamp_column.replace("`", "``") + "`"
        if kind == "timestamp":
            moment = f"cast({column} as bigint)"
            inside = f"{moment} >= {_FIRST // _SECOND} and {moment} < {_END // _SECOND}"
            fields = _fields_of_seconds(moment)
        else:
            inside = f"{column} >= timestamp_ntz'0001-01-01' and {column} < timestamp_ntz'+10000-01-01'"
            fields = {field: f"{function}({column})" for field, function in _FUNCTIONS.items()}
        return f"case when {inside} then {_text(_pieces(self.granularity, self.format), fields)} end"

    def of(self, moment: datetime | None) -> str | None:
        """Returns the bucket of a moment; None for None, and outside of the years 1 to 9999 in UTC.

        Raises:
            OptionError: The moment has no time zone.
        """
        if moment is None:
            return None
        offset = moment.utcoffset()
        if offset is None:
            msg = f"{moment!r} has no time zone, so its bucket is not known: give it one, such as datetime.UTC"
            raise OptionError(msg)
        # Not by astimezone(), which fails where the moment is in another year 1 or 9999 than that of UTC.
        return self.of_micros((moment.replace(tzinfo=None) - _EPOCH - offset) // timedelta(microseconds=1))

    def of_micros(self, micros: int | None) -> str | None:
        """Returns the bucket of micro-seconds since 1970 in UTC; None for None, and outside of the years 1 to 9999."""
        if micros is None or not _FIRST <= micros < _END:
            return None
        text = (_EPOCH + timedelta(microseconds=micros)).isoformat(" ", "microseconds")
        pieces = _pieces(self.granularity, self.format)
        return "".join(text[slice(*_PLACES[piece])] if piece in _PLACES else piece for piece in pieces)

    def properties(self) -> dict[str, str]:
        """Returns the properties of a table that keep the definition."""
        return {_PREFIX + name: getattr(self, attribute) for attribute, name in _PROPERTIES.items()}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TimeBucket | None:
        """Returns the definition that a table's properties keep; None if they keep none.

        A bucket column alone is no definition: readers heed it on tables of any writer.

        Raises:
            OptionError: The definition is not whole, or not valid.
        """
        found = {attribute: properties.get(_PREFIX + name) for attribute, name in _PROPERTIES.items()}
        if all(value is None for attribute, value in found.items() if attribute != "column"):
            return None
        for attribute, value in found.items():
            if value is None:
                name = _PREFIX + _PROPERTIES[attribute]
                msg = f"the table's definition of its time bucket is not whole: its property {name} is missing"
                raise OptionError(msg)
        return cls(**found)  # type: ignore[arg-type]  # they are checked there

    def difference(self, other: TimeBucket) -> str | None:
        """Says in words how another definition differs from this one; None if it does not."""
        parts = [
            f"{attribute.replace('_', ' ')} {getattr(other, attribute)!r} instead of {getattr(self, attribute)!r}"
            for attribute in _PROPERTIES
            if getattr(other, attribute) != getattr(self, attribute)
        ]
        return ", ".join(parts) or None


_PREFIX = "deltaSidecar.bucket."
_PROPERTIES = {
    "granularity": "granularity",
    "column": "column",
    "timestamp_column": "timestampColumn",
    "format": "format",
}

# The functions that give a field of a date or of a timestamp_ntz.
_FUNCTIONS = {"yyyy": "year", "MM": "month", "dd": "day", "HH": "hour", "mm": "minute", "ss": "second"}

# The fields of each granularity: a month has two, and each finer one has one more.
_FIELDS = {name: tuple(_FUNCTIONS)[:count] for count, name in enumerate(get_args(Granularity), start=2)}

# The places of the fields in 2026-02-10 22:15:00.
_PLACES = {"yyyy": (0, 4), "MM": (5, 7), "dd": (8, 10), "HH": (11, 13), "mm": (14, 16), "ss": (17, 19)}

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC, like everything here
_SECOND = 1_000_000
_FIRST = (datetime.min - _EPOCH) // timedelta(microseconds=1)  # noqa: DTZ901
_END = (datetime.max - _EPOCH) // timedelta(microseconds=1) + 1  # noqa: DTZ901


def _pieces(granularity: str, text: object) -> list[str]:
    """The fields and separators of a format, one by one; OptionError where they are not those of the granularity."""
    fields = _FIELDS[granularity]
    pattern = r"([-_.: ]|'T'|)".join(f"({field})" for field in fields)
    found = re.fullmatch(pattern, text) if isinstance(text, str) else None
    if found is None:
        msg = (
            f"the format of a time bucket by {granularity} must be {''.join(fields)!r}, with one of - _ . : or a space "
            f"or 'T' in quotes between the fields if wanted, not {text!r}"
        )
        raise OptionError(msg)
    return [piece.strip("'") for piece in found.groups() if piece]


def _fields_of_seconds(seconds: str) -> dict[str, str]:
    """The SQL of each field as a number, from the SQL of seconds since 1970."""
    in_day = f"pmod({seconds}, 86400)"
    day = f"date_add(date'1970-01-01', cast(({seconds} - {in_day}) div 86400 as int))"
    return {
        **{field: f"{_FUNCTIONS[field]}({day})" for field in _FIELDS["day"]},
        "HH": f"{in_day} div 3600",
        "mm": f"pmod({seconds}, 3600) div 60",
        "ss": f"pmod({seconds}, 60)",
    }


def _text(pieces: list[str], fields: dict[str, str]) -> str:
    """The SQL of a text, from the SQL of its fields. Fields without a separator between them are one number."""
    texts: list[str] = []
    while pieces:
        together = list(takewhile(fields.__contains__, pieces))
        if together:
            width = sum(map(len, together))
            number = f"cast({fields[together[0]]} as bigint)"
            for field in together[1:]:
                number = f"({number} * 100 + {fields[field]})"
            texts.append(f"lpad(cast({number} as string), {width}, '0')")
        else:
            texts.append(f"'{pieces[0]}'")
        pieces = pieces[len(together) or 1 :]
    return texts[0] if len(texts) == 1 else f"concat({', '.join(texts)})"
