"""Statistics out of texts that all look alike, several times faster than by reading them as JSON.

The files of a table mostly come from one writer, whose texts differ in their values alone. So the first text tells
where the values are: between which commas, behind which names. Nothing of the others is looked at but commas and
values. What is found is a *guess*, to be believed of a text only where writing it down again gives the same text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import int64s
from delta_sidecar.log.stats import ColumnStatistics, FileStatistics
from delta_sidecar.log.timestamps import parse_timestamps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath


@dataclass(frozen=True, slots=True)
class Guess:
    """What texts seem to say.

    Attributes:
        fits: Which texts have as many commas as the first one.
        stats: Statistics of those. What the first text does not tell is None.
    """

    fits: NDArray[np.bool_]
    stats: FileStatistics


def guess_statistics(texts: pa.StringArray, columns: Mapping[ColumnPath, pa.DataType | None]) -> Guess | None:
    """Guesses what texts say.

    Args:
        texts: The texts; the first one is not null.
        columns: Type of each column by its path, None for one that has no bounds.

    Returns:
        None where there is nothing to guess from: the first text is out of form, or a value is none of its type.
    """
    places = _places(texts[0].as_py())
    if places is None:
        return None
    kinds = _kinds(columns)
    if any(place.path not in kinds for place in places if place.path):
        return None
    fits, values = _values(texts, places)
    if values is None:
        return None
    try:
        found = {
            place.path: _typed(values, number, len(places), kinds[place.path], quoted=place.quoted)
            for number, place in enumerate(places)
            if place.path
        }
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    statistics = {
        path: ColumnStatistics(*(found.get((side, *path)) for side in ("minValues", "maxValues", "nullCount")))
        for path in columns
    }
    return Guess(fits, FileStatistics(found.get(("numRecords",)), found.get(("tightBounds",)), statistics))


@dataclass(frozen=True, slots=True)
class _Place:
    """What stands between two commas.

    Attributes:
        path: Names on the way to the value; empty where there is none but an empty object.
        before: Bytes before the value, the comma included.
        after: Bytes after it.
        quoted: Whether the value is in quotes.
    """

    path: tuple[str, ...]
    before: int
    after: int
    quoted: bool = False


_NAME = re.compile(r'"((?:[^"\\]|\\.)*)":(\{?)')
_VALUE = re.compile(r'("?)([^"{}\\]*)\1(\}*)\Z')


def _places(text: str) -> list[_Place] | None:
    """Where the values of a text are; None where it is out of form."""
    found = []
    above: list[str] = []
    for number, piece in enumerate(text.split(",")):
        position = 0
        if number == 0:
            if not piece.startswith("{"):
                return None
            position = 1
        path = list(above)
        while (name := _NAME.match(piece, position)) is not None:
            path.append(json.loads(f'"{name[1]}"'))
            position = name.end()
            if not name[2]:
                break
            above.append(path[-1])
        value = _VALUE.match(piece, position)
        if value is None or len(path) < len(above):
            return None
        is_empty = len(path) == len(above)
        if is_empty and value[0].strip("}"):
            return None
        # A comma was cut off in front of all pieces but the first one.
        before = len(piece[: value.start(2)].encode()) + (number > 0)
        after = len(piece[value.end(2) :].encode())
        found.append(_Place(() if is_empty else tuple(path), before, after, bool(value[1])))
        closed = len(value[3])
        if closed > len(above) + 1:
            return None
        above = above[: max(0, len(above) - closed)]
    paths = [place.path for place in found if place.path]
    return found if len(set(paths)) == len(paths) else None


def _kinds(columns: Mapping[ColumnPath, pa.DataType | None]) -> dict[tuple[str, ...], pa.DataType]:
    kinds: dict[tuple[str, ...], pa.DataType] = {("numRecords",): pa.int64(), ("tightBounds",): pa.bool_()}
    for path, kind in columns.items():
        kinds["nullCount", *path] = pa.int64()
        if kind is not None:
            kinds["minValues", *path] = kinds["maxValues", *path] = kind
    return kinds


def _values(texts: pa.StringArray, places: list[_Place]) -> tuple[NDArray[np.bool_], pa.StringArray | None]:
    """Cuts texts at their commas; every second one of what is given is a value, text after text."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    text = np.frombuffer(data, dtype=np.uint8)[: ends[-1]]
    commas = np.flatnonzero(text[ends[0] :] == _COMMA) + ends[0]
    seen = np.searchsorted(commas, ends)
    fits = np.diff(seen) == len(places) - 1
    if not fits.all():
        chosen = np.flatnonzero(fits)
        inside = (seen[:-1][chosen, None] + np.arange(len(places) - 1)).ravel()
        commas, first, last = commas[inside], ends[:-1][chosen], ends[1:][chosen]
    else:
        first, last = ends[:-1], ends[1:]
    rows = len(first)
    borders = np.empty((rows, len(places) + 1), dtype=np.int32)
    borders[:, 0], borders[:, -1] = first, last
    borders[:, 1:-1] = commas.reshape(rows, len(places) - 1)
    cuts = np.empty((rows, len(places), 2), dtype=np.int32)
    cuts[:, :, 0] = borders[:, :-1] + np.array([place.before for place in places], dtype=np.int32)
    cuts[:, :, 1] = borders[:, 1:] - np.array([place.after for place in places], dtype=np.int32)
    flat = cuts.ravel()
    if (np.diff(flat) < 0).any():
        return fits, None
    return fits, pa.Array.from_buffers(pa.string(), len(flat) - 1, [None, pa.py_buffer(flat), data])


_COMMA = 0x2C


def _typed(values: pa.StringArray, number: int, places: int, kind: pa.DataType, *, quoted: bool) -> pa.Array:
    rows = (len(values) + 1) // (2 * places)
    column = values.take(int64s(np.arange(rows, dtype=np.int64) * (2 * places) + 2 * number))
    is_text = pa.types.is_string(kind) or pa.types.is_temporal(kind)
    if is_text != quoted:
        msg = "a text is not in quotes, or a number is"
        raise pa.ArrowInvalid(msg)
    if pa.types.is_timestamp(kind):
        moments, zoneless = parse_timestamps(column)
        if (kind.tz is not None) == bool(zoneless.true_count):
            msg = "a timestamp has no zone, or has one"
            raise pa.ArrowInvalid(msg)
        return moments.cast(pa.timestamp("us", kind.tz)).cast(kind)
    return column if pa.types.is_string(kind) else column.cast(kind)
