"""Tables that deltalake writes, and what a table of ours gives of them in a form that compares."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SPECIAL = ("a b", "ü", "x%y", "a/b", "q?r", "h#i", "e=f", "k&l", "c:d", "m+n", "o'p", "s[t]", "~u", "pct%20", "back\\s")
MORNING = dt.datetime(2026, 2, 10, 6, tzinfo=dt.UTC)


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def write(root: Path, data: pa.Table, **how: object) -> Path:
    """Writes rows in a commit of their own."""
    deltalake.write_deltalake(str(root), data, **({"mode": "append"} | how))
    return root


def counting_table(root: Path, commits: int = 3) -> Path:
    """A table with the number of its version in a row of each."""
    for version in range(commits):
        write(root, numbers(version))
    return root


def every_type() -> pa.Table:
    moment = dt.datetime(2026, 2, 10, 22, 15, 3, 456789, tzinfo=dt.UTC)
    later = moment + dt.timedelta(hours=1)
    clock = [time.replace(tzinfo=None) for time in (moment, later)]
    return pa.table(
        {
            "flag": pa.array([True, None, False]),
            "bytes": pa.array([b"x", b"y", None]),
            "text": pa.array(["a", "é" * 50, None]),
            "tiny": pa.array([1, -2, None], pa.int8()),
            "small": pa.array([1, -2, None], pa.int16()),
            "int": pa.array([1, -2, None], pa.int32()),
            "long": pa.array([1, 2**62, None], pa.int64()),
            "float": pa.array([1.5, -2.5, None], pa.float32()),
            "double": pa.array([1.5, 1e300, None]),
            "day": pa.array([moment.date(), dt.date(1969, 12, 31), None]),
            "moment": pa.array([moment, later, None], pa.timestamp("us", "UTC")),
            "clock": pa.array([*clock, None], pa.timestamp("us")),
            "money": pa.array([Decimal("1.23"), Decimal("-4.56"), None], pa.decimal128(10, 2)),
            "list": pa.array([[1], [], None], pa.list_(pa.int64())),
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "struct": pa.array([{"x": 1, "y": {"z": "q"}}, {"x": 2, "y": None}, None]),
        }
    )


def partitioned() -> pa.Table:
    """Rows for a table with a partition for each, over columns of several types; some values are null."""
    moment = dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "s": pa.array(["a", "b", "12", "4", None, "x y"]),
            "i": pa.array([1, 2, 12, None, 5, 6], pa.int64()),
            "b": pa.array([True, False, None, True, False, True]),
            "d": pa.array(
                [moment.date(), dt.date(2026, 1, 2), None, dt.date(2027, 1, 1), moment.date(), moment.date()]
            ),
            "t": pa.array(
                [moment, moment.replace(hour=2, microsecond=5), None, moment, moment, moment.replace(year=2027)]
            ),
            "f": pa.array([1.5, 2.0, None, 2.5, 3.5, 1.5]),
            "v": pa.array(range(6), pa.int64()),
        }
    )


def committed_at(root: Path, times: Iterable[dt.datetime]) -> None:
    """Sets when the commits of a table were written."""
    for version, time in enumerate(times):
        os.utime(root / "_delta_log" / f"{version:020}.json", (time.timestamp(), time.timestamp()))


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows in a form that does not depend on their order, nor on that of their fields."""
    return sorted(str(sorted(row.items())) for row in rows)
