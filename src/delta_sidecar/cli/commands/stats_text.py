"""What statistics come to, as a table for people that says where a bound is not exact, and as JSON."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli.output import cells, counted, folded, human_size, labelled, printable, terminal_width
from delta_sidecar.cli.table import Measured, cut, cut_within, fitted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.table.summaries import ColumnSummary, TableSummary

_LABEL = 10
_GAP = "  "
_WIDEST_TYPE, _WIDEST_TEXT = 24, 40


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
        width = terminal_width()
        lines += ["", *(click.style(line, dim=True) for note in notes for line in folded(note, width))]
    return "\n".join(lines)


def stats_json(table: str, summary: TableSummary) -> str:
    """One JSON object, in which decimals have all their digits."""
    columns = [
        {
            "name": column.name,
            "type": type_text(column.type),
            "min": _short(column.minimum, column.type),
            "min_is": column.minimum_is,
            "max": _short(column.maximum, column.type),
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


def value_text(value: Any, kind: str = "") -> str:  # noqa: ANN401 - of any column
    """A bound of a column of some type as text, as rows have it."""
    if kind == "float":
        import numpy as np

        # As few digits as 32 bits need.
        return str(np.float32(value))
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
        text += f" or more: no count of rows for {summary.files_without_rows:,} of {counted(summary.files, 'file')}"
    if summary.deleted_rows:
        text += f"; {summary.deleted_rows:,} others are deleted"
    return text


def _columns(summary: TableSummary) -> Iterator[str]:
    every = frozenset(range(len(summary.columns)))
    texts = frozenset(at for at, column in enumerate(summary.columns) if column.type == "string")
    columns = [
        _Column("column", [printable(column.name) for column in summary.columns], every),
        _Column("type", [cut(type_text(column.type), _WIDEST_TYPE) for column in summary.columns], every),
        _Column("min", [_minimum(column) for column in summary.columns], texts),
        _Column("max", [_maximum(column) for column in summary.columns], texts),
        _Column("nulls", [_nulls(column, summary) for column in summary.columns]),
    ]
    if any(column.files_without for column in summary.columns):
        columns.append(_Column("no bounds in", [_without(column) for column in summary.columns]))
    width = terminal_width()
    widths = _widths(columns, width)
    if len(widths) == len(columns):
        yield from _table(columns, widths, may_cut=width is not None)
    else:
        yield from _stacked(columns, width or 0)


def _table(columns: list[_Column], widths: list[int], *, may_cut: bool) -> Iterator[str]:
    shown = [column.placed(size, may_cut=may_cut) for column, size in zip(columns, widths, strict=True)]
    names = [column.name.ljust(size) for column, size in zip(columns, widths, strict=True)]
    yield click.style(_GAP.join(names).rstrip(), bold=True)
    yield click.style(_GAP.join("─" * size for size in widths), dim=True)
    for row in zip(*shown, strict=True):
        yield _GAP.join(row).rstrip()


def _stacked(columns: list[_Column], width: int) -> Iterator[str]:
    """The columns for a narrow terminal: bounds are below the line of their column, side by side where they fit."""
    others = [column for column in columns if column.name not in {"min", "max"}]
    bounds = [column for column in columns if column.name in {"min", "max"}]
    widths = _widths(others, width)
    if len(widths) < len(others):
        widths = _widths(others, None)
    lines = _table(others, widths, may_cut=True)
    yield next(lines)
    yield next(lines)
    for at, line in enumerate(lines):
        yield line
        shown = [f"{_GAP}{column.name} {column.within(at, width - len(_GAP) - 4)}" for column in bounds]
        both = "".join(shown)
        yield from [both] if cells(both) <= width else shown


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table for people.

    Attributes:
        name: Its name.
        texts: What it has, line by line.
        parts: Numbers of the lines of which a piece is as good; of others it would say something else.
    """

    name: str
    texts: list[str]
    parts: frozenset[int] = frozenset()

    def measured(self, widest: float) -> Measured:
        size = Measured(cells(self.name), cells(self.name))
        for at, text in enumerate(self.texts):
            size.take(int(min(cells(text), widest)), is_whole=at not in self.parts)
        return size

    def within(self, at: int, width: int) -> str:
        """A line of it in so much room, unless a piece would say something else."""
        return cut_within(self.texts[at], width) if at in self.parts else self.texts[at]

    def placed(self, width: int, *, may_cut: bool) -> list[str]:
        placed = [cut_within(text, width) if may_cut else text for text in self.texts]
        return [text + " " * max(0, width - cells(text)) for text in placed]


