"""Dates and timestamps whose value is in doubt: INT96 that Arrow decodes wrongly, and Spark's legacy calendar.

INT96 is Parquet's oldest timestamp: eight bytes of nanoseconds and four of a Julian day. Arrow coerces it to
microseconds in 64 bits without a check, takes both parts for unsigned, and reads the day 0 as 1970, while Spark's day
is negative before the year -4712 and behind the year 287585. Such a value may come out anywhere, some in our time. So
INT96 columns are decoded once more, as the twelve bytes that they are, and a value counts where they say the same.

The legacy calendar of Spark 2, or of a session that asks for it, is Julian before 15 October 1582, and its clocks
differ by minutes from all others before 1900. The footer names it; a value from before those days is not converted.

In rows a value in doubt is an error that names its column. In a checkpoint, whose timestamps are bounds, it is null.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar._arrow import from_numpy, to_numpy
from delta_sidecar._thrift import I32, LIST, STRUCT, ThriftList, field, read_struct, write_struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VERSION = b"org.apache.spark.version"
_LEGACY_DATES, _LEGACY_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
# From these versions of Spark on, a file is in the legacy calendar only if its footer says so.
_DATES_SINCE, _INT96_SINCE = (3, 0), (3, 1)

_FIRST_GREGORIAN_DAY = -141_427
_YEAR_1900_SECONDS = -2_208_988_800
_MILLISECONDS_A_DAY = 86_400_000
_MICROSECONDS_A_DAY = 1000 * _MILLISECONDS_A_DAY
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_INT96, _INT96_EPOCH = np.dtype([("nanos", "<i8"), ("day", "<i4")]), 2_440_588
_TYPE_INT96, _TYPE_FIXED = 3, 7
_KIND, _LENGTH = field(1, I32), field(2, I32)

_BEYOND = "that 64 bits of microseconds cannot tell, from before the year -4712, or with nanoseconds below zero"
_LEGACY = "from before {} in the legacy calendar of Spark, which is not converted here"


class TimeChecks(Struct, frozen=True):
    """Finds dates and timestamps of one file whose value is in doubt."""

    legacy_dates: bool  # dates, and timestamps that are not INT96, are in the legacy calendar
    legacy_int96: bool
    strict: bool  # a value in doubt is an error; else it is null

    @classmethod
    def of(cls, metadata: pq.FileMetaData, *, strict: bool) -> TimeChecks:
        """Reads a footer."""
        pairs = metadata.metadata or {}
        found = re.match(rb"(\d+)\.(\d+)", pairs.get(_VERSION, b""))
        version = tuple(map(int, found.groups())) if found else ()
        return cls(
            legacy_dates=_VERSION in pairs and (_LEGACY_DATES in pairs or version < _DATES_SINCE),
            legacy_int96=_VERSION in pairs and (_LEGACY_INT96 in pairs or version < _INT96_SINCE),
            strict=strict,
        )

    def check(self, batch: pa.RecordBatch, raw: pa.RecordBatch | None) -> pa.RecordBatch:
        """Checks a batch; `raw` has its INT96 columns as they are in `with_raw_int96`, None where it has none.

        Raises:
            pa.ArrowInvalid: A value is in doubt, and the checks are strict.
        """
        if raw is None and not self.legacy_dates:
            return batch
        if raw is not None and raw.num_rows != batch.num_rows:
            msg = f"{raw.num_rows} timestamps in {batch.num_rows} rows"
            raise pa.ArrowInvalid(msg)
        others = [] if raw is None else list(zip(raw.schema.names, raw.columns, strict=True))
        checked = self._columns(batch.schema.names, batch.columns, others, "")
        return batch if self.strict else pa.RecordBatch.from_arrays(checked, names=batch.schema.names)

    def bounds(
        self, lower: pa.Array | None, upper: pa.Array | None, held: pa.DataType
    ) -> tuple[pa.Array | None, pa.Array | None]:
        """Bounds out of a footer of a column that the file holds in a type, without those that are in doubt."""
        if not self.legacy_dates or not _is_in_calendar(held):
            return lower, upper
        if lower is not None:
            lower = _nulled(lower, to_numpy(lower) < _first_right(lower.type))
        if upper is not None:
            # Whatever the day is in the other calendar, it is none of those that both have.
            numbers = np.maximum(to_numpy(upper), _first_right(upper.type)).astype(np.int64)
            upper = _typed(from_numpy(numbers, to_numpy(upper.is_valid())), upper.type)
        return lower, upper

    def _columns(
        self, names: list[str], columns: list[pa.Array], raw: list[tuple[str, pa.Array]], above: str
    ) -> list[pa.Array]:
        """Checks columns, of which some are there as raw INT96 too, in the same order."""
        found = []
        waiting = deque(raw)
        for name, column in zip(names, columns, strict=True):
            other = waiting.popleft()[1] if waiting and waiting[0][0] == name else None
            found.append(self._column(column, other, f"{above}{name}"))
        if waiting:
            msg = f"column {above}{waiting[0][0]} cannot be checked"
            raise pa.ArrowInvalid(msg)
        return found

    def _column(self, column: pa.Array, raw: pa.Array | None, name: str) -> pa.Array:
        kind = column.type
        if raw is None and not self.legacy_dates:
            return column
        if pa.types.is_struct(kind):
            # Under a null the children of `field` are undefined.
            names, children = [field.name for field in kind], column.flatten()
            others = [] if raw is None else [(field.name, raw.field(at)) for at, field in enumerate(raw.type)]
            checked = self._columns(names, children, others, f"{name}.")
            mask = column.is_null() if column.null_count else None
            return column if self.strict else pa.StructArray.from_arrays(checked, names=names, mask=mask)
        if isinstance(column, pa.ExtensionArray):
            part, label = "storage", name
        elif pa.types.is_nested(kind):
            part, label = "values", name if pa.types.is_map(kind) else f"{name}.element"
        else:
            return self._values(column, raw, name)
        try:
            strict = replace(self, strict=True)
            strict._column(getattr(column, part), None if raw is None else getattr(raw, part), label)  # noqa: SLF001
        except pa.ArrowInvalid:
            if self.strict:
                raise
            return pa.nulls(len(column), kind)
        return column

    def _values(self, values: pa.Array, raw: pa.Array | None, name: str) -> pa.Array:
        kind = values.type
        if raw is not None and pa.types.is_timestamp(kind) and pa.types.is_fixed_size_binary(raw.type):
            wrong = _is_misread(to_numpy(values), raw)
            values = self._without(values, wrong, f"column {name} has a timestamp {_BEYOND}")
            is_legacy = self.legacy_int96
        else:
            is_legacy = self.legacy_dates and _is_in_calendar(kind)
        if not is_legacy:
            return values
        what, first = ("date", "1582-10-15") if pa.types.is_date(kind) else ("timestamp", "1900-01-01")
        message = f"column {name} has a {what} {_LEGACY.format(first)}"
        return self._without(values, to_numpy(values) < _first_right(kind), message)

    def _without(self, values: pa.Array, wrong: NDArray[np.bool_], message: str) -> pa.Array:
        if not (wrong & to_numpy(values.is_valid())).any():
            return values
        if self.strict:
            msg = f"{message}: leave the column out, or read it with Spark"
            raise pa.ArrowInvalid(msg)
        return _nulled(values, wrong)


def with_raw_int96(metadata: pq.FileMetaData) -> pq.FileMetaData:
    """The footer of the same file, in which INT96 columns are texts of twelve bytes: their pages are the same."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer = read_struct(sink.getvalue().to_pybytes()[4:-8])
    schema, groups = field(2, LIST), field(4, LIST)
    elements = [
        {_KIND: _TYPE_FIXED, _LENGTH: _INT96.itemsize} | {key: part for key, part in element.items() if key > _LENGTH}
        if element.get(_KIND) == _TYPE_INT96
        else element
        for element in footer[schema].items
    ]
    for chunk in (chunk for group in footer[groups].items for chunk in group[field(1, LIST)].items):
        column = chunk.get(field(3, STRUCT), {})
        if column.get(_KIND) == _TYPE_INT96:
            column[_KIND] = _TYPE_FIXED
    made = write_struct(footer | {schema: ThriftList(STRUCT, elements)})
    return pq.read_metadata(pa.BufferReader(b"".join((b"PAR1", made, len(made).to_bytes(4, "little"), b"PAR1"))))


