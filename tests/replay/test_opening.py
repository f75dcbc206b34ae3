"""From an address to a listed log, with batches made by hand and no store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.replay.canned import consumed, ended
from tests.replay.handmade import OPENING, checkpoint_path, commits, listing, read

from delta_sidecar.errors import MissingCommitError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.log.names import (
    LAST_CHECKPOINT,
    LOG_FOLDER,
    SIDECAR_FOLDER,
    checksum_path,
    commit_path,
    listing_start,
    manifest_name,
)
from delta_sidecar.plan import NOTHING_AHEAD, Consume, FileRef, ListFiles, ReadFiles, StateMachinePhase, Terminus
from delta_sidecar.replay.open import NO_HINT, Opening, last_checkpoint, list_log
from delta_sidecar.replay.tail import Tail

if TYPE_CHECKING:
    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.plan import Ahead


def listed(opening: Opening = OPENING, hint: int | None = None) -> StateMachinePhase[LogSegment]:
    """Begins to list a log, from a version on or all of it."""
    return StateMachinePhase(list_log(replace(opening, hint=NO_HINT if hint is None else hint)))


def ahead(phase: StateMachinePhase[LogSegment]) -> Ahead:
    assert isinstance(phase.step, Consume)
    return phase.step.ahead


def refs(*paths: str) -> tuple[FileRef, ...]:
    return tuple(map(FileRef, paths))


# --- the hint ---


def test_the_hint_is_one_small_file() -> None:
    plan = consumed(StateMachinePhase(list_log(OPENING, speculate=False)))
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
def test_a_listing_begins_at_a_hint_that_makes_sense(data: dict[str, bytes | None], hint: int | None) -> None:
    assert ended(StateMachinePhase(last_checkpoint(OPENING)).next(iter(read(data)))) == hint
    plan = consumed(StateMachinePhase(list_log(OPENING, speculate=False)).next(iter(read(data))))
    assert plan == ListFiles(LOG_FOLDER, None if hint is None else listing_start(hint))


def test_a_hint_above_the_version_is_ignored() -> None:
    answer = read({LAST_CHECKPOINT: b'{"version":7}'})
    for version, hint in ((6, None), (7, 7), (8, 7)):
        phase = StateMachinePhase(last_checkpoint(Opening("t", version)))
        assert ended(phase.next(iter(answer))) == hint


def test_a_hint_that_is_known_is_not_asked_for() -> None:
    assert ended(StateMachinePhase(last_checkpoint(Opening("t", hint=7)))) == 7
    assert ended(StateMachinePhase(last_checkpoint(Opening("t", hint=NO_HINT)))) is None


# --- the listing ---


def test_a_log_is_listed_from_the_hint_and_the_next_files_are_asked_for() -> None:
    phase = listed(hint=7)
    plan = consumed(phase)
    assert isinstance(plan, ListFiles)
    assert plan.prefix == LOG_FOLDER
    assert plan.after is not None
    assert commit_path(6) < plan.after < checkpoint_path(7)
    manifest = SIDECAR_FOLDER + manifest_name(7)
    assert ahead(phase).files == refs(manifest, checksum_path(7), commit_path(8), commit_path(9), commit_path(10))
    assert ahead(phase).heads == (commit_path(7),)
    assert ahead(listed(Opening("t", 8, 3), 7)).files == refs(manifest, checksum_path(7), commit_path(8))
    whole = listed()
    assert (consumed(whole), ahead(whole)) == (ListFiles(LOG_FOLDER), NOTHING_AHEAD)


def test_no_manifest_is_asked_for_where_metadata_sidecars_do_not_count() -> None:
    hints = ahead(listed(Opening("t", 8, sidecars=False), 7))
    assert (hints.files, hints.heads) == (refs(checksum_path(7), commit_path(8)), ())


def test_where_only_the_version_is_asked_for_nothing_else_is() -> None:
    phase = StateMachinePhase(list_log(OPENING, speculate=False)).next(iter(read({LAST_CHECKPOINT: b'{"version":7}'})))
    assert ahead(phase) == NOTHING_AHEAD


def test_all_is_listed_where_an_offset_listing_is_empty() -> None:
    again = listed(hint=7).next(iter([]))
    assert (consumed(again), ahead(again)) == (ListFiles(LOG_FOLDER), NOTHING_AHEAD)


def test_all_is_listed_where_an_offset_listing_lacks_a_base() -> None:
    excluded = frozenset({f"{7:020}.checkpoint.parquet"})
    for phase, entries in (
        (listed(hint=7), commits(7, 9)),
        (
            StateMachinePhase(list_log(replace(OPENING, hint=7), excluded=excluded)),
            [*commits(7, 9), (checkpoint_path(7), 9)],
        ),
    ):
        again = phase.next(iter(listing(entries)))
        assert consumed(again) == ListFiles(LOG_FOLDER)
    segment = ended(again.next(iter(listing([*commits(0, 9), (checkpoint_path(7), 9), (checkpoint_path(3), 9)]))))
    assert [found.version for found in segment.checkpoints] == [3], "what proved unusable stays out"


def test_all_is_listed_where_the_only_base_is_above_the_version() -> None:
    entries = [*commits(7, 20), (checkpoint_path(15), 9)]
    assert consumed(listed(Opening("t", 8), 7).next(iter(listing(entries)))) == ListFiles(LOG_FOLDER)


def test_the_newest_version_is_pinned() -> None:
    entries = [*commits(7, 9), (checkpoint_path(7), 9), (checksum_path(8), 1)]
    segment = ended(listed(hint=7).next(iter(listing(entries))))
    assert (segment.version, segment.checkpoints[0].version, segment.complete) == (9, 7, False)
    assert next(Tail.of(segment, 7).windows()) == tuple(
        FileRef(commit_path(version), 100 + version, version) for version in (9, 8)
    )
    assert segment.checksums == {8}


def test_pages_come_in_any_order() -> None:
    entries = [*commits(0, 9), (checkpoint_path(4, ".0000000001.0000000002"), 5)]
    entries += [(checkpoint_path(4, ".0000000002.0000000002"), 6)]
    pages = [page for entry in reversed(entries) for page in listing([entry])]
    segment = ended(listed().next(iter(pages)))
    assert (segment.version, segment.checkpoints[0].version, segment.from_start) == (9, 4, True)
    assert [(file.path, file.size) for file in segment.checkpoints[0].files] == entries[-2:]


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(TableNotFoundError, match="memory://t"):
        listed().next(iter(listing([(f"{LOG_FOLDER}x", 1)])))
    with pytest.raises(VersionNotFoundError, match="no version 4; its newest is 3"):
        listed(Opening("t", 4)).next(iter(listing(commits(0, 3))))


# --- commits that the listing skipped ---


def without(entries: list[tuple[str, int]], *versions: int) -> list[tuple[str, int]]:
    return [entry for entry in entries if entry[0] not in map(commit_path, versions)]


def test_missing_commits_are_asked_for_by_name() -> None:
    phase = listed().next(iter(listing(without(commits(0, 5), 2, 3))))
    assert consumed(phase).paths == (commit_path(2), commit_path(3))
    segment = ended(phase.next(iter(read({commit_path(2): b"{}", commit_path(3): b"{}\n"}))))
    assert list(segment.commits.sizes) == [100, 101, 2, 3, 104, 105]


def test_a_missing_commit_may_be_too_large_to_read_whole() -> None:
    phase = listed().next(iter(listing(without(commits(0, 3), 2))))
    segment = ended(phase.next(iter(read({commit_path(2): None}))))
    assert segment.commits.size(2) == 99


def test_a_gap_is_named() -> None:
    for opening, error in ((OPENING, MissingCommitError), (Opening("t", 5), VersionNotFoundError)):
        phase = listed(opening).next(iter(listing(without(commits(0, 5), 2, 3))))
        with pytest.raises(error, match="commit 3 ") as missing:
            phase.next(iter(read({commit_path(2): b"{}"})))
        assert getattr(missing.value, "version", 3) == 3


def test_a_gap_is_another_error_where_the_caller_has_one() -> None:
    flow = list_log(replace(OPENING, hint=NO_HINT), otherwise=KeyError("the caller's own"))
    phase = StateMachinePhase(flow).next(iter(listing(without(commits(0, 5), 2))))
    with pytest.raises(KeyError, match="the caller's own"):
        phase.next(iter([]))


def test_a_long_gap_is_asked_for_piece_by_piece() -> None:
    phase = listed().next(iter(listing(commits(25, 30))))
    asked: list[str] = []
    while not isinstance(phase.step, Terminus):
        paths = consumed(phase).paths
        assert 0 < len(paths) <= 10
        asked += paths
        phase = phase.next(iter(read(dict.fromkeys(paths, b"{}"))))
    assert asked == [commit_path(version) for version in range(25)]
    assert ended(phase).from_start
