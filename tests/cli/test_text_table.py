"""Rows as a table for people, on terminals of any width."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rich.cells import cell_len

from delta_sidecar.cli.table import TextTable, type_name

WIDE = pa.record_batch(
    {
        "number": pa.array([1234567890123, None]),
        "a_long_name_of_a_text": ["x" * 200, "short"],
        "wide": ["日本語" * 20, "\x1b[2J"],
        "at": pa.array([0, 1], pa.timestamp("us", "UTC")),
    }
)


def shown(width: int | None, *batches: pa.RecordBatch, colours: bool = False) -> list[str]:
    table = TextTable(width, colours=colours)
    parts = [table.start(batches[0].schema), *map(table.batch, batches), table.end()]
    return b"".join(map(bytes, parts)).decode().splitlines()


@pytest.mark.parametrize("width", [1, 20, 60, 100, 500])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = [line for line in shown(width, WIDE) if not line.startswith("… ")]
    assert len(lines) == 5
    assert max(map(cell_len, lines)) <= width


def test_numbers_and_times_are_whole_or_left_out() -> None:
    lines = shown(75, WIDE)
    assert "1234567890123" in lines[3]
    assert lines[3].endswith("1970-01-01T00:00:00Z")
    # Names often differ at their end.
    assert lines[0].split()[1].startswith("a_long")
    assert lines[0].split()[1].endswith("text")
    narrow = shown(60, WIDE)
    assert "1970" not in "".join(narrow)
    assert narrow[-1] == "… 1 more column: at"


def test_nothing_is_cut_without_a_terminal() -> None:
    lines = shown(None, WIDE)
    assert "x" * 200 in lines[3]
    assert "日本語" * 20 in lines[3]
    assert "\\x1b[2J" in lines[4]
    assert lines[4].split()[0] == "null"


def test_rows_after_the_first_thousand_are_not_held() -> None:
    table = TextTable()
    batch = pa.record_batch({"id": pa.array(range(600))})
    assert table.start(batch.schema) == b""
    assert table.batch(batch) == b""
    assert table.batch(batch).count(b"\n") == 3 + 1200
    assert table.batch(batch).count(b"\n") == 600
    assert table.end() == b""


def test_what_is_held_is_shown_where_it_breaks_off() -> None:
    table = TextTable()
    batch = pa.record_batch({"id": pa.array([7])})
    table.start(batch.schema)
    assert table.broken_off() == b""
    table.batch(batch)
    assert table.broken_off().decode().split() == ["id", "long", "────", "7"]


def test_a_text_that_reads_null_is_told_from_null() -> None:
    batch = pa.record_batch({"name": pa.array(["null", None, ""])})
    assert shown(None, batch)[3:] == ['"null"', "null", '""']
    assert shown(None, batch, colours=True)[3:] == ['"null"', "\x1b[2mnull\x1b[0m", '""']


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.timestamp("ns"), "timestamp[ns]"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.map_(pa.string(), pa.list_(pa.int32())), "map<string,array<integer>>"),
        (pa.struct([("a", pa.int64())]), "struct<a:long>"),
    ],
)
def test_types_have_the_names_of_delta(kind: pa.DataType, name: str) -> None:
    assert type_name(kind) == name


def test_a_later_number_that_is_longer_is_not_cut() -> None:
    """The widths are those of the first rows."""
    table = TextTable(30)
    schema = pa.schema({"n": pa.int64(), "text": pa.string()})
    first = pa.record_batch([list(range(1_000)), ["short"] * 1_000], schema=schema)
    later = pa.record_batch([[123_456_789], ["a text that is longer than all before"]], schema=schema)
    lines = b"".join([table.start(schema), table.batch(first), table.batch(later), table.end()]).decode().splitlines()
    assert lines[-1].startswith("123456789  ")
    assert lines[-1].endswith("…")
