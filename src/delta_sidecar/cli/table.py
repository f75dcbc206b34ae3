"""Rows on stdout: a table for people, JSON lines, CSV or Arrow's stream format.

On a terminal a table is as wide as that: long values are cut, and columns that do not fit are named below it. In a file
or a pipe nothing is cut. The widths are those of the first rows; later rows are not held.

rich measures the texts and does not lay them out. Its tables cut numbers and long words where room is short, take the
widths of each part anew, and are slow: 80 ms to import, and 270 ms for 1,000 rows of 7 columns, against 11 ms here.
"""

from __future__ import annotations

import base64
import re
import struct
from collections import Counter
from itertools import accumulate, islice
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from delta_sidecar.cli.output import Rendering
from delta_sidecar.cli.text import (
    GAP,
    TYPE_NAMES,
    cells,
    counted,
    cut,
    is_colourless,
    printable,
    terminal_width,
)
from delta_sidecar.errors import OptionError, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_ROWS_MEASURED = 1_000
# In a file, values are padded to at most this width.
_WIDE = 60
# The width that a column keeps where many share a terminal.
_NARROW = 12
_NULL = "null"


def row_rendering(output: str) -> Rendering:
    """The form that rows have on stdout by the flag `--output`."""
    width = terminal_width()
    forms = {
        "text": TextTable(width, colours=width is not None and not is_colourless()),
        "json": _RowJsonLines(),
        "arrow": _ArrowStream(),
        "csv": _Csv(),
    }
    return forms[output]


