"""explain(): strategy, tail, base and tests before anything is read; what became of every entry after it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder import TableBuilder, add, remove
from tests.builder.strategies import History, histories, predicates
from tests.scan.effort import examples
from tests.scan.expected import built
from tests.scan.reading import STRATEGIES, scan, scanner, store_of

from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("answered_ahead")


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = TableBuilder(tmp_path, schema={"_event_hour": "string", "id": "long"}, partition_columns=["_event_hour"])
    rows = [
        add(f"{n:03}.parquet", rows=[{"id": n}], partition_values={"_event_hour": f"20260210{n % 10:02}"})
        for n in range(100)
    ]
    built.commit(rows)
    built.checkpoint(row_group_rows=20)
    built.checksum()
    built.commit(
        [add("new.parquet", rows=[{"id": 5}], partition_values={"_event_hour": "2026021009"}), remove("099.parquet")]
    )
    built.commit([add("newer.parquet", rows=[{"id": 7}], partition_values={"_event_hour": "2026021001"})])
    return built


def test_it_says_how_and_why_and_reads_no_file_entry(table: TableBuilder) -> None:
    store = RecordingStore(store_of(table))
    told = scanner(table, store, predicate="_event_hour >= '2026021009' AND id < 60").explain()
    assert (told.strategy, told.order, told.version) == ("reverse", "any", 2)
    assert "from some value on" in told.reason
    assert told.predicate == "_event_hour >= '2026021009' AND id < 60"
    assert (told.commits, told.commit_bytes) == (2, sum(path.stat().st_size for path in commits(table)[1:]))
    base = told.base
    assert (base.version, base.files, base.rows, base.row_groups, base.row_groups_without_files) == (0, 1, 102, 6, 0)
    assert (told.pruned_by_partition, told.pruned_by_statistics) == (("_event_hour",), ("id",))
    assert told.actual is None
    assert told.opening.requests == len(store.attempts)


def test_analysed_it_says_what_became_of_every_entry(table: TableBuilder) -> None:
    told = scanner(table, predicate="_event_hour >= '2026021009' AND id < 60").explain(analyze=True)
    actual = told.actual
    assert actual is not None
    entries = actual.entries
    assert (entries.commit_adds, entries.commit_hidden, entries.commit_pruned) == (2, 0, 1)
    assert entries.base_adds == 100
    assert (entries.base_pruned_early, entries.base_hidden, entries.base_pruned) == (90, 1, 3)
    assert actual.files_emitted == 1 + 6
    assert actual.row_groups_read == 6
    expected = told.expected
    assert actual.requests.bytes <= expected.bytes_at_most
    assert actual.row_groups_read <= expected.row_groups_at_most


def test_a_log_without_a_checkpoint_has_no_base(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    told = scanner(table).explain()
    assert (told.base.name, told.base.version, told.commits) == ("", -1, 1)


@pytest.mark.parametrize("kind", ["v1-multipart", "v2-json", "v2-parquet"])
def test_all_files_of_a_checkpoint_count(tmp_path: Path, kind: str) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(f"{n}.parquet") for n in range(10)])
    table.checkpoint(kind, parts=3, sidecars=2)
    told = scanner(table).explain()
    assert told.base.files == 3
    assert told.base.rows >= 10
    assert told.base.bytes > 0


def test_a_base_that_is_passed_over_is_named(table: TableBuilder) -> None:
    path = table.checkpoint()[-1]
    path.write_bytes(b"PAR1 torn PAR1")
    told = scanner(table).explain()
    ((name, reason),) = told.passed_over
    assert name == path.name
    assert reason
    assert (told.base.version, told.commits) == (0, 2)


def test_it_goes_through_json(table: TableBuilder) -> None:
    told = scanner(table, limit=3).explain(analyze=True).to_dict()
    again = json.loads(json.dumps(told))
    assert again["base"]["row_groups"] == 6
    assert again["actual"]["files_emitted"] == 3
    assert again["actual"]["entries"]["commit_adds"] == 2


@examples(25)
@given(history=histories(), data=st.data())
def test_every_entry_is_accounted_for(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        condition = data.draw(st.none() | predicates(table.model_columns(version)))
        config = {
            "version": version,
            "predicate": None if condition is None else condition.sql,
            "strategy": data.draw(st.sampled_from(STRATEGIES)),
        }
        told = scanner(table, **config).explain(analyze=True)
        assert told.actual is not None
        entries = told.actual.entries
        left = entries.commit_adds - entries.commit_hidden - entries.commit_pruned
        left += entries.base_adds - entries.base_pruned_early - entries.base_hidden - entries.base_pruned
        assert left == told.actual.files_emitted == len(scan(table, **config))


def commits(table: TableBuilder) -> list[Path]:
    return sorted((table.root / "_delta_log").glob("*.json"))
