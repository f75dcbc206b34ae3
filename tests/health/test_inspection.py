"""Inspections: what a report says of a log, what they ask for, and that every finding is found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from tests.builder import TableBuilder, add, metadata, protocol, remove, txn
from tests.builder.strategies import History, histories
from tests.scan.effort import examples
from tests.scan.expected import built
from tests.scan.reading import scan

from delta_sidecar import (
    AuthenticationError,
    DeltaSidecarError,
    OptionError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_sidecar.health import TableReport, inspect_table
from delta_sidecar.health import findings as rules
from delta_sidecar.replay.estimate import Range
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import Fail, FaultStore, RecordingStore
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

V2 = protocol(features=["v2Checkpoint"])
ROWS = [{"id": 1}]


def table_of(root: Path, commits: int = 3, **options: object) -> TableBuilder:
    table = TableBuilder(root, **options)
    for number in range(commits):
        table.commit([add(f"f{number}", rows=ROWS, size=1_000)])
    return table


def codes(report: TableReport) -> set[str]:
    """Gives the codes of the findings, which must be whole sentences."""
    for finding in report.findings:
        assert finding.message.endswith("."), finding
        assert not finding.message.endswith(".."), finding
        assert finding.advice.endswith("."), finding
    return {finding.code for finding in report.findings}


def severity(report: TableReport, code: str) -> str:
    (found,) = (finding.severity for finding in report.findings if finding.code == code)
    return found


@examples(25)
@given(history=histories())
def test_every_version_that_can_be_read_is_reported(history: History) -> None:
    with built(history) as table:
        for version in table.readable_versions():
            report = inspect_table(table.root, version=version)
            assert (report.version, report.latest_version, report.refusal) == (version, table.version, None)
            assert report.earliest_version in table.readable_versions()
            assert report.metadata.partition_columns == tuple(
                table.model_action("metaData", version)["partitionColumns"]
            )
            newest = max((at for at in table.checkpoints if at <= version), default=-1)
            assert (-1 if report.base is None else report.base.version) == newest
            assert report.tail.commits == version - newest
            files = len(scan(table, version=version))
            assert report.estimate.files.lower <= files
            assert report.estimate.files.upper is None or files <= report.estimate.files.upper
            json.dumps(report.as_dict())


def test_a_table_in_good_order(tmp_path: Path) -> None:
    log = TelemetryLog(files=2_000, tail_commits=4, adds_per_commit=5, deletes_per_commit=1)
    log.write(tmp_path)
    report = inspect_table(tmp_path)
    assert report.findings == ()
    assert report.worst() is None
    assert report.estimate.files == Range.exactly(log.live_files)
    assert report.metadata.bucket_column == "_event_hour"
    assert report.base.json_stats is True
    assert report.base.struct_stats is False
    assert report.log.last_checkpoint.state == "current"
    assert report.tail.commits == 4
    assert report.requests.requests <= 6


def test_no_row_of_a_checkpoint_is_read(tmp_path: Path) -> None:
    sizes = []
    for files in (2_000, 40_000):
        TelemetryLog(files=files, tail_commits=2).write(tmp_path / str(files))
        store = RecordingStore(open_store(tmp_path / str(files)))
        report = inspect_table(tmp_path, store=store)
        assert report.requests.requests == len(store.attempts)
        sizes.append((report.requests.requests, report.base.bytes))
        assert report.requests.bytes < 600_000
    assert sizes[0][0] == sizes[1][0], "requests do not grow with the files"
    assert sizes[1][1] > 4_000_000


@pytest.mark.parametrize(
    ("kind", "shown", "files"),
    [
        ("v1", "classic", 1),
        ("v1-multipart", "multi-part", 3),
        ("v2-json", "V2", 3),
        ("v2-parquet", "V2", 3),
        ("v2-classic", "V2", 3),
    ],
)
@pytest.mark.parametrize("checksum", [False, True])
def test_kinds_of_checkpoints(tmp_path: Path, kind: str, shown: str, files: int, *, checksum: bool) -> None:
    table = table_of(tmp_path, protocol=V2)
    table.checkpoint(kind, parts=3, sidecars=2, struct_stats=True)
    if checksum:
        table.checksum()
    report = inspect_table(table.root)
    assert (report.base.kind, report.base.files) == (shown, files)
    assert report.base.version == 2
    assert report.base.struct_stats is True
    assert report.log.checkpoints == 1
    assert codes(report) == {"no-time-bucket"} | (set() if checksum else {"no-checksums"})


def test_an_unsupported_feature_is_reported_and_not_raised(tmp_path: Path) -> None:
    table = table_of(tmp_path, protocol=protocol(features=["deletionVectors", "newfangled"]))
    report = inspect_table(table.root)
    assert report.protocol.unsupported == ("newfangled",)
    assert "newfangled" in report.refusal
    assert severity(report, "unsupported-feature") == "problem"
    assert report.worst() == "problem"
    assert report.estimate is None
    assert report.tail.commits == 3


def test_a_protocol_version_of_the_future(tmp_path: Path) -> None:
    report = inspect_table(table_of(tmp_path, protocol=protocol(4, 8)).root)
    assert report.protocol.min_reader_version == 4
    assert severity(report, "not-readable") == "problem"


def test_a_log_without_metadata(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, create=False)
    table.commit([add("a")])
    report = inspect_table(table.root)
    assert report.protocol is None
    assert report.earliest_version is None
    assert "protocol" in report.refusal
    assert severity(report, "not-readable") == "problem"


def test_no_checkpoint(tmp_path: Path) -> None:
    table = table_of(tmp_path, rules.LONG_TAIL)
    assert "no-checkpoint" not in codes(inspect_table(table.root))
    table.commit([txn("a", 1)])
    report = inspect_table(table.root)
    assert severity(report, "no-checkpoint") == "warning"
    assert report.base is None
    assert report.estimate.files == Range.exactly(rules.LONG_TAIL)


def test_a_long_tail(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint()
    for number in range(rules.LONG_TAIL):
        table.commit([txn("a", number)])
    assert "long-tail" not in codes(inspect_table(table.root))
    table.commit([txn("a", -1)])
    report = inspect_table(table.root)
    assert severity(report, "long-tail") == "warning"
    assert report.tail.commits == rules.LONG_TAIL + 1


def test_a_large_tail_and_a_large_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LARGE_TAIL_BYTES", 1_000)
    monkeypatch.setattr(rules, "LARGE_COMMIT_BYTES", 20_000)
    table = table_of(tmp_path)
    table.checkpoint()
    assert not codes(inspect_table(table.root)) & {"large-tail", "large-commit"}
    table.commit([add(f"new-{number}") for number in range(400)])
    report = inspect_table(table.root)
    assert {"large-tail", "large-commit"} <= codes(report)
    assert report.tail.largest_version == 3


@pytest.mark.parametrize(
    ("text", "state"),
    [(None, "missing"), ("{torn", "corrupt"), ('{"version":-3}', "corrupt"), ('{"version":1,"size":3}', "stale")],
)
def test_the_state_of_the_hint(tmp_path: Path, text: str | None, state: str) -> None:
    table = table_of(tmp_path, 2)
    table.checkpoint()
    table.commit([add("more")])
    table.checkpoint()
    assert inspect_table(table.root).log.last_checkpoint.state == "current"
    table.last_checkpoint(text)
    report = inspect_table(table.root)
    assert report.log.last_checkpoint.state == state
    assert severity(report, f"last-checkpoint-{state}") == ("info" if state == "stale" else "warning")


def test_a_hint_to_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.last_checkpoint('{"version":2,"size":3}')
    report = inspect_table(table.root)
    assert (report.log.last_checkpoint.state, report.log.last_checkpoint.version) == ("dangling", 2)
    assert "last-checkpoint-dangling" in codes(report)


def test_a_table_without_checkpoints_needs_no_hint(tmp_path: Path) -> None:
    assert codes(inspect_table(table_of(tmp_path).root)) == {"no-time-bucket"}


def test_a_checkpoint_that_lacks_parts(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    first, *_ = table.checkpoint("v1-multipart", parts=3)
    first.unlink()
    report = inspect_table(table.root)
    (found,) = report.incomplete_checkpoints
    assert (found.version, found.parts, found.missing) == (2, 3, 1)
    assert severity(report, "incomplete-checkpoint") == "warning"
    assert report.base is None
    assert report.log.checkpoints == 0


@pytest.mark.parametrize("checksum", [False, True])
def test_a_torn_checkpoint(tmp_path: Path, *, checksum: bool) -> None:
    table = table_of(tmp_path)
    table.checkpoint()
    table.commit([add("more")])
    (path,) = table.checkpoint()
    if checksum:
        table.checksum()
    table.tear(path, -20)
    report = inspect_table(table.root)
    assert severity(report, "torn-checkpoint") == "warning"
    assert report.base.version == 2
    assert report.tail.commits == 1
    assert report.refusal is None


def test_a_torn_checkpoint_with_nothing_before_it(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    (path,) = table.checkpoint()
    table.checksum()
    table.clean_up()
    table.tear(path, -20)
    report = inspect_table(table.root)
    assert {"torn-checkpoint", "not-readable"} <= codes(report)
    assert report.earliest_version is None


def test_a_gap_that_the_newest_version_needs(tmp_path: Path) -> None:
    table = table_of(tmp_path, 5)
    table.delete_commit(2)
    report = inspect_table(table.root)
    assert report.log.missing_commits == (2,)
    assert severity(report, "missing-commits") == "problem"
    assert report.refusal is not None


def test_a_gap_below_a_checkpoint(tmp_path: Path) -> None:
    table = table_of(tmp_path, 30)
    table.checkpoint()
    table.commit([add("more")])
    for version in range(5, 20):
        table.delete_commit(version)
    report = inspect_table(table.root)
    assert report.log.missing_commits == tuple(range(5, 15))
    assert report.log.missing_count == 15
    assert severity(report, "missing-commits") == "warning"
    assert report.earliest_version == 29


def test_a_commit_that_is_torn(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.tear(table.commit_path(2), -9)
    report = inspect_table(table.root)
    assert "commit 2" in report.refusal
    assert severity(report, "not-readable") == "problem"


def test_a_clean_log_is_no_gap(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint()
    table.commit([add("more")])
    table.clean_up()
    report = inspect_table(table.root)
    assert report.log.missing_count == 0
    assert report.log.first_commit == 2
    assert report.earliest_version == 2


def test_a_checkpoint_without_statistics(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.checkpoint(json_stats=False)
    assert severity(inspect_table(table.root), "no-statistics") == "warning"


def test_a_large_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LARGE_ROW_GROUP_ROWS", 8)
    table = table_of(tmp_path, 10)
    table.checkpoint(row_group_rows=8)
    assert "large-row-group" not in codes(inspect_table(table.root))
    table.checkpoint()
    assert severity(inspect_table(table.root), "large-row-group") == "warning"


def test_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MANY_PARTS", 9)
    table = table_of(tmp_path, 12)
    table.checkpoint("v1-multipart", parts=10)
    table.checksum()
    store = RecordingStore(open_store(table.root))
    report = inspect_table(table.root, store=store)
    assert severity(report, "many-parts") == "warning"
    assert (report.base.files, report.base.footers) == (10, 8)
    assert sum(".checkpoint." in path for path in store.paths("get")) == 8


@pytest.mark.parametrize(("order", "is_found"), [("hash", True), ("time", False)])
@pytest.mark.parametrize("struct_stats", [False, True])
def test_the_order_of_a_checkpoint(tmp_path: Path, order: str, *, is_found: bool, struct_stats: bool) -> None:
    TelemetryLog(files=5_000, row_group_rows=500, files_per_hour=100, order=order, struct_stats=struct_stats).write(
        tmp_path
    )
    report = inspect_table(tmp_path)
    assert report.base.in_time_order is not is_found
    assert ("not-in-time-order" in codes(report)) is is_found


def test_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MANY_FILES", 10)
    table = TableBuilder(tmp_path)
    table.commit([add(f"{number}", size=rules.SMALL_FILE_BYTES) for number in range(11)])
    assert "small-files" not in codes(inspect_table(table.root))
    table.commit([remove("0"), add("0", size=1), add("1", size=2)])
    assert severity(inspect_table(table.root), "small-files") == "warning"


def test_old_commits_and_compacted_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MANY_OLD_COMMITS", 4)
    table = table_of(tmp_path, 6)
    (table.log / f"{0:020}.{3:020}.compacted.json").write_text("")
    table.checkpoint()
    report = inspect_table(table.root)
    assert severity(report, "old-commits") == severity(report, "compacted-commits") == "info"
    assert report.log.compacted_commits == 1


def test_properties_of_ours(tmp_path: Path) -> None:
    good, bad = "deltaSidecar.bucket.column", "deltaSidecar.scan.batch_size"
    table = TableBuilder(
        tmp_path,
        schema={"id": "long", "day": "date"},
        partition_columns=["day"],
        configuration={good: "day", bad: "many", "delta.appendOnly": "true"},
    )
    table.commit([])
    report = inspect_table(table.root)
    assert report.metadata.properties == {good: "day", bad: "many"}
    assert report.metadata.bucket_column == "day"
    assert severity(report, "property-ignored") == "warning"
    assert "no-time-bucket" not in codes(report)


def test_in_commit_timestamps(tmp_path: Path) -> None:
    table = TableBuilder(
        tmp_path,
        protocol=protocol(features=[], writer_features=["inCommitTimestamp"]),
        configuration={"delta.enableInCommitTimestamps": "true"},
    )
    table.commit([{"commitInfo": {"inCommitTimestamp": 1}}])
    assert inspect_table(table.root).metadata.in_commit_timestamps is True


def test_an_older_version(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.commit([metadata({"id": "long", "more": "string", "day": "date"})])
    assert inspect_table(table.root, version=1).metadata.columns == 2
    assert inspect_table(table.root, version=1).latest_version == 3
    assert inspect_table(table.root, timestamp="2100-01-01").metadata.columns == 3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"version": 77}, VersionNotFoundError),
        ({"version": -1}, OptionError),
        ({"timestamp": "1999-01-01"}, VersionNotFoundError),
        ({"timestamp": "soon"}, OptionError),
        ({"version": 1, "timestamp": "2100-01-01"}, OptionError),
    ],
)
def test_no_such_version(tmp_path: Path, options: dict[str, object], error: type[DeltaSidecarError]) -> None:
    table = table_of(tmp_path)
    with pytest.raises(error):
        inspect_table(table.root, **options)


def test_what_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        inspect_table(tmp_path)


@pytest.mark.parametrize("error", [AuthenticationError("who are you"), StorageError("the cable is out")])
@pytest.mark.parametrize("place", ["*", "*/_last_checkpoint", "_delta_log/", "*.checkpoint.parquet", "*.json"])
def test_a_store_out_of_reach(tmp_path: Path, error: StorageError, place: str) -> None:
    table = table_of(tmp_path)
    table.checkpoint()
    table.commit([add("more")])
    store = FaultStore(open_store(table.root), Fail(place, error=error))
    with pytest.raises(type(error), match=str(error)):
        inspect_table(table.root, store=store)


def test_findings_come_gravest_first(tmp_path: Path) -> None:
    table = table_of(tmp_path, 6, protocol=protocol(features=["newfangled"]))
    table.checkpoint(last_checkpoint=False)
    found = [finding.severity for finding in inspect_table(table.root).findings]
    assert found == ["problem", "warning", "info", "info"]
