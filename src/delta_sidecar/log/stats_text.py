"""The JSON text of statistics, rebuilt from native columns in the layout of its writer.

    {"numRecords":3,"minValues":{"a":1},"maxValues":{"a":7},"nullCount":{"a":0},"tightBounds":true}

Writers agree on the members and differ in their order, in the notation of values, and in whether they write objects
without members. A *layout* is the notation of one writer, with the members in the order of the table's schema. A text
whose meaning differs from what its layout rebuilds has to be kept.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from delta_sidecar._arrow import from_numpy, scalar, to_numpy
from delta_sidecar.log.stats import SIDES, insert, leaves, parse_members
from delta_sidecar.log.values import ARROW, JAVA, RUST, ValueStyle, parse_timestamps, value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.log.stats import FileStatistics

    Kinds = Mapping[ColumnPath, pa.DataType | None]


STATS_FORMATS = {"spark": JAVA, "spark-sparse": replace(JAVA, empty_objects=False), "arrow": ARROW, "deltalake": RUST}
"""Layouts by name: Delta on Spark; the same without empty objects; `log.values` for the structs of a checkpoint;
deltalake, whose members come in any order."""

DEFAULT_STATS_FORMAT = "spark"


def statistics_text(stats: FileStatistics, rows: int, stats_format: str) -> pa.StringArray:
    """Writes statistics as JSON objects, a row a file, without nulls.

    The columns are in the order of the table's schema; `stats_format` is the name of a layout.
    """
    sides: dict[str, dict[str, Any]] = {}
    for path, column in stats.columns.items():
        for side, values in zip(SIDES, (column.lower, column.upper, column.null_count), strict=True):
            if values is not None:
                # The objects around an absent column are still written.
                is_absent = 0 < len(values) == values.null_count
                insert(sides.setdefault(side, {}), path, None if is_absent else values)
    objects = {side: sides[side] for side in SIDES if side in sides}
    document: dict[str, Any] = {"numRecords": stats.num_records, **objects, "tightBounds": stats.tight}
    members = {name: value for name, value in document.items() if value is not None}
    return _joined(_object(members, STATS_FORMATS[stats_format], rows), rows)


def choose_stats_format(
    texts: pa.StringArray, stats: FileStatistics, columns: Mapping[ColumnPath, pa.DataType | None]
) -> str:
    """The layout that rebuilds the meaning of most texts; among equals the most texts, then the most lengths.

    Args:
        texts: The writers' texts.
        stats: Their content.
        columns: Type of each column by its path, None for one without bounds.
    """
    best, most = DEFAULT_STATS_FORMAT, (-1, -1, -1)
    comparable = in_form(texts, columns)
    for name in STATS_FORMATS:
        rebuilt = statistics_text(stats, len(texts), name)
        equal = to_numpy(pc.equal(texts, rebuilt))
        if equal.all():
            return name
        lengths = to_numpy(pc.equal(pc.binary_length(texts), pc.binary_length(rebuilt)))
        same = equal.copy()
        differing = comparable & ~equal
        chosen = from_numpy(differing)
        same[differing] = say_the_same(texts.filter(chosen), rebuilt.filter(chosen), columns)
        found = int(np.count_nonzero(same)), int(np.count_nonzero(equal)), int(np.count_nonzero(lengths))
        if found > most:
            best, most = name, found
    return best


def _object(members: Mapping[str, Any], layout: ValueStyle, rows: int) -> Iterator[pa.Array | str]:
    """The text of an object whose members are columns and objects, as columns and constant texts to be joined."""
    rendered = [(name, *_member(member, layout, rows)) for name, member in members.items()]
    first = next((number for number, (_, _, always) in enumerate(rendered) if always), None)
    yield "{"
    if first is None:
        # The first member of a row has a comma too many.
        body = _joined([_optional(",", name, pieces, "", rows) for name, pieces, _ in rendered], rows)
        yield pc.utf8_ltrim(body, characters=",")
    else:
        for number, (name, pieces, always) in enumerate(rendered):
            before, after = ("," if number > first else "", "," if number < first else "")
            if always:
                yield f"{before}{_name(name)}:"
                yield from pieces
            else:
                yield _optional(before, name, pieces, after, rows)
    yield "}"


def _member(member: Any, layout: ValueStyle, rows: int) -> tuple[Iterable[pa.Array | str], bool]:  # noqa: ANN401
    """The pieces of a member's value, and whether every row has it."""
    if not isinstance(member, dict):
        return [value_text(member, layout)], member.null_count == 0
    pieces = _object(member, layout, rows)
    if layout.empty_objects:
        return pieces, True
    text = _joined(pieces, rows)
    empty = pc.equal(text, scalar("{}", pa.string()))
    always = not pc.any(empty).as_py()
    return [text if always else pc.if_else(empty, scalar(None, pa.string()), text)], always


def _optional(before: str, name: str, pieces: Iterable[pa.Array | str], after: str, rows: int) -> pa.StringArray:
    whole = _joined([f"{before}{_name(name)}:", *pieces, after], rows)
    return pc.fill_null(whole, scalar("", pa.string()))


