"""explain() of a scan that ends on a metadata sidecar: what its manifest tells, and that the scan stays within it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.scan.reading import scanner, store_of
from tests.scan.sidecar_layouts import LAYOUTS, laid_out
from tests.scan.sidecar_tables import BASE, NEWEST, hourly, manifest_of, manifest_path, spoil, with_sidecar

from delta_sidecar.build.publish import Levels
from delta_sidecar.log import segment as listed_sidecars
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builder import TableBuilder

pytestmark = pytest.mark.usefixtures("answered_ahead")

LATE = "_event_hour >= '2026021012'"


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return with_sidecar(hourly(tmp_path), BASE)


def test_the_manifest_tells_without_a_look_at_the_checkpoint_or_at_a_piece(table: TableBuilder) -> None:
    manifest = manifest_of(table, BASE)
    store = RecordingStore(store_of(table))
    told = scanner(table, store, predicate=LATE).explain()
    base = told.base
    assert (base.name, base.version, base.tier) == (f"v{BASE}.manifest.json", BASE, 1)
    assert (base.files, base.bytes, base.rows) == (1, manifest.files[0].size, manifest.num_files)
    hours = [group.event_hour_max for group in manifest.row_groups]
    matching = [group for group, hour in zip(manifest.row_groups, hours, strict=True) if (hour or "") >= "2026021012"]
    assert 0 < len(matching) < len(manifest.row_groups) == base.row_groups
    assert base.row_groups_pruned == base.row_groups - len(matching)
    assert base.index_bytes == sum(group.byte_length for group in matching)
    assert base.statistics_bytes == sum(group.stats_length for group in matching)
    assert told.expected.row_groups_at_most == len(matching)
    assert (told.commits, told.fallback_reason, told.passed_over) == (NEWEST - BASE, None, ())
    assert told.opening.requests == len(store.attempts)
    assert not [attempt for attempt in store.attempts if attempt.path.endswith(".parquet")]


def test_it_goes_through_json(table: TableBuilder) -> None:
    told = json.loads(json.dumps(scanner(table, predicate=LATE).explain(analyze=True).to_dict()))
    assert told["base"]["tier"] == 1
    assert told["fallback_reason"] is None
    assert told["actual"]["row_groups_read"] == told["expected"]["row_groups_at_most"]


def test_a_segment_is_not_read_either(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE, levels=Levels(3, 2, 2))
    manifest = manifest_of(table, BASE)
    assert len(manifest.segments) > 2
    store = RecordingStore(store_of(table))
    told = scanner(table, store, predicate=LATE).explain()
    base = told.base
    assert base.files == 2
    assert 0 < base.segments < len(manifest.segments)
    assert base.row_groups_pruned == base.row_groups - told.expected.row_groups_at_most > 0
    assert (base.index_bytes, base.statistics_bytes) == (None, None)
    assert not [attempt for attempt in store.attempts if attempt.path.endswith((".parquet", ".segments.json"))]
    actual = scanner(table, predicate=LATE).explain(analyze=True).actual
    assert actual is not None
    assert actual.row_groups_read <= told.expected.row_groups_at_most
    assert actual.requests.bytes <= told.expected.bytes_at_most


@pytest.mark.full
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("levels", [None, Levels(3, 2, 2)], ids=["one level", "two levels"])
def test_a_scan_stays_within_what_was_expected(tmp_path: Path, name: str, levels: Levels | None) -> None:
    layout = LAYOUTS[name]
    table = laid_out(tmp_path, layout, levels=levels)
    for predicate in (None, "id < 12", *layout.predicates):
        for strategy, order, at_once in (("reverse", "any", 5), ("forward", "any", 2), ("reverse", "recent", 1)):
            config = {"predicate": predicate, "order": order, "strategy": strategy}
            told = scanner(table, **config, sidecar_row_groups_per_batch=at_once).explain(analyze=True)
            assert told.base.tier == 1
            assert told.actual is not None
            assert told.actual.row_groups_read <= told.expected.row_groups_at_most
            assert told.actual.requests.bytes <= told.expected.bytes_at_most


def test_nothing_matches(table: TableBuilder) -> None:
    told = scanner(table, predicate="_event_hour = '1999'").explain(analyze=True)
    # Files whose bucket is null are in row groups with others, or of their own.
    assert told.base.row_groups_pruned == told.base.row_groups
    assert (told.base.index_bytes, told.base.statistics_bytes) == (0, 0)
    assert told.expected.row_groups_at_most == 0
    assert told.actual is not None
    assert told.actual.requests.bytes <= told.expected.bytes_at_most


def reason(table: TableBuilder, **config: object) -> tuple[int, str | None, list[str]]:
    told = scanner(table, **config).explain()
    assert told.base.version >= 0
    return told.base.tier, told.fallback_reason, [name for name, _ in told.passed_over]


def test_why_it_is_no_better_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hourly(tmp_path)
    assert reason(table) == (3, "none", [])
    with_sidecar(table, BASE)
    name = manifest_path(table, BASE).name
    assert reason(table) == (1, None, [])
    assert reason(table, sidecar_enabled=False) == (3, "disabled", [])
    manifest = manifest_path(table, BASE).read_bytes()
    spoil(manifest_path(table, BASE), 100)
    assert reason(table) == (2, "damaged", [name])
    manifest_path(table, BASE).unlink()
    assert reason(table) == (2, "no_manifest", [])
    manifest_path(table, BASE).write_bytes(manifest)
    (table.log / "_sidecars" / f"v{BASE}.parquet").unlink()
    assert reason(table) == (3, "missing_file", [name])
    monkeypatch.setattr(listed_sidecars, "MOST_TAIL", NEWEST - BASE - 1)
    assert reason(table) == (3, "too_old", [])
