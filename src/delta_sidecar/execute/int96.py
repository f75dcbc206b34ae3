"""Parquet's oldest timestamps, INT96, which Spark still writes: eight bytes of nanoseconds, four of a Julian day.

Arrow takes the day for a positive number. Spark's is negative before the year -4712, and also behind the year 287585,
where its 64 bits of microseconds since the first Julian day run over: Arrow puts such a moment anywhere, some of them
into our time. A bound that is wrong drops files, so the bytes are read as they are, and understood here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar._arrow import nullable_int64s, valid_mask
from delta_sidecar.execute.thrift import BINARY, I32, LIST, STRUCT, ThriftReader, list_of, struct_of

if TYPE_CHECKING:
    from typing import Any

_MOMENT = pa.timestamp("us")
_BYTES = pa.binary(12)
_LAYOUT = np.dtype([("nanos", "<i8"), ("day", "<i4")])

_EPOCH = 2_440_588
_DAY = 86_400_000_000
# As many days on either side of the epoch have microseconds in 64 bits.
_MOST_DAYS = 2**63 // _DAY

_MAGIC = b"PAR1"
_END = 8
# Fields of Parquet's FileMetaData and SchemaElement, and two of its types.
_SCHEMA = 2
_TYPE, _LENGTH, _REPETITION, _NAME, _FIELD_ID = 1, 2, 3, 4, 9
_INT96, _FIXED_BYTES = 3, 7
# What is no INT96 may have twelve bytes as well. So the columns that were are marked, by an id that nobody gives.
_ID_KEY, _MARK = b"PARQUET:field_id", b"2147483096"


def int96_columns(metadata: pq.FileMetaData) -> frozenset[int]:
    """Numbers of the leaf columns of a file that are INT96."""
    schema = metadata.schema
    return frozenset(leaf for leaf in range(metadata.num_columns) if schema.column(leaf).physical_type == "INT96")


def with_fixed_bytes(metadata: pq.FileMetaData) -> pq.FileMetaData:
    """A footer by which Arrow reads INT96 columns as twelve bytes a value, which look the same in a file.

    It is for reading rows alone: what it tells of the columns' statistics is not to be looked at.
    """
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    whole = sink.getvalue().to_pybytes()
    length = int.from_bytes(whole[-_END : 4 - _END], "little")
    footer = _rewritten(whole[-_END - length : -_END])
    parts = (_MAGIC, footer, len(footer).to_bytes(4, "little"), _MAGIC)
    return pq.read_metadata(pa.BufferReader(b"".join(parts)))


def is_moment(field: pa.Field) -> bool:
    """Whether a field was INT96, by what such a footer says of it."""
    return (field.metadata or {}).get(_ID_KEY) == _MARK


def moments(values: pa.FixedSizeBinaryArray) -> pa.TimestampArray:
    """Microseconds out of the twelve bytes of INT96 values.

    Whatever the days are counted from, and whether they ran over, the same 64 bits come out. Null where that may not
    be so: a day that no 64 bits of microseconds reach, or more nanoseconds than a day has.
    """
    data = values.buffers()[1]
    if data is None:
        return pa.nulls(len(values), _MOMENT)
    raw = np.frombuffer(data, dtype=_LAYOUT, count=len(values), offset=values.offset * _LAYOUT.itemsize)
    day, nanos = raw["day"].astype(np.int64), raw["nanos"]
    micros = (day - _EPOCH) * _DAY + nanos // 1000
    known = valid_mask(values) & (np.abs(nanos // 1000) < _DAY)
    known &= (day >= -_MOST_DAYS) & (day <= _EPOCH + _MOST_DAYS) & ((day <= _EPOCH) | (micros >= 0))
    return nullable_int64s(micros, known).view(_MOMENT)


def _rewritten(footer: bytes) -> bytes:
    """The footer with another schema; all that comes after it stays as it is."""
    reader = ThriftReader(footer)
    number = kind = 0
    while (number, kind) != (_SCHEMA, LIST):
        if number:
            reader.value(kind, 0)
        number, kind = reader.field(number)
    start = reader.position
    elements = []
    for _ in range(reader.list_head()[1]):
        at = reader.position
        element = reader.struct(1)
        elements.append(_fixed(element) if element.get(_TYPE) == _INT96 else footer[at : reader.position])
    return footer[:start] + list_of(STRUCT, elements) + footer[reader.position :]


def _fixed(element: dict[int, Any]) -> bytes:
    kept = ((_REPETITION, I32), (_NAME, BINARY))
    return struct_of(
        (_TYPE, I32, _FIXED_BYTES),
        (_LENGTH, I32, _LAYOUT.itemsize),
        *((number, kind, element[number]) for number, kind in kept if number in element),
        (_FIELD_ID, I32, int(_MARK)),
    )
