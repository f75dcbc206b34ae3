"""What a query of a table with a metadata sidecar asks its store for: every request, no other, and how deep."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.build import build_sidecar
from delta_sidecar.build.publish import Levels
from delta_sidecar.execute import open_executor
from delta_sidecar.plan import run_flow
from delta_sidecar.predicate import parse
from delta_sidecar.replay import request as requests
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.files import bind_predicate
from delta_sidecar.replay.request import Question
from delta_sidecar.scan.run import ScanRun
from delta_sidecar.sidecar.layout import matching
from delta_sidecar.sidecar.manifest import decode_manifest
from delta_sidecar.store import open_store
from delta_sidecar.store.interface import merge
from delta_sidecar.store.testing import RecordingStore
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from delta_sidecar.log.schema import TableSchema
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.files import Pruning
    from delta_sidecar.scan.files import ScanMetrics
    from delta_sidecar.sidecar.groups import RowGroup
    from delta_sidecar.sidecar.manifest import Manifest

pytestmark = pytest.mark.usefixtures("answered_ahead")

LIGHT = ["path", "size"]
SPECULATION = 10
HEAD_BYTES = 4096


class Telemetry:
    """The log of a telemetry table with a metadata sidecar of its checkpoint.

    Attributes:
        log: What was written.
        root: Where.
        version: The version of checkpoint and sidecar.
    """

    def __init__(
        self,
        root: Path,
        *,
        rows_per_group: int = 500,
        levels: Levels | None = None,
        **log: Any,  # noqa: ANN401 - any of it
    ) -> None:
        self.log = TelemetryLog(**log)
        self.log.write(root)
        self.root = root
        self.version = self.log.checkpoint_version or 0
        build_sidecar(root, version=self.version, rows_per_group=rows_per_group, levels=levels)
        path = root / "_delta_log" / "_sidecars" / f"v{self.version}.manifest.json"
        self.manifest = decode_manifest(path.read_bytes())

    @property
    def data(self) -> str:
        return f"_delta_log/_sidecars/v{self.version}.parquet"

    def last_hours(self, hours: int = 1) -> str:
        """A predicate for the newest hours of the sidecar."""
        found = sorted({group.event_hour_max or "" for group in self.manifest.row_groups})
        return f"_event_hour >= '{found[-hours]}' AND _event_hour <= '{found[-1]}'"

    def holding(self, predicate: str) -> list[RowGroup]:
        """The row groups that may hold an hour of a predicate from `last_hours`."""
        lowest, highest = predicate.split("'")[1::2]
        return [
            group
            for group in self.manifest.row_groups
            if (group.event_hour_max or "") >= lowest and (group.event_hour_min or "") <= highest
        ]

    def query(self, columns: list[str] | None, **config: Any) -> tuple[RecordingStore, ScanMetrics, int]:  # noqa: ANN401
        return query(self.root, columns, **config)


def query(root: Path, columns: list[str] | None, **config: Any) -> tuple[RecordingStore, ScanMetrics, int]:  # noqa: ANN401
    """Runs a query; gives what it asked for, what it counted and how many files it found."""
    store = RecordingStore(open_store(root))
    reader = LazyDeltaScanner(root, LazyScanConfig(**config), store=store)
    rows = reader.scan_batches(columns).read_all().num_rows
    return store, reader.metrics, rows


def asked(store: RecordingStore, data: str = "") -> list[Any]:
    """Paths that were asked for, with the range where that matters."""
    found = []
    for attempt in store.attempts:
        if attempt.path == data or (attempt.end == HEAD_BYTES and attempt.path.endswith(".json")):
            found.append((attempt.path, attempt.start, attempt.end))
        else:
            found.append(attempt.path)
    return sorted(found, key=str)


def index_of(group: RowGroup) -> tuple[int, int]:
    return group.byte_offset, group.byte_offset + group.byte_length


def statistics_of(group: RowGroup) -> tuple[int, int]:
    return group.stats_offset, group.stats_offset + group.stats_length


def commit(version: int, kind: str = "json") -> str:
    return f"_delta_log/{version:020}.{kind}"


@pytest.mark.parametrize("tail", [0, 1, SPECULATION, SPECULATION + 1, 25])
def test_a_cold_query_of_the_last_hour(tmp_path: Path, tail: int) -> None:
    """Three trips: the hint; listing, manifest and commits together; matching pieces and what is left of the tail.

    Where much is left of it, more: so many requests are not made at once.
    """
    table = Telemetry(tmp_path, files=4_000, files_per_hour=300, tail_commits=tail, adds_per_commit=5)
    predicate = table.last_hours()
    store, metrics, rows = table.query(LIGHT, predicate=predicate)
    assert rows > 0
    assert rows == table.query(LIGHT, predicate=predicate, sidecar_enabled=False)[2]
    at = table.version
    pieces = [(table.data, *index_of(group)) for group in table.holding(predicate)]
    assert 0 < len(pieces) < 3 < len(table.manifest.row_groups)
    commits = [commit(at + number) for number in range(1, max(SPECULATION, tail) + 1)]
    expected = ["_delta_log/_last_checkpoint", "_delta_log/", f"_delta_log/_sidecars/v{at}.manifest.json"]
    expected += [commit(at, "crc"), (commit(at), 0, HEAD_BYTES), *commits, *pieces]
    assert asked(store, table.data) == sorted(expected, key=str)
    left = max(0, tail - SPECULATION) + len(pieces)
    assert metrics.requests.trips == 2 + -(-left // (SPECULATION + 4)), "so many requests are made side by side"
    assert metrics.trips_to_first_file == (2 if 0 < tail <= SPECULATION else metrics.requests.trips)


@pytest.mark.full
def test_ten_times_the_files_are_the_same_requests(tmp_path: Path) -> None:
    counts = []
    for name, files in (("small", 20_000), ("large", 200_000)):
        (tmp_path / name).mkdir()
        table = Telemetry(tmp_path / name, files=files, tail_commits=7, rows_per_group=5_000)
        assert len(table.manifest.row_groups) == files // 5_000
        _, metrics, rows = table.query(LIGHT, predicate=table.last_hours())
        assert rows > 0
        counts.append((metrics.requests.requests, metrics.requests.trips, metrics.requests.bytes))
    assert counts[0][:2] == counts[1][:2]
    assert counts[1][2] <= 1.25 * counts[0][2]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Telemetry:
    path = tmp_path_factory.mktemp("telemetry")
    return Telemetry(path, files=12_000, files_per_hour=300, tail_commits=3, adds_per_commit=5)


def read_of(table: Telemetry, store: RecordingStore) -> set[tuple[int | None, int | None]]:
    """Ranges of the sidecar that were asked for."""
    return {(attempt.start, attempt.end) for attempt in store.attempts if attempt.path == table.data}


def test_a_time_predicate_needs_no_statistics(table: Telemetry) -> None:
    """The time column's bounds are in the index, and in the manifest."""
    newest = table.holding(table.last_hours())[-1].columns["event_ts"].max
    store, metrics, rows = table.query(LIGHT, predicate=f"event_ts >= timestamp '{newest}'", order="any")
    assert rows > 0
    assert read_of(table, store) <= {index_of(group) for group in list(table.manifest.row_groups)[-3:]}
    assert metrics.requests.trips == 3


