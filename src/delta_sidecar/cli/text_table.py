"""Rows as a table for people: columns below each other, their types under the names.

On a terminal the table is as wide as that: long values are cut, and columns that do not fit are named below it. In a
file or a pipe nothing is cut. The widths are those of the first rows; of later ones none is held.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from delta_sidecar.cli.rendering import counted, printable
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
        natural = [max(cells(name), min(cells(kind), _WIDE // 2)) for name, kind in zip(names, types, strict=True)]
        for batch in held:
            for at, column in enumerate(self._texts(batch)):
                natural[at] = max(natural[at], max(map(cells, column), default=0))
        self._widths = [min(size, _WIDE) for size in natural] if self._width is None else fitted(natural, self._width)
        head = [
            self._styled(self._line(names), bold=True),
            self._styled(self._line([cut(kind, size) for kind, size in zip(types, self._widths, strict=False)]), dim=True),
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
        parts = zip(texts, self._widths, self._to_right, strict=False)
        return _GAP.join(self._placed(*part) for part in parts).rstrip(" ")

    def _placed(self, text: str, width: int, to_right: bool) -> str:  # noqa: FBT001 - as it comes
        size = cells(text)
        if size > width and self._width is not None:
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


def fitted(natural: Sequence[int], width: int) -> list[int]:
    """Widths of columns that go into a line: the widest give way first; where that is not enough, the last are left out.

    Args:
        natural: What each would like.
        width: The line.
    """
    most = max(natural, default=0)
    while most > _NARROW and _line_width(natural, most) > width:
        most -= 1
    shown = len(natural)
    while shown > 1 and _line_width(natural[:shown], most) > width:
        shown -= 1
    widths = [min(size, most) for size in natural[:shown]]
    # One column has the line for itself.
    return [min(natural[0], width)] if shown == 1 else widths


def _line_width(natural: Sequence[int], most: int) -> int:
    return sum(min(size, most) for size in natural) + len(_GAP) * (len(natural) - 1)


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """A text that takes exactly so many columns of a terminal, with an ellipsis where something is missing."""
    from rich.cells import set_cell_size

    return text if cells(text) <= width else set_cell_size(text, width - 1) + "…"


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


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
