"""Strict mode: anything but add, remove and commitInfo trips; what then happens is the caller's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder import TableBuilder, add, metadata, protocol, remove
from tests.builder.strategies import History, histories
from tests.scan.effort import examples
from tests.scan.expected import built
from tests.scan.reading import STRATEGIES, keys_of, scan, scanner

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, StrictModeError
from delta_sidecar.events import Event, FallbackTriggered
from delta_sidecar.execute import json as json_lines

if TYPE_CHECKING:
    from pathlib import Path

INFO = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationParameters": {"mode": "Append"}}}
OTHERS: dict[str, dict[str, Any]] = {
    "txn": {"txn": {"appId": "a", "version": 1}},
    "metaData": metadata({"id": "long"}),
    "protocol": protocol(1, 2),
    "cdc": {"cdc": {"path": "c.parquet", "partitionValues": {}, "size": 1, "dataChange": False}},
    "domainMetadata": {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    "an unknown action": {"somethingNew": {"a": {"b": [1]}}},
}


def table_with(root: Path, *actions: dict[str, Any]) -> TableBuilder:
    """A checkpoint, plain commits after it, and among them one with more than files."""
    table = TableBuilder(root)
    table.commit([add(f"{n}.parquet") for n in range(5)])
    table.checkpoint()
    table.commit([INFO, add("a.parquet"), remove("0.parquet")])
    table.commit([add("b.parquet"), remove("a.parquet"), *actions, add("c.parquet"), remove("1.parquet")])
    table.commit([INFO, add("d.parquet"), remove("b.parquet"), remove("2.parquet")])
    return table


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_files_and_commit_information_pass(tmp_path: Path, strategy: str) -> None:
    table = table_with(tmp_path)
    reader = scanner(table, strict=True, enable_fallback=False, strategy=strategy)
    assert keys_of(reader.scan_files()) == keys_of(scan(table))
    assert reader.metrics.fallbacks == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_removes_before_what_trips_do_not_hide_adds_of_their_own_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    # The remove is in a block before the one that trips, and the add of the same file in that one.
    monkeypatch.setattr(json_lines, "PARSED_BYTES", 50_000)
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet"), add("b.parquet")])
    table.checkpoint()
    others = [f"{n:03}.parquet" for n in range(600)]
    table.commit([remove("a.parquet"), *map(add, others), add("a.parquet"), OTHERS["txn"]])
    found = scan(table, strict=True, enable_fallback=True, strategy=strategy)
    assert sorted(file.path for file in found) == sorted(["a.parquet", "b.parquet", *others])


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", OTHERS)
def test_anything_else_is_an_error_by_name(tmp_path: Path, name: str, strategy: str) -> None:
    table = table_with(tmp_path, OTHERS[name])
    with pytest.raises(StrictModeError, match=f"commit 2 has {name}, .*enable_fallback") as raised:
        scan(table, strict=True, enable_fallback=False, strategy=strategy)
    assert (raised.value.action, raised.value.version) == (name, 2)
    assert str(table.root) in str(raised.value)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", OTHERS)
def test_with_fallback_the_scan_goes_on_and_nothing_comes_twice(tmp_path: Path, name: str, strategy: str) -> None:
    table = table_with(tmp_path, OTHERS[name])
    events: list[Event] = []
    config = LazyScanConfig(strict=True, enable_fallback=True, strategy=strategy)
    reader = LazyDeltaScanner(table.root, config, listeners=[events.append])
    assert keys_of(reader.scan_files()) == keys_of(scan(table))
    assert [event for event in events if isinstance(event, FallbackTriggered)] == [
        FallbackTriggered(table=str(table.root), action=name, version=2)
    ]
    assert reader.metrics.fallbacks == 1


def test_what_was_given_out_before_it_tripped_comes_once(tmp_path: Path) -> None:
    table = table_with(tmp_path, OTHERS["txn"])
    files = scanner(table, strict=True, strategy="reverse").scan_files()
    assert next(files).path == "d.parquet"
    assert sorted(file.path for file in files) == ["3.parquet", "4.parquet", "c.parquet"]


def test_it_may_trip_in_the_middle_of_a_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blocks of a commit are given out before a later one trips; the commit is then read again from its start."""
    monkeypatch.setattr(json_lines, "PARSED_BYTES", 1_000)
    table = TableBuilder(tmp_path)
    table.commit([add("old.parquet")])
    table.checkpoint()
    names = [f"{n:03}.parquet" for n in range(300)]
    table.commit([remove("old.parquet"), *(add(name) for name in names), OTHERS["txn"], add("last.parquet")])
    reader = scanner(table, strict=True, strategy="reverse")
    files = reader.scan_files()
    found = [next(files).path]
    assert reader.metrics.fallbacks == 0, "the action is in a later block"
    found += [file.path for file in files]
    assert sorted(found) == sorted([*names, "last.parquet"])
    assert reader.metrics.fallbacks == 1


def test_a_log_from_its_start_trips_at_its_first_commit(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    with pytest.raises(StrictModeError, match="commit 0 has metaData"):
        scan(table, strict=True, enable_fallback=False)


def test_after_a_fallback_nothing_trips_again(tmp_path: Path) -> None:
    table = table_with(tmp_path, OTHERS["txn"])
    table.commit([OTHERS["txn"], add("e.parquet")])
    reader = scanner(table, strict=True)
    assert keys_of(reader.scan_files()) == keys_of(scan(table))
    assert reader.metrics.fallbacks == 1


@examples(30)
@given(history=histories(), data=st.data())
def test_strict_or_not_the_answer_is_the_same(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        strategy = data.draw(st.sampled_from(STRATEGIES))
        expected = keys_of(scan(table, version=version))
        assert keys_of(scan(table, version=version, strategy=strategy, strict=True)) == expected
        try:
            found = keys_of(scan(table, version=version, strategy=strategy, strict=True, enable_fallback=False))
        except StrictModeError as error:
            kinds = {kind for action in table.commits[error.version] for kind in action}
            assert kinds - {"add", "remove", "commitInfo"}
        else:
            assert found == expected
