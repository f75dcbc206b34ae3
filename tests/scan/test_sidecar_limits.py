"""A limit over a metadata sidecar: no more is asked for, decoded and made into files than it takes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add
from tests.scan.paged import pages
from tests.scan.reading import scanner, store_of
from tests.scan.sidecar_tables import manifest_of, with_sidecar

from delta_sidecar import DeltaTable
from delta_sidecar.sidecar import rows as sidecar_rows
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.sidecar.schema import SidecarSchema

FILES, GROUP = 2_000, 200
ORDERS = {"bucket": ["_event_hour"], "days": ["day"], "flat": []}


@pytest.fixture(scope="module", params=ORDERS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    """Ten row groups in order of time, each of several partitions."""
    kinds = {"_event_hour": "string", "day": "date"}
    partitions = ORDERS[request.param]
    schema = {"at": "timestamp", "id": "long"} | {name: kinds[name] for name in partitions}
    built = TableBuilder(tmp_path_factory.mktemp("limits") / "t", schema=schema, partition_columns=partitions)
    actions = []
    for number in range(FILES):
        hour, minute = divmod(number, 50)
        values = {"_event_hour": f"{hour:04}", "day": f"2026-01-{hour // 2 + 1:02}"}
        rows = [{"at": f"2026-01-{hour // 2 + 1:02}T{hour % 2 * 12:02}:{minute:02}:00.000Z", "id": number}]
        chosen = {name: values[name] for name in partitions}
        actions.append(add(f"{number:05}.parquet", rows=rows, partition_values=chosen))
    built.commit(actions)
    return with_sidecar(built, rows_per_group=GROUP)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many files statistics are made into text, call by call."""
    rows: list[int] = []
    usual = sidecar_rows.stats_texts

    def noted(batch: pa.RecordBatch, schema: SidecarSchema, stats_format: str) -> pa.StringArray:
        rows.append(batch.num_rows)
        return usual(batch, schema, stats_format)

    monkeypatch.setattr(sidecar_rows, "stats_texts", noted)
    return rows


@pytest.mark.parametrize("limit", [1, 20, GROUP])
@pytest.mark.parametrize("order", ["recent", "any"])
def test_one_row_group_is_read_and_no_more_files_made_than_wanted(
    table: TableBuilder, made: list[int], limit: int, order: str
) -> None:
    store = RecordingStore(store_of(table))
    reader = scanner(table, store, limit=limit, order=order)
    assert len(list(reader.scan_files())) == limit == sum(made)
    last = manifest_of(table, 0).row_groups[-1]
    asked = [attempt for attempt in store.attempts if attempt.path.endswith("v0.parquet")]
    spans = sorted((attempt.start, attempt.end) for attempt in asked)
    pieces = sorted([(last.byte_offset, last.byte_length), (last.stats_offset, last.stats_length)])
    assert spans[0][0] == pieces[0][0]
    assert sum((end or 0) - (start or 0) for start, end in spans) <= pieces[1][0] + pieces[1][1] - pieces[0][0]
    assert len(asked) <= 2
    metrics = reader.metrics
    assert (metrics.row_groups_read, metrics.entries.base_adds, metrics.batches_emitted) == (1, GROUP, 1)


def test_a_limit_over_several_row_groups_reads_those(table: TableBuilder, made: list[int]) -> None:
    reader = scanner(table, limit=GROUP + 1)
    assert len(list(reader.scan_files())) == GROUP + 1
    assert reader.metrics.row_groups_read == 2
    assert sum(made) <= 2 * GROUP


def test_a_page_makes_no_files_beyond_its_own(table: TableBuilder, made: list[int]) -> None:
    """Of the row group that it begins in, those are made too that came before."""
    found = []
    for number, page in enumerate(pages(table, 60)):
        found += [file.path for file in page]
        before = (number * 60 - 1) % GROUP + 1 if number else 0
        assert len(made) <= (1 if before + 60 <= GROUP else 2)
        assert max(made, default=0) <= min(GROUP, before + 60)
        made.clear()
    assert sorted(found) == [f"{number:05}.parquet" for number in range(FILES)]


def test_a_predicate_that_few_files_match_does_not_end_the_scan_early(table: TableBuilder) -> None:
    """The limit counts files that match, and these are spread over row groups."""
    reader = scanner(table, limit=45, predicate="id >= 100 AND id <= 149")
    assert len(list(reader.scan_files())) == 45


def test_rows_with_a_limit_begin_with_one_row_group(table: TableBuilder) -> None:
    """No data file is there: the first one that is opened fails, and that is soon enough."""
    store = RecordingStore(store_of(table))
    with pytest.raises(FileNotFoundError):
        DeltaTable(table.root, store=store).scan(limit=5).read_all()
    asked = [attempt for attempt in store.attempts if attempt.path.endswith("v0.parquet")]
    last = manifest_of(table, 0).row_groups[-1]
    assert {(attempt.start, attempt.end) for attempt in asked} <= {
        (last.byte_offset, last.byte_offset + last.byte_length),
        (last.stats_offset, last.stats_offset + last.stats_length),
    }


@pytest.mark.parametrize("order", ["recent", "any"])
def test_a_next_page_may_be_as_large_as_can_be(table: TableBuilder, order: str) -> None:
    first = scanner(table, limit=7, order=order)
    found = list(first.scan_files())
    rest = list(scanner(table, limit=sys.maxsize, order=order, page_token=first.page_token).scan_files())
    assert len({file.path for file in found + rest}) == len(found) + len(rest) == FILES
