"""The search for protocol and metadata, with batches made by hand and no store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.builder import add, metadata, protocol
from tests.replay.canned import CannedExecutor, consumed, ended, follow, outline
from tests.replay.handmade import (
    METADATA,
    OPENING,
    PROTOCOL,
    checkpoint_path,
    commits,
    failing,
    json_batch,
    listing,
    live,
    read,
    snapshot_of,
    top_batch,
    unreadable,
)

from delta_sidecar.errors import (
    CorruptCommitError,
    InvalidMetadataError,
    MissingCommitError,
    MissingMetadataError,
    MissingProtocolError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from delta_sidecar.log.actions import TABLE_SCHEMA
from delta_sidecar.log.names import LAST_CHECKPOINT, checksum_path, commit_path
from delta_sidecar.plan import Ahead, Consume, FileRef, ListFiles, ReadFiles, ScanJson, StateMachinePhase
from delta_sidecar.replay.open import Opening
from delta_sidecar.replay.snapshot import Snapshot, open_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.plan import Plan


def checksum_text() -> bytes:
    return json.dumps({"protocol": PROTOCOL["protocol"], "metadata": METADATA["metaData"], "numFiles": 1}).encode()


def opened(
    entries: list[tuple[str, int]], hint: int | None = None, opening: Opening = OPENING
) -> StateMachinePhase[Snapshot]:
    """Opens a table as far as its listing."""
    contents: dict[str, bytes | None] = {} if hint is None else {LAST_CHECKPOINT: b'{"version":%d}' % hint}
    phase = StateMachinePhase(open_snapshot(opening)).next(iter(read(contents)))
    assert isinstance(consumed(phase), ListFiles)
    return phase.next(iter(listing(entries)))


def looks_at(phase: StateMachinePhase[Snapshot]) -> str:
    """What is read next, in words."""
    return outline(consumed(phase))


def ahead(phase: StateMachinePhase[Snapshot]) -> Ahead:
    assert isinstance(phase.step, Consume)
    return phase.step.ahead


def block(version: int, *actions: dict[str, Any]) -> pa.RecordBatch:
    return json_batch(version, actions, TABLE_SCHEMA)


# --- checksum files ---


def test_along_with_a_checksum_file_the_newest_commits_are_asked_for() -> None:
    entries = [*commits(4, 12), (checkpoint_path(4), 9), (checksum_path(4), 1), (checksum_path(11), 1)]
    phase = opened(entries, 4)
    assert consumed(phase).paths == (checksum_path(11),)
    assert [ref.path for ref in ahead(phase).files] == [commit_path(version) for version in (12, 11, 10)]


def test_the_checksum_file_of_the_base_is_taken_where_the_tail_is_on_its_way() -> None:
    entries = [*commits(4, 7), (checkpoint_path(4), 9), (checksum_path(4), 1), (checksum_path(6), 1)]
    assert looks_at(opened(entries, 4)) == "read 4.crc"
    assert looks_at(opened(entries)) == "read 6.crc"


def test_a_checksum_file_from_below_the_base_or_above_the_version_is_never_taken() -> None:
    entries = [*commits(0, 7), (checkpoint_path(4), 9), (checksum_path(3), 1), (checksum_path(7), 1)]
    assert looks_at(opened(entries, opening=Opening("t", 6))) == "table in 6 5"


def test_a_checksum_file_of_the_version_is_enough() -> None:
    phase = opened([*commits(0, 2), (checksum_path(2), 1)])
    snapshot = ended(phase.next(iter(read({checksum_path(2): checksum_text()}))))
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.version, snapshot.partition_columns, snapshot.counted) == (2, ("day",), (2, 1))
    assert snapshot.metadata.id == METADATA["metaData"]["id"]


def test_the_commits_after_a_checksum_file_are_looked_through() -> None:
    phase = opened([*commits(0, 3), (checksum_path(1), 1)])
    phase = phase.next(iter(read({checksum_path(1): checksum_text()})))
    assert looks_at(phase) == "table in 3 2"
    newer = block(2, metadata({"id": "long"}, table_id="newer"))
    snapshot = ended(phase.next(iter([block(3, add("x")), newer])))
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
def test_a_corrupt_checksum_file_is_passed_over(content: dict[str, bytes | None]) -> None:
    phase = opened([*commits(0, 2), (checksum_path(2), 1)])
    answer = {checksum_path(2): content["data"]} if content else {}
    assert looks_at(phase.next(iter(read(answer)))) == "table in 2 1 0"


# --- the tail ---


def test_commits_are_looked_through_newest_first_and_kept() -> None:
    plan = consumed(opened([*commits(4, 7), (checkpoint_path(4), 9)], 4))
    assert isinstance(plan, ScanJson)
    assert plan.files == tuple(FileRef(commit_path(v), 100 + v, v) for v in (7, 6, 5))
    assert plan.schema == TABLE_SCHEMA
    assert plan.keep


def test_along_with_commits_the_base_is_asked_for_where_it_will_be_read() -> None:
    entries = [*commits(4, 7), (checkpoint_path(4), 9), (checksum_path(6), 1)]
    wholly = replace(OPENING, whole_base=True)
    footers = (FileRef(checkpoint_path(4), 9),)
    phase = opened(entries, opening=wholly)
    assert looks_at(phase) == "read 6.crc"
    assert ahead(phase).footers == footers
    phase = phase.next(iter([]))
    assert looks_at(phase) == "table in 7 6 5"
    assert ahead(phase) == Ahead(footers=footers)
    assert ahead(opened(entries).next(iter([]))) == Ahead()


def test_no_commit_below_the_last_find_is_read() -> None:
    taken: list[int] = []

    def blocks() -> Iterator[pa.RecordBatch]:
        for version in range(9, -1, -1):
            taken.append(version)
            yield block(version, {7: METADATA, 6: PROTOCOL}.get(version, add("x")))

    snapshot = ended(opened(commits(0, 9)).next(blocks()))
    assert snapshot.metadata.partition_columns == ("day",)
    assert min(taken) >= 5, "no commit below the one after the last find"


def test_the_newest_of_each_is_in_force() -> None:
    older = block(0, protocol(2, 5), metadata({"old": "long"}, table_id="old"))
    newer = block(1, add("x"), metadata({"a": "long"}, table_id="new"))
    snapshot = ended(opened(commits(0, 1)).next(iter([newer, older])))
    assert (snapshot.metadata.id, snapshot.protocol.min_reader_version) == ("new", 2)


def test_a_tail_without_a_base_must_have_both() -> None:
    for action, error in ((METADATA, MissingProtocolError), (PROTOCOL, MissingMetadataError)):
        with pytest.raises(error):
            opened(commits(0, 0)).next(iter([block(0, action)]))


def test_unknown_features_and_broken_schemas_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="b, c"):
        opened(commits(0, 0)).next(iter([block(0, protocol(features=["c", "b", "timestampNtz"]), METADATA)]))
    broken = {"metaData": {"id": "x", "schemaString": '{"type":"struct"}'}}
    with pytest.raises(InvalidMetadataError, match="schema"):
        opened(commits(0, 0)).next(iter([block(0, PROTOCOL, broken)]))


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (ObjectNotFoundError("gone"), MissingCommitError),
        (pa.ArrowInvalid("torn"), CorruptCommitError),
        (StorageError("500"), StorageError),
    ],
)
@pytest.mark.parametrize(
    "begun",
    [
        lambda: opened(commits(0, 9)),
        lambda: StateMachinePhase(live(snapshot_of(range(6)))),
        lambda: StateMachinePhase(live(snapshot_of(range(6)), forward=True)),
    ],
    ids=["table", "reverse", "forward"],
)
def test_a_commit_that_cannot_be_read_is_named(
    begun: Callable[[], StateMachinePhase[Any]], cause: Exception, error: type[Exception]
) -> None:
    failure = unreadable(commit_path(6), cause, 6)
    phase = begun()
    with pytest.raises(error, match="commit 6 "):
        phase.fail(failure)
    phase = begun()
    if isinstance(phase.step, Consume):
        with pytest.raises(error, match="commit 6 "):
            phase.next(failing(failure))


def test_a_whole_snapshot_runs_without_a_store() -> None:
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

    executor = CannedExecutor(answer)
    batches, snapshot = follow(open_snapshot(OPENING), executor)
    assert executor.outline == ["read _last_checkpoint", "list the end", "table in 6 5", "top of checkpoint 4"]
    assert batches == []
    assert (snapshot.version, snapshot.metadata.id, snapshot.schema.names) == (6, "tail", ["z"])
    (base,) = snapshot.choice.bases
    assert (base.version, base.metadata.id) == (4, "old")
