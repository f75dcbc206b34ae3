"""Importing the library is light: no engine, no extra and no command-line toolkit comes along."""

from __future__ import annotations

import datetime as dt
import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = [
    "azure",
    "click",
    "datafusion",
    "deltalake",
    "duckdb",
    "opentelemetry",
    "pandas",
    "polars",
    "pyspark",
    "rich",
    "sqlglot",
]


def imported_by(statement: str) -> set[str]:
    """Runs a statement in a fresh interpreter and tells which top-level modules are loaded after it."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}}, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


def test_importing_the_library_imports_nothing_heavy() -> None:
    assert not imported_by("import delta_sidecar") & set(HEAVY)


def test_importing_the_package_does_not_import_arrow() -> None:
    assert not imported_by("import delta_sidecar; dir(delta_sidecar)") & {"pyarrow", "numpy"}
    assert imported_by("from delta_sidecar import LazyDeltaScanner") >= {"pyarrow", "numpy"}


def test_every_public_name_can_be_had_without_anything_heavy() -> None:
    assert not imported_by("from delta_sidecar import *") & set(HEAVY)


def test_a_build_does_not_import_pandas(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"at": "timestamp", "n": "long", "d": "date"}, partition_columns=["d"])
    rows = [{"at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "n": 1}]
    table.commit(
        [
            add("a", partition_values={"d": "2026-01-01"}, rows=rows),
            add("b", partition_values={"d": "odd"}, stats='{"minValues":{"n":1},"numRecords":1}'),
            add("c", partition_values={"d": None}, stats='{"numRecords":"1"}'),
            add("e", partition_values={"d": None}, stats='{"numRecords":1,"minValues":{"at":"2026-01-01T00:00:00Z"}}'),
            add("f", partition_values={"d": None}, stats=None),
        ]
    )
    found = imported_by(f"from delta_sidecar.build import build_sidecar; build_sidecar({str(tmp_path)!r}, threads=1)")
    assert "pandas" not in found
    assert list(tmp_path.rglob("*.manifest.json"))


@pytest.mark.parametrize(
    "name", ["azure", "click", "deltalake", "duckdb", "opentelemetry", "pandas", "rich", "sqlglot"]
)
def test_the_check_can_fail(name: str) -> None:
    assert importlib.util.find_spec(name), f"{name} is not installed, so nothing shows that it stays unimported"
    assert name in imported_by(f"import delta_sidecar, {name}")
