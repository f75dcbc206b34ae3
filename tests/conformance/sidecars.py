"""Checks of a public table with metadata sidecars of its own: the same files as by its log alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder.meaning import meaning
from tests.conformance.tables import comparable

from delta_sidecar import DeltaFile, DeltaSidecarError, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.build import build_sidecar
from delta_sidecar.events import BaseChosen, Event

if TYPE_CHECKING:
    import pyarrow as pa
    from tests.conformance.public_table import PublicTable
    from tests.conformance.tables import Expected

LITERALS = {
    "int": "{} > 0",
    "string": "{} >= 'b'",
    "date": "{} < DATE '2020-06-01'",
    "timestamp": "{} < TIMESTAMP '2020-06-01 00:00:00'",
    "double": "{} <= 1.5",
    "decimal": "{} <> 1.5",
    "bool": "{} = TRUE",
}


def sidecars(table: PublicTable) -> None:
    """With a sidecar of an older version, and of the newest, the same files and the same answers to predicates."""
    with TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "table"
        root.mkdir()
        log = table.newest.root / "_delta_log"
        if log.exists():
            shutil.copytree(log, root / "_delta_log")
        assert_the_same_with_sidecars(root, [each for each in table.versions if not each.facts.get("fails")])


def assert_the_same_with_sidecars(root: Path, tables: list[Expected]) -> None:
    if not tables or is_refused(root, tables[-1]):
        with pytest.raises(DeltaSidecarError):
            build_sidecar(root)
        return
    older, newest = tables[len(tables) // 2].version, tables[-1].version
    expected, _ = scanned(root, newest, sidecar_enabled=False)
    if older is not None and older != newest:
        at = has_the_same(root, older, scanned(root, older, sidecar_enabled=False)[0], strategy="forward")
        files, bases = scanned(root, newest, strategy="reverse")
        assert shallow(files) == shallow(expected), (at, bases)
    newest = has_the_same(root, newest, expected, order="recent")
    schema = LazyDeltaScanner(root, LazyScanConfig(version=newest)).snapshot().schema
    for predicate in predicates(schema):
        files, _ = scanned(root, newest, predicate=predicate)
        assert whole(files) == whole(scanned(root, newest, predicate=predicate, sidecar_enabled=False)[0]), predicate


def scanned(root: Path, version: int | None, **config: Any) -> tuple[list[DeltaFile], list[tuple[int, int]]]:  # noqa: ANN401
    """The files, and version and tier of the base that they came from."""
    events: list[Event] = []
    reader = LazyDeltaScanner(root, LazyScanConfig(version=version, **config), listeners=[events.append])
    files = sorted(reader.scan_files(), key=comparable)
    return files, [(event.version, event.tier) for event in events if isinstance(event, BaseChosen)]


def predicates(schema: pa.Schema) -> list[str]:
    """One for each of the first columns that has a type with an order, and whether it is null."""
    found = []
    for field in schema:
        kinds = [word for word in LITERALS if str(field.type).startswith(word)]
        if kinds and "`" not in field.name:
            found += [LITERALS[kinds[0]].format(f"`{field.name}`"), f"`{field.name}` IS NULL"]
    return found[:2]


def is_refused(root: Path, table: Expected) -> bool:
    """Whether a table is one that may be refused, and is."""
    try:
        LazyDeltaScanner(root, LazyScanConfig(version=table.version)).snapshot()
    except DeltaSidecarError:
        if table.facts.get("may_refuse"):
            return True
        raise
    return False


def has_the_same(root: Path, version: int | None, expected: list[DeltaFile], **way: Any) -> int:  # noqa: ANN401
    """Builds the sidecar of a version, and asserts that it gives the same files; gives the version."""
    summary = build_sidecar(root, version=version, rows_per_group=7, threads=1)
    assert summary.files == len(expected)
    files, bases = scanned(root, version, **way)
    assert bases == [(summary.version, 1)]
    assert whole(files) == whole(expected)
    return summary.version


def whole(files: list[DeltaFile]) -> list[Any]:
    """Everything of files; statistics by what they say, for a sidecar keeps no text that its columns can tell."""
    return [(replace(file, stats=None), meaning(file.stats)) for file in files]


def shallow(files: list[DeltaFile]) -> list[Any]:
    """What a checkpoint cannot lose of a file."""
    return [(file.raw_path, file.deletion_vector, file.size, file.partition_values) for file in files]
