"""Rows as a table for people: columns below each other, their types under the names.

On a terminal the table is as wide as that: long values are cut, and columns that do not fit are named below it. In a
file or a pipe nothing is cut. The widths are those of the first rows; of later ones none is held.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from delta_sidecar.cli.rendering import cells, counted, printable
from delta_sidecar.cli.row_rendering import parts_of
from delta_sidecar.cli.values import plain_texts

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
