"""Whose turn it is: the marks of pipelines in commits, the rule over them, and the rule at work."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builder import TableBuilder
from tests.spark.triggered_table import INTERVAL, triggered_table

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.spark.commits import Mark, is_batch_there, mark_in, pipeline_mark
from delta_sidecar.spark.trigger import Turn, whose_turn
from delta_sidecar.store import open_store

LEASE = timedelta(seconds=100)


def test_a_mark_is_read_back_from_the_commit(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    app_id = 'my "pipeline" ü'
    table.commit([{"commitInfo": {"operation": "WRITE", "userMetadata": pipeline_mark(app_id)}}])
    assert json.loads(pipeline_mark(app_id)) == {"deltaSidecar": {"pipeline": app_id}}
    assert mark_in(open_store(tmp_path), 0) == Mark(app_id)
    table.commit([{"commitInfo": {"operation": "WRITE", "userMetadata": pipeline_mark(app_id, 10)}}])
    assert mark_in(open_store(tmp_path), 1) == Mark(app_id, 10)


def test_a_batch_below_the_highest_is_found_or_was_passed_over(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    for app_id, batch in (("a", 1), ("a", 2), ("b", 3), ("a", 4), ("a", None), (None, None)):
        mark = "of another" if app_id is None else pipeline_mark(app_id, 10, batch=batch)
        table.commit([{"commitInfo": {"operation": "WRITE", "userMetadata": mark}}])
    store = open_store(tmp_path)
    assert mark_in(store, 3) == Mark("a", 10, 4)
    assert [is_batch_there(store, 5, "a", batch) for batch in range(5)] == [False, True, True, False, True]
    assert is_batch_there(store, 5, "b", 2) is False
    # What is cleaned up cannot be told any more.
    table.commit_path(0).unlink()
    assert [is_batch_there(store, 5, "a", batch) for batch in range(4)] == [None, None, True, False]


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        5,
        "",
        "note of a person",
        "[1]",
        "{}",
        '{"deltaSidecar": 1}',
        '{"deltaSidecar":{"pipeline":1}}',
        "[" * 9999,
    ],
)
def test_what_is_no_mark_is_somebody_elses(tmp_path: Path, metadata: object) -> None:
    table = TableBuilder(tmp_path)
    table.commit([{"commitInfo": {"operation": "OPTIMIZE", "userMetadata": metadata}}])
    assert mark_in(open_store(tmp_path), 0) is None


def test_a_commit_that_is_gone_or_broken_is_nobodys(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit_path(1).write_bytes(b'{"commitInfo":{"userMeta\n\xff\xfe\n')
    assert [mark_in(open_store(tmp_path), version) for version in (0, 1)] == [None, None]


def test_who_makes_no_checkpoints_or_others_is_nobody_to_wait_for() -> None:
    assert Mark("a").looks_after(8, 9)
    assert Mark("a", 4).looks_after(8, 8)
    assert Mark("a", 4).looks_after(8, 11)
    assert Mark("a", 2).looks_after(8, 9)
    assert not Mark("a", 2).looks_after(8, 10)
    assert not Mark("a", 10).looks_after(8, 9)
    assert not Mark("a", 0).looks_after(8, 9)


def test_the_turn_passes_on_by_the_lease() -> None:
    commits = [Turn(4, 0, "a"), Turn(5, 99, "b"), Turn(6, 100, "c"), Turn(7, 150, "b"), Turn(8, 205, "b")]
    holders = [whose_turn(commits[:count], 100) for count in range(6)]
    assert [holder and holder.version for holder in holders] == [None, 4, 4, 6, 6, 8]


STEPS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 1, 1, 60, 120]), st.booleans()),
    min_size=6,
    max_size=16,
)


@pytest.mark.full
@settings(max_examples=40)
@given(steps=STEPS, with_crashes=st.booleans())
def test_it_is_done_once_without_crashes_and_in_the_end_with_them(
    steps: list[tuple[str | None, int, bool]], *, with_crashes: bool
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        table = triggered_table(Path(folder) / "table", monkeypatch)
        triggers = {name: table.trigger(name, lease=LEASE) for name in "abc"}
        seen_to = set()
        for pipeline, later, is_killed in steps:
            version = table.commit(pipeline, later=later)
            if pipeline is None:
                continue
            if with_crashes and is_killed:
                triggers[pipeline] = table.trigger(pipeline, lease=LEASE)
                continue
            triggers[pipeline].after(version)
            if not with_crashes and version >= INTERVAL:
                seen_to.add(version - version % INTERVAL)
        assert len(set(table.made)) == len(table.made)
        if not with_crashes:
            assert set(table.made) == {f"{what} {due}" for due in seen_to for what in ("checkpoint", "sidecar")}
        # Whoever comes by a lease later finds everything there, or makes it.
        version = table.commit("c", later=2 * LEASE.total_seconds())
        table.trigger("c", lease=LEASE).after(version)
        due = version - version % INTERVAL
        scanner = LazyDeltaScanner(table.root, LazyScanConfig(version=due))
        assert {file.path for file in scanner.scan_files()} == {key[0] for key in table.builder.model_files(due)}
        assert f"sidecar {due}" in table.made
