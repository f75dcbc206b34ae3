"""Tails of thousands of commits: gone through a window at a time."""

from __future__ import annotations

import json
import tracemalloc
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add, remove
from tests.scan.reading import STRATEGIES, scan, scanner

from delta_sidecar.execute import LocalExecutor
from delta_sidecar.log.names import commit_path
from delta_sidecar.log.segment import ListedFile, LogListing
from delta_sidecar.plan import NOTHING_AHEAD, Ahead, FileRef, Filter, FilterOrdered, Plan, ScanJson
from delta_sidecar.replay import tail
from delta_sidecar.replay.tail import Tail

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.plan import Batches

COMMITS = 234


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> int:
    """A window that few commits fill."""
    monkeypatch.setattr(tail, "WINDOW", 50)
    return 50


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    """Every commit adds a file and removes the one before, but for some that stay."""
    built = TableBuilder(tmp_path_factory.mktemp("long"))
    built.commit([add("0.parquet")])
    for number in range(1, COMMITS):
        stays = (number - 1) % 10 == 0
        built.commit([add(f"{number}.parquet"), *([] if stays else [remove(f"{number - 1}.parquet")])])
    return built


EXPECTED = sorted({f"{number}.parquet" for number in (*range(0, COMMITS - 1, 10), COMMITS - 1)})


@pytest.mark.full
@pytest.mark.usefixtures("window")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("strict", [False, True])
def test_all_windows_are_gone_through(table: TableBuilder, strategy: str, *, strict: bool) -> None:
    reader = scanner(table, strategy=strategy, strict=strict)
    assert sorted(file.path for file in reader.scan_files()) == EXPECTED
    assert reader.metrics.seen_keys == COMMITS


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_plan_has_more_commits_than_a_window(
    monkeypatch: pytest.MonkeyPatch, table: TableBuilder, strategy: str, window: int
) -> None:
    sizes: list[int] = []
    run = LocalExecutor._run

    def watched(self: LocalExecutor, plan: Plan, ahead: Ahead = NOTHING_AHEAD) -> Batches:
        source = plan
        while isinstance(source, Filter | FilterOrdered):
            source = source.source
        if isinstance(source, ScanJson) and source is plan:
            sizes.append(len(source.files))
        return run(self, plan, ahead)

    monkeypatch.setattr(LocalExecutor, "_run", watched)
    scan(table, strategy=strategy)
    assert max(sizes) == window
    assert sum(sizes) >= COMMITS


@pytest.mark.full
@pytest.mark.usefixtures("window")
def test_pages_go_over_windows(table: TableBuilder) -> None:
    found: list[str] = []
    token = None
    while True:
        reader = scanner(table, limit=5, page_token=token)
        found += [file.path for file in reader.scan_files()]
        token = reader.page_token
        if token is None:
            break
    assert sorted(found) == EXPECTED
    assert len(found) == len(EXPECTED)


def test_protocol_and_metadata_are_looked_for_in_every_window(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path)
    built.commit([add("a.parquet")])
    log = built.root / "_delta_log"
    for version in range(1, 1_200):
        (log / f"{version:020}.json").write_text(json.dumps(remove("nothing.parquet")))
    snapshot = scanner(built).snapshot()
    assert snapshot.version == 1_199
    assert snapshot.metadata.schema_string == built.model_action("metaData")["schemaString"]


@pytest.mark.full
def test_listed_commits_are_numbers() -> None:
    tracemalloc.start()
    listing = LogListing()
    for version in range(200_000):
        listing.add(ListedFile(commit_path(version), version, 5))
    segment = listing.segment(199_999)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 200_000 * 100, "less than a hundred bytes for each"
    commits = Tail.of(segment, -1)
    assert len(commits) == 200_000
    newest, following = islice(commits.windows(), 2)
    assert newest[0] == FileRef(commit_path(199_999), 199_999, 199_999)
    assert len(newest) == 1_000
    assert following[0].label == 198_999