class TextTable(Rendering):
    """The rows in aligned columns, with the types under the names.

    Args:
        width: The width of the terminal; None to cut nothing.
        colours: Names, types and nulls are set off.
    """

    def __init__(self, width: int | None = None, *, colours: bool = False) -> None:
        self._width = width
        self._colours = colours
        self._left_out: list[_Column] = []
        # The first rows, until there are enough of them to measure; None from then on.
        self._held: list[pa.RecordBatch] | None = []

    def start(self, schema: pa.Schema) -> bytes:
        """Nothing yet: the widths of the columns are those of the first rows."""
        self._columns = [_Column(field) for field in schema]
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch; those of the first rows come together."""
        if self._held is None:
            return self._lines([batch])
        self._held.append(batch)
        return self._first() if sum(held.num_rows for held in self._held) >= _ROWS_MEASURED else b""

    def end(self) -> bytes:
        """The rows that are still held, and the names of columns that were left out."""
        first = b"" if self._held is None else self._first()
        if not self._left_out:
            return first
        names = ", ".join(column.name for column in self._left_out)
        note = f"… {counted(len(self._left_out), 'more column')}: {names}"
        return first + f"{self._styled(cut(note, 4 * (self._width or _WIDE)), dim=True)}\n".encode()

    def broken_off(self) -> bytes:
        """The rows that are there."""
        return self._first() if self._held and any(batch.num_rows for batch in self._held) else b""

    def _first(self) -> bytes:
        held, self._held = self._held or [], None
        for batch in held:
            for column, texts in zip(self._columns, self._texts(batch), strict=True):
                column.measure(max(map(cells, texts), default=0))
        if self._width is None:
            for column in self._columns:
                column.width = min(column.natural, _WIDE)
        else:
            shown = _fit(self._columns, self._width)
            self._columns, self._left_out = self._columns[:shown], self._columns[shown:]
        columns = self._columns
        names = [column.place(cut(column.name, column.width, in_middle=True)) for column in columns]
        kinds = [column.place(cut(column.kind, column.width)) for column in columns]
        head = (
            self._styled(GAP.join(names).rstrip(" "), bold=True),
            self._styled(GAP.join(kinds).rstrip(" "), dim=True),
            self._styled(GAP.join("─" * column.width for column in columns), dim=True),
        )
        return "".join(f"{line}\n" for line in head).encode() + self._lines(held)

    def _lines(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        parts = (part for batch in batches for part in parts_of(batch))
        rows = (row for part in parts for row in zip(*self._placed(part), strict=True))
        return "".join(f"{GAP.join(row).rstrip(' ')}\n" for row in rows).encode()

    def _placed(self, batch: pa.RecordBatch) -> Iterator[list[str]]:
        null = self._styled(_NULL, dim=True)
        for column, texts in zip(self._columns, self._texts(batch), strict=True):
            # A number that is longer than those before it goes over its edge, unless they had to be cut already.
            is_whole = self._width is None or (column.is_whole and column.width >= column.least)
            shown = texts if is_whole else (cut(text, column.width) for text in texts)
            yield [column.place(text).replace(_NULL, null) if text == _NULL else column.place(text) for text in shown]

    def _texts(self, batch: pa.RecordBatch) -> Iterator[list[str]]:
        for values in batch.columns[: len(self._columns)]:
            is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
            yield [self._cell(text, is_text=is_text) for text in plain_texts(values)]

    def _cell(self, text: str | None, *, is_text: bool) -> str:
        if text is None:
            return _NULL
        # A text that would look like nothing, or like null, is set in quotes.
        if is_text and text in {"", _NULL}:
            return f'"{text}"'
        return printable(text if self._width is None else text[: self._width + 1])

    def _styled(self, text: str, *, bold: bool | None = None, dim: bool | None = None) -> str:
        # For False, click would write a reset.
        return click.style(text, bold=bold, dim=dim) if self._colours else text


class _Column:
    """A column of a text table, and the width that it has there."""

    def __init__(self, field: pa.Field) -> None:
        self.name = printable(field.name)
        self.kind = type_name(field.type)
        self.is_number = _is_number(field.type)
        # A piece of a number or of a time would be another value.
        self.is_whole = bool(self.is_number or pa.types.is_temporal(field.type) or pa.types.is_boolean(field.type))
        self.natural = max(cells(self.name), min(cells(self.kind), 2 * _NARROW))  # the width of its longest text
        self.least = 0  # the width that it keeps while there is another column to leave out
        self.width = 0

    def measure(self, size: int) -> None:
        """Makes room for a text."""
        self.natural = max(self.natural, size)
        self.least = max(self.least, size if self.is_whole else min(size, _NARROW))

    def within(self, most: int) -> int:
        """The width where no column gets more than `most` without need."""
        return min(self.natural, max(self.least, most))

    def place(self, text: str) -> str:
        """A text with blanks up to the width of the column."""
        room = " " * (self.width - cells(text))
        return room + text if self.is_number else text + room


def _fit(columns: list[_Column], width: int) -> int:
    """Sets the widths of columns that go into a line, and returns their number.

    The widest give way first, down to what they need; where that is not enough, the last columns are left out.
    """
    ends = accumulate(column.within(_NARROW) + len(GAP) for column in columns)
    shown = columns[: max(1, sum(end - len(GAP) <= width for end in ends))]
    room = width - len(GAP) * (len(shown) - 1)
    levels = (most for most in range(width, _NARROW, -1) if sum(column.within(most) for column in shown) <= room)
    most = next(levels, _NARROW)
    for column in shown:
        column.width = min(column.within(most), width)
    return len(shown)


class PlanText(Rendering):
    """The plan of a query, as DuckDB draws it."""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The drawings."""
        drawings = (text or "" for text in plain_texts(batch.column(batch.num_columns - 1)))
        lines = (line for text in drawings for line in text.splitlines())
        return "".join(f"{printable(line)}\n" for line in lines).encode()