def _joined(pieces: Iterable[pa.Array | str], rows: int) -> pa.StringArray:
    merged: list[pa.Array | str] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    string = pa.string()
    values = [scalar(piece, string) if isinstance(piece, str) else piece for piece in merged if len(piece) or rows == 0]
    if not any(isinstance(piece, pa.Array) for piece in values):
        text = "".join(piece for piece in merged if isinstance(piece, str))
        return pc.fill_null(pa.nulls(rows, string), scalar(text, string))
    return pc.binary_join_element_wise(*values, scalar("", string))


def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


# Comparing texts of statistics by meaning.
#
# Members may come in any order, and a null statistic or an object without members may be missing. Values are compared
# as those of their columns: numbers in any notation (of a floating-point column as 64 bits, with the sign of zero),
# texts with any escapes, timestamps in any zone and with any number of digits. Everything else is a difference: a
# member that is no statistic of a known column, a repeated one, a value of another type, a timestamp with a zone beside
# one without.


def say_the_same(texts: pa.StringArray, others: pa.StringArray, columns: Kinds) -> NDArray[np.bool_]:
    """Compares writers' texts with as many of `statistics_text` by meaning, one by one; a null equals nothing.

    `columns` has the type of each column by its path, None for one without bounds.
    """
    # NaN and infinities are texts, which Arrow does not parse as numbers.
    unusual = to_numpy(pc.match_substring_regex(others, pattern=r':"(?:NaN|-?Infinity)"'))
    compared = to_numpy(texts.is_valid()) & to_numpy(others.is_valid()) & ~unusual
    same = np.zeros(len(texts), dtype=np.bool_)
    if compared.any():
        chosen = from_numpy(compared)
        left, right = texts.filter(chosen), others.filter(chosen)
        same[compared] = _by_halves(
            len(left), lambda start, rows: _compared(left.slice(start, rows), right.slice(start, rows), columns)
        )
    return same


def in_form(texts: pa.StringArray, columns: Kinds) -> NDArray[np.bool_]:
    """The texts that can be compared by meaning; arguments as for `say_the_same`."""

    def parsed(start: int, rows: int) -> NDArray[np.bool_]:
        parse_members(texts.slice(start, rows), columns)
        return np.ones(rows, dtype=np.bool_)

    return _by_halves(len(texts), parsed)


def _by_halves(rows: int, check: Callable[[int, int], NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Checks rows in bulk; a malformed one makes `check` fail, so halves are tried until it is found.

    With many malformed rows the remaining slices count as false as a whole: a text that is kept without need is still
    right, and to parse each by itself would cost more than the rest of a build.
    """
    found = np.zeros(rows, dtype=np.bool_)
    halvings = max(_HALVINGS, rows // _HALVINGS)
    slices = deque([(0, rows)])
    while slices:
        start, count = slices.popleft()
        try:
            found[start : start + count] = check(start, count)
        except pa.ArrowInvalid:
            if count > 1 and halvings:
                halvings -= 1
                slices += [(start, count // 2), (start + count // 2, count - count // 2)]
    return found


_HALVINGS = 64


def _compared(texts: pa.StringArray, others: pa.StringArray, columns: Kinds) -> NDArray[np.bool_]:
    left, right = (leaves(parse_members(each, columns)) for each in (texts, others))
    same = np.ones(len(texts), dtype=np.bool_)
    for (path, own), (_, other) in zip(left, right, strict=True):
        same &= _equal(own, other, columns.get(path[1:]))
    return same


def _equal(left: pa.Array, right: pa.Array, kind: pa.DataType | None) -> NDArray[np.bool_]:
    there: NDArray[np.bool_] = to_numpy(left.is_valid())
    others: NDArray[np.bool_] = to_numpy(right.is_valid())
    if pa.types.is_floating(left.type):
        equal = np.equal(to_numpy(left).view(np.int64), to_numpy(right).view(np.int64))
    elif pa.types.is_null(left.type):
        return np.ones(len(left), dtype=np.bool_)
    else:
        equal = to_numpy(pc.equal(left, right))
        differing = there & others & ~equal
        if kind is not None and pa.types.is_timestamp(kind) and pa.types.is_string(left.type) and differing.any():
            chosen = from_numpy(differing)
            equal[differing] = _same_moments(left.filter(chosen), right.filter(chosen))
    return (there & others & equal) | (~there & ~others)


def _same_moments(left: pa.StringArray, right: pa.StringArray) -> NDArray[np.bool_]:
    # A date is no timestamp: the column may have been one of dates.
    timed = to_numpy(pc.match_substring(left, pattern=":"))
    (one, one_zoneless), (other, other_zoneless) = parse_timestamps(left), parse_timestamps(right)
    equal: NDArray[np.bool_] = to_numpy(pc.equal(one, other)) & to_numpy(pc.equal(one_zoneless, other_zoneless))
    return timed & equal
