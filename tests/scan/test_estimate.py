"""Estimates: every source, how many requests they take, and that the bounds hold whatever the table is."""

from __future__ import annotations

import json
import pickle
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder import TableBuilder, add, deletion_vector, metadata, protocol, remove, txn
from tests.builder.strategies import History, histories, predicates
from tests.own_threads import await_threads
from tests.scan.effort import examples
from tests.scan.expected import built
from tests.scan.reading import key_of, scan, scanner, store_of

from delta_sidecar import CorruptCommitError, PageTokenExpiredError, RetentionGuardError, ScanEstimate, StorageError
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.execute import fetch as fetcher_module
from delta_sidecar.plan import ReadFiles, ScanJson, StateMachinePhase, Terminus, run_flow
from delta_sidecar.predicate import parse
from delta_sidecar.replay.estimate import Range
from delta_sidecar.replay.estimate import estimate as estimating
from delta_sidecar.replay.open import Opening
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.store.testing import Fail, FaultStore, RecordingStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from delta_sidecar import DeltaFile

pytestmark = pytest.mark.usefixtures("answered_ahead")

V2 = protocol(features=["v2Checkpoint", "deletionVectors"])
KINDS = ["v1", "v1-multipart", "v2-json", "v2-parquet", "v2-classic"]
ROWS = [{"id": 1}, {"id": 2}, {"id": 3}]


def table_of(root: Path, base: int = 6, **options: Any) -> TableBuilder:  # noqa: ANN401 - the builder's own
    """Gives a table with a commit of so many files of three rows: sizes 1000, 1001, ..."""
    table = TableBuilder(root, **options)
    table.commit([add(f"base-{number}", rows=ROWS, size=1_000 + number) for number in range(base)])
    return table


def requests_of_the_snapshot(table: TableBuilder, version: int | None = None) -> int:
    """Counts what opening asks for, ahead of need too; no request of it is cut short."""
    store = RecordingStore(store_of(table))
    with closing(LocalExecutor(store)) as executor:
        run_flow(open_snapshot(Opening(store.url, version, 0)), executor)
        await_threads()
    return len(store.attempts)


def more_requests(table: TableBuilder, **config: object) -> int:
    """Counts what an estimate asks for beyond the snapshot."""
    store = RecordingStore(store_of(table))
    scanner(table, store, **config).estimate()
    return len(store.attempts) - requests_of_the_snapshot(table, config.get("version"))


def holds(estimate: ScanEstimate, files: Sequence[DeltaFile], rows: int) -> None:
    truth = {"files": len(files), "rows": rows, "bytes": sum(file.size for file in files)}
    for name, number in truth.items():
        found: Range = getattr(estimate, name)
        assert found.lower <= number, (name, number, estimate)
        assert found.upper is None or number <= found.upper, (name, number, estimate)
        assert not found.is_exact or found.lower == number
    assert estimate.sources or None in {estimate.files.upper, estimate.rows.upper, estimate.bytes.upper}


def holds_for(table: TableBuilder, **config: object) -> ScanEstimate:
    """Asserts that the bounds hold for what a scan of the same configuration gives."""
    estimate = scanner(table, **config).estimate()
    model = table.model_files(config.get("version"))
    files = scan(table, **config)
    holds(estimate, files, sum(len(model[key_of(file)].rows) for file in files))
    assert estimate.version == config.get("version", table.version)
    return estimate


@pytest.mark.full
@examples(30)
@given(history=histories())
def test_the_bounds_hold_at_every_version(history: History) -> None:
    with built(history) as table:
        for version in table.readable_versions():
            holds_for(table, version=version)
            assert more_requests(table, version=version) <= 2


