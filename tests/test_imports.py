"""Importing the library is light: no engine, no extra and no command-line toolkit comes along."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    "name", ["azure", "click", "deltalake", "duckdb", "opentelemetry", "pandas", "rich", "sqlglot"]
)
def test_the_check_can_fail(name: str) -> None:
    assert importlib.util.find_spec(name), f"{name} is not installed, so nothing shows that it stays unimported"
    assert name in imported_by(f"import delta_sidecar, {name}")