def _is_misread(micros: NDArray[np.int64], raw: pa.FixedSizeBinaryArray) -> NDArray[np.bool_]:
    """Whether microseconds are not those of INT96 values; under a null it is undefined."""
    data = raw.buffers()[1]
    if data is None or not len(raw):
        return np.zeros(len(raw), dtype=np.bool_)
    held = np.frombuffer(data, dtype=_INT96, count=raw.offset + len(raw))[raw.offset :]
    nanos, day = held["nanos"], held["day"]
    wrong: NDArray[np.bool_] = (micros - nanos // 1000) // _MICROSECONDS_A_DAY + _INT96_EPOCH != day
    return wrong | (nanos < 0) | ((day >= _INT96_EPOCH) & (micros < 0))


def _is_in_calendar(kind: pa.DataType) -> bool:
    """Whether values are days or moments; a timestamp without a zone is written in no calendar of old."""
    return bool(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))


def _first_right(kind: pa.DataType) -> int:
    """The first value of a type that is the same in both calendars."""
    if pa.types.is_timestamp(kind):
        return _YEAR_1900_SECONDS * _PER_SECOND[kind.unit]
    return _FIRST_GREGORIAN_DAY * (1 if pa.types.is_date32(kind) else _MILLISECONDS_A_DAY)


def _nulled(values: pa.Array, wrong: NDArray[np.bool_]) -> pa.Array:
    return _typed(from_numpy(to_numpy(values).astype(np.int64), to_numpy(values.is_valid()) & ~wrong), values.type)


def _typed(numbers: pa.Int64Array, kind: pa.DataType) -> pa.Array:
    return numbers.cast(pa.int32()).view(kind) if pa.types.is_date32(kind) else numbers.view(kind)
