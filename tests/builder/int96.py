"""Parquet's oldest timestamps, INT96, in Arrow's and Spark's bytes: nanoseconds of a day, and its Julian number."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_EPOCH = 2_440_588
_DAY = 86_400_000_000


def rewrite_as_spark(path: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> None:
    """Gives far moments in an uncompressed file that Arrow wrote the bytes that Spark would have given them."""
    content = path.read_bytes()
    for micros in {micros for row in rows for micros in _far_moments(row, pa.struct(list(schema)))}:
        written, wanted = arrow_bytes(micros), spark_bytes(micros)
        if written not in content:
            msg = f"{path} has no INT96 of {micros} microseconds"
            raise ValueError(msg)
        content = content.replace(written, wanted)
    path.write_bytes(content)


def arrow_bytes(micros: int) -> bytes:
    """Gives a moment as Arrow writes it: counted from the day that it is in."""
    return struct.pack("<qI", micros % _DAY * 1000, (micros // _DAY + _EPOCH) % 2**32)


def spark_bytes(micros: int) -> bytes:
    """Gives a moment as Spark writes it: its 64 bits run over, and what is negative is cut towards zero."""
    julian = (micros + _EPOCH * _DAY + 2**63) % 2**64 - 2**63
    days = abs(julian) // _DAY * (1 if julian >= 0 else -1)
    return struct.pack("<qi", (julian - days * _DAY) * 1000, days)


def _far_moments(value: Any, kind: pa.DataType) -> Iterator[int]:  # noqa: ANN401 - a value of any type
    """The timestamps in a row that are no Python value."""
    if pa.types.is_struct(kind) and value is not None:
        for field in kind:
            yield from _far_moments(value.get(field.name), field.type)
    elif pa.types.is_timestamp(kind) and isinstance(value, int):
        yield value
