"""Checks of the deletion vectors of a public table, by the log alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from tests.conformance.rows import PREFIX
from tests.conformance.tables import FOLDER

from delta_sidecar import DeletionVector, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.log.deletion_vectors import deleted_rows, inline_bytes, stored_range

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conformance.public_table import PublicTable

# The values that are left, by version.
LEFT = {
    "delta-kernel-rs/table-with-dv-small": {1: [1, 2, 3, 4, 5, 6, 7, 8]},
    "delta-kernel-rs/cdf-table-with-dv": {
        3: [2, 3, 6, 7, 8, 9],
        4: [1, 2, 3, 4, 6, 7, 8, 9],
        5: [0, 1, 2, 4, 5, 6, 7, 8, 9],
    },
}
WITH_COLUMN_MAPPING = "delta/dv-with-columnmapping"


def vectors_in_the_log(table: PublicTable) -> None:
    """Each deletion vector deletes as many rows as its descriptor says."""
    if not any(expected.facts.get("dvs") for expected in table.versions):
        return
    found = 0
    for vector, num_records in descriptors(table.newest.root):
        rows = deleted_rows(vector, fetched(table.newest.root, vector), num_rows=num_records)
        assert len(rows) == vector.cardinality > 0
        found += 1
    assert found


def rows_left(table: PublicTable) -> None:
    """What the vectors leave is what is expected."""
    root = table.newest.root
    for version, values in LEFT.get(table.name, {}).items():
        assert [row["value"] for row in left_of(root, version)] == values, f"version {version}"
    if table.name == WITH_COLUMN_MAPPING:
        shipped = (FOLDER / "expected-data/dv-with-columnmapping").glob("*.parquet")
        wanted = [row for path in shipped for row in pq.read_table(path, columns=["col1", "col2"]).to_pylist()]
        assert sorted(tuple(row.values()) for row in left_of(root, None)) == sorted(
            tuple(row.values()) for row in wanted
        )


def left_of(root: Path, version: int | None) -> list[dict[str, Any]]:
    with LazyDeltaScanner(root, LazyScanConfig(version=version)) as scanner:
        files = list(scanner.scan_files())
    left = []
    for file in files:
        rows = pq.ParquetFile(root / file.path).read().to_pylist()
        vector = file.deletion_vector
        gone = [] if vector is None else deleted_rows(vector, fetched(root, vector), num_rows=len(rows)).tolist()
        left += [row for number, row in enumerate(rows) if number not in gone]
    return left


def descriptors(root: Path) -> Iterator[tuple[DeletionVector, int]]:
    """The deletion vectors in a table's commits, each with the number of rows of its data file."""
    for commit in sorted((root / "_delta_log").glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            add = json.loads(line).get("add") or {}
            vector = DeletionVector.from_struct(add.get("deletionVector"))
            if vector is not None:
                yield vector, json.loads(add["stats"])["numRecords"]


def fetched(root: Path, vector: DeletionVector) -> bytes:
    path = vector.file_path()
    if path is None:
        return inline_bytes(vector)
    start, end = stored_range(vector)
    # Delta's own tests put this in front of the names of their files.
    file = root / path if (root / path).exists() else root / f"{PREFIX}{path}"
    return file.read_bytes()[start:end]
