from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar.errors import TableNotFoundError
from delta_sidecar.log.names import LOG_FOLDER, checksum_path, commit_path
from delta_sidecar.log.segment import ListedFile, LogListing
from delta_sidecar.plan import FileRef
from delta_sidecar.replay.tail import Tail

PATIENTLY = settings(deadline=None)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def classic(version: int) -> str:
    return f"{LOG_FOLDER}{version:020}.checkpoint.parquet"


def part(version: int, number: int, parts: int) -> str:
    return f"{LOG_FOLDER}{version:020}.checkpoint.{number:010}.{parts:010}.parquet"


def v2(version: int, ending: str = "parquet") -> str:
    return f"{LOG_FOLDER}{version:020}.checkpoint.{UUID}.{ending}"


def built(*paths: str, excluded: frozenset[str] = frozenset()) -> LogListing:
    listing = LogListing(excluded=excluded)
    for path in paths:
        listing.add(ListedFile(path, len(path)))
    return listing


def commits(*versions: int) -> list[str]:
    return [commit_path(version) for version in versions]


def test_nothing_is_empty() -> None:
    for listing in (built(), built(checksum_path(1), "_delta_log/_last_checkpoint", part(3, 1, 2))):
        assert listing.latest == -1
        with pytest.raises(TableNotFoundError, match="here is not a Delta table"):
            listing.check_has(-1, "here")


def test_an_incomplete_multi_part_checkpoint_is_none() -> None:
    listing = built(*commits(0, 1, 2, 3), part(3, 1, 3), part(3, 3, 3), part(3, 2, 2))
    assert listing.checkpoints(3) == []
    assert listing.segment(3).checkpoints == ()
    listing.add(ListedFile(part(3, 2, 3), 5))
    (checkpoint,) = listing.checkpoints(3)
    assert [file.path for file in checkpoint.files] == [part(3, number, 3) for number in (1, 2, 3)]


def test_parts_with_impossible_numbers_do_not_count() -> None:
    listing = built(*commits(0), part(0, 0, 1), part(0, 2, 1), part(0, 3, 2), part(0, 1, 2), part(0, 0, 0))
    assert listing.checkpoints(0) == []


def test_two_multi_part_checkpoints_of_one_version_do_not_mix() -> None:
    listing = built(part(3, 1, 2), part(3, 2, 3), part(3, 3, 3))
    assert listing.checkpoints(3) == []
    listing.add(ListedFile(part(3, 1, 3), 1))
    assert len(listing.checkpoints(3)) == 1


def test_a_part_that_is_listed_twice_counts_once() -> None:
    listing = built(part(3, 1, 2), part(3, 1, 2))
    assert listing.checkpoints(3) == []
    listing.add(ListedFile(part(3, 2, 2), 1))
    listing.add(ListedFile(part(3, 2, 2), 1))
    (checkpoint,) = listing.checkpoints(3)
    assert [(file.path, file.size) for file in checkpoint.files] == [
        (part(3, 1, 2), len(part(3, 1, 2))),
        (part(3, 2, 2), 1),
    ]


def test_checkpoints_come_newest_first_and_without_those_that_proved_unusable() -> None:
    paths = [classic(2), v2(2), part(5, 1, 2), part(5, 2, 2), classic(5), v2(9, "json")]
    names = [checkpoint.name for checkpoint in built(*paths).checkpoints(8)]
    assert [name[:20] for name in names] == [f"{5:020}"] * 2 + [f"{2:020}"] * 2
    assert names[0] == classic(5).rpartition("/")[2], "one file before several"
    left = built(*paths, excluded=frozenset({names[0]})).checkpoints(8)
    assert [checkpoint.name for checkpoint in left] == names[1:]


def test_missing_commits_are_those_after_the_newest_base() -> None:
    listing = built(*commits(0, 1, 4, 6, 7), classic(3))
    assert listing.missing(7, 10) == [5]
    assert listing.missing(2, 10) == [2]
    assert listing.missing(3, 10) == []
    assert built(*commits(2, 3)).missing(3, 10) == [0, 1]
    assert built(*commits(2, 3)).missing(3, 1) == [0]
    assert built(*commits(0)).missing(10**19, 3) == [1, 2, 3]


