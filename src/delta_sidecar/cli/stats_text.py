"""What statistics come to, as a table for people that says where a bound is not exact, and as JSON."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli.rendering import counted, human_size, printable
from delta_sidecar.cli.text_table import Measured, cells, cut, fitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from delta_sidecar.table.column_summaries import ColumnSummary, TableSummary

_LABEL = 10
_GAP = "  "
_WIDEST_TYPE = 24


def stats_text(table: str, summary: TableSummary) -> str:
    """The lines, with the colours of a terminal."""
    lines = [
        _line("table", f"{table}, version {summary.version}"),
        _line("rows", _rows(summary)),
        _line("files", f"{summary.files:,}, {human_size(summary.size)}"),
    ]
    if summary.columns:
        lines += ["", *_columns(summary)]
    notes = [note for is_needed, note in _notes(summary) if is_needed]
    if notes:
        lines += ["", *(click.style(note, dim=True) for note in notes)]
    return "\n".join(lines)


def stats_json(table: str, summary: TableSummary) -> str:
    """One JSON object, in which decimals have all their digits."""
    columns = [
        {
            "name": column.name,
            "type": type_text(column.type),
            "min": column.minimum,
            "min_is": column.minimum_is,
            "max": column.maximum,
            "max_is": column.maximum_is,
            "null_count": column.null_count,
            "null_count_is_exact": column.null_count_is_exact,
            "rows": column.rows,
            "files": column.files,
            "files_without": column.files_without,
        }
        for column in summary.columns
    ]
    told = {
        "table": table,
        "version": summary.version,
        "files": summary.files,
        "bytes": summary.size,
        "rows": summary.rows,
        "deleted_rows": summary.deleted_rows,
        "files_without_rows": summary.files_without_rows,
        "columns": columns,
    }
    return _json(told, "")


def value_text(value: Any) -> str:  # noqa: ANN401 - of any column
    """A bound as text, as rows have it."""
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat()
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def type_text(arrow: str) -> str:
    """A type by the name that Delta has for it; by Arrow's where it has none."""
    if found := re.fullmatch(r"decimal\d+\((\d+), (-?\d+)\)", arrow):
        return f"decimal({found[1]},{found[2]})"
    return _TYPES.get(arrow, arrow)


_TYPES = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
}


def _rows(summary: TableSummary) -> str:
    text = f"{summary.rows:,}"
    if summary.files_without_rows:
        text += f" or more: {counted(summary.files_without_rows, 'file')} of {summary.files:,} do not tell how many"
    if summary.deleted_rows:
        text += f"; {summary.deleted_rows:,} others are deleted"
    return text


def _columns(summary: TableSummary) -> Iterator[str]:
    names = ("column", "type", "min", "max", "nulls", "no bounds in")
    rows = [_row(column, summary) for column in summary.columns]
    if not any(column.files_without for column in summary.columns):
        names, rows = names[:-1], [row[:-1] for row in rows]
    columns = [Measured(cells(name)) for name in names]
    for row in rows:
        for at, (column, text) in enumerate(zip(columns, row, strict=True)):
            column.take(cells(text), is_whole=at >= _NULLS)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    widths = fitted(columns, width)
    yield click.style(_aligned(names, widths, width), bold=True)
    yield click.style(_GAP.join("─" * size for size in widths), dim=True)
    for row in rows:
        yield _aligned(row, widths, width)


_NULLS = 4


def _row(column: ColumnSummary, summary: TableSummary) -> tuple[str, ...]:
    without = counted(column.files_without, "file") if column.files_without else ""
    return (
        printable(column.name),
        cut(type_text(column.type), _WIDEST_TYPE),
        _bound(column.minimum, column.minimum_is, "≥", column),
        _bound(column.maximum, column.maximum_is, "≤", column),
        _nulls(column, summary),
        without,
    )


def _bound(value: Any, meaning: str | None, beyond: str, column: ColumnSummary) -> str:  # noqa: ANN401
    if value is None:
        # Nothing is known, or it is known that there is nothing.
        return "?" if column.files_without else "none"
    text = printable(value_text(value)) if value != "" else '""'
    if meaning == "cut":
        text += "…"
    if column.files_without:
        return f"{text} ?"
    return f"{beyond} {text}" if meaning == "bound" else text


def _nulls(column: ColumnSummary, summary: TableSummary) -> str:
    is_partial = column.rows < summary.rows or summary.files_without_rows > 0
    if is_partial and not column.rows:
        return "?"
    text = f"{column.null_count:,}"
    if is_partial:
        return f"{text} ?"
    return text if column.null_count_is_exact else f"≤ {text}"


def _notes(summary: TableSummary) -> Iterator[tuple[bool, str]]:
    columns = summary.columns
    meanings = {meaning for column in columns for meaning in (column.minimum_is, column.maximum_is)}
    shown = [text for column in columns for text in _row(column, summary)[2:5]]
    yield (
        any(text.endswith("?") for text in shown),
        "?  not of all files: some have no statistics of the column, and may hold any value",
    )
    yield any(text[0] in "≥≤" for text in shown), "≥ ≤  rows are deleted: nothing is beyond, and just this may be gone"
    yield "cut" in meanings, "…  may be the beginning of a longer text"
    yield "rounded" in meanings, "Timestamps may be rounded down, by less than a millisecond."


def _aligned(texts: Sequence[str], widths: Sequence[int], width: int | None) -> str:
    placed = [
        (text if width is None else cut(text, size)) + " " * max(0, size - cells(text))
        for text, size in zip(texts, widths, strict=False)
    ]
    return _GAP.join(placed).rstrip()


def _json(value: Any, indent: str) -> str:  # noqa: ANN401 - anything that JSON has
    inner = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(name)}: {_json(part, inner)}" for name, part in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"{inner}{_json(part, inner)}" for part in value) + f"\n{indent}]"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and value in {float("inf"), float("-inf")}:
        return '"Infinity"' if value > 0 else '"-Infinity"'
    # Whatever is no ASCII letter is escaped: nothing in a name can steer a terminal.
    return json.dumps(value_text(value) if isinstance(value, dt.date) else value)


def _line(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{printable(text)}"
