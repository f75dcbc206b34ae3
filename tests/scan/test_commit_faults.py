"""Commits that are gone, cut off or out of reach: the scan fails and names them. Never part of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add
from tests.scan.reading import STRATEGIES, agrees_with_model, keys_of, scan, scanner, store_of
from tests.scan.small_history import FIRST, LAST, fails_without_seeming_complete, history

from delta_sidecar import (
    CorruptCommitError,
    DeltaSidecarError,
    MissingCommitError,
    ObjectNotFoundError,
    StorageError,
)
from delta_sidecar.log.names import commit_path
from delta_sidecar.store.testing import Fail, FaultStore, RecordingStore, StoreWrapper

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.store import Fetched, Store


class ShortReads(StoreWrapper):
    """A store that gives one object cut short, though it is listed with its whole size."""

    def __init__(self, inner: Store, path: str, keep: int) -> None:
        super().__init__(inner)
        self.path = path
        self.keep = keep

    def get(self, path: str, *, max_bytes: int | None = None) -> Fetched:
        fetched = super().get(path, max_bytes=max_bytes)
        if path != self.path:
            return fetched
        return type(fetched)(fetched.data[: self.keep], self.keep, fetched.e_tag)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("version", range(FIRST, LAST + 1))
def test_a_listed_commit_that_is_gone_fails_the_scan(tmp_path: Path, version: int, *, checksum: bool) -> None:
    table = history(tmp_path, checksum=checksum)
    gone = Fail(f"*{version:020}.json", "get", ObjectNotFoundError("injected: gone"))
    for message in fails_without_seeming_complete(table, MissingCommitError, FaultStore(store_of(table), gone)):
        assert f"commit {version} " in message


@pytest.mark.parametrize("error", [StorageError("injected: 500"), StorageError("injected: timeout")])
@pytest.mark.parametrize("version", range(FIRST, LAST + 1))
def test_a_commit_that_cannot_be_fetched_fails_the_scan(tmp_path: Path, version: int, error: Exception) -> None:
    table = history(tmp_path)
    store = FaultStore(store_of(table), Fail(f"*{version:020}.json", "get", error))
    for message in fails_without_seeming_complete(table, StorageError, store):
        assert f"commit {version} " in message
        assert str(error) in message


@pytest.mark.parametrize("version", range(FIRST, LAST + 1))
def test_the_errors_of_commits_carry_the_version(tmp_path: Path, version: int) -> None:
    table = history(tmp_path)
    table.tear(table.commit_path(version), -5)
    with pytest.raises(CorruptCommitError) as torn:
        scan(table)
    assert torn.value.version == version


@pytest.mark.full
@pytest.mark.parametrize("version", [FIRST, LAST])
def test_a_commit_cut_off_at_any_byte_of_its_only_line(tmp_path: Path, version: int) -> None:
    table = TableBuilder(tmp_path)
    for number in range(LAST + 1):
        table.commit([add(f"{number}.parquet", tags={"k": "v"}, rows=[{"id": number}])])
    whole = table.commit_path(version).read_bytes()
    for cut in range(1, len(whole)):
        table.commit_path(version).write_bytes(whole[:cut])
        if cut == len(whole) - 1:
            agrees_with_model(table)
            continue
        with pytest.raises(CorruptCommitError, match=f"commit {version} "):
            scan(table)


@pytest.mark.full
def test_a_commit_cut_off_inside_any_of_its_lines(tmp_path: Path) -> None:
    table = history(tmp_path)
    whole = table.commit_path(5).read_bytes()
    # A file that ends with a line is a whole commit to everyone; that case has a test of its own.
    ends = {place for place, byte in enumerate(whole, 1) if byte == ord("\n")} | {0}
    ends |= {place - 1 for place in ends}
    for cut in sorted(set(range(len(whole))) - ends)[::3]:
        table.commit_path(5).write_bytes(whole[:cut])
        with pytest.raises(CorruptCommitError, match="commit 5 "):
            scan(table, strategy="forward" if cut % 2 else "reverse")


@pytest.mark.full
def test_a_commit_shorter_than_listed_fails_wherever_it_ends(tmp_path: Path) -> None:
    table = history(tmp_path, checksum=True)
    size = table.commit_path(6).stat().st_size
    for keep in range(size):
        store = ShortReads(store_of(table), commit_path(6), keep)
        with pytest.raises(DeltaSidecarError, match="commit 6 "):
            scan(table, store, strategy="forward" if keep % 2 else "reverse")


def test_a_commit_that_speculation_did_not_find_is_asked_for_again(tmp_path: Path) -> None:
    table = history(tmp_path, checksum=True)
    early = Fail(f"*{5:020}.json", "get", ObjectNotFoundError("injected: not yet"), times=1)
    for strategy in STRATEGIES:
        recording = RecordingStore(FaultStore(store_of(table), early))
        assert keys_of(scan(table, recording, strategy=strategy)) == sorted(table.model_files(), key=repr)
        assert recording.paths("get").count(commit_path(5)) == 2


def test_a_failure_after_some_files_is_raised_and_not_the_end(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    for number in range(4):
        table.commit([add(f"{number}.parquet")])
    table.checksum()
    store = FaultStore(store_of(table), Fail(f"*{1:020}.json", "get"))
    files = scanner(table, store).scan_files()
    assert [next(files).path, next(files).path] == ["3.parquet", "2.parquet"]
    with pytest.raises(StorageError, match="commit 1 "):
        next(files)