@examples(40)
@given(history=histories(), data=st.data())
def test_the_bounds_hold_with_a_predicate_and_a_limit(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        condition = data.draw(st.none() | predicates(table.model_columns(version)))
        limit = data.draw(st.none() | st.integers(0, 6))
        estimate = holds_for(
            table, version=version, predicate=None if condition is None else condition.sql, limit=limit
        )
        if limit is not None:
            assert estimate.files.upper is not None
            assert estimate.files.upper <= limit


def test_a_checksum_file_of_the_version_tells_files_and_bytes(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint()
    for number in range(5):
        table.commit([add(f"tail-{number}", rows=ROWS, size=10), remove(f"base-{number}")])
    table.checksum()
    estimate = holds_for(table)
    assert estimate.files == Range(6, 6)
    assert estimate.bytes == Range(1_055, 1_055)
    assert estimate.rows == Range(0, None)
    assert estimate.sources == ("checksum file 00000000000000000005.crc",)
    assert more_requests(table) == 0


def test_a_checksum_file_before_the_version_and_the_commits_after_it(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    for number in range(3):
        table.commit([txn("stream", number)])
    table.checksum()
    table.commit([add("new", rows=ROWS, size=7)])
    table.commit([remove("base-1"), remove("never-there")])
    estimate = holds_for(table)
    assert estimate.files == Range(6 + 1 - 3, 7)
    assert estimate.bytes.upper == 6_015 + 7
    assert estimate.sources[:2] == ("checksum file 00000000000000000003.crc", "2 commits after it")
    assert more_requests(table) == 0


def test_few_commits_are_read_rather_than_a_bound_be_given(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.commit([remove("base-1"), remove("never-there")])
    table.checksum()
    estimate = holds_for(table)
    assert (estimate.files, estimate.rows) == (Range(5, 5), Range(15, 15))
    assert more_requests(table) == 2


def test_a_checksum_file_that_does_not_count_files(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint(struct_stats=True)
    path = table.checksum()
    content = json.loads(path.read_text())
    for odd in (None, -1, "6", True, 6.0, 10**400):
        path.write_text(json.dumps(content | {"numFiles": odd, "tableSizeBytes": odd}))
        estimate = holds_for(table)
        assert estimate.files == Range(6, 6)
        assert (estimate.rows, estimate.bytes) == (Range(), Range()), "footers count files"
        assert estimate.sources == ("the footers of 00000000000000000000.checkpoint.parquet",)
    path.write_text(json.dumps(content | {"numFiles": None}))
    assert holds_for(table).bytes == Range(6_015, 6_015)


def test_a_checksum_file_that_is_wrong_does_not_count_beside_the_footers(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint(struct_stats=True)
    path = table.checksum()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"numFiles": 7}))
    estimate = holds_for(table)
    assert estimate.files == Range(6, 6)
    assert "the footers of 00000000000000000000.checkpoint.parquet" in estimate.sources


def test_the_whole_log_is_exact(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    vector = deletion_vector("v", cardinality=2)
    table.commit([remove("base-0"), add("base-0", rows=ROWS, deleted=[0, 1], dv=vector, size=1)])
    table.commit([add("base-1", rows=ROWS, size=5), remove("never-there")])
    estimate = holds_for(table)
    assert estimate.files == Range(6, 6)
    assert estimate.rows == Range(16, 16)
    assert estimate.bytes == Range.exactly(6_015 - 1_000 + 1 - 1_001 + 5)
    assert more_requests(table) == 0


def test_statistics_that_are_missing_leave_rows_open(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.commit([add("bare", stats=None), add("torn", stats="{torn"), add("odd", stats='{"numRecords": -4}')])
    assert holds_for(table).rows == Range(18, None)


def test_a_vector_that_does_not_count_its_rows_leaves_rows_open_below(tmp_path: Path) -> None:
    table = table_of(tmp_path, protocol=V2)
    vector = {name: value for name, value in deletion_vector("v").items() if name != "cardinality"}
    table.commit([add("hidden", rows=ROWS, deleted=[0, 1], stats='{"numRecords": 3}', dv=vector)])
    assert holds_for(table).rows == Range(18, 21)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inside", [False, True])
def test_every_kind_of_checkpoint(tmp_path: Path, kind: str, *, inside: bool) -> None:
    """Without a checksum file the snapshot reads the footers, and they are kept."""
    table = table_of(tmp_path, protocol=V2)
    vector = deletion_vector("v", cardinality=2)
    table.commit([remove("base-0"), add("base-0", rows=ROWS, deleted=[0, 1], dv=vector, size=1_000)])
    table.checkpoint(kind, struct_stats=True, sidecars=0 if inside else 2, row_group_rows=2)
    estimate = holds_for(table)
    assert estimate.files == Range(6, 6)
    if kind == "v2-json" and inside:
        assert (estimate.rows, estimate.bytes) == (Range(16, 16), Range(6_015, 6_015))
    else:
        assert (estimate.rows, estimate.bytes) == (Range(), Range()), "footers count files"
    assert more_requests(table) == 0
    table.commit([add("new", rows=ROWS, size=9), remove("base-1")])
    estimate = holds_for(table)
    assert estimate.files == Range(5, 7)
    assert more_requests(table) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_base_that_was_not_looked_at_takes_two_requests_at_most(tmp_path: Path, kind: str) -> None:
    """A checksum file without counts spares the snapshot the checkpoint: its footers are up to the estimate."""
    table = table_of(tmp_path, protocol=V2)
    table.checkpoint(kind, struct_stats=True, parts=3)
    path = table.checksum()
    path.write_text(json.dumps({**json.loads(path.read_text()), "numFiles": None, "tableSizeBytes": None}))
    estimate = holds_for(table)
    assert more_requests(table) <= 2
    assert estimate.files == (Range(6, 6) if kind == "v1" else Range(0, None))


def test_two_parts_take_a_request_each(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint("v1-multipart", struct_stats=True, parts=2)
    path = table.checksum()
    path.write_text(json.dumps({**json.loads(path.read_text()), "numFiles": None, "tableSizeBytes": None}))
    assert holds_for(table).files == Range(6, 6)
    assert more_requests(table) == 2


def test_many_commits_that_were_not_read_leave_it_open(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint(struct_stats=True)
    for number in range(4):
        table.commit([add(f"tail-{number}", size=5)])
    table.commit([protocol(), metadata({"id": "long"})])
    estimate = holds_for(table)
    assert (estimate.files, estimate.sources) == (Range(), ())
    assert more_requests(table) <= 2


def test_a_large_footer_takes_a_second_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delta_sidecar.execute.parquet.footer.FOOTER_BYTES", 100)
    table = table_of(tmp_path)
    for parts, files in ((1, Range(6, 6)), (2, Range(0, None))):
        kind = "v1" if parts == 1 else "v1-multipart"
        for path in table.checkpoint(kind, struct_stats=True, parts=2):
            assert path.stat().st_size > 1_000
        path = table.checksum()
        path.write_text(json.dumps({**json.loads(path.read_text()), "numFiles": None, "tableSizeBytes": None}))
        assert holds_for(table).files == files
        assert more_requests(table) <= 2
        table.commit([])
        for path in table.log.glob("*.checkpoint.parquet"):
            path.unlink()


def test_statistics_that_a_checkpoint_lacks(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    (path,) = table.checkpoint(struct_stats=True)
    rows = pq.read_table(path)
    pq.write_table(rows, path, write_statistics=False)
    assert holds_for(table).files == Range(0, rows.num_rows)
    pq.write_table(rows, path, write_statistics=["add.path"])
    assert holds_for(table).files == Range(6, 6)
    assert holds_for(table).bytes == Range(0, None)


def test_a_torn_checkpoint_tells_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    (path,) = table.checkpoint()
    checksum = table.checksum()
    table.tear(path, -20)
    assert holds_for(table).files == Range(6, 6)
    checksum.write_text(json.dumps({**json.loads(checksum.read_text()), "numFiles": None, "tableSizeBytes": None}))
    assert scanner(table).estimate().files == Range(0, None)


def test_what_is_no_checkpoint_tells_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    (path,) = table.checkpoint()
    checksum = table.checksum()
    checksum.write_text(json.dumps({**json.loads(checksum.read_text()), "numFiles": None, "tableSizeBytes": None}))
    pq.write_table(pa.table({"n": [1, 2]}), path)
    assert holds_for(table).files == Range(0, None)


def test_an_empty_table(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([])
    for checkpoint in (False, True):
        if checkpoint:
            table.checkpoint()
        estimate = holds_for(table)
        assert (estimate.files, estimate.rows, estimate.bytes) == (Range(0, 0), Range(0, 0), Range(0, 0))


def test_a_limit_caps_the_files(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    estimate = holds_for(table, limit=2)
    assert estimate.files == Range(2, 2)
    assert estimate.rows == Range(0, 18)
    assert estimate.sources[-1] == "the limit"
    assert holds_for(table, limit=6).rows == Range(18, 18)
    assert holds_for(table, limit=0).bytes == Range(0, 0)


def test_a_predicate_leaves_out_files_of_the_tail(tmp_path: Path) -> None:
    table = table_of(tmp_path, base=0)
    for number in range(4):
        table.commit([add(f"{number}", rows=[{"id": number}])])
    estimate = holds_for(table, predicate="id >= 2")
    assert estimate.files == Range(0, 2)
    assert holds_for(table, predicate="id = 77").files == Range(0, 0)


def test_a_file_without_a_partition_value_keeps_its_row_group(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long", "hour": "string"}, partition_columns=["hour"])
    table.commit([add(f"{hour}", rows=ROWS, partition_values={"hour": f"{hour}"}) for hour in range(10, 14)])
    table.commit([add("null", rows=ROWS, partition_values={"hour": None}), add("untold", rows=ROWS)])
    table.commit([add("empty", rows=ROWS, partition_values={"hour": ""})])
    for rows in (None, 1, 2, 3):
        table.checkpoint(row_group_rows=rows)
        for predicate in ("hour = '77'", "hour = '12'", "hour IS NULL", "NOT hour = '12'", "hour != '10'"):
            assert holds_for(table, predicate=predicate).files.upper is not None


def test_a_page_token_leaves_an_unknown_part(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    reader = scanner(table, limit=2, batch_size=1)
    list(reader.scan_files())
    token = reader.page_token
    table.commit([add("later")])
    rest = scanner(table, page_token=token)
    estimate = rest.estimate()
    assert estimate.version == 0
    assert estimate.files == Range(0, 6)


def test_the_time_that_is_asked_for_counts(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.commit([add("later")])
    estimate = scanner(table, timestamp="2100-01-01").estimate()
    assert (estimate.version, estimate.files) == (1, Range(7, 7))


def test_the_retention_guard_is_asked(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.commit([add("later")])
    with pytest.raises(RetentionGuardError):
        scanner(table, version=0, retention_guard=lambda _: "no").estimate()


def test_a_commit_that_cannot_be_read_fails(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.commit([add("later")])
    table.tear(table.commit_path(1), -9)
    with pytest.raises(CorruptCommitError):
        scanner(table).estimate()


def test_a_store_out_of_reach_fails(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint()
    path = table.checksum()
    path.write_text(json.dumps({**json.loads(path.read_text()), "numFiles": None, "tableSizeBytes": None}))
    store = FaultStore(store_of(table), Fail("*.checkpoint.parquet", error=StorageError("the cable is out")))
    with pytest.raises(StorageError, match="the cable is out"):
        scanner(table, store).estimate()


def test_commits_too_large_to_keep_leave_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher_module, "KEPT_BYTES", 2_000)
    table = table_of(tmp_path)
    for number in range(12):
        table.commit([add(f"tail-{number}", rows=ROWS)])
    assert holds_for(table).files == Range()


def test_the_account_of_the_requests(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    reader = scanner(table)
    reader.estimate()
    assert reader.metrics.version == 0
    assert reader.metrics.requests.requests == requests_of_the_snapshot(table)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("checksum", [False, True])
def test_every_plan_pickles(tmp_path: Path, kind: str, *, checksum: bool) -> None:
    table = table_of(tmp_path, protocol=V2)
    table.checkpoint(kind, struct_stats=True)
    if checksum:
        table.checksum()
    table.commit([add("new", rows=ROWS, size=9)])
    plans: list[type] = []
    with closing(LocalExecutor(store_of(table))) as executor:
        snapshot = run_flow(open_snapshot(Opening("t", None, 0)), executor)
        phase = StateMachinePhase(estimating(snapshot, parse("id >= 0")))
        while not isinstance(phase.step, Terminus):
            plan = pickle.loads(pickle.dumps(phase.get_plan()))  # noqa: S301 - its own bytes
            plans.append(type(plan))
            phase = phase.next(executor.execute(plan))
    assert phase.step.value.counts.files.upper == 7
    assert (ReadFiles in plans) is checksum
    assert ScanJson in plans


def test_a_page_token_that_has_expired_is_refused_as_by_a_scan(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(f"{number}.parquet") for number in range(9)])
    (checkpoint,) = table.checkpoint()
    reader = scanner(table, limit=3, order="any")
    list(reader.scan_files())
    assert scanner(table, page_token=reader.page_token).estimate().files.upper == 9
    checkpoint.unlink()
    with pytest.raises(PageTokenExpiredError):
        scanner(table, page_token=reader.page_token).estimate()
