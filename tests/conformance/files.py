"""Checks of the files of a public table."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from tests.conformance.public_table import PublicTable, files_of, scanner
from tests.conformance.tables import Expected, comparable, facts_of, odd_tables

from delta_sidecar import DeltaFile, DeltaSidecarError
from delta_sidecar.scan.files import delta_files
from delta_sidecar.store import open_store
from delta_sidecar.table.statistics import fold_stats

if TYPE_CHECKING:
    from delta_sidecar.store import Store


def newest_files(table: PublicTable) -> None:
    """At the newest version, the expected files or the expected refusal, in both orders of reading."""
    assert_files(table.newest, table.files)


def older_files(table: PublicTable) -> None:
    """At every older version, the expected files or the expected refusal, in both orders of reading."""
    for expected in table.versions[:-1]:
        assert_files(expected, files_of(expected))


def assert_files(expected: Expected, reverse: list[DeltaFile] | None) -> None:
    forward = files_of(expected, "forward")
    assert (reverse is None) == (forward is None)
    if reverse is None or forward is None:
        return
    assert_facts(expected, reverse)
    assert_facts(expected, forward)
    assert sorted(map(comparable, reverse)) == sorted(map(comparable, forward)), f"version {expected.label}"


def batches(table: PublicTable) -> None:
    """Batches hold the same files."""
    if table.files is None:
        with pytest.raises(DeltaSidecarError):
            scanner(table.newest).scan_batches().read_all()
        return
    reader = scanner(table.newest).scan_batches()
    assert [file for batch in reader for file in delta_files(batch)] == table.files
    snapshot = scanner(table.newest).snapshot()
    assert table.newest.version in (None, snapshot.version)
    for file in table.files:
        assert file.partition_values.keys() == set(snapshot.partition_columns)
        assert file.stats is None or isinstance(json.loads(file.stats), dict)


def paths(table: PublicTable) -> None:
    """A relative path, once decoded, is a path of the folder: some tables lack their data files, none may differ."""
    for file in table.files or []:
        assert file.path == unquote(file.raw_path)
        if not file.raw_path.startswith("/") and ":" not in file.raw_path and "%" in file.raw_path:
            exists = (table.newest.root / file.path).exists()
            assert exists or not (table.newest.root / file.raw_path).exists()


def store_in_memory(table: PublicTable) -> None:
    """A store in memory gives the same files, of a table with names that a careless store would garble."""
    if table.name not in odd_tables():
        return
    store = copy_into(open_store(f"memory://{uuid.uuid4().hex}/a b%20c/ü+&"), table.newest)
    for strategy in ("reverse", "forward"):
        found = files_of(table.newest, strategy, store)
        if found is not None:
            assert_facts(table.newest, found)


def assert_facts(expected: Expected, found: list[DeltaFile]) -> None:
    facts = {name: value for name, value in facts_of(found).items() if expected.facts.get(name) is not None}
    assert facts == {name: expected.facts[name] for name in facts}, f"version {expected.label}"
    assert facts.keys() >= {"files", "dvs", "digest"}


def copy_into(store: Store, expected: Expected) -> Store:
    for path in sorted((expected.root / "_delta_log").rglob("*")):
        if path.is_file():
            store.put(path.relative_to(expected.root).as_posix(), path.read_bytes())
    return store


def statistics(table: PublicTable) -> None:
    """What the statistics of a table come to is what those of its files come to."""
    expected = table.newest
    if "fails" in expected.facts or "may_refuse" in expected.facts:
        return
    opened = table.opened(expected)
    found = list(opened.get_stats_for_files())
    whole = fold_stats(opened.snapshot().handle)
    assert whole.files == len(found) == expected.facts["files"]
    assert whole.files - whole.files_without_rows == expected.facts["stats_files"]
    deleted = sum(file.deleted_rows for file in found if file.num_records is not None)
    assert whole.rows + deleted == expected.facts["stats_num_records"]
    with_rows = [file for file in found if file.num_records != 0]
    for each in whole.columns:
        lows = [file.minimums[each.name] for file in with_rows if each.name in file.minimums]
        highs = [file.maximums[each.name] for file in with_rows if each.name in file.maximums]
        assert (each.minimum, each.maximum) == (min(lows, default=None), max(highs, default=None)), each.name
