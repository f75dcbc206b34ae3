"""A table of many types with nulls, NaN and both zeros in several files, and conditions on it in SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAN = float("nan")
INFINITY = float("inf")
MORNING = dt.datetime(2026, 2, 10, 6, tzinfo=dt.UTC)
A_FILE = 5
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
BETWEEN = ["BETWEEN", "NOT BETWEEN"]
FLOATS = [1.0, NAN, None, -0.0, 2.5, INFINITY, 0.0, -3.5, NAN, NAN, NAN, NAN, NAN, NAN, NAN]
FLOATS += [None, None, None, None, None, 7.0, 8.0, 9.0, 10.0, NAN]


def rows() -> pa.Table:
    """Some rows, of which a file has five: without NaN, with it, with nothing else, with nulls alone."""
    numbers = range(25)
    return pa.table(
        {
            "row": pa.array(numbers, pa.int64()),
            "i": pa.array([None if n % 6 == 5 else n - 10 for n in numbers], pa.int64()),
            "h": pa.array([None if n % 5 == 4 else n % 3 for n in numbers], pa.int16()),
            "v": pa.array(FLOATS, pa.float64()),
            "f": pa.array([*FLOATS[7:], *FLOATS[:7]], pa.float32()),
            "name": pa.array([None if n % 7 == 3 else "aé'%b"[n % 5] * (n % 4) for n in numbers]),
            "flag": pa.array([None if n % 4 == 3 else n % 3 == 0 for n in numbers]),
            "day": pa.array([None if n % 8 == 7 else dt.date(2026, 2, 1 + n // 2) for n in numbers]),
            "moment": pa.array([None if n % 9 == 8 else MORNING + dt.timedelta(hours=n) for n in numbers], _MOMENT),
            "money": pa.array([None if n % 6 == 2 else Decimal(n * 25 - 200) / 100 for n in numbers], _MONEY),
            "part": pa.array([None if n // A_FILE == 3 else "xyz"[n // A_FILE % 3] for n in numbers]),
        }
    )


_MOMENT = pa.timestamp("us", "UTC")
_MONEY = pa.decimal128(9, 2)


def write(root: Path) -> None:
    """Writes the rows, a file for each commit."""
    table = rows()
    for start in range(0, table.num_rows, A_FILE):
        deltalake.write_deltalake(root, table.slice(start, A_FILE), mode="append", partition_by=["part"])


def conditions(moment: str, nan: str) -> st.SearchStrategy[str]:
    """Conditions in SQL.

    Args:
        moment: How an engine writes a moment in time, with its text in place of `{}`.
        nan: How it writes NaN.
    """
    literals: Mapping[str, list[str]] = {
        "i": ["-10", "-3", "0", "2", "14", "99"],
        "h": ["0", "1", "2", "7"],
        "v": ["1.0", "0.0", "2.5", "7", nan, "-3.5", "100.0"],
        "f": ["1.0", "0.0", "2.5", "7", nan],
        "name": ["'a'", "''", "'éé'", "''''", "'zz'", "'%%%'"],
        "flag": ["true", "false"],
        "day": [f"DATE '2026-02-{number:02}'" for number in (1, 4, 9, 28)],
        "moment": [moment.format(f"2026-02-{text}") for text in ("10T06:00:00Z", "10T17:00:00Z", "11T04:30:00Z")],
        "money": ["-2.00", "0.25", "1.5", "1", "300.00"],
        "part": ["'x'", "'y'", "'w'"],
    }
    return st.recursive(
        st.sampled_from(sorted(literals)).flatmap(lambda column: _leaf(column, literals[column])) | _beside_others(),
        lambda inner: (
            st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
            | st.builds("(NOT {})".format, inner)
        ),
        max_leaves=4,
    )


def _leaf(column: str, literals: list[str]) -> st.SearchStrategy[str]:
    literal = st.sampled_from(literals)
    lists = st.lists(literal, min_size=1, max_size=6).map(", ".join)
    leaves = [
        st.builds(f"({column} {{}} {{}})".format, st.sampled_from(COMPARISONS), literal),
        st.builds(f"({{}} {{}} {column})".format, literal, st.sampled_from(["=", "<", ">="])),
        st.builds(f"({column} {{}} ({{}}))".format, st.sampled_from(["IN", "NOT IN"]), lists),
        st.builds(
            f"({column} {{}} {{}} AND {{}})".format, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), literal, literal
        ),
        st.sampled_from([f"({column} IS NULL)", f"({column} IS NOT NULL)"]),
    ]
    if column == "flag":
        leaves.append(st.just("flag"))
    if column == "name":
        leaves.append(st.just("(name LIKE 'a%')"))
    return st.one_of(leaves)


def _beside_others() -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, st.just("v"), st.sampled_from(COMPARISONS), st.just("f"))


def places(found: pa.Table) -> list[Any]:
    """The numbers of the rows that were found, in order."""
    return sorted(found.column("row").to_pylist())
