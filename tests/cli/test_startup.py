"""A command imports what it needs, when it needs it: that is most of the time of a short one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add

from delta_sidecar.build import build_sidecar

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from delta_sidecar.cli import main
main(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""
HEAVY = {"azure", "deltalake", "duckdb", "obstore", "opentelemetry", "pandas", "polars", "pyspark", "rich", "sqlglot"}
OWN_OF_HELP = 17
OWN_OF_FILES = 84


def modules_of(*arguments: str) -> set[str]:
    """The modules that a command has imported at its end, in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stderr.split())


def own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "delta_sidecar"}


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """A table with a metadata sidecar, and a commit after it."""
    made = TableBuilder(tmp_path, partition_columns=["hour"], schema={"hour": "string", "id": "long"})
    stats = {"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
    made.commit([add(f"{hour}.parquet", partition_values={"hour": hour}, stats=stats) for hour in "abc"])
    made.checkpoint("v1")
    build_sidecar(made.root)
    made.commit([add("d.parquet", partition_values={"hour": "d"}, stats=stats)])
    return made


def test_help_needs_its_toolkit_and_little_of_our_own() -> None:
    loaded = modules_of("--help")
    assert "click" in loaded
    assert not ({name.partition(".")[0] for name in loaded} & (HEAVY | {"numpy", "pyarrow"}))
    assert len(own(loaded)) <= OWN_OF_HELP


@pytest.mark.parametrize("hour", ["c", "d"], ids=["in the sidecar", "in the tail"])
def test_the_first_file_needs_no_engine_and_no_client_of_a_store(table: TableBuilder, hour: str) -> None:
    loaded = modules_of("files", table.root, "--where", f"hour = '{hour}'", "--limit", "1")
    assert "pyarrow" in loaded
    assert not ({name.partition(".")[0] for name in loaded} & HEAVY)
    assert len(own(loaded)) <= OWN_OF_FILES
    unneeded = {"log.commit_times", "replay.estimate", "replay.versions", "rows", "scan.explain", "scan.retention"}
    assert not own(loaded) & {f"delta_sidecar.{name}" for name in unneeded}


def test_parquet_is_imported_where_a_file_is_in_the_base(table: TableBuilder) -> None:
    assert "pyarrow.parquet" in modules_of("files", table.root, "--where", "hour = 'c'", "--limit", "1")


def test_parquet_is_not_imported_where_the_tail_has_enough(table: TableBuilder) -> None:
    assert "pyarrow.parquet" not in modules_of("files", table.root, "--limit", "1")


def test_a_command_does_not_import_the_others() -> None:
    loaded = modules_of("files", "--help")
    assert {name for name in loaded if name.startswith("delta_sidecar.cli.commands.")} == {
        "delta_sidecar.cli.commands.streams"
    }
