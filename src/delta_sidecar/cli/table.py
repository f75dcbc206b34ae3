"""Rows as a table for people: columns below each other, their types under the names.

On a terminal the table is as wide as that: long values are cut, and columns that do not fit are named below it. In a
file or a pipe nothing is cut. The widths are those of the first rows; of later ones none is held.
"""

from __future__ import annotations

import base64
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from delta_sidecar.cli.output import cells, counted, printable
from delta_sidecar.errors import OptionError, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_ROWS_MEASURED = 1_000
_GAP = "  "
# What a column gets where many share the terminal, and what values are padded to where there is room without end.
_NARROW = 12
_WIDE = 60
_NULL = "null"


class TextTable:
    """The rows in aligned columns.

    Args:
        width: How wide the terminal is; None to cut nothing.
        colours: Whether names, types and nulls are set off.
    """

    def __init__(self, width: int | None = None, *, colours: bool = False) -> None:
        self._width = width
        self._colours = colours
        self._held: list[pa.RecordBatch] | None = []
        self._held_rows = 0
        self._widths: list[int] = []

    @classmethod
    def on_terminal(cls, *, colours: bool) -> TextTable:
        """A table that fits into the terminal."""
        return cls(shutil.get_terminal_size().columns, colours=colours)

    def start(self, schema: pa.Schema) -> bytes:
        """Nothing yet: the first rows tell how wide the columns are."""
        self._fields = list(schema)
        self._to_right = [_is_number(field.type) for field in schema]
        self._whole: list[bool] = []
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch; those of the first rows come together."""
        if self._held is None:
            return self._lines([batch])
        self._held.append(batch)
        self._held_rows += batch.num_rows
        return self._first() if self._held_rows >= _ROWS_MEASURED else b""

    def end(self) -> bytes:
        """What is still held, and which columns were left out."""
        return (b"" if self._held is None else self._first()) + self._note()

    def broken_off(self) -> bytes:
        """The rows that are there."""
        return b"" if self._held is None or not self._held_rows else self._first()

    def _first(self) -> bytes:
        held, self._held = self._held or [], None
        names = [printable(field.name) for field in self._fields]
        types = [type_name(field.type) for field in self._fields]
        columns = [
            Measured(max(cells(name), min(cells(kind), 2 * _NARROW))) for name, kind in zip(names, types, strict=True)
        ]
        for batch in held:
            for column, field, texts in zip(columns, self._fields, self._texts(batch), strict=True):
                column.take(max(map(cells, texts), default=0), is_whole=_stays_whole(field.type))
        self._widths = fitted(columns, self._width)
        # A number that is longer than those before it goes over its edge, unless they had to be cut already.
        fits = zip(self._fields, columns, self._widths, strict=False)
        self._whole = [_stays_whole(field.type) and width >= column.least for field, column, width in fits]
        head = [
            self._styled(self._line(list(map(cut_within, names, self._widths))), bold=True),
            self._styled(self._line(list(map(cut, types, self._widths))), dim=True),
            self._styled(_GAP.join("─" * width for width in self._widths), dim=True),
        ]
        return "".join(f"{line}\n" for line in head).encode() + self._lines(held)

    def _lines(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        parts = (part for batch in batches for part in parts_of(batch))
        return b"".join(
            "".join(f"{self._line(row)}\n" for row in zip(*self._texts(part), strict=True)).encode() for part in parts
        )

    def _texts(self, batch: pa.RecordBatch) -> Iterator[list[str]]:
        shown = batch.columns if not self._widths else batch.columns[: len(self._widths)]
        for column in shown:
            is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            yield [self._cell(text, is_text=is_text) for text in plain_texts(column)]

    def _cell(self, text: str | None, *, is_text: bool) -> str:
        if text is None:
            return _NULL
        # A text that would look like nothing, or like null, is told apart from it.
        if is_text and text in {"", _NULL}:
            return f'"{text}"'
        return printable(text if self._width is None else text[: self._width + 1])

    def _line(self, texts: Sequence[str]) -> str:
        parts = zip(texts, self._widths, self._to_right, self._whole, strict=False)
        return _GAP.join(self._placed(*part) for part in parts).rstrip(" ")

    def _placed(self, text: str, width: int, to_right: bool, is_whole: bool) -> str:
        size = cells(text)
        if size > width and self._width is not None and not is_whole:
            return cut(text, width)
        room = " " * max(0, width - size)
        shown = self._styled(text, dim=True) if text == _NULL else text
        return room + shown if to_right else shown + room

    def _note(self) -> bytes:
        left_out = [printable(field.name) for field in self._fields[len(self._widths) :]]
        if not left_out:
            return b""
        text = f"… {counted(len(left_out), 'more column')}: {', '.join(left_out)}"
        return f"{self._styled(cut(text, 4 * (self._width or _WIDE)), dim=True)}\n".encode()

    def _styled(self, text: str, *, bold: bool = False, dim: bool = False) -> str:
        # None for what is not wanted: click would write a reset for False.
        return click.style(text, bold=bold or None, dim=dim or None) if self._colours else text


class PlanText:
    """The plan of a query, as DuckDB draws it."""

    def start(self, schema: pa.Schema) -> bytes:  # noqa: ARG002 - a plan needs no head
        """Nothing."""
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The drawings."""
        drawings = (text or "" for text in plain_texts(batch.column(batch.num_columns - 1)))
        lines = (line for text in drawings for line in text.splitlines())
        return "".join(f"{printable(line)}\n" for line in lines).encode()

    def end(self) -> bytes:
        """Nothing."""
        return b""

    broken_off = end