def test_a_base_with_a_gap_after_it_is_none() -> None:
    segment = built(*commits(0, 1, 3, 4, 5), classic(1), classic(4), classic(2)).segment(5)
    assert [checkpoint.version for checkpoint in segment.checkpoints] == [4, 2]
    assert not segment.from_start
    assert next(Tail.of(segment, 4).windows()) == (FileRef(commit_path(5), len(commit_path(5)), 5),)


def test_the_log_without_a_checkpoint_starts_at_zero() -> None:
    segment = built(*commits(0, 1, 2), checksum_path(1), checksum_path(9)).segment(1)
    assert (segment.version, segment.checkpoints, segment.from_start, segment.checksums) == (1, (), True, {1})
    assert [ref.label for ref in next(Tail.of(segment, -1).windows())] == [1, 0]


def test_a_checkpoint_may_stand_alone() -> None:
    segment = built(classic(7)).segment(7)
    assert (segment.version, segment.from_start, tuple(Tail.of(segment, 7).windows())) == (7, False, ())
    assert [checkpoint.version for checkpoint in segment.checkpoints] == [7]


def test_files_of_the_sidecar_folder_are_kept_by_name() -> None:
    listing = built()
    listing.add(ListedFile("_delta_log/_sidecars/a b.parquet", 5, 7, "tag"))
    assert listing.latest == -1
    found = listing.segment(-1).sidecars["a b.parquet"]
    assert (found.size, found.last_modified, found.e_tag) == (5, 7, "tag")


def test_a_listing_pickles_in_the_middle() -> None:
    listing = pickle.loads(pickle.dumps(built(*commits(0, 1), part(1, 1, 2))))  # noqa: S301
    listing.add(ListedFile(part(1, 2, 2), 1))
    listing.add(ListedFile(commit_path(2), 1))
    assert listing.segment(2).checkpoints[0].version == 1


def test_a_listing_counts_what_it_shows() -> None:
    listing = LogListing()
    gone = f"{LOG_FOLDER}{0:020}.{3:020}.compacted.json"
    paths = [*commits(7, 2, 3, 7), checksum_path(4), checksum_path(3), checksum_path(4), gone, "_delta_log/x"]
    for number, path in enumerate(paths):
        listing.add(ListedFile(path, 10 + number, 100 - number))
    assert (listing.files, listing.nbytes, listing.newest_time, listing.compacted) == (9, 126, 100, 1)
    assert listing.commits.versions.tolist() == [2, 3, 7]
    assert listing.checksums.tolist() == [3, 4]
    assert [found.tolist() for found in listing.commits.sizes(2, 7)] == [[3, 7], [12, 13]]
    assert listing.commits.missing(1, 7, 2) == [4, 5]


def test_every_file_of_a_checkpoint_is_kept() -> None:
    paths = [classic(1), v2(2), part(3, 1, 2), part(4, 2, 3), part(4, 9, 3)]
    listing = built(*paths, *commits(0), "_delta_log/_sidecars/x.parquet")
    assert list(listing.checkpoint_files) == paths
    assert listing.incomplete == [(4, 3, 2), (3, 2, 1)]
    assert [checkpoint.version for checkpoint in listing.checkpoints(9)] == [2, 1]


NAMES = st.one_of(
    st.integers(0, 9).map(commit_path),
    st.integers(0, 9).map(checksum_path),
    st.integers(0, 9).map(classic),
    st.integers(0, 9).map(v2),
    st.builds(part, st.integers(0, 9), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["_delta_log/_sidecars/x.parquet", "_delta_log/x", "_delta_log/_last_checkpoint"]),
)


@PATIENTLY
@given(st.sets(NAMES, max_size=40), st.randoms(use_true_random=False), st.integers(0, 9))
def test_the_order_of_a_listing_does_not_matter(names: set[str], random: object, version: int) -> None:
    ordered = sorted(names)
    shuffled = list(ordered)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = built(*ordered), built(*shuffled)
    assert first.latest == second.latest
    assert first.segment(version) == second.segment(version)
    assert first.missing(version, 10) == second.missing(version, 10)


@PATIENTLY
@given(st.sets(NAMES, max_size=40), st.integers(0, 9))
def test_every_base_has_every_commit_after_it(names: set[str], version: int) -> None:
    segment = built(*names).segment(version)
    for base in [checkpoint.version for checkpoint in segment.checkpoints] + [-1] * segment.from_start:
        (commits,) = list(Tail.of(segment, base).windows()) or [()]
        assert [ref.label for ref in commits] == list(range(version, base, -1))
        assert {ref.path for ref in commits} <= names
