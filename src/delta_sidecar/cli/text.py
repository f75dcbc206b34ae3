"""Texts for people: words and numbers, lines that end between words, and columns that go into a terminal."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from delta_sidecar.health.report import RequestReport
    from delta_sidecar.store import RequestCounts


def echo(lines: Iterable[str], *, err: bool = False) -> None:
    """Prints lines, with colours on a terminal that may have them."""
    for line in lines:
        click.echo(line, err=err, color=False if is_colourless() else None)


def is_colourless() -> bool:
    """True where colours are switched off, for a terminal too."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def echo_report(output: str, lines: Iterable[str], values: Mapping[str, Any]) -> None:
    """Prints lines for people, or a JSON object, by the flag `--output`."""
    # In JSON everything but ASCII is escaped: nothing in a name can steer a terminal.
    echo([json.dumps(values, indent=2)] if output == "json" else lines)


def human_size(size: int | None) -> str:
    """A size in bytes for people, without a space: `840B`, `1.2MB`, or `-` where there is none."""
    if size is None:
        return "-"
    value, unit = float(size), 0
    while abs(value) >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{size}B" if unit == 0 else f"{value:.1f}{_UNITS[unit]}"


_STEP = 1000
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural where that is right."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def requests_text(counts: RequestCounts | RequestReport) -> str:
    """Requests, bytes and round trips."""
    return f"{counted(counts.requests, 'request')}, {human_size(counts.bytes)}, {counted(counts.trips, 'trip')}"


def printable(text: str, *, keep: str = "") -> str:
    """A text of a log that stays on its line and cannot steer a terminal; characters to keep stay as they are."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def terminal_width(*, err: bool = False) -> int | None:
    """The width of the terminal behind stdout or stderr; None for a file or a pipe."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return None
    with suppress(ValueError, OSError):
        return int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    return _USUAL_WIDTH


_USUAL_WIDTH = 80


def labelled(label: str, text: str, indent: int, width: int | None = None) -> str:
    """A fact with its name in front, in lines that end between words, below each other.

    Without a width they are as long as the terminal is wide, and in a file or a pipe there is one line.
    """
    lines = folded(printable(text), width or terminal_width(), indent)
    return f"{label:<{indent}}" + ("\n" + " " * indent).join(lines)


def folded(text: str, width: int | None, indent: int = 0) -> list[str]:
    """A text in lines that end between words; a word is whole, however long it is. Without a width it is one line."""
    if width is None:
        return [text]
    lines, room = [""], -1
    for word in text.split(" "):
        room -= 1 + cells(word)
        if room >= 0:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
            room = width - indent - cells(word)
    return lines[1:]


def cells(text: str) -> int:
    """The number of columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


TYPE_NAMES = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
}
"""The names that types have in Delta, by those that they have in Arrow; others are the same, or not Delta's."""


GAP = "  "
"""The blanks between two columns of a table."""


def cut(text: str, width: int, *, in_middle: bool = False) -> str:
    """A text in at most so many columns of a terminal, with an ellipsis for what is left out.

    It is left out at the end, or in the middle of names, which often differ at their end.
    """
    if cells(text) <= width:
        return text
    from rich.cells import set_cell_size

    end = width // 2 if in_middle and text.isascii() else 0
    return f"{set_cell_size(text, width - 1 - end)}…{text[len(text) - end :]}"
