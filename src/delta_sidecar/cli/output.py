"""What a batch of files looks like on stdout: lines for people, JSON lines, or Arrow's stream format.

Each rendering is told of the start, of every batch and of the end, and gives bytes; these hold no batch back.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import struct
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.scan.files import DeltaFile


class Rendering(Protocol):
    """A form of output."""

    def start(self, schema: pa.Schema) -> bytes:
        """What comes before the first batch."""

    def batch(self, batch: pa.RecordBatch) -> bytes | memoryview:
        """A batch of files or rows."""

    def end(self) -> bytes:
        """What comes after the last batch of a whole answer."""

    def broken_off(self) -> bytes:
        """What comes instead of the end where the answer is not whole."""


class TextLines:
    """A line per file: size, modification time, records, whether rows are deleted, path.

    The widths are fixed, since later rows are not known yet; a longer value pushes its own line to the right.
    """

    def start(self, schema: pa.Schema) -> bytes:  # noqa: ARG002 - the lines need no head
        """Nothing: every line is a file."""
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        from delta_sidecar.scan.files import delta_files

        return "".join(map(_text_line, delta_files(batch))).encode()

    def end(self) -> bytes:
        """Nothing."""
        return b""

    broken_off = end


class JsonLines:
    """A JSON object per line, with the fields of `DeltaFile`; statistics and tags as objects."""

    def start(self, schema: pa.Schema) -> bytes:  # noqa: ARG002 - the lines need no head
        """Nothing: every line is a file."""
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        from delta_sidecar.scan.files import delta_files

        return "".join(map(_json_line, delta_files(batch))).encode()

    def end(self) -> bytes:
        """Nothing."""
        return b""

    broken_off = end


class ArrowStream:
    """The batches in Arrow's IPC stream format."""

    def start(self, schema: pa.Schema) -> bytes:
        """The schema."""
        return schema.serialize().to_pybytes()  # type: ignore[no-any-return]

    def batch(self, batch: pa.RecordBatch) -> memoryview:
        """One message."""
        return memoryview(batch.serialize())

    def end(self) -> bytes:
        """The mark that the stream is whole."""
        return _CONTINUATION + struct.pack("<i", 0)

    def broken_off(self) -> bytes:
        """A message that stops after its length: readers take a plain end of the file for a whole stream."""
        return _CONTINUATION + struct.pack("<i", 8)


_CONTINUATION = b"\xff\xff\xff\xff"


def human_size(size: int | None) -> str:
    """A size in bytes for people, without a space: `840B`, `1.2MB`, or `-` where there is none."""
    if size is None:
        return "-"
    value, unit = float(size), 0
    while abs(value) >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{size}B" if unit == 0 else f"{value:.1f}{_UNITS[unit]}"


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural where that is right."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """A path or another text of a log that stays on its line and cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def terminal_width(*, err: bool = False) -> int | None:
    """How wide the terminal is that stdout, or stderr, goes to; None where that is a file or a pipe."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return None
    with suppress(ValueError, OSError):
        return int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    return _USUAL_WIDTH


def labelled(label: str, text: str, indent: int) -> str:
    """A fact with its name in front; on a terminal in lines that end between words, below each other."""
    lines = folded(printable(text), terminal_width(), indent)
    return f"{label:<{indent}}" + ("\n" + " " * indent).join(lines)


def folded(text: str, width: int | None, indent: int = 0) -> list[str]:
    """A text in lines that end between words; a word is whole, however long it is.

    Args:
        text: The text, of one line.
        width: How wide the terminal is; None for one line.
        indent: How much of each line is taken already.
    """
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
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


_USUAL_WIDTH = 80
_STEP = 1000
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def _text_line(file: DeltaFile) -> str:
    records = file.num_records
    columns = (
        f"{human_size(file.size):>8}",
        f"{_iso_time(file.modification_time):20}",
        f"{'-' if records is None else f'{records:,}':>12}",
        "dv" if file.deletion_vector is not None else "- ",
        printable(file.path),
    )
    return "  ".join(columns) + "\n"


def _iso_time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    try:
        moment = dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds}ms"
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _json_line(file: DeltaFile) -> str:
    vector = file.deletion_vector
    fields: dict[str, Any] = {name: getattr(file, name) for name in file.__slots__ if name != "stats"}
    fields["deletion_vector"] = None if vector is None else asdict(vector) | {"unique_id": vector.unique_id}
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return f'{text[:-1]},"stats":{_statistics(file.stats)}}}\n'


def _statistics(text: str | None) -> str:
    """The statistics as the writer wrote them, so that no digit of a number is lost."""
    if text is None:
        return "null"
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    # In valid JSON a line break stands between tokens only.
    return text.replace("\n", " ").replace("\r", " ").strip()


def _refuse(constant: str) -> None:
    # NaN and Infinity, which Python would take, are not JSON.
    raise ValueError(constant)