def test_a_question_is_bound_to_the_table_once(table: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[object] = []

    def bind(schema: TableSchema, predicate: Predicate | None) -> Pruning | None:
        bound.append(predicate)
        return bind_predicate(schema, predicate)

    monkeypatch.setattr(requests, "bind_predicate", bind)
    batches = LazyDeltaScanner(table.root, LazyScanConfig(predicate=table.last_hours())).scan_batches()
    assert batches.read_all().num_rows
    assert len(bound) == 1, "the pieces that are fetched ahead and the scan have one binding"


class OfAnotherThread(list[Any]):
    """Remembers something else as soon as it is told anything, as where another thread comes between."""

    def __setitem__(self, at: Any, value: Any) -> None:  # noqa: ANN401 - as a list has it
        super().__setitem__(at, [(object(), ()) for _ in value])


def test_scans_of_one_snapshot_do_not_take_what_another_one_matched(table: Telemetry) -> None:
    snapshot = ScanRun(open_store(table.root), LazyScanConfig()).open()
    (base,) = [found for found in snapshot.choice.bases if isinstance(found, SidecarBase)][:1]
    if base.layout is None:
        base = run_flow(base.trust(with_table=False), open_executor(open_store(table.root)))
    base = replace(base, _matched=OfAnotherThread())
    hour, day = (Question(parse(table.last_hours(hours))).bound("t", snapshot.columns).pruning for hours in (1, 24))
    for asked in (hour, day, hour):
        found = base._matching(asked)
        assert found == matching(base.trusted_layout, base.trusted_layout.manifest.runs, asked)
        assert found


def test_a_predicate_on_another_column_reads_the_statistics_of_matching_row_groups(table: Telemetry) -> None:
    predicate = table.last_hours(2)
    groups = table.holding(predicate)
    store, metrics, _ = table.query(LIGHT, predicate=f"{predicate} AND temperature > -1000")
    assert read_of(table, store) == {index_of(g) for g in groups} | {statistics_of(g) for g in groups}
    assert metrics.requests.trips == 3
    assert len(groups) < 5


def test_statistics_are_read_for_whoever_wants_them(table: Telemetry) -> None:
    predicate = table.last_hours()
    groups = table.holding(predicate)
    store, _, _ = table.query(None, predicate=predicate)
    assert read_of(table, store) == {index_of(g) for g in groups} | {statistics_of(g) for g in groups}
    store, _, _ = table.query(["path", "partition_values", "deletion_vector"], predicate=predicate)
    assert read_of(table, store) == {index_of(g) for g in groups}


def test_nothing_matches(table: Telemetry) -> None:
    store, _, rows = table.query(LIGHT, predicate="_event_hour = '1999010100'")
    assert rows == 0
    assert not read_of(table, store)
    assert not [attempt for attempt in store.attempts if "checkpoint.parquet" in attempt.path]


def test_buckets_are_whole_values(table: Telemetry) -> None:
    """No group is read for a value after its highest: a bucket is not cut off, as an upper bound may be."""
    groups = list(table.manifest.row_groups)
    border = groups[-4].event_hour_max
    store, _, _ = table.query(LIGHT, predicate=f"_event_hour > '{border}'")
    assert read_of(table, store) == {index_of(g) for g in groups if (g.event_hour_max or "") > (border or "")}


@pytest.mark.parametrize("order", ["recent", "any"])
def test_a_limit_stops_the_fetching(table: Telemetry, order: str) -> None:
    """Files of the tail count too; one row group is enough for the rest."""
    groups = list(table.manifest.row_groups)
    store, _, rows = table.query(LIGHT, limit=100, order=order)
    assert rows == 100
    assert read_of(table, store) == {index_of(groups[-1])}
    store, _, rows = table.query(LIGHT, limit=1_200, order=order)
    assert rows == 1_200
    assert read_of(table, store) <= {index_of(group) for group in groups[-4:]}
    store, _, rows = table.query(LIGHT, limit=5, order=order)
    assert not read_of(table, store)


def test_newest_buckets_first_reads_the_last_row_groups_first(table: Telemetry) -> None:
    store = RecordingStore(open_store(table.root))
    reader = LazyDeltaScanner(
        table.root, LazyScanConfig(order="recent", limit=700, sidecar_row_groups_per_batch=1), store=store
    )
    files = list(reader.scan_files())
    hours = [file.partition_values["_event_hour"] for file in files[15:]]
    assert hours == sorted(hours, reverse=True)
    groups = list(table.manifest.row_groups)
    indexes = [index_of(group) for group in groups]
    read = [indexes.index(r) for r in read_of(table, store) if r in indexes]
    assert min(read) >= len(groups) - 3


@pytest.mark.parametrize("at_once", [1, 2, 5])
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_few_row_groups_are_under_way(table: Telemetry, strategy: str, at_once: int) -> None:
    """Whoever stops after the first file of the sidecar has not caused more than two rounds of requests."""
    store = RecordingStore(open_store(table.root))
    config = LazyScanConfig(strategy=strategy, order="any", sidecar_row_groups_per_batch=at_once)
    with LazyDeltaScanner(table.root, config, store=store) as reader:
        files = reader.scan_files()
        for _ in range(16):
            next(files)
        files.close()
    groups = {index_of(group) for group in table.manifest.row_groups}
    assert 1 <= len(read_of(table, store) & groups) <= 2 * at_once
    assert len(groups) == 24


@pytest.mark.parametrize("at_once", [1, 3])
def test_few_row_groups_are_under_way_in_the_middle(table: Telemetry, at_once: int) -> None:
    """At every moment: those asked for and not yet given out."""
    store = RecordingStore(open_store(table.root))
    config = LazyScanConfig(strategy="forward", sidecar_row_groups_per_batch=at_once, batch_size=500)
    groups = {index_of(group) for group in table.manifest.row_groups}
    given = 0
    for batch in LazyDeltaScanner(table.root, config, store=store).scan_batches(LIGHT):
        given += batch.num_rows
        under_way = len(read_of(table, store) & groups) - given // 500
        assert under_way <= 2 * at_once
    assert read_of(table, store) >= groups, "each is asked for by itself, so that they can be counted"
    assert len(groups) > 2 * at_once


def test_without_a_predicate_every_index_is_read_once(table: Telemetry) -> None:
    store, _, rows = table.query(LIGHT)
    assert rows == table.log.live_files
    ranges = [(a.start, a.end) for a in store.attempts if a.path == table.data]
    assert sorted(ranges) == sorted(index_of(group) for group in table.manifest.row_groups)


def test_a_sidecar_that_is_older_than_the_checkpoint_costs_one_more_listing(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long", "_event_hour": "string"}, partition_columns=["_event_hour"])
    for number in range(6):
        table.commit([add(f"{number}-{n}.parquet", partition_values={"_event_hour": str(number)}) for n in range(3)])
        if number in (2, 4):
            table.checkpoint()
            table.checksum()
    build_sidecar(tmp_path, version=2)
    store, metrics, rows = query(tmp_path, LIGHT, predicate="_event_hour >= '2'")
    assert rows == 12
    assert store.paths("list") == ["_delta_log/", "_delta_log/"]
    assert metrics.requests.trips <= 4
    assert not [attempt for attempt in store.attempts if "checkpoint.parquet" in attempt.path]
    gets = [attempt for attempt in store.attempts if attempt.kind == "get"]
    assert len(gets) == len(set(gets)), "nothing is asked for twice"


# --- segments: the older row groups of a large table -------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Telemetry:
    """520 row groups of four files, a row group an hour."""
    path = tmp_path_factory.mktemp("large")
    return Telemetry(path, files=2_080, files_per_hour=4, tail_commits=3, adds_per_commit=1, rows_per_group=4)


class MergingStore(RecordingStore):
    """Remembers close ranges as the one request that a remote store makes of them."""

    def before_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        super().before_ranges(path, merge(ranges))


def segments_read(table: Telemetry, store: RecordingStore) -> list[list[int]]:
    """The segments that each request for some asked for."""
    places = [each.byte_offset for each in table.manifest.segments]
    ranges = [(each.start or 0, each.end or 0) for each in store.attempts if each.path.endswith(".segments.json")]
    return [[number for number, place in enumerate(places) if start <= place < end] for start, end in ranges]


def hour_of(large: Telemetry, segment: int) -> str:
    """An hour in the middle of a segment."""
    at = dt.datetime.strptime(large.manifest.segments[segment].event_hour_min or "", "%Y%m%d%H").replace(tzinfo=dt.UTC)
    return f"{at + dt.timedelta(hours=50):%Y%m%d%H}"


def test_the_newest_hours_of_a_large_table_take_no_segment(large: Telemetry) -> None:
    assert [each.num_row_groups for each in large.manifest.segments] == [128, 128, 128, 96]
    assert len(large.manifest.row_groups) == 40
    predicate = large.last_hours(4)
    store, metrics, rows = large.query(LIGHT, predicate=predicate)
    assert rows == large.query(LIGHT, predicate=predicate, sidecar_enabled=False)[2] > 0
    assert not segments_read(large, store)
    assert read_of(large, store) == {index_of(group) for group in large.holding(predicate)}
    assert metrics.requests.trips == 3


@pytest.mark.parametrize("segments", [[1], [3], [0, 1, 2]], ids=str)
def test_older_hours_of_a_large_table_take_one_trip_more(large: Telemetry, segments: list[int]) -> None:
    predicate = f"_event_hour >= '{hour_of(large, segments[0])}' AND _event_hour <= '{hour_of(large, segments[-1])}'"
    store = MergingStore(open_store(large.root))
    reader = LazyDeltaScanner(large.root, LazyScanConfig(predicate=predicate), store=store)
    rows = reader.scan_batches(LIGHT).read_all().num_rows
    assert rows == large.query(LIGHT, predicate=predicate, sidecar_enabled=False)[2]
    assert segments_read(large, store) == [segments], "all that may match, together"
    if len(segments) == 1:
        assert rows == 4
        assert 1 <= len(read_of(large, store)) <= 2
        assert reader.metrics.requests.trips == 4


@pytest.mark.parametrize("order", ["any", "recent"])
def test_segments_are_read_as_the_scan_comes_to_them(large: Telemetry, order: str) -> None:
    store, _, rows = large.query(LIGHT, limit=100, order=order)
    assert rows == 100
    assert not segments_read(large, store)
    store = RecordingStore(open_store(large.root))
    with LazyDeltaScanner(large.root, LazyScanConfig(order=order, strategy="reverse"), store=store) as reader:
        files = reader.scan_files()
        for _ in range(20):
            next(files)
        files.close()
    assert not segments_read(large, store)


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_a_few_segments_are_read_at_once(tmp_path: Path, strategy: str) -> None:
    shape = {"files": 240, "files_per_hour": 10, "tail_commits": 1, "adds_per_commit": 1}
    table = Telemetry(tmp_path, **shape, rows_per_group=5, levels=Levels(2, 2, 4))
    assert len(table.manifest.segments) == 22
    store = MergingStore(open_store(table.root))
    reader = LazyDeltaScanner(table.root, LazyScanConfig(strategy=strategy, order="any"), store=store)
    assert reader.scan_batches(LIGHT).read_all().num_rows == 241
    numbers = list(range(22))
    in_order = [numbers[14:], numbers[6:14], numbers[:6]] if strategy == "reverse" else None
    assert segments_read(table, store) == (in_order or [[0], numbers[1:9], numbers[9:17], numbers[17:]])
    if strategy == "forward":
        with LazyDeltaScanner(table.root, LazyScanConfig(strategy=strategy, order="any"), store=store) as reader:
            store.attempts.clear()
            files = reader.scan_files()
            next(files)
            assert segments_read(table, store) == [[0]], "who stops there has not asked for more"
            files.close()


# --- wide tables -------------------------------------------------------------------------------------------------


def wide(root: Path, columns: int) -> tuple[str, Manifest]:
    """A table of many columns, all of which have statistics by its properties; its files tell of a few.

    Gives its newest hour, and its manifest.
    """
    log = TelemetryLog(files=6_000, tail_commits=0, stats_columns=10, checkpoint=None, checksum=False)
    log.write(root)
    path = root / commit(0)
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    (metadata,) = (action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    more = {"type": "double", "nullable": True, "metadata": {}}
    schema["fields"] += [{"name": f"c{number:04}", **more} for number in range(columns - 10)]
    metadata["schemaString"] = json.dumps(schema, separators=(",", ":"))
    metadata["configuration"]["delta.dataSkippingNumIndexedCols"] = "-1"
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    # As if a checkpoint had been written along with it.
    (root / "_delta_log" / "_last_checkpoint").write_text('{"version":0,"size":1}')
    build_sidecar(root)
    manifest = decode_manifest((root / "_delta_log" / "_sidecars" / "v0.manifest.json").read_bytes())
    return log.newest_hour, manifest


@pytest.mark.full
def test_a_time_query_does_not_pay_for_wide_tables(tmp_path: Path) -> None:
    counted = []
    for columns in (10, 1_000):
        root = tmp_path / str(columns)
        root.mkdir()
        hour, manifest = wide(root, columns)
        assert len(manifest.statistics) == columns
        for predicate in (f"_event_hour = '{hour}'", f"event_ts >= timestamp '2025-01-01 {hour[-2:]}:30:00'"):
            store, metrics, rows = query(root, LIGHT, predicate=predicate)
            assert rows > 0
            ranges = [(a.start, a.end) for a in store.attempts if a.path == "_delta_log/_sidecars/v0.parquet"]
            assert ranges == [index_of(manifest.row_groups[0])]
            counted.append(metrics.requests)
    for narrow, broad in zip(counted[:2], counted[2:], strict=True):
        assert (broad.requests, broad.trips) == (narrow.requests, narrow.trips)
        assert broad.trips == 3
        assert broad.bytes <= 1.5 * narrow.bytes


@pytest.mark.full
def test_of_large_statistics_only_the_wanted_columns_are_read(tmp_path: Path) -> None:
    log = TelemetryLog(files=400, files_per_hour=50, tail_commits=0, adds_per_commit=5, stats_columns=1_000)
    log.write(tmp_path)
    version = log.checkpoint_version
    build_sidecar(tmp_path, version=version, rows_per_group=200)
    folder = tmp_path / "_delta_log" / "_sidecars"
    manifest = decode_manifest((folder / f"v{version}.manifest.json").read_bytes())
    groups = list(manifest.row_groups)
    assert min(group.stats_length for group in groups) > 1 << 20
    for predicate in ("signal_500 > -1e9", "signal_500 IS NOT NULL AND _event_hour >= '2025010105'"):
        store, _, rows = query(tmp_path, LIGHT, predicate=predicate)
        assert rows == query(tmp_path, LIGHT, predicate=predicate, sidecar_enabled=False)[2]
        read = {(a.start, a.end) for a in store.attempts if a.path.endswith(f"v{version}.parquet")}
        used = groups if predicate.startswith("signal_500 >") else groups[1:]
        footers = {
            (g.stats_offset + g.stats_length - g.stats_footer.length, g.stats_offset + g.stats_length) for g in used
        }
        assert read >= footers | {index_of(group) for group in used}
        chunks = read - footers - {index_of(group) for group in used}
        assert len(chunks) <= 3 * len(used)
        assert sum((end or 0) - (start or 0) for start, end in chunks) < 20_000
        for start, end in chunks:
            assert any(a <= (start or 0) and (end or 0) <= b for a, b in map(statistics_of, used))
