"""Tables with rows that the command is tried on."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import write_deltalake

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

KINDS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(38, 10)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("blob", pa.binary()),
        ("ok", pa.bool_()),
        ("value", pa.float64()),
        ("small", pa.float32()),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("spot", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("numbers", pa.list_(pa.int32())),
    ]
)
FULL = {
    "id": 2**53 + 1,
    "name": 'says "a, b"\nü\x9b',
    "price": Decimal("1234567890123456789012345678.1200000000"),
    "at": dt.datetime(2026, 2, 10, 22, 30, 0, 123456, dt.UTC),
    "local": dt.datetime(2026, 2, 10, 22, 30),  # noqa: DTZ001 - its type has no zone
    "day": dt.date(1, 1, 1),
    "blob": b"\x00\xff",
    "ok": True,
    "value": float("nan"),
    "small": 0.1,
    "tags": [("a", 1), ("b", None)],
    "spot": {"x": 1, "y": None},
    "numbers": [1, None],
}
NULLS = dict.fromkeys(FULL) | {"id": 2, "name": ""}


def hide_pandas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares processes that are started the seconds that pandas takes, which pyarrow imports where it finds it."""
    (folder / "pandas.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def write_kinds(root: Path) -> None:
    """Writes a row with a value of every type, and later one with next to nothing."""
    for row in (FULL, NULLS):
        write_deltalake(root, pa.Table.from_pylist([row], KINDS), mode="append")


def write_numbers(root: Path, commits: int = 3, rows: int = 4) -> None:
    """Writes rows `id` and `name`, some in each commit, counted on from commit to commit."""
    for commit in range(commits):
        ids = range(commit * rows, (commit + 1) * rows)
        table = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"row {number}" for number in ids]})
        write_deltalake(root, table, mode="append")
