"""Values of rows as text, a column at a time: plain for tables and CSV, or as JSON.

Both keep everything. Numbers have all their digits, also decimals; what JSON has no number for is a text: `"NaN"`,
`"Infinity"`. Times are ISO 8601, with a `Z` where the type has a zone; bytes are base64.
"""

from __future__ import annotations

import base64
import re
from itertools import islice
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar.errors import OptionError, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator


def plain_texts(column: pa.Array) -> list[str | None]:
    """Each value as text, nested ones as JSON; None for null.

    Raises:
        OptionError: The type has no text.
        UnreadableFileError: A text is not UTF-8.
    """
    column = _unpacked(column)
    kind = column.type
    if _is_container(kind):
        return [
            text if is_valid else None for text, is_valid in zip(json_texts(column), _validity(column), strict=True)
        ]
    if pa.types.is_floating(kind):
        return [None if text is None else _float(text) for text in _cast(column)]
    if pa.types.is_decimal(kind):
        return [None if value is None else f"{value:f}" for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        end = "" if kind.tz is None else "Z"
        moments = _cast(column.cast(pa.timestamp(kind.unit)))
        return [None if text is None else _without_zeros(text).replace(" ", "T", 1) + end for text in moments]
    if pa.types.is_time(kind):
        return [None if text is None else _without_zeros(text) for text in _cast(column)]
    if _is_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
    if pa.types.is_duration(kind) or kind == pa.month_day_nano_interval():
        return [None if value is None else _interval(value) for value in _intervals(column)]
    return _cast(column)


def json_texts(column: pa.Array) -> list[str]:
    """Each value as JSON, `null` for null.

    Raises:
        OptionError: The type has no text.
        UnreadableFileError: A text is not UTF-8.
    """
    column = _unpacked(column)
    kind = column.type
    if pa.types.is_map(kind):
        return _maps(column)
    if pa.types.is_struct(kind):
        return _structs(column)
    if _is_container(kind):
        return _lists(column)
    texts = plain_texts(column)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        return [text or "null" for text in texts]
    if pa.types.is_floating(kind):
        return ["null" if text is None else f'"{text}"' if text in _NO_NUMBERS else text for text in texts]
    return ["null" if text is None else json_string(text) for text in texts]


def json_string(text: str) -> str:
    """A text as a string of JSON that cannot steer a terminal."""
    encoded = encode_basestring(text)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded) if _STEERING.search(encoded) else encoded


_NO_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})

# JSON escapes only those below the blank by itself; a line separator would break a line.
_STEERING = re.compile("[\x7f-\x9f\u2028\u2029]")


def _lists(column: pa.Array) -> list[str]:
    items = iter(json_texts(column.flatten()))
    lengths = column.value_lengths().to_pylist()
    return ["null" if length is None else f"[{','.join(islice(items, length))}]" for length in lengths]


def _structs(column: pa.StructArray) -> list[str]:
    validity = _validity(column)
    names = [json_string(field.name) for field in column.type]
    if not names:
        return ["{}" if is_valid else "null" for is_valid in validity]
    rows = json_objects(names, [json_texts(part) for part in column.flatten()])
    return [text if is_valid else "null" for text, is_valid in zip(rows, validity, strict=True)]


def json_objects(names: list[str], columns: list[list[str]]) -> Iterator[str]:
    """Objects of JSON, from names that are strings of JSON and the texts of their columns."""
    form = "{" + ",".join(f"{name.replace('%', '%%')}:%s" for name in names) + "}"
    return (form % row for row in zip(*columns, strict=True))


def _maps(column: pa.MapArray) -> list[str]:
    # Keys are texts in JSON, whatever they are here.
    entries = column.cast(pa.list_(pa.struct([("k", column.type.key_type), ("v", column.type.item_type)])))
    keys, items = (entries.flatten().field(at) for at in range(2))
    pairs = (f"{json_string(key or '')}:{item}" for key, item in zip(plain_texts(keys), json_texts(items), strict=True))
    lengths = entries.value_lengths().to_pylist()
    return ["null" if length is None else "{" + ",".join(islice(pairs, length)) + "}" for length in lengths]


def _unpacked(column: pa.Array) -> pa.Array:
    """The values themselves, of a type that only tells how they are kept."""
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        return _unpacked(column.storage)
    return column


def _cast(column: pa.Array) -> list[str | None]:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    try:
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        msg = "the rows hold text that is not UTF-8, which only --output arrow gives as it is"
        raise UnreadableFileError(msg) from None
    except pa.ArrowNotImplementedError:
        msg = f"values of the type {column.type} have no text: leave them out, or take --output arrow"
        raise OptionError(msg) from None


def _validity(column: pa.Array) -> list[bool]:
    return column.is_valid().to_pylist()  # type: ignore[no-any-return]


def _is_container(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) and not pa.types.is_union(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _float(text: str) -> str:
    if text.lstrip("-").isdigit():
        return f"{text}.0"
    return _FLOATS.get(text, text)


_FLOATS = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _without_zeros(text: str) -> str:
    """A time without a fraction of a second that is zero."""
    seconds, point, fraction = text.partition(".")
    return text if point and fraction.strip("0") else seconds


def _intervals(column: pa.Array) -> Iterator[tuple[int, int, int] | None]:
    """Months, days and nanoseconds of each."""
    if pa.types.is_duration(column.type):
        in_nanoseconds = _NANOSECONDS[column.type.unit]
        return (None if n is None else (0, 0, n * in_nanoseconds) for n in column.view(pa.int64()).to_pylist())
    return (None if value is None else tuple(value) for value in column.to_pylist())


_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _interval(value: tuple[Any, ...]) -> str:
    """A span of time in ISO 8601, such as `P1M2DT3.5S`."""
    months, days, nanoseconds = value
    seconds, fraction = divmod(abs(nanoseconds), 10**9)
    parts = [f"{months}M" if months else "", f"{days}D" if days else ""]
    if nanoseconds:
        behind = f".{fraction:09}".rstrip("0") if fraction else ""
        parts.append(f"T{'-' if nanoseconds < 0 else ''}{seconds}{behind}S")
    return "P" + ("".join(parts) or "T0S")
