"""`delta-sidecar stats`: bounds and nulls of a table's columns, by the statistics of its files."""

from __future__ import annotations

import datetime as dt
import json
import re
from contextlib import closing
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from delta_sidecar.cli import options
from delta_sidecar.cli.process import command
from delta_sidecar.cli.text import (
    GAP,
    TYPE_NAMES,
    cells,
    counted,
    cut,
    echo,
    human_size,
    labelled,
    printable,
    terminal_width,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.scan.scanner import LazyDeltaScanner
    from delta_sidecar.table.pinned import TableHandle
    from delta_sidecar.table.statistics import ColumnSummary, TableSummary


@command(
    "Show bounds and nulls of a Delta table's columns.",
    """
    delta-sidecar stats ./telemetry
    delta-sidecar stats ./telemetry --columns event_ts,device_id
    delta-sidecar stats ./telemetry --where "_event_hour >= '2026021022'"
    delta-sidecar stats ./telemetry --output json | jq .rows
    """,
)
@options.table
@click.option(
    "--columns",
    metavar="COLUMN,...",
    callback=options.column_names,
    help="Only these columns; a struct stands for all columns in it, and a.b for one.",
)
@options.where
@options.version
@options.timestamp
@options.output
@options.storage
def stats(*, columns: tuple[str, ...], predicate: str | None, output: str, **opening: Any) -> None:  # noqa: ANN401
    """Show what the log tells of the columns of the Delta table at TABLE: minimum, maximum and nulls of each.

    They are those that writers noted down for each file, folded in one pass; no data file is opened. Where they are not
    exact, that is said.
    """
    from delta_sidecar.cli.progress import files_status, scan_progress
    from delta_sidecar.table.statistics import fold_stats

    with closing(options.open_table(**opening)) as handle:
        watched: Any = _WatchedTable(handle)
        with scan_progress(lambda: files_status(watched.scan)) as reporter:
            summary = fold_stats(watched, columns or None, predicate)
            with reporter.aside():
                lines = _json_lines if output == "json" else _text_lines
                echo(lines(handle.store.url, summary))


class _WatchedTable:
    """A table that remembers its newest scan, for the progress line."""

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle
        self.scan: LazyDeltaScanner | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the table
        return getattr(self._handle, name)

    def scanner(self, *args: Any, **kwargs: Any) -> LazyDeltaScanner:  # noqa: ANN401 - as the table has it
        self.scan = self._handle.scanner(*args, **kwargs)
        return self.scan


# A table for people, which says where a bound is not exact.

_line = partial(labelled, indent=10)
_WIDEST_TYPE, _WIDEST_TEXT, _NARROWEST_TEXT = 24, 40, 12


def _text_lines(table: str, summary: TableSummary) -> Iterator[str]:
    yield _line("table", f"{table}, version {summary.version}")
    yield _line("rows", _rows(summary))
    yield _line("files", f"{summary.files:,}, {human_size(summary.size)}")
    if summary.columns:
        yield ""
        yield from _columns(summary)
    notes = [note for is_needed, note in _notes(summary) if is_needed]
    if notes:
        yield ""
    for note in notes:
        mark, gap, text = note.rpartition(GAP)
        yield click.style(labelled(mark, text, len(mark + gap)), dim=True)


def _rows(summary: TableSummary) -> str:
    text = f"{summary.rows:,}"
    if summary.files_without_rows:
        text += f" or more: no count of rows for {summary.files_without_rows:,} of {counted(summary.files, 'file')}"
    if summary.deleted_rows:
        text += f"; {summary.deleted_rows:,} others are deleted"
    return text


def _columns(summary: TableSummary) -> Iterator[str]:
    """A table of the columns; on a narrow terminal bounds are below the line of their column."""
    rows = [_cells(column, summary) for column in summary.columns]
    names = list(rows[0]) if any(column.files_without for column in summary.columns) else list(rows[0])[:-1]
    width = terminal_width()
    widths = _widths(names, rows, width)
    if width is None or sum(widths.values()) + len(GAP) * (len(widths) - 1) <= width:
        yield from _table(widths, rows)
        return
    head, ruler, *lines = _table(_widths([name for name in names if name not in {"min", "max"}], rows, width), rows)
    yield from (head, ruler)
    for line, row in zip(lines, rows, strict=True):
        yield line
        bounds = [f"{GAP}{name} {row[name].within(width - len(GAP) - 4)}" for name in ("min", "max")]
        both = "".join(bounds)
        yield from [both] if cells(both) <= width else bounds


class _Cell(NamedTuple):
    text: str
    is_whole: bool = True  # a part of it would say something else

    def within(self, width: int) -> str:
        return self.text if self.is_whole else cut(self.text, width, in_middle=True)


def _cells(column: ColumnSummary, summary: TableSummary) -> dict[str, _Cell]:
    is_whole = column.type != "string"
    return {
        "column": _Cell(printable(column.name), is_whole=False),
        "type": _Cell(cut(type_text(column.type), _WIDEST_TYPE), is_whole=False),
        "min": _Cell(_bound(column.minimum, column.minimum_is, "≥", column), is_whole),
        "max": _Cell(_bound(column.maximum, column.maximum_is, "≤", column), is_whole),
        "nulls": _Cell(_nulls(column, summary)),
        "no bounds in": _Cell(counted(column.files_without, "file") if column.files_without else ""),
    }


def _widths(names: list[str], rows: list[dict[str, _Cell]], width: int | None) -> dict[str, int]:
    """The widths of columns: texts give way as far as a line needs it, and stay whole where that is not enough."""
    sizes = {
        name: [(cells(name), True), *((cells(row[name].text), row[name].is_whole) for row in rows)] for name in names
    }
    for most in range(_WIDEST_TEXT, _NARROWEST_TEXT - 1, -1):
        found = {name: max(size if whole else min(size, most) for size, whole in sizes[name]) for name in names}
        if width is not None and sum(found.values()) + len(GAP) * (len(found) - 1) <= width:
            return found
    return {name: max(size for size, _ in sizes[name]) for name in names}


def _table(widths: dict[str, int], rows: list[dict[str, _Cell]]) -> Iterator[str]:
    yield click.style(_row({name: name for name in widths}, widths), bold=True)
    yield click.style(GAP.join("─" * width for width in widths.values()), dim=True)
    yield from (_row({name: row[name].within(width) for name, width in widths.items()}, widths) for row in rows)


def _row(texts: dict[str, str], widths: dict[str, int]) -> str:
    return GAP.join(texts[name] + " " * (width - cells(texts[name])) for name, width in widths.items()).rstrip()


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
    """True where nulls are not counted in all files."""
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
    """True where a bound or a count is shown as one that nothing is beyond."""
    has_bound = not column.files_without and "bound" in (column.minimum_is, column.maximum_is)
    return has_bound or not (column.null_count_is_exact or _is_partial(column, summary))


# One JSON object, in which decimals have all their digits.


def _json_lines(table: str, summary: TableSummary) -> Iterator[str]:
    columns = [_by_keys(column) for column in summary.columns]
    for column in columns:
        # Of 32 bits, a number has fewer digits.
        if column["type"] == "float":
            column |= {key: column[key] and float(value_text(column[key], "float")) for key in ("min", "max")}
        column["type"] = type_text(column["type"])
    yield _json({"table": table, **_by_keys(summary), "columns": columns})


def _by_keys(summary: TableSummary | ColumnSummary) -> dict[str, Any]:
    return {_KEYS.get(name, name): getattr(summary, name) for name in summary.__match_args__}


# Other names than those of the fields.
_KEYS = {"minimum": "min", "minimum_is": "min_is", "maximum": "max", "maximum_is": "max_is", "size": "bytes"}


def _json(value: Any, indent: str = "") -> str:  # noqa: ANN401 - anything that JSON has
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
    # Everything but ASCII is escaped: nothing in a name can steer a terminal.
    return json.dumps(value_text(value) if isinstance(value, dt.date) else value)


def value_text(value: Any, kind: str = "") -> str:  # noqa: ANN401 - of any column
    """A bound of a column of some type as text, as rows have it."""
    import pyarrow as pa

    from delta_sidecar.cli.table import plain_texts

    # Of 32 bits, a number has fewer digits.
    return plain_texts(pa.array([value], pa.float32() if kind == "float" else None))[0] or ""


def type_text(arrow: str) -> str:
    """A type by the name that Delta has for it; by Arrow's where it has none."""
    return re.sub(r"^decimal\d+\((\d+), (-?\d+)\)$", r"decimal(\1,\2)", TYPE_NAMES.get(arrow, arrow))
