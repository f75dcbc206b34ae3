"""Whether two texts of statistics say the same.

Members may come in any order, and a statistic that is null, or an object without members, may as well be missing.
Values are those of their columns: a number is the same however it is written (of a floating-point column as 64 bits,
the sign of zero included), a text however it is escaped, and a timestamp in whatever zone or with whatever digits.
Everything else is a difference: a member that is no statistic of a known column, one that is there twice, a value of
another type, a timestamp that has a zone where the other has none.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, numbers_of, valid_mask
from delta_sidecar.log.stats import parse_members
from delta_sidecar.log.timestamps import parse_timestamps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath

    Kinds = Mapping[ColumnPath, pa.DataType | None]


def say_the_same(texts: pa.StringArray, others: pa.StringArray, columns: Kinds) -> NDArray[np.bool_]:
    """Compares texts with others, one by one; a null says the same as nothing.

    Args:
        texts: Texts as writers left them.
        others: As many texts that `statistics_text` made.
        columns: Type of each column by its path, None for one that has no bounds.
    """
    # Numbers that are no numbers are texts, which Arrow does not read as numbers.
    unusual = bits_of(pc.match_substring_regex(others, pattern=r':"(?:NaN|-?Infinity)"'))
    compared = valid_mask(texts) & valid_mask(others) & ~unusual
    same = np.zeros(len(texts), dtype=np.bool_)
    if compared.any():
        chosen = booleans(compared)
        left, right = texts.filter(chosen), others.filter(chosen)
        same[compared] = _by_halves(
            len(left), lambda start, rows: _compared(left.slice(start, rows), right.slice(start, rows), columns)
        )
    return same


def in_form(texts: pa.StringArray, columns: Kinds) -> NDArray[np.bool_]:
    """Finds the texts that can be compared at all; arguments as for `say_the_same`."""

    def parsed(start: int, rows: int) -> NDArray[np.bool_]:
        parse_members(texts.slice(start, rows), columns)
        return np.ones(rows, dtype=np.bool_)

    return _by_halves(len(texts), parsed)


def _by_halves(rows: int, check: Callable[[int, int], NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Checks rows of which any may be out of form, which makes `check` fail: halves are tried until it is found.

    Where many are, what is left of the slices counts as false as a whole: a text that is kept for nothing is still
    right, and reading every one by itself would cost more than all the rest of a build.
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
    """Compares texts.

    Raises:
        pa.ArrowInvalid: One is out of form.
    """
    left, right = (_leaves(parse_members(each, columns)) for each in (texts, others))
    same = np.ones(len(texts), dtype=np.bool_)
    for (path, own), (_, other) in zip(left, right, strict=True):
        same &= _equal(own, other, columns.get(path[1:]))
    return same


def _leaves(struct: pa.StructArray, above: ColumnPath = ()) -> Iterator[tuple[ColumnPath, pa.Array]]:
    for field, column in zip(struct.type, struct.flatten(), strict=True):
        path = (*above, field.name)
        if pa.types.is_struct(field.type):
            yield from _leaves(column, path)
        else:
            yield path, column


def _equal(left: pa.Array, right: pa.Array, kind: pa.DataType | None) -> NDArray[np.bool_]:
    there, others = valid_mask(left), valid_mask(right)
    if pa.types.is_floating(left.type):
        equal = np.equal(numbers_of(left).view(np.int64), numbers_of(right).view(np.int64))
    elif pa.types.is_null(left.type):
        return np.ones(len(left), dtype=np.bool_)
    else:
        equal = bits_of(pc.equal(left, right))
        open_ones = there & others & ~equal
        if kind is not None and pa.types.is_timestamp(kind) and pa.types.is_string(left.type) and open_ones.any():
            chosen = booleans(open_ones)
            equal[open_ones] = _same_moments(left.filter(chosen), right.filter(chosen))
    return (there & others & equal) | (~there & ~others)


def _same_moments(left: pa.StringArray, right: pa.StringArray) -> NDArray[np.bool_]:
    # A date is no timestamp: the column may have been one of dates.
    timed = bits_of(pc.match_substring(left, pattern=":"))
    (one, one_zoneless), (other, other_zoneless) = parse_timestamps(left), parse_timestamps(right)
    return timed & bits_of(pc.equal(one, other)) & bits_of(pc.equal(one_zoneless, other_zoneless))
