"""From an address to a listed log, phase by phase, with batches made by hand and no store."""

from __future__ import annotations

import pytest
from tests.replay.canned import consumed, ended
from tests.replay.handmade import ENDS, OPENING, checkpoint_path, commits, listing, read

from delta_sidecar.errors import MissingCommitError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.log.names import LAST_CHECKPOINT, LOG_FOLDER, SIDECAR_FOLDER, checksum_path, commit_path
from delta_sidecar.plan import ListFiles, ReadFiles, Terminus
from delta_sidecar.replay.open import FileListingPhase, LastCheckpointPhase, MissingCommitsPhase, Opening
from delta_sidecar.sidecar.names import manifest_name


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
    manifest = SIDECAR_FOLDER + manifest_name(7)
    assert plan.ahead == (manifest, checksum_path(7), commit_path(8), commit_path(9), commit_path(10))
    assert plan.heads == (commit_path(7),)
    assert FileListingPhase(Opening("t", 8, 3), ENDS, 7).plan().ahead == (manifest, checksum_path(7), commit_path(8))
    assert FileListingPhase(OPENING, ENDS).plan() == ListFiles(LOG_FOLDER)


def test_file_listing_phase_asks_for_no_manifest_where_metadata_sidecars_do_not_count() -> None:
    plan = FileListingPhase(Opening("t", 8, sidecars=False), ENDS, 7).plan()
    assert (plan.ahead, plan.heads) == ((checksum_path(7), commit_path(8)), ())


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
    assert (segment.version, segment.checkpoints[0].version, segment.complete) == (9, 7, False)
    assert tuple(segment.tail(7)) == tuple((version, commit_path(version), 100 + version) for version in (9, 8))
    assert segment.checksums == {8}


def test_file_listing_phase_takes_pages_in_any_order() -> None:
    entries = [*commits(0, 9), (checkpoint_path(4, ".0000000001.0000000002"), 5)]
    entries += [(checkpoint_path(4, ".0000000002.0000000002"), 6)]
    pages = [page for entry in reversed(entries) for page in listing([entry])]
    _, segment = ended(FileListingPhase(OPENING, ENDS).next(iter(pages)))
    assert (segment.version, segment.checkpoints[0].version, segment.from_start) == (9, 4, True)
    assert [(file.path, file.size) for file in segment.checkpoints[0].files] == entries[-2:]


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
    assert list(segment.commits.sizes) == [100, 101, 2, 3, 104, 105]


def test_missing_commits_phase_takes_a_commit_too_large_to_read_whole() -> None:
    entries = [entry for entry in commits(0, 3) if entry[0] != commit_path(2)]
    phase = consumed(FileListingPhase(OPENING, ENDS).next(iter(listing(entries))), MissingCommitsPhase)
    _, segment = ended(phase.next(iter(read({commit_path(2): None}))))
    assert segment.commits.size(2) == 99


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
