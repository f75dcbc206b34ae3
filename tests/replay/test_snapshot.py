"""The search for protocol and metadata, phase by phase, with batches made by hand and no store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import add, metadata, protocol
from tests.replay.canned import CannedExecutor, consumed, ended, follow, pickled
from tests.replay.handmade import (
    METADATA,
    OPENING,
    PROTOCOL,
    checkpoint_path,
    commits,
    json_batch,
    listing,
    read,
    snapshot_of,
    top_batch,
)

from delta_sidecar.errors import (
    CorruptCommitError,
    InvalidMetadataError,
    MissingCommitError,
    MissingMetadataError,
    MissingProtocolError,
    ObjectNotFoundError,
    StorageError,
    UnreadableFileError,
    UnsupportedFeatureError,
)
from delta_sidecar.log.actions import TABLE_SCHEMA
from delta_sidecar.log.names import LAST_CHECKPOINT, checksum_path, commit_path
from delta_sidecar.plan import Consume, FileRef, ListFiles, ReadFiles, ScanJson
from delta_sidecar.replay.open import Opening
from delta_sidecar.replay.scan import forward_scan, reverse_scan
from delta_sidecar.replay.snapshot import ChecksumPhase, Snapshot, TableInTailPhase, open_snapshot

if TYPE_CHECKING:
    from delta_sidecar.plan import Plan


def checksum_text() -> bytes:
    return json.dumps({"protocol": PROTOCOL["protocol"], "metadata": METADATA["metaData"], "numFiles": 1}).encode()


def opened(entries: list[tuple[str, int]], hint: int | None = None, opening: Opening = OPENING) -> Any:  # noqa: ANN401
    """Gives the step after the listing in the chain to a snapshot."""
    first = open_snapshot(opening)
    assert isinstance(first, Consume)
    contents: dict[str, bytes | None] = {} if hint is None else {LAST_CHECKPOINT: b'{"version":%d}' % hint}
    step = pickled(first.phase.next(iter(read(contents))))
    return pickled(step.phase.next(iter(listing(entries))))


def test_checksum_phase_asks_for_the_newest_commits_too() -> None:
    entries = [*commits(4, 12), (checkpoint_path(4), 9), (checksum_path(4), 1), (checksum_path(11), 1)]
    phase = consumed(opened(entries, 4), ChecksumPhase)
    plan = phase.plan()
    assert plan.paths == (checksum_path(11),)
    assert [ref.path for ref in plan.ahead] == [commit_path(version) for version in (12, 11, 10)]


def test_checksum_phase_takes_the_one_of_the_base_where_the_tail_is_on_its_way() -> None:
    entries = [*commits(4, 7), (checkpoint_path(4), 9), (checksum_path(4), 1), (checksum_path(6), 1)]
    assert consumed(opened(entries, 4), ChecksumPhase).version == 4
    assert consumed(opened(entries), ChecksumPhase).version == 6


def test_checksum_phase_never_takes_one_from_below_the_base_or_above_the_version() -> None:
    entries = [*commits(0, 7), (checkpoint_path(4), 9), (checksum_path(3), 1), (checksum_path(7), 1)]
    assert type(opened(entries, opening=Opening("t", 6)).phase) is TableInTailPhase


def test_checksum_phase_ends_where_it_is_of_the_version() -> None:
    entries = [*commits(0, 2), (checksum_path(2), 1)]
    phase = consumed(opened(entries), ChecksumPhase)
    snapshot = ended(phase.next(iter(read({checksum_path(2): checksum_text()}))))
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.version, snapshot.partition_columns, snapshot.metadata.id) == (
        2,
        ("day",),
        METADATA["metaData"]["id"],
    )


def test_checksum_phase_looks_through_the_commits_after_it() -> None:
    entries = [*commits(0, 3), (checksum_path(1), 1)]
    phase = consumed(opened(entries), ChecksumPhase)
    tail = consumed(phase.next(iter(read({checksum_path(1): checksum_text()}))), TableInTailPhase)
    assert [ref.label for ref in tail.plan().files] == [3, 2]
    newer = json_batch(2, [metadata({"id": "long"}, table_id="newer")], TABLE_SCHEMA)
    snapshot = ended(tail.next(iter([json_batch(3, [add("x")], TABLE_SCHEMA), newer])))
    assert (snapshot.metadata.id, snapshot.protocol.min_reader_version) == ("newer", 1)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"data": None},
        {"data": b""},
        {"data": b"{"},
        {"data": b"[]"},
        {"data": b'{"protocol":{"minReaderVersion":1}}'},
        {"data": b'{"protocol":{"minReaderVersion":"x"},"metadata":{"schemaString":"{}"}}'},
        {"data": b'{"protocol":{"minReaderVersion":1},"metadata":{"schemaString":7}}'},
        {"data": b"\xff\xfe"},
    ],
)
def test_checksum_phase_goes_on_without_a_corrupt_file(content: dict[str, bytes | None]) -> None:
    phase = consumed(opened([*commits(0, 2), (checksum_path(2), 1)]), ChecksumPhase)
    answer = {checksum_path(2): content["data"]} if content else {}
    tail = consumed(phase.next(iter(read(answer))), TableInTailPhase)
    assert [ref.label for ref in tail.plan().files] == [2, 1, 0]


def test_table_in_tail_phase_reads_the_commits_newest_first_and_keeps_them() -> None:
    phase = consumed(opened([*commits(4, 7), (checkpoint_path(4), 9)], 4), TableInTailPhase)
    plan = phase.plan()
    assert isinstance(plan, ScanJson)
    assert plan.files == tuple(FileRef(commit_path(v), 100 + v, v) for v in (7, 6, 5))
    assert plan.schema == TABLE_SCHEMA
    assert plan.keep


def test_table_in_tail_phase_stops_when_both_are_found() -> None:
    phase = consumed(opened(commits(0, 9)), TableInTailPhase)
    taken: list[int] = []

    def blocks() -> Any:  # noqa: ANN401
        for version in range(9, -1, -1):
            taken.append(version)
            actions = {7: [METADATA], 6: [PROTOCOL]}.get(version, [add("x")])
            yield json_batch(version, actions, TABLE_SCHEMA)

    snapshot = ended(phase.next(blocks()))
    assert snapshot.metadata.partition_columns == ("day",)
    assert min(taken) >= 5, "no commit below the one after the last find"


def test_table_in_tail_phase_takes_the_newest_of_each() -> None:
    phase = consumed(opened(commits(0, 1)), TableInTailPhase)
    older = [protocol(2, 5), metadata({"old": "long"}, table_id="old")]
    newer = [add("x"), metadata({"a": "long"}, table_id="new")]
    blocks = [json_batch(1, newer, TABLE_SCHEMA), json_batch(0, older, TABLE_SCHEMA)]
    snapshot = ended(phase.next(iter(blocks)))
    assert (snapshot.metadata.id, snapshot.protocol.min_reader_version) == ("new", 2)


def test_table_in_tail_phase_without_a_base_must_find_both() -> None:
    for actions, error in (([METADATA], MissingProtocolError), ([PROTOCOL], MissingMetadataError)):
        phase = consumed(opened(commits(0, 0)), TableInTailPhase)
        with pytest.raises(error):
            phase.next(iter([json_batch(0, actions, TABLE_SCHEMA)]))


def test_table_in_tail_phase_refuses_unknown_features_and_broken_schemas() -> None:
    phase = consumed(opened(commits(0, 0)), TableInTailPhase)
    with pytest.raises(UnsupportedFeatureError, match="b, c"):
        phase.next(iter([json_batch(0, [protocol(features=["c", "b", "timestampNtz"]), METADATA], TABLE_SCHEMA)]))
    broken = {"metaData": {"id": "x", "schemaString": '{"type":"struct"}'}}
    with pytest.raises(InvalidMetadataError, match="schema"):
        phase.next(iter([json_batch(0, [PROTOCOL, broken], TABLE_SCHEMA)]))


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (ObjectNotFoundError("gone"), MissingCommitError),
        (pa.ArrowInvalid("torn"), CorruptCommitError),
        (StorageError("500"), StorageError),
    ],
)
def test_phases_over_commits_name_the_version_of_a_failure(cause: Exception, error: type[Exception]) -> None:
    failure = UnreadableFileError("x", commit_path(6), 6)
    failure.__cause__ = cause
    state = snapshot_of(range(6))
    phases: list[Any] = [
        consumed(opened(commits(0, 9)), TableInTailPhase),
        reverse_scan(state, None).phase,
        forward_scan(state, None).phase,
    ]
    for phase in phases:
        with pytest.raises(error, match="commit 6 "):
            phase.recover(failure)


def test_a_whole_snapshot_runs_without_a_store_and_pickles_at_every_step() -> None:
    entries = [*commits(4, 6), (checkpoint_path(4), 9)]

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ReadFiles):
            return read({LAST_CHECKPOINT: b'{"version":4}'})
        if isinstance(plan, ListFiles):
            return listing(entries)
        if isinstance(plan, ScanJson):
            return [json_batch(6, [metadata({"z": "long"}, table_id="tail")], TABLE_SCHEMA)]
        row = {
            "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
            "metaData": {"id": "old", "schemaString": "{}"},
        }
        return [top_batch([row])]

    names, batches, snapshot = follow(open_snapshot(OPENING), CannedExecutor(answer))
    assert names == ["LastCheckpointPhase", "FileListingPhase", "TableInTailPhase", "CheckpointTopPhase"]
    assert batches == []
    assert (snapshot.version, snapshot.metadata.id, snapshot.schema.names) == (6, "tail", ["z"])
    (base,) = snapshot.choice.bases
    assert (base.version, base.metadata.id) == (4, "old")
