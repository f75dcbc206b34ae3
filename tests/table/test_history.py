"""What commits say of themselves: as in deltalake where the table is at its newest version, and right elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import deltalake
import pytest
from tests.builder import TableBuilder, add, commit_info
from tests.own_threads import forget
from tests.table.written import counting_table

from delta_sidecar import CorruptCommitError, DeltaTable, OptionError
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path


def test_an_older_version_has_the_history_up_to_it(tmp_path: Path) -> None:
    counting_table(tmp_path, 5)
    newest = deltalake.DeltaTable(tmp_path).history()
    assert DeltaTable(tmp_path, version=2).history() == newest[2:]
    assert DeltaTable(tmp_path, version=2).history(1) == newest[2:3]


@pytest.mark.parametrize(("limit", "requests"), [(0, 0), (1, 1), (3, 3), (None, 30)])
def test_no_more_commits_are_asked_for_than_are_wanted(tmp_path: Path, limit: int | None, requests: int) -> None:
    table = TableBuilder(tmp_path)
    for number in range(30):
        table.commit([commit_info(f"OPERATION {number}"), add(f"f{number}")])
    store = RecordingStore(open_store(tmp_path))
    opened = DeltaTable(tmp_path, store=store)
    opened.version()
    forget(store)
    found = opened.history(limit)
    assert [entry["version"] for entry in found] == list(range(29, -1, -1))[:limit]
    assert [entry["operation"] for entry in found] == [f"OPERATION {entry['version']}" for entry in found]
    assert len(store.attempts) == requests


def test_commits_without_information_are_passed_over_and_the_others_keep_their_versions(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    for number in range(6):
        table.commit([add(f"f{number}"), *([commit_info()] if number % 2 else [])])
    assert [entry["version"] for entry in DeltaTable(tmp_path).history()] == [5, 3, 1]
    assert [entry["version"] for entry in DeltaTable(tmp_path).history(2)] == [5, 3]


def test_it_ends_where_the_log_was_cleaned_up(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    for number in range(6):
        table.commit([commit_info(), add(f"f{number}")])
    table.checkpoint()
    table.clean_up()
    assert [entry["version"] for entry in DeltaTable(tmp_path).history()] == [5]


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_the_information_is_found_anywhere_in_a_large_commit(tmp_path: Path, place: str) -> None:
    files = [add(f"{number:04}{'x' * 400}") for number in range(1000)]
    at = {"first": 0, "middle": 500, "last": 1000}[place]
    TableBuilder(tmp_path).commit([*files[:at], commit_info("BIG"), *files[at:]])
    assert [(entry["version"], entry["operation"]) for entry in DeltaTable(tmp_path).history()] == [(0, "BIG")]


def test_information_that_cannot_be_read_names_its_commit(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([commit_info()])
    opened = DeltaTable(tmp_path)
    opened.version()
    table.commit_path(0).write_text('{"commitInfo": {"operation": \n')
    with pytest.raises(CorruptCommitError, match=r"0{20}\.json"):
        opened.history()


@pytest.mark.parametrize("limit", [-1, 1.5, True])
def test_a_limit_is_a_whole_number(tmp_path: Path, limit: object) -> None:
    with pytest.raises(OptionError):
        DeltaTable(counting_table(tmp_path)).history(limit)  # type: ignore[arg-type]


def test_nested_values_come_as_they_are_written(tmp_path: Path) -> None:
    counting_table(tmp_path, 1)
    lines = (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    (info,) = (action["commitInfo"] for action in map(json.loads, lines) if "commitInfo" in action)
    assert isinstance(info["operationMetrics"], dict)
    assert DeltaTable(tmp_path).history() == [{**info, "version": 0}]
