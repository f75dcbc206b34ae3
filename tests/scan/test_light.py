"""A scan brings no engine and no extra along, whatever it reads."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add, deletion_vector, protocol, remove

from delta_sidecar.build import build_sidecar

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("azure", "click", "datafusion", "deltalake", "duckdb", "pandas", "polars", "pyspark", "rich", "sqlglot")
PROGRAM = """
import json, sys
from delta_sidecar import LazyDeltaScanner, LazyScanConfig
counts, late = [], set()
for config in json.loads(sys.argv[2]):
    scanner = LazyDeltaScanner(sys.argv[1], LazyScanConfig(**config))
    before = set(sys.modules)
    files = len(list(scanner.scan_files()))
    counts.append([files, sum(batch.num_rows for batch in scanner.scan_batches())])
    scanner.snapshot().schema
    late |= set(sys.modules) - before
heavy = sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[3].split()))
print(json.dumps([counts, heavy, sorted(late)]))
"""
CONFIGS: list[dict[str, Any]] = [
    {},
    {"strategy": "forward", "limit": 3},
    {"predicate": [["id", ">=", 2], ["name", "in", ["b", "c"]], ["day", "=", "2026-02-10"]]},
    {"predicate": {"price": {">=": 1.75}, "at": {"<": "2026-02-10T00:30:00Z"}, "hour": {">": "2026-02-09 00:00:00"}}},
]


def scanned(table: TableBuilder, *configs: dict[str, Any]) -> list[str]:
    """Scans in a fresh interpreter; gives the heavy modules that are loaded after it."""
    command = [sys.executable, "-c", PROGRAM, table.root, json.dumps(configs), " ".join(HEAVY)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    counts, heavy, late = json.loads(done.stdout)
    # What only some tables need may come late, once in a process: a room of our own, Parquet, the standard library.
    known = {"delta_sidecar", "pyarrow", *sys.stdlib_module_names}
    others = [name for name in late if name.partition(".")[0] not in known]
    assert not others, "an import in the middle of a scan takes longer than a query should"
    assert len(counts) == len(configs)
    assert all(files == rows > 0 for files, rows in counts)
    return list(heavy)


def every_path(root: Path, kind: str) -> TableBuilder:
    """Gives a table that takes a scan through all kinds of columns, statistics and keys."""
    schema = {
        "id": "long",
        "name": "string",
        "at": "timestamp",
        "price": "decimal(10,2)",
        "day": "date",
        "hour": "timestamp",
    }
    table = TableBuilder(
        root,
        partition_columns=["day", "hour"],
        schema=schema,
        protocol=protocol(features=["v2Checkpoint", "deletionVectors"]),
    )
    stats = {
        "numRecords": 2,
        "minValues": {"id": 1, "name": "a", "at": "2026-02-10T00:00:00.000Z", "price": 1.5},
        "maxValues": {"id": 9, "name": "z", "at": "2026-02-10T01:00:00.000Z", "price": 2.5},
        "nullCount": {"id": 0, "name": 0, "at": 0, "price": 0},
    }
    values = {"day": "2026-02-10", "hour": "2026-02-10 00:00:00"}
    table.commit([add(f"a%20{n}.parquet", stats=stats, partition_values=values, tags={"k": 'v"'}) for n in range(5)])
    table.commit([remove("a%200.parquet")])
    if kind == "sidecar":
        build_sidecar(table.root, rows_per_group=2)
    elif kind != "none":
        table.checkpoint(kind, struct_stats=True, json_stats=False)
    vector = deletion_vector("x")
    table.commit([remove("a%201.parquet"), add("a%201.parquet", stats=stats, partition_values=values, dv=vector)])
    table.commit([add("b.parquet", stats="garbage", partition_values={"day": None, "hour": ""})])
    return table


@pytest.mark.full
@pytest.mark.parametrize("kind", ["none", "v1", "v2-json", "v2-parquet", "sidecar"])
def test_a_scan_imports_nothing_heavy(tmp_path: Path, kind: str) -> None:
    assert scanned(every_path(tmp_path, kind), *CONFIGS) == []


def test_sql_brings_nothing_heavy(tmp_path: Path) -> None:
    assert scanned(every_path(tmp_path, "v1"), {"predicate": "id >= 2 AND day = '2026-02-10'"}) == []


@pytest.mark.parametrize("name", ["pandas", "deltalake", "sqlglot", "click"])
def test_the_check_can_fail(name: str) -> None:
    assert importlib.util.find_spec(name), f"{name} is not installed, so nothing shows that it stays unimported"