def _widths(columns: list[_Column], width: int | None) -> list[int]:
    """How wide each column is, in lines of a width; None where lines may be as long as they like."""
    if width is None:
        return [column.measured(inf).natural for column in columns]
    return fitted([column.measured(_WIDEST_TEXT) for column in columns], width)


def _minimum(column: ColumnSummary) -> str:
    return _bound(column.minimum, column.minimum_is, "≥", column)


def _maximum(column: ColumnSummary) -> str:
    return _bound(column.maximum, column.maximum_is, "≤", column)


def _without(column: ColumnSummary) -> str:
    return counted(column.files_without, "file") if column.files_without else ""


def _bound(value: Any, meaning: str | None, beyond: str, column: ColumnSummary) -> str:  # noqa: ANN401
    if value is None:
        # Nothing is known, or it is known that there is nothing.
        return "?" if column.files_without else "none"
    text = f'"{value}"' if value in {"", "null", "none"} else printable(value_text(value, column.type))
    if meaning == "cut":
        text += "…"
    if column.files_without:
        return f"{text} ?"
    return f"{beyond} {text}" if meaning == "bound" else text


def _is_partial(column: ColumnSummary, summary: TableSummary) -> bool:
    """Whether nulls are not counted in all files."""
    return column.rows < summary.rows or summary.files_without_rows > 0


def _nulls(column: ColumnSummary, summary: TableSummary) -> str:
    is_partial = _is_partial(column, summary)
    if is_partial and not column.rows:
        return "?"
    text = f"{column.null_count:,}"
    if is_partial:
        return f"{text} ?"
    return text if column.null_count_is_exact else f"≤ {text}"


def _notes(summary: TableSummary) -> Iterator[tuple[bool, str]]:
    columns = summary.columns
    meanings = {(meaning, column.type) for column in columns for meaning in (column.minimum_is, column.maximum_is)}
    rounded = {kind for meaning, kind in meanings if meaning == "rounded"}
    yield (
        any(column.files_without or _is_partial(column, summary) for column in columns),
        "?  not of all files: some have no statistics of the column, and may hold any value",
    )
    yield (
        any(_is_beyond(column, summary) for column in columns),
        "≥ ≤  nothing is beyond, and maybe no row has just this: rows are deleted, or not counted",
    )
    yield any(meaning == "cut" for meaning, _ in meanings), "…  may be the beginning of a longer text"
    yield (
        any(kind.startswith("timestamp") for kind in rounded),
        "Timestamps may be rounded down, by less than a millisecond.",
    )
    yield (
        any(kind.startswith("decimal") for kind in rounded),
        "Decimals of more than 15 digits may be rounded, as floating-point numbers are.",
    )


def _is_beyond(column: ColumnSummary, summary: TableSummary) -> bool:
    """Whether a bound or a count is shown as one that nothing is beyond."""
    has_bound = not column.files_without and "bound" in (column.minimum_is, column.maximum_is)
    return has_bound or not (column.null_count_is_exact or _is_partial(column, summary))


def _short(value: Any, kind: str) -> Any:  # noqa: ANN401 - of any column
    return float(value_text(value, kind)) if kind == "float" and value is not None else value


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
    return labelled(label, text, _LABEL)