@dataclass(slots=True)
class Measured:
    """How wide a column would like to be, and what it needs at least where the line is short."""

    natural: int
    least: int = 0

    def take(self, width: int, *, is_whole: bool) -> None:
        """Makes room for a text; what stays whole is not cut while there is a column to leave out."""
        self.natural = max(self.natural, width)
        self.least = max(self.least, width if is_whole else min(width, _NARROW))

    def within(self, most: int) -> int:
        """The width where no column gets more than so much without need."""
        return min(self.natural, max(self.least, most))


def fitted(columns: Sequence[Measured], width: int | None) -> list[int]:
    """Widths of columns that go into a line.

    The widest give way first, down to what they need; where that is not enough, the last columns are left out.
    """
    if width is None:
        return [min(column.natural, _WIDE) for column in columns]
    most = max((column.natural for column in columns), default=0)
    while most > _NARROW and _line_width(columns, most) > width:
        most -= 1
    shown = len(columns)
    while shown > 1 and _line_width(columns[:shown], most) > width:
        shown -= 1
    # The room that the others leave is shared by those that stay.
    while shown and _line_width(columns[:shown], most + 1) <= width and most < width:
        most += 1
    return [min(column.within(most), width) for column in columns[:shown]]


def _line_width(columns: Sequence[Measured], most: int) -> int:
    return sum(column.within(most) for column in columns) + len(_GAP) * (len(columns) - 1)


def cut(text: str, width: int) -> str:
    """A text that takes exactly so many columns of a terminal, with an ellipsis where something is missing."""
    from rich.cells import set_cell_size

    return text if cells(text) <= width else set_cell_size(text, width - 1) + "…"


def cut_within(text: str, width: int) -> str:
    """A name that takes at most so many columns of a terminal: names often differ at their end."""
    if cells(text) <= width or not text.isascii():
        return cut(text, width)
    end = width // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def type_name(kind: pa.DataType) -> str:
    """A type as Delta names it; as Arrow does where Delta has none."""
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{printable(field.name)}:{type_name(field.type)}' for field in kind)}>"
    return _NAMES.get(kind, str(kind))


_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.date32(): "date",
}


def _stays_whole(kind: pa.DataType) -> bool:
    """Whether a piece of a value would say something else: numbers and times."""
    return _is_number(kind) or bool(pa.types.is_temporal(kind) or pa.types.is_boolean(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


# What rows look like on stdout as JSON lines and as CSV.
#
# Rows are made into text a few thousand at a time, however large a batch is.


_ROWS_AT_ONCE = 4_096


class RowJsonLines:
    """A JSON object per row, under the names of the columns.

    Raises:
        OptionError: Two columns have the same name, so that readers would lose one.
    """

    def start(self, schema: pa.Schema) -> bytes:
        """Nothing: every line is a row."""
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice:
            msg = f"two columns are called {twice[0]!r}, and a JSON object has each name once: name them by AS"
            raise OptionError(msg)
        self._names = [json_string(name) for name in schema.names]
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        return b"".join(map(self._lines, parts_of(batch)))

    def end(self) -> bytes:
        """Nothing."""
        return b""

    broken_off = end

    def _lines(self, part: pa.RecordBatch) -> bytes:
        if not self._names:
            return b"{}\n" * int(part.num_rows)
        rows = json_objects(self._names, [json_texts(column) for column in part.columns])
        return "".join(f"{row}\n" for row in rows).encode()


class Csv:
    """Comma-separated values as RFC 4180 has them, with a head.

    Null is an empty field, an empty text is `""`. The only column of a row is never left empty, since readers pass over
    empty lines. Nested values are JSON.
    """

    def start(self, schema: pa.Schema) -> bytes:
        """The names of the columns."""
        self._columns = len(schema)
        return _line(_field(name) for name in schema.names).encode()

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        return b"".join(map(self._lines, parts_of(batch)))

    def end(self) -> bytes:
        """Nothing."""
        return b""

    broken_off = end

    def _lines(self, part: pa.RecordBatch) -> bytes:
        null = '""' if self._columns == 1 else ""
        columns = [_fields(column, null) for column in part.columns]
        return "".join(map(_line, zip(*columns, strict=True))).encode()


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces that are small as text."""
    return (batch.slice(start, _ROWS_AT_ONCE) for start in range(0, batch.num_rows, _ROWS_AT_ONCE))


def _fields(column: pa.Array, null: str) -> list[str]:
    texts = plain_texts(column)
    if _is_plain(column.type):
        return [null if text is None else text for text in texts]
    return [null if text is None else _field(text) for text in texts]


def _is_plain(kind: pa.DataType) -> bool:
    """Whether no value has anything to be quoted."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


_SPECIAL = re.compile(r'[",\r\n]|^$')


def _field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _line(fields: Iterator[str] | tuple[str, ...]) -> str:
    return ",".join(fields) + "\r\n"


# Values of rows as text, a column at a time: plain for tables and CSV, or as JSON.
#
# Both keep everything. Numbers have all their digits, also decimals; what JSON has no number for is a text: `"NaN"`,
# `"Infinity"`. Times are ISO 8601, with a `Z` where the type has a zone; bytes are base64.


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
