"""Each phase by itself, with batches made by hand and no store."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import add, deletion_vector, metadata, protocol, remove
from tests.replay.canned import CannedExecutor, follow, json_batch, listing, pickled, read, source

from delta_sidecar.errors import (
    CorruptCheckpointError,
    CorruptCommitError,
    InvalidMetadataError,
    MissingCommitError,
    MissingMetadataError,
    MissingProtocolError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    UnreadableFileError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_sidecar.log.actions import KEYS_SCHEMA, TABLE_SCHEMA, TOP_SCHEMA, Metadata, Protocol
from delta_sidecar.log.keys import file_keys
from delta_sidecar.log.names import LAST_CHECKPOINT, LOG_FOLDER, checksum_path, commit_path
from delta_sidecar.log.schema import read_schema
from delta_sidecar.log.segment import LogSegment, LogSegmentBuilder
from delta_sidecar.plan import Consume, FileRef, ListFiles, PartialResult, ReadFiles, ScanJson, ScanParquet, Terminus
from delta_sidecar.predicate import parse
from delta_sidecar.replay.bases import BaseContinuation, CheckpointLeavesPhase, CheckpointTopPhase, TrustedCheckpoint
from delta_sidecar.replay.commits import LiveAdds, TailKeys
from delta_sidecar.replay.files import FILE_SCHEMA, FileColumns
from delta_sidecar.replay.opening import (
    FileListingPhase,
    LastCheckpointPhase,
    ListingContinuation,
    MissingCommitsPhase,
    Opening,
)
from delta_sidecar.replay.scan import (
    CheckpointReplayPhase,
    CommitReplayPhase,
    TailKeysPhase,
    forward_scan,
    reverse_scan,
)
from delta_sidecar.replay.seen import SeenSet
from delta_sidecar.replay.snapshot import ChecksumPhase, Snapshot, TableInTailPhase, open_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.log.segment import CheckpointFiles
    from delta_sidecar.plan import Plan, StateMachinePhase

OPENING = Opening("memory://t", None, 3)
PROTOCOL = protocol(1, 2)
METADATA = metadata({"id": "long", "day": "string"}, ["day"])


def checkpoint_path(version: int, part: str = "") -> str:
    return f"{LOG_FOLDER}{version:020}.checkpoint{part}.parquet"


def commits(first: int, last: int) -> list[tuple[str, int]]:
    return [(commit_path(version), 100 + version) for version in range(first, last + 1)]


def segment_of(entries: list[tuple[str, int]], version: int, *, complete: bool = True) -> LogSegment:
    builder = LogSegmentBuilder(complete=complete)
    builder.add_all(entries)
    return builder.build(version)


class Ends(ListingContinuation[Any], BaseContinuation[Any]):
    """A continuation that ends where it is called, with what it was told."""

    def listed(self, segment: LogSegment) -> StateMachinePhase[Any]:
        return Terminus(("listed", segment))

    def trusted(self, base: TrustedCheckpoint) -> StateMachinePhase[Any]:
        return Terminus(("trusted", base))

    def distrusted(self, files: CheckpointFiles, error: Exception) -> StateMachinePhase[Any]:
        return Terminus(("distrusted", files.name, type(error)))


ENDS = Ends()


def ended(step: StateMachinePhase[Any]) -> Any:  # noqa: ANN401
    assert isinstance(step, Terminus)
    return step.value


def consumed(step: StateMachinePhase[Any], kind: type) -> Any:  # noqa: ANN401
    assert isinstance(step, Consume)
    assert type(step.phase) is kind
    return pickle.loads(pickle.dumps(step.phase))  # noqa: S301


# --- opening ---------------------------------------------------------------------------------------------------


def test_last_checkpoint_phase_reads_one_small_file() -> None:
    plan = LastCheckpointPhase(OPENING, ENDS).plan()
    assert isinstance(plan, ReadFiles)
    assert plan.paths == (LAST_CHECKPOINT,)
    assert plan.max_bytes <= 1 << 20


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({LAST_CHECKPOINT: b'{"version":7}'}, 7),
        ({LAST_CHECKPOINT: b'{"version":0}'}, 0),
        ({}, None),
        ({LAST_CHECKPOINT: None}, None),
        ({LAST_CHECKPOINT: b'{"version":"7"}'}, None),
        ({LAST_CHECKPOINT: b"\xff\xfe"}, None),
    ],
)
def test_last_checkpoint_phase_takes_a_hint_that_makes_sense(data: dict[str, bytes | None], hint: int | None) -> None:
    phase = LastCheckpointPhase(OPENING, ENDS)
    assert consumed(phase.next(iter(read(data))), FileListingPhase).hint == hint


def test_last_checkpoint_phase_ignores_a_hint_above_the_version() -> None:
    answer = read({LAST_CHECKPOINT: b'{"version":7}'})
    for version, hint in ((6, None), (7, 7), (8, 7)):
        phase = LastCheckpointPhase(Opening("t", version), ENDS)
        assert consumed(phase.next(iter(answer)), FileListingPhase).hint == hint


def test_file_listing_phase_lists_from_the_hint_and_asks_ahead() -> None:
    plan = FileListingPhase(OPENING, ENDS, 7).plan()
    assert isinstance(plan, ListFiles)
    assert plan.prefix == LOG_FOLDER
    assert plan.after is not None
    assert commit_path(6) < plan.after < checkpoint_path(7)
    assert plan.ahead == (checksum_path(7), commit_path(8), commit_path(9), commit_path(10))
    assert FileListingPhase(Opening("t", 8, 3), ENDS, 7).plan().ahead == (checksum_path(7), commit_path(8))
    assert FileListingPhase(OPENING, ENDS).plan() == ListFiles(LOG_FOLDER)


def test_file_listing_phase_lists_all_where_an_offset_listing_is_empty() -> None:
    again = consumed(FileListingPhase(OPENING, ENDS, 7).next(iter([])), FileListingPhase)
    assert again.hint is None
    assert again.plan() == ListFiles(LOG_FOLDER)


def test_file_listing_phase_lists_all_where_an_offset_listing_lacks_a_base() -> None:
    phase = FileListingPhase(OPENING, ENDS, 7, frozenset({"x"}))
    again = consumed(phase.next(iter(listing(commits(7, 9)))), FileListingPhase)
    assert (again.hint, again.excluded) == (None, {"x"})


def test_file_listing_phase_lists_all_where_the_only_base_is_above_the_version() -> None:
    phase = FileListingPhase(Opening("t", 8), ENDS, 7)
    entries = [*commits(7, 20), (checkpoint_path(15), 9)]
    assert consumed(phase.next(iter(listing(entries))), FileListingPhase).hint is None


def test_file_listing_phase_pins_the_newest_version() -> None:
    entries = [*commits(7, 9), (checkpoint_path(7), 9), (checksum_path(8), 1)]
    said, segment = ended(FileListingPhase(OPENING, ENDS, 7).next(iter(listing(entries))))
    assert said == "listed"
    assert (segment.version, segment.base_version, segment.complete) == (9, 7, False)
    assert segment.tail(7) == tuple((version, commit_path(version), 100 + version) for version in (9, 8))
    assert segment.checksums == {8}


def test_file_listing_phase_takes_pages_in_any_order() -> None:
    entries = [*commits(0, 9), (checkpoint_path(4, ".0000000001.0000000002"), 5)]
    entries += [(checkpoint_path(4, ".0000000002.0000000002"), 6)]
    pages = [page for entry in reversed(entries) for page in listing([entry])]
    _, segment = ended(FileListingPhase(OPENING, ENDS).next(iter(pages)))
    assert (segment.version, segment.base_version, segment.from_start) == (9, 4, True)
    assert segment.checkpoints[0].files == ((entries[-2][0], 5), (entries[-1][0], 6))


def test_file_listing_phase_refuses_what_is_not_there() -> None:
    with pytest.raises(TableNotFoundError, match="memory://t"):
        FileListingPhase(OPENING, ENDS).next(iter(listing([(f"{LOG_FOLDER}x", 1)])))
    with pytest.raises(VersionNotFoundError, match="no version 4; its newest is 3"):
        FileListingPhase(Opening("t", 4), ENDS).next(iter(listing(commits(0, 3))))


def test_missing_commits_phase_asks_by_name_and_goes_on() -> None:
    entries = [entry for entry in commits(0, 5) if entry[0] not in (commit_path(2), commit_path(3))]
    phase = consumed(FileListingPhase(OPENING, ENDS).next(iter(listing(entries))), MissingCommitsPhase)
    assert phase.plan().paths == (commit_path(2), commit_path(3))
    found = read({commit_path(2): b"{}", commit_path(3): b"{}\n"})
    _, segment = ended(phase.next(iter(found)))
    assert segment.commits == {0: 100, 1: 101, 2: 2, 3: 3, 4: 104, 5: 105}


def test_missing_commits_phase_takes_a_commit_too_large_to_read_whole() -> None:
    entries = [entry for entry in commits(0, 3) if entry[0] != commit_path(2)]
    phase = consumed(FileListingPhase(OPENING, ENDS).next(iter(listing(entries))), MissingCommitsPhase)
    _, segment = ended(phase.next(iter(read({commit_path(2): None}))))
    assert segment.commits[2] == 99


def test_missing_commits_phase_names_the_gap() -> None:
    entries = [entry for entry in commits(0, 5) if entry[0] not in (commit_path(2), commit_path(3))]
    for opening, error in ((OPENING, MissingCommitError), (Opening("t", 5), VersionNotFoundError)):
        phase = consumed(FileListingPhase(opening, ENDS).next(iter(listing(entries))), MissingCommitsPhase)
        with pytest.raises(error, match="commit 3 ") as missing:
            phase.next(iter(read({commit_path(2): b"{}"})))
        assert getattr(missing.value, "version", 3) == 3


def test_missing_commits_phase_asks_for_a_long_gap_piece_by_piece() -> None:
    phase = consumed(FileListingPhase(OPENING, ENDS).next(iter(listing(commits(25, 30)))), MissingCommitsPhase)
    asked: list[str] = []
    while True:
        paths = phase.plan().paths
        assert 0 < len(paths) <= 10
        asked += paths
        step = phase.next(iter(read(dict.fromkeys(paths, b"{}"))))
        if isinstance(step, Terminus):
            break
        phase = consumed(step, MissingCommitsPhase)
    assert asked == [commit_path(version) for version in range(25)]


# --- protocol and metadata -------------------------------------------------------------------------------------


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
    state = snapshot_of([(version, []) for version in range(6)])
    phases: list[Any] = [
        consumed(opened(commits(0, 9)), TableInTailPhase),
        reverse_scan(state, None).phase,
        forward_scan(state, None).phase,
    ]
    for phase in phases:
        with pytest.raises(error, match="commit 6 "):
            phase.recover(failure)


# --- checkpoints -----------------------------------------------------------------------------------------------

TOP_TYPES = {
    "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    ),
    "sidecar": pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())]),
}


def top_batch(rows: list[dict[str, Any]], names: tuple[str, ...] = tuple(TOP_TYPES)) -> pa.RecordBatch:
    columns = [pa.array([row.get(name) for row in rows], TOP_TYPES[name]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def top_phase(entries: list[tuple[str, int]], version: int, *, with_table: bool) -> CheckpointTopPhase[Any]:
    segment = segment_of(entries, version)
    return CheckpointTopPhase(segment, segment.checkpoints[0], ENDS, with_table)


def test_checkpoint_top_phase_reads_only_what_is_not_about_files() -> None:
    entries = [*commits(0, 4), (checkpoint_path(4), 9)]
    plan = top_phase(entries, 4, with_table=True).plan()
    assert isinstance(plan, ScanParquet)
    assert plan.files == (FileRef(checkpoint_path(4), 9),)
    assert plan.check
    assert {name.partition(".")[0] for name in plan.columns} == {"protocol", "metaData", "sidecar"}
    assert {name.partition(".")[0] for name in plan.non_null} == {"protocol", "metaData", "sidecar"}
    plan = top_phase(entries, 4, with_table=False).plan()
    assert {name.partition(".")[0] for name in plan.columns} == {"sidecar"}


def test_checkpoint_top_phase_of_a_v1_checkpoint_gives_its_parts_as_leaves() -> None:
    parts = [(checkpoint_path(4, f".{part:010}.0000000002"), part) for part in (1, 2)]
    phase = top_phase([*commits(0, 4), *parts], 4, with_table=True)
    meta = {"id": "x", "schemaString": "{}", "partitionColumns": ["p"], "configuration": [("k", "v")]}
    rows = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {}, {"metaData": meta}]
    said, base = ended(pickled(phase.next(iter([top_batch(rows)]))))
    assert said == "trusted"
    assert base.leaves == tuple(FileRef(path, size) for path, size in parts)
    assert base.protocol == Protocol(1, 2)
    assert base.metadata == Metadata("x", "{}", ("p",), {"k": "v"})


def test_checkpoint_top_phase_passes_over_structs_without_values() -> None:
    phase = top_phase([*commits(0, 4), (checkpoint_path(4), 9)], 4, with_table=True)
    nothing = {"protocol": {"minReaderVersion": None, "minWriterVersion": None}}
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "schemaString": "{}"}},
    ]
    _, base = ended(phase.next(iter([top_batch(rows), top_batch([nothing])])))
    assert (base.protocol, base.metadata) == (Protocol(1, 2), Metadata("x", "{}"))


@pytest.mark.parametrize("name", ["protocol", "metaData"])
def test_a_checkpoint_without_protocol_or_metadata_is_torn(name: str) -> None:
    phase = top_phase([*commits(0, 4), (checkpoint_path(4), 9)], 4, with_table=True)
    rows = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}, "metaData": {"id": "x", "schemaString": "{}"}}
    said, file, _ = ended(phase.next(iter([top_batch([{name: rows[name]}])])))
    assert (said, file) == ("distrusted", f"{4:020}.checkpoint.parquet")


@pytest.mark.parametrize("with_table", [True, False])
def test_a_json_checkpoint_with_nothing_in_it_is_torn(*, with_table: bool) -> None:
    path = f"{LOG_FOLDER}{4:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    phase = top_phase([*commits(0, 4), (path, 0)], 4, with_table=with_table)
    assert ended(phase.next(iter([])))[0] == "distrusted"


def test_checkpoint_top_phase_goes_on_to_the_checkpoint_sidecars() -> None:
    listed = ("_delta_log/_sidecars/a b.parquet", 77)
    phase = top_phase([*commits(0, 4), (checkpoint_path(4), 9), listed], 4, with_table=False)
    rows = [
        {"sidecar": {"path": "a%20b.parquet", "sizeInBytes": 5}},
        {},
        {"sidecar": {"path": "x/../y", "sizeInBytes": 6}},
    ]
    leaves = consumed(phase.next(iter([top_batch(rows, ("sidecar",))])), CheckpointLeavesPhase)
    expected = (FileRef("_delta_log/_sidecars/a b.parquet", 77), FileRef("_delta_log/_sidecars/y", 6))
    assert leaves.sidecars == expected
    plan = leaves.plan()
    assert isinstance(plan, ScanParquet)
    assert (plan.files, plan.columns, plan.check) == (expected, (), True)
    said, base = ended(leaves.next(iter([])))
    assert (said, base.leaves) == ("trusted", (FileRef(checkpoint_path(4), 9), *expected))


def test_checkpoint_top_phase_of_a_json_checkpoint() -> None:
    path = f"{LOG_FOLDER}{4:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    phase = top_phase([*commits(0, 4), (path, 9)], 4, with_table=True)
    plan = phase.plan()
    assert isinstance(plan, ScanJson)
    assert (plan.files, plan.schema, plan.keep) == ((FileRef(path, 9),), TOP_SCHEMA, True)
    actions = [{"checkpointMetadata": {"version": 4}}, PROTOCOL, METADATA, {"sidecar": {"path": "s", "sizeInBytes": 1}}]
    leaves = consumed(phase.next(iter([json_batch(0, actions, TOP_SCHEMA)])), CheckpointLeavesPhase)
    assert leaves.checkpoint.protocol == Protocol(1, 2)
    assert leaves.checkpoint.metadata.partition_columns == ("day",)
    assert leaves.sidecars == (FileRef("_delta_log/_sidecars/s", 1),)


@pytest.mark.parametrize(
    ("cause", "torn"),
    [
        (ObjectNotFoundError("gone"), True),
        (pa.ArrowInvalid("no footer"), True),
        (OSError("page"), True),
        (StorageError("500"), False),
    ],
)
def test_a_torn_checkpoint_is_no_base_and_one_out_of_reach_is_an_error(cause: Exception, *, torn: bool) -> None:
    error = UnreadableFileError("x", checkpoint_path(4))
    error.__cause__ = cause
    entries = [*commits(0, 4), (checkpoint_path(4), 9)]
    top = top_phase(entries, 4, with_table=True)
    leaves = CheckpointLeavesPhase(TrustedCheckpoint(top.files, ()), (), ENDS)
    expected = ("distrusted", f"{4:020}.checkpoint.parquet", UnreadableFileError)
    for phase in (top, leaves):
        if torn:
            assert ended(phase.recover(error)) == expected
        else:
            with pytest.raises(StorageError, match=checkpoint_path(4)):
                phase.recover(error)
    assert top.recover(ValueError("a bug")) is None


# --- replay ----------------------------------------------------------------------------------------------------


def snapshot_of(
    history: list[tuple[int, list[dict[str, Any]]]], checkpoint: int | None = None, *, complete: bool = True
) -> Snapshot:
    """Gives a snapshot over commits that exist in name only."""
    entries = [(commit_path(version), 1) for version, _ in history]
    entries += [] if checkpoint is None else [(checkpoint_path(checkpoint), 9)]
    segment = segment_of(entries, max([version for version, _ in history], default=checkpoint or 0), complete=complete)
    proto = Protocol.from_action(PROTOCOL["protocol"], "test")
    meta = Metadata.from_action(METADATA["metaData"], "test")
    return Snapshot("t", segment.version, proto, meta, read_schema(meta, proto, "t"), segment)


def live_adds(seen: SeenSet | None = None) -> LiveAdds:
    return LiveAdds(SeenSet() if seen is None else seen, FileColumns(()), None)


def paths(batch: pa.RecordBatch | None) -> list[str]:
    return [] if batch is None else batch.column("raw_path").to_pylist()


def test_live_adds_lets_the_newest_add_of_a_key_through() -> None:
    live = live_adds()
    assert paths(live(json_batch(2, [add("a", size=2), add("b")]))) == ["a", "b"]
    assert paths(live(json_batch(1, [add("a", size=1), add("c")]))) == ["c"]
    assert live(json_batch(0, [add("a"), add("b"), add("c")])) is None


def test_live_adds_counts_removes_from_the_next_commit_on() -> None:
    live = live_adds()
    assert paths(live(json_batch(2, [remove("a"), add("a"), add("b"), remove("b"), remove("c")]))) == ["a", "b"]
    assert paths(live(json_batch(2, [add("c")]))) == ["c"], "a block of the same commit"
    assert live(json_batch(1, [add("a"), add("b"), add("c")])) is None


def test_live_adds_tells_deletion_vectors_apart() -> None:
    one, two = deletion_vector("1"), deletion_vector("2")
    live = live_adds()
    assert paths(live(json_batch(3, [remove("a"), add("a", dv=one)]))) == ["a"]
    assert paths(live(json_batch(2, [add("a", dv=two)]))) == ["a"]
    assert live(json_batch(1, [add("a", dv=one), add("a")])) is None


def test_live_adds_flush_counts_the_removes_of_the_last_commit() -> None:
    seen = SeenSet()
    live = live_adds(seen)
    assert live(json_batch(1, [remove("a")])) is None
    assert len(seen) == 0
    live.flush()
    assert seen.contains(file_keys({"path": pa.array(["a", "b"])})).tolist() == [True, False]


def test_live_adds_gives_files_with_all_their_fields() -> None:
    action = add("a%20b", tags={"k": "v", "n": None}, size=7, baseRowId=3, defaultRowCommitVersion=1, stats="{}")
    batch = live_adds()(json_batch(0, [PROTOCOL, action, remove("x")]))
    assert batch is not None
    assert batch.schema == FILE_SCHEMA
    (row,) = batch.to_pylist()
    assert (row["path"], row["raw_path"], row["size"], row["stats"]) == ("a b", "a%20b", 7, "{}")
    assert (row["base_row_id"], row["default_row_commit_version"]) == (3, 1)
    assert json.loads(row["tags"]) == {"k": "v", "n": None}


@pytest.mark.parametrize("action", [{"add": {"size": 1}}, {"remove": {"deletionVector": None}}])
def test_live_adds_and_tail_keys_refuse_an_action_without_a_path(action: dict[str, Any]) -> None:
    with pytest.raises(CorruptCommitError, match="commit 4 "):
        live_adds()(json_batch(4, [action]))
    with pytest.raises(CorruptCommitError, match="commit 4 "):
        TailKeys(SeenSet()).take(iter([json_batch(4, [action], KEYS_SCHEMA)]))


def test_commit_replay_phase_reads_the_tail_newest_first_and_in_order() -> None:
    step = reverse_scan(snapshot_of([(version, []) for version in range(6)], 2), None)
    assert isinstance(step, PartialResult)
    assert isinstance(step.phase, CommitReplayPhase)
    assert not step.phase.is_parallelizable()
    plan = source(step.phase.plan())
    assert isinstance(plan, ScanJson)
    assert [ref.label for ref in plan.files] == [5, 4, 3]
    names = plan.schema.field("add").type.field("partitionValues").type
    assert [field.name for field in names] == ["day"]


def test_tail_keys_phase_remembers_every_key_and_goes_to_the_base() -> None:
    step = forward_scan(snapshot_of([(version, []) for version in range(6)], 2), None)
    phase = consumed(step, TailKeysPhase)
    plan = phase.plan()
    assert (plan.schema, plan.keep) == (KEYS_SCHEMA, True)
    assert [ref.label for ref in plan.files] == [5, 4, 3]
    after = phase.next(
        iter([json_batch(5, [add("a"), remove("b")], KEYS_SCHEMA), json_batch(4, [add("a")], KEYS_SCHEMA)])
    )
    top = consumed(after, CheckpointTopPhase)
    replay = pickled(top.next(iter([])))
    assert isinstance(replay, PartialResult)
    assert isinstance(replay.phase, CheckpointReplayPhase)
    assert replay.phase.is_parallelizable()
    keys = file_keys({"path": pa.array(["a", "b", "c"])})
    assert replay.phase.rows.seen.contains(keys).tolist() == [True, True, False]


ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
)


def checkpoint_batch(*names: str | None, day: str = "d") -> pa.RecordBatch:
    rows = [
        None if name is None else {"path": name, "partitionValues": [("day", day)], "size": 1, "modificationTime": 1}
        for name in names
    ]
    return pa.RecordBatch.from_arrays([pa.array(rows, ADD)], names=["add"])


def answers(tail: dict[int, list[dict[str, Any]]], base: list[pa.RecordBatch]) -> Callable[[Plan], Any]:
    """Answers the plans of a scan: commits by their labels, the base whatever is asked of it."""

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ScanJson):
            return [json_batch(ref.label, tail[ref.label], plan.schema) for ref in plan.files if tail[ref.label]]
        assert isinstance(plan, ScanParquet)
        return base if any(name.startswith("add") for name in plan.columns) else []

    return answer


TAIL = {
    5: [add("new", partition_values={"day": "e"}), remove("b1")],
    4: [add("gone", partition_values={"day": "d"}), add("b2", partition_values={"day": "d"}, size=9)],
    3: [remove("gone"), add("x", partition_values={"day": "d"})],
}


@pytest.mark.parametrize("chain", [reverse_scan, forward_scan])
def test_a_whole_scan_runs_without_a_store_and_pickles_at_every_step(chain: object) -> None:
    snapshot = snapshot_of([(version, []) for version in range(6)], 2)
    base = [checkpoint_batch("b1", None, "b2"), checkpoint_batch("b3", "gone")]
    executor = CannedExecutor(answers(TAIL, base))
    names, batches, scan = follow(chain(snapshot, None), executor)
    found = [(row["path"], row["size"], row["partition_values"]) for batch in batches for row in batch.to_pylist()]
    tail = [
        ("new", 1000, [("day", "e")]),
        ("gone", 1000, [("day", "d")]),
        ("b2", 9, [("day", "d")]),
        ("x", 1000, [("day", "d")]),
    ]
    rows = [("b3", 1, [("day", "d")])]
    forward = chain is forward_scan
    assert found == (rows + tail if forward else tail + rows)
    middle = ["CheckpointTopPhase", "CheckpointReplayPhase"]
    assert names == (["TailKeysPhase", *middle, "CommitReplayPhase"] if forward else ["CommitReplayPhase", *middle])
    assert (scan.base_version, scan.snapshot.version, scan.unusable) == (2, 5, frozenset())


@pytest.mark.parametrize("chain", [reverse_scan, forward_scan])
def test_a_predicate_prunes_the_tail_and_the_base_but_no_key(chain: object) -> None:
    snapshot = snapshot_of([(version, []) for version in range(6)], 2)
    base = [checkpoint_batch("new", "b1", "b2", "b3", day="d"), checkpoint_batch("b4", day="e")]
    executor = CannedExecutor(answers(TAIL, base))
    _, batches, scan = follow(chain(snapshot, parse("day = 'd'")), executor)
    found = sorted(path for batch in batches for path in batch.column("path").to_pylist())
    assert found == ["b2", "b3", "gone", "x"], "`new` is pruned in the tail and must not come back from the base"
    assert str(scan.predicate) == "day = 'd'"
    parquet = next(plan for plan in map(source, executor.plans) if isinstance(plan, ScanParquet) and plan.test)
    assert parquet.early == ("add.partitionValues",)


@pytest.mark.parametrize("chain", [reverse_scan, forward_scan])
@pytest.mark.parametrize("complete", [True, False])
def test_a_torn_base_gives_way_to_the_next_older_one(chain: object, *, complete: bool) -> None:
    history = {version: [add(f"v{version}")] for version in range(6)}
    snapshot = snapshot_of([(version, []) for version in (range(6) if complete else range(3, 6))], 2, complete=complete)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ListFiles):
            assert plan.after is None
            return listing([*((commit_path(version), 1) for version in range(7)), (checkpoint_path(2), 9)])
        if isinstance(plan, ScanParquet):
            error = UnreadableFileError("x", checkpoint_path(2))
            error.__cause__ = pa.ArrowInvalid("torn")
            return error
        return answers(history, [])(plan)

    names, batches, scan = follow(chain(snapshot, None), CannedExecutor(answer))
    assert sorted(path for batch in batches for path in paths(batch)) == [f"v{version}" for version in range(6)]
    assert (scan.base_version, scan.unusable) == (-1, {f"{2:020}.checkpoint.parquet"})
    assert ("FileListingPhase" in names) is not complete


@pytest.mark.parametrize("complete", [True, False])
def test_a_torn_base_with_nothing_older_is_named(*, complete: bool) -> None:
    snapshot = snapshot_of([(version, []) for version in range(3, 6)], 2, complete=complete)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ListFiles):
            return listing([*((commit_path(version), 1) for version in range(3, 6)), (checkpoint_path(2), 9)])
        if isinstance(plan, ReadFiles):
            return []
        if isinstance(plan, ScanParquet):
            error = UnreadableFileError("x", checkpoint_path(2))
            error.__cause__ = ObjectNotFoundError("gone")
            return error
        return answers(TAIL, [])(plan)

    for chain in (reverse_scan, forward_scan):
        with pytest.raises(CorruptCheckpointError, match=f"{2:020}.checkpoint.parquet"):
            follow(chain(snapshot, None), CannedExecutor(answer))


def test_checkpoint_replay_phase_names_the_file_that_fails() -> None:
    step = reverse_scan(snapshot_of([(version, []) for version in range(3)], 2), None)
    replay = consumed(step, CheckpointTopPhase).next(iter([])).phase
    error = UnreadableFileError("x", checkpoint_path(2))
    error.__cause__ = pa.ArrowInvalid("page")
    with pytest.raises(CorruptCheckpointError, match=r"checkpoint.parquet"):
        replay.recover(error)
    error.__cause__ = StorageError("500")
    with pytest.raises(StorageError, match=r"checkpoint.parquet"):
        replay.recover(error)


def test_checkpoint_replay_phase_reads_json_and_parquet_leaves_one_after_the_other() -> None:
    path = f"{LOG_FOLDER}{2:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    base = snapshot_of([(version, []) for version in range(3)])
    segment = segment_of([*((commit_path(version), 1) for version in range(3)), (path, 9)], 2)
    snapshot = Snapshot("t", 2, base.protocol, base.metadata, base.columns, segment)

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ScanJson) and plan.schema == TOP_SCHEMA:
            actions = [PROTOCOL, METADATA, {"sidecar": {"path": "s.parquet", "sizeInBytes": 3}}]
            return [json_batch(0, actions, TOP_SCHEMA)]
        if isinstance(plan, ScanJson):
            return [json_batch(0, [add("in-json", partition_values={"day": "d"}, tags={"a": "b"})], plan.schema)]
        return [checkpoint_batch("in-sidecar")] if plan.columns else []

    names, batches, _ = follow(reverse_scan(snapshot, None), CannedExecutor(answer))
    assert names == ["CheckpointTopPhase", "CheckpointLeavesPhase", "CheckpointReplayPhase", "CheckpointReplayPhase"]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["path"], row["tags"]) for row in rows] == [("in-json", '{"a": "b"}'), ("in-sidecar", None)]


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
    assert snapshot.checkpoint.version == 4
