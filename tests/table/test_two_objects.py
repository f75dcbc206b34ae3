"""Several objects of one table, each pinned to a version of its own: every write ends as it does with deltalake."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table.written import numbers

import delta_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable

Operation = tuple[str, int, int]

OPERATIONS: dict[str, Callable[[Any, Any, int], object]] = {
    "append": lambda lib, table, n: lib.write_deltalake(table, numbers(n), mode="append"),
    "append once": lambda lib, table, n: lib.write_deltalake(
        table, numbers(n), mode="append", commit_properties=CommitProperties(app_transactions=[Transaction("job", n)])
    ),
    "overwrite": lambda lib, table, n: lib.write_deltalake(table, numbers(n, n + 1), mode="overwrite"),
    "delete": lambda _, table, n: table.delete(f"n = {n}")["num_deleted_rows"],
    "delete all": lambda _, table, __: table.delete()["num_deleted_rows"],
    "update": lambda _, table, n: table.update({"n": f"n + {n}"}, predicate=f"n >= {n}")["num_updated_rows"],
    "compact": lambda _, table, __: table.optimize.compact()["numFilesRemoved"],
    "restore": lambda _, table, __: table.restore(0)["numRestoredFile"],
    "checkpoint": lambda _, table, __: table.create_checkpoint(),
    "property": lambda _, table, n: table.alter.set_table_properties(
        {"delta.logRetentionDuration": f"interval {n + 1} days"}
    ),
    "refresh": lambda _, table, __: table.update_incremental(),
    "back": lambda _, table, n: table.load_as_version(min(n, table.version())),
    "read": lambda _, table, __: table.count(),
}


def run(lib: Any, operations: list[Operation]) -> list[object]:  # noqa: ANN401 - deltalake or this library
    """What each operation gives, and what its object then shows."""
    told: list[object] = []
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "t"
        deltalake.write_deltalake(path, numbers(0, 1, 2))
        tables = [lib.DeltaTable(path) for _ in range(2)]
        for name, at, n in operations:
            try:
                result = OPERATIONS[name](lib, tables[at], n)
            except deltalake.exceptions.DeltaError as error:
                result = type(error).__name__
            rows = pa.table(tables[at].to_pyarrow_table()).column("n").to_pylist()
            told.append((name, at, result, tables[at].version(), sorted(rows)))
        told.append(sorted(deltalake.DeltaTable(path).to_pyarrow_table().column("n").to_pylist()))
    return told


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 1), st.integers(0, 3)), max_size=8))
def test_every_write_ends_as_with_deltalake(operations: list[Operation]) -> None:
    assert run(delta_sidecar, operations) == run(deltalake, operations)


@pytest.mark.parametrize(
    "operations",
    [
        [("append once", 0, 1), ("append once", 1, 1)],
        [("overwrite", 0, 1), ("overwrite", 1, 2)],
        [("update", 0, 1), ("delete", 1, 2)],
        [("delete all", 0, 0), ("append", 1, 5), ("delete", 0, 5)],
        [("property", 0, 1), ("overwrite", 1, 1), ("refresh", 1, 0), ("overwrite", 1, 2)],
        [("compact", 0, 0), ("restore", 1, 0), ("back", 0, 0), ("delete", 0, 1)],
    ],
)
def test_conflicts_are_found(operations: list[Operation]) -> None:
    assert run(delta_sidecar, operations) == run(deltalake, operations)


def test_a_transaction_that_is_written_again_is_refused() -> None:
    told = run(delta_sidecar, [("append once", 0, 1), ("append once", 1, 1)])
    assert told[1] == ("append once", 1, "CommitFailedError", 0, [0, 1, 2])
    assert told[-1] == [0, 1, 1, 2]