def type_name(kind: pa.DataType) -> str:
    """A type by its name in Delta; by Arrow's where Delta has none."""
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
    return TYPE_NAMES.get(str(kind), str(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


class _ArrowStream(Rendering):
    def start(self, schema: pa.Schema) -> bytes:
        return schema.serialize().to_pybytes()  # type: ignore[no-any-return]

    def batch(self, batch: pa.RecordBatch) -> memoryview:
        return memoryview(batch.serialize())

    def end(self) -> bytes:
        return _CONTINUATION + struct.pack("<i", 0)

    def broken_off(self) -> bytes:
        # A message that stops after its length: readers take a plain end of the file for a whole stream.
        return _CONTINUATION + struct.pack("<i", 8)


_CONTINUATION = b"\xff\xff\xff\xff"


# JSON lines and CSV. Rows are made into text a few thousand at a time, however large a batch is.

_ROWS_AT_ONCE = 4_096


class _RowJsonLines(Rendering):
    def start(self, schema: pa.Schema) -> bytes:
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice:
            # Readers would lose one of the two.
            msg = f"two columns are called {twice[0]!r}, and a JSON object has each name once: name them by AS"
            raise OptionError(msg)
        self._names = [json_string(name) for name in schema.names]
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        if not self._names:
            return b"{}\n" * int(batch.num_rows)
        parts = (json_objects(self._names, map(json_texts, part.columns)) for part in parts_of(batch))
        return b"".join("".join(f"{row}\n" for row in rows).encode() for rows in parts)


class _Csv(Rendering):
    """Comma-separated values as RFC 4180 has them, with a head.

    Null is an empty field, an empty text is `""`. The only column of a row is never left empty, since readers skip
    empty lines. Nested values are JSON.
    """

    def start(self, schema: pa.Schema) -> bytes:
        return _csv_line(map(_quoted, schema.names)).encode()

    def batch(self, batch: pa.RecordBatch) -> bytes:
        null = '""' if batch.num_columns == 1 else ""
        parts = (zip(*(_csv_fields(column, null) for column in part.columns), strict=True) for part in parts_of(batch))
        return b"".join("".join(map(_csv_line, rows)).encode() for rows in parts)


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces that are small as text."""
    return (batch.slice(start, _ROWS_AT_ONCE) for start in range(0, batch.num_rows, _ROWS_AT_ONCE))


def _csv_fields(column: pa.Array, null: str) -> Iterator[str]:
    has_special = not (pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type))
    return (null if text is None else _quoted(text) if has_special else text for text in plain_texts(column))


def _csv_line(fields: Iterable[str]) -> str:
    return ",".join(fields) + "\r\n"


_SPECIAL = re.compile(r'[",\r\n]|^$')


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


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
        texts = zip(json_texts(column), column.is_valid().to_pylist(), strict=True)
        return [text if is_valid else None for text, is_valid in texts]
    if pa.types.is_floating(kind):
        return _each(_cast(column), _float)
    if pa.types.is_decimal(kind):
        return _each(column.to_pylist(), "{:f}".format)
    if pa.types.is_timestamp(kind):
        end = "" if kind.tz is None else "Z"
        moments = _cast(column.cast(pa.timestamp(kind.unit)))
        return _each(moments, lambda text: _without_zeros(text).replace(" ", "T", 1) + end)
    if pa.types.is_time(kind):
        return _each(_cast(column), _without_zeros)
    if any(is_binary(kind) for is_binary in _BINARIES):
        return _each(column.to_pylist(), lambda value: base64.b64encode(value).decode())
    if pa.types.is_duration(kind) or kind == pa.month_day_nano_interval():
        return _each(_intervals(column), _interval)
    return _cast(column)


def _each(values: Iterable[Any], text: Callable[[Any], str]) -> list[str | None]:
    return [None if value is None else text(value) for value in values]


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
    validity = column.is_valid().to_pylist()
    names = [json_string(field.name) for field in column.type]
    if not names:
        return ["{}" if is_valid else "null" for is_valid in validity]
    rows = json_objects(names, map(json_texts, column.flatten()))
    return [text if is_valid else "null" for text, is_valid in zip(rows, validity, strict=True)]


def json_objects(names: list[str], columns: Iterable[list[str]]) -> Iterator[str]:
    """Objects of JSON, from names that are strings of JSON and the texts of their columns."""
    form = "{" + ",".join(f"{name.replace('%', '%%')}:%s" for name in names) + "}"
    return (form % row for row in zip(*columns, strict=True))


def _maps(column: pa.MapArray) -> list[str]:
    # In JSON every key is a text.
    entries = column.cast(pa.list_(pa.struct([("k", column.type.key_type), ("v", column.type.item_type)])))
    keys, items = (entries.flatten().field(at) for at in range(2))
    pairs = (f"{json_string(key or '')}:{item}" for key, item in zip(plain_texts(keys), json_texts(items), strict=True))
    lengths = entries.value_lengths().to_pylist()
    return ["null" if length is None else "{" + ",".join(islice(pairs, length)) + "}" for length in lengths]


def _unpacked(column: pa.Array) -> pa.Array:
    """The values of a dictionary or an extension type."""
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


def _is_container(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) and not pa.types.is_union(kind))


_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)


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
