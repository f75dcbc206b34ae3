"""Values of statistics as JSON text and timestamps from text, whole columns at a time, in the notations of writers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import from_numpy, scalar, strings, to_numpy
from delta_sidecar.log.identity import text_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ValueStyle:
    """A writer's notation of statistics."""

    numbers: Literal["java", "rust", "arrow"]  # notation of floating-point numbers
    fraction: Literal["3", "6", "3 or none"]  # digits of a timestamp's second behind the point
    zoneless: str = "T"  # separator of date and time in a timestamp without a zone
    short_floats: bool = False  # 32-bit floats have as few digits as they need
    decimals: bool = True  # decimals have their own digits; else they are floating-point numbers
    upper_hex: bool = False  # escaped control characters have capital digits
    empty_objects: bool = True  # objects without members are written


JAVA = ValueStyle("java", "3", short_floats=True, upper_hex=True)
RUST = ValueStyle("rust", "3 or none", zoneless=" ", decimals=False)
ARROW = ValueStyle("arrow", "6")


def value_text(column: pa.Array, style: ValueStyle) -> pa.StringArray:
    """Each value as JSON; null for null, and for a type without bounds."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return _floats(column, style)
    if pa.types.is_decimal(kind):
        return column.cast(pa.string()) if style.decimals else _floats(column.cast(pa.float64()), style)
    if pa.types.is_timestamp(kind):
        return _wrap('"', _timestamps(column, style), '"')
    if pa.types.is_date(kind):
        return _wrap('"', column.cast(pa.string()), '"')
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _wrap('"', _escaped(column, upper_hex=style.upper_hex), '"')
    return pa.nulls(len(column), pa.string())


def is_text_of(column: pa.Array, texts: pa.StringArray, style: ValueStyle, *, is_quoted: bool) -> bool:
    """Whether `value_text` writes these very texts, in quotes that they are given without, or as they are."""
    if is_quoted and pa.types.is_string(column.type):
        return bool(column.equals(texts) and _escaped(column, upper_hex=style.upper_hex) is column)
    if is_quoted and pa.types.is_timestamp(column.type):
        return _are_usual(column, texts, style) or bool(_timestamps(column, style).equals(texts))
    return bool(value_text(column, style).equals(_wrap('"', texts, '"') if is_quoted else texts))


_USUAL, _MARKS = b"yyyy-mm-ddThh:mm:ss.fffZ", b"--T::.Z"


def _are_usual(column: pa.TimestampArray, texts: pa.StringArray, style: ValueStyle) -> bool:
    """Whether texts that were read as moments can only be what is written of them again, by their form."""
    if column.null_count or column.type.tz is None or style.fraction != "3":
        return False
    content = text_bytes(texts)
    if (np.diff(_offsets(texts)) != len(_USUAL)).any():
        return False
    places = [place for place, letter in enumerate(_USUAL) if letter in _MARKS]
    return content.reshape(-1, len(_USUAL))[:, places].tobytes() == _MARKS * len(texts)


def _timestamps(column: pa.TimestampArray, style: ValueStyle) -> pa.StringArray:
    zoned = column.type.tz is not None
    moments = column.cast(pa.timestamp("us", column.type.tz), safe=False).view(pa.int64()).view(pa.timestamp("us"))
    if style.fraction != "6":
        moments = moments.cast(pa.timestamp("ms"), safe=False)
    between = "T" if zoned else style.zoneless
    text = moments.cast(pa.string())
    if between != " ":
        text = pc.replace_substring(text, pattern=" ", replacement=between, max_replacements=1)
    if style.fraction == "3 or none":
        text = pc.replace_substring_regex(text, pattern=r"\.000$", replacement="")
    return _wrap("", text, "Z") if zoned else text


def _floats(column: pa.Array, style: ValueStyle) -> pa.StringArray:
    # Arrow gives as few digits as tell a value from its neighbours, in 32 bits or in 64.
    column = column if style.short_floats else column.cast(pa.float64())
    text = column.cast(pa.string())
    values = to_numpy(column)
    finite = np.isfinite(values)
    if style.numbers != "arrow":
        low, high = (values.dtype.type(bound) for bound in _PLAIN[style.numbers])
        size = np.abs(values)
        plain = ((size >= low) & (size < high)) | (size == 0)
        # Arrow's own exponents begin at 1e10.
        whole = plain & (np.trunc(values) == values) & (size < _ARROW_EXPONENT)
        if whole.any():
            text = pc.if_else(from_numpy(whole), _wrap("", text, ".0"), text)
        odd = finite & (~plain if style.numbers == "java" else ~plain | (size >= _ARROW_EXPONENT))
        odd &= to_numpy(column.is_valid())
        if odd.any():
            mask = from_numpy(odd)
            others = strings(map(_ODD[style.numbers], text.filter(mask).to_pylist()))
            text = pc.replace_with_mask(text, mask, others)
    if finite.all():
        return text
    for arrow, other in (("nan", "NaN"), ("inf", "Infinity")):
        text = pc.replace_substring(text, pattern=arrow, replacement=other)
    return pc.if_else(from_numpy(finite), text, _wrap('"', text, '"'))


# Arrow writes numbers from here on with an exponent, deltalake from `_RUST_POWER` on.
_ARROW_POWER, _RUST_POWER = 10, 16
_ARROW_EXPONENT = 10.0**_ARROW_POWER

# Between these, numbers are written without an exponent.
_PLAIN = {"java": (1e-3, 1e7), "rust": (1e-5, 10.0**_RUST_POWER)}


def _in_java(text: str) -> str:
    sign, digits, power = _digits(text)
    return f"{sign}{digits[0]}.{digits[1:] or 0}E{power}"


def _in_rust(text: str) -> str:
    sign, digits, power = _digits(text)
    if _ARROW_POWER <= power < _RUST_POWER:
        return f"{sign}{digits[: power + 1]:0<{power + 1}}.{digits[power + 1 :] or 0}"
    return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{power:+}"


def _digits(text: str) -> tuple[str, str, int]:
    """The sign of a number, its digits without zeros around them, and the power of ten of the first."""
    mantissa, _, power = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    return "-" * (text[0] == "-"), digits.rstrip("0"), int(power or 0) + len(digits) - len(fraction) - 1


_ODD = {"java": _in_java, "rust": _in_rust}


def _escaped(column: pa.StringArray, *, upper_hex: bool) -> pa.StringArray:
    # A byte below a null counts too, which does no harm.
    content = text_bytes(column)
    if not ((content < _SPACE) | (content == _QUOTE) | (content == _BACKSLASH)).any():
        return column
    text = pc.replace_substring(column, pattern="\\", replacement="\\\\")
    text = pc.replace_substring(text, pattern='"', replacement='\\"')
    for code in range(0x20):
        escape = json.dumps(chr(code))[1:-1]
        if upper_hex and escape.startswith("\\u"):
            escape = f"\\u{code:04X}"
        text = pc.replace_substring(text, pattern=chr(code), replacement=escape)
    return text


_SPACE, _QUOTE, _BACKSLASH = 0x20, 0x22, 0x5C


def _wrap(before: str, text: pa.StringArray, after: str) -> pa.StringArray:
    string = pa.string()
    return pc.binary_join_element_wise(scalar(before, string), text, scalar(after, string), _EMPTY)


_EMPTY = scalar("", pa.string())


# Structs and maps as JSON objects.
#
# Checkpoints may hold statistics and tags as structs and maps only; a file list has the JSON that the `add` action of a
# commit would have. Null fields are left out, as writers do, and so are timestamps whose years have not four digits: no
# reader parses them.


def struct_text(
    column: pa.StructArray, instants: frozenset[tuple[str, ...]] = frozenset(), path: tuple[str, ...] = ()
) -> pa.StringArray:
    """Each row of a struct column as a JSON object; null for a null row.

    `instants` are paths, without their first name, of timestamps that are in UTC even if their type has no zone, as
    Parquet's oldest timestamps have none; `path` is that of the struct itself.
    """
    children = zip(column.type, column.flatten(), strict=True)
    pieces = [_member(field.name, child, instants, (*path, field.name)) for field, child in children]
    body = pc.binary_join_element_wise(*pieces, _EMPTY) if pieces else pa.nulls(len(column), pa.string())
    text = _wrap("{", pc.utf8_rtrim(pc.fill_null(body, _EMPTY), characters=","), "}")
    return pc.if_else(column.is_valid(), text, scalar(None, pa.string()))


def map_text(column: pa.MapArray) -> pa.StringArray:
    """Each row of a map from strings to strings as a JSON object; null for a null row."""
    offsets = to_numpy(column.offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = column.keys.slice(first, last - first), column.items.slice(first, last - first)
    value = pc.fill_null(value_text(items, ARROW), scalar("null", pa.string()))
    entries = pc.binary_join_element_wise(value_text(keys, ARROW), value, scalar(":", pa.string()))
    rows = pa.ListArray.from_arrays(from_numpy(offsets.astype(np.int64) - first).cast(pa.int32()), entries)
    text = _wrap("{", pc.binary_join(rows, scalar(",", pa.string())), "}")
    return pc.if_else(column.is_valid(), text, scalar(None, pa.string()))


def _member(name: str, column: pa.Array, instants: frozenset[tuple[str, ...]], path: tuple[str, ...]) -> pa.StringArray:
    if pa.types.is_struct(column.type):
        value = struct_text(column, instants, path)
    else:
        if pa.types.is_timestamp(column.type):
            column = in_four_digits(column)
            is_instant = column.type.tz is None and path[1:] in instants
            column = column.cast(pa.timestamp("us", "UTC")) if is_instant else column
        value = value_text(column, ARROW)
    return pc.fill_null(_wrap(json.dumps(name, ensure_ascii=False) + ":", value, ","), _EMPTY)


# Timestamps of statistics and partition values: ISO 8601, with or without a zone.


# Seconds from 1970 to the beginning of the year 0, and to the end of the year 9999.
_FIRST, _AFTER_LAST = -62_167_219_200, 253_402_300_800
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_ZONE = r"(?:[Zz]|[+-]\d{2}:?\d{2})$"
_MICROS = pa.timestamp("us")
_Z = ord("Z")


def parse_timestamps(text: pa.StringArray) -> tuple[pa.TimestampArray, pa.BooleanArray]:
    """Parses timestamps as instants in UTC; one without a zone counts as UTC.

    Returns:
        The instants, as a type without a zone, and a mask of those that were written without one.

    Raises:
        pa.ArrowInvalid: A text is no timestamp.
    """
    if _all_end_in_z(text):
        return _zoned(text), from_numpy(np.zeros(len(text), dtype=np.bool_))
    zoned = pc.match_substring_regex(text, pattern=_ZONE)
    bits = to_numpy(zoned)
    if bits.all():
        return _zoned(text), from_numpy(~bits)
    if not bits.any():
        return text.cast(_MICROS), from_numpy(~bits)
    nothing = pa.nulls(len(text), pa.string())
    with_zone = _zoned(pc.if_else(zoned, text, nothing))
    without = pc.if_else(zoned, nothing, text).cast(_MICROS)
    return pc.coalesce(with_zone, without), from_numpy(~bits)


def _all_end_in_z(text: pa.StringArray) -> bool:
    if text.null_count or not len(text):
        return False
    content, offsets = text_bytes(text), _offsets(text)
    ends = offsets[1:] - offsets[0]
    return bool((np.diff(offsets) > 0).all() and (content[ends - 1] == _Z).all())


def _offsets(text: pa.StringArray) -> NDArray[np.int32]:
    return np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text) + 1]


def in_four_digits(moments: pa.TimestampArray) -> pa.TimestampArray:
    """The timestamps whose years have four digits, as those of the log have; null for the others."""
    if moments.type.unit not in _PER_SECOND:
        # Nanoseconds reach no further.
        return moments
    numbers, per_second = to_numpy(moments), _PER_SECOND[moments.type.unit]
    known = to_numpy(moments.is_valid())
    near = known & (numbers >= _FIRST * per_second) & (numbers < _AFTER_LAST * per_second)
    return moments if near.sum() == known.sum() else from_numpy(numbers, near).view(moments.type)


def _zoned(text: pa.StringArray) -> pa.TimestampArray:
    return text.cast(pa.timestamp("us", "UTC")).cast(_MICROS)
