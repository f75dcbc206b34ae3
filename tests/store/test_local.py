from __future__ import annotations

import os
import string
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.recorded_log import RecordedLog

from delta_sidecar.errors import ObjectExistsError, StorageError
from delta_sidecar.store import PAGE_SIZE, open_store

if TYPE_CHECKING:
    from pathlib import Path

# Whatever a POSIX file system takes: everything but a slash and NUL, and not a way up.
SEGMENTS = st.text(
    st.one_of(
        st.sampled_from(string.printable.replace("/", "")), st.characters(exclude_characters="/\0", codec="utf-8")
    ),
    min_size=1,
    max_size=40,
).filter(lambda name: name not in {".", ".."} and not name.startswith(".delta-sidecar"))
PATHS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)


@settings(deadline=None)  # a disk takes its time
@given(st.dictionaries(PATHS, st.binary(min_size=1, max_size=20), max_size=6), PATHS)
def test_any_name_is_listed_and_read_back_as_it_is(objects: dict[str, bytes], after: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        store = open_store(root)
        written: dict[str, bytes] = {}
        for path, data in objects.items():
            if any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in written):
                continue  # one name cannot be a file and a folder
            store.put(path, data)
            written[path] = data
        listed = [meta.path for page in store.list("") for meta in page]
        assert sorted(listed) == sorted(written)
        assert {path: bytes(store.get(path).data) for path in listed} == written
        later = [meta.path for page in store.list("", after=after) for meta in page]
        assert sorted(later) == sorted(path for path in written if path > after)


def test_listing_is_lazy_and_comes_in_pages(tmp_path: Path) -> None:
    for number in range(PAGE_SIZE + 10):
        (tmp_path / f"{number:05}.json").touch()
    log = RecordedLog()
    listing = open_store(tmp_path).bind(log).list("")
    assert log.snapshot().lists == 0
    assert len(next(listing)) == PAGE_SIZE
    assert log.snapshot().lists == 1
    assert len(next(listing)) == 10
    assert list(listing) == []
    assert log.snapshot().lists == 2
    assert log.records[1].trip == log.records[0].trip + 1


def test_whole_folders_before_the_offset_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    for folder in ("a", "b", "c"):
        store.put(f"l/{folder}/f.json", b"x")
    opened: list[str] = []
    scandir = os.scandir

    def watched(path: str) -> object:
        opened.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    assert [meta.path for page in store.list("l/", after="l/b/e") for meta in page] == ["l/b/f.json", "l/c/f.json"]
    assert {path.removeprefix(f"{tmp_path}/").rstrip("/") for path in opened} == {"l", "l/b", "l/c"}


def test_links_to_files_are_files_and_links_to_folders_are_left_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put("d/f.json", b"x")
    (tmp_path / "d" / "link.json").symlink_to(tmp_path / "d" / "f.json")
    (tmp_path / "d" / "loop").symlink_to(tmp_path / "d")
    (tmp_path / "d" / "broken.json").symlink_to(tmp_path / "nowhere")
    assert sorted(meta.path for page in store.list("d/") for meta in page) == ["d/f.json", "d/link.json"]
    assert bytes(store.get("d/link.json").data) == b"x"


def test_a_root_that_is_a_link_is_used(tmp_path: Path) -> None:
    open_store(tmp_path / "real").put("f.json", b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = open_store(tmp_path / "link")
    assert [meta.path for page in store.list("") for meta in page] == ["f.json"]
    assert store.url == str(tmp_path / "link")


def test_of_many_writers_one_wins_and_nothing_else_is_left(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    start = threading.Barrier(8)
    won: list[bytes] = []

    def write(data: bytes) -> None:
        start.wait()
        try:
            store.put("f.json", data)
        except ObjectExistsError:
            return
        won.append(data)

    threads = [threading.Thread(target=write, args=(bytes([n]) * 100_000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [bytes(store.get("f.json").data)] == won
    assert os.listdir(tmp_path) == ["f.json"]  # noqa: PTH208 - hidden names too


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"f\.json: No space left"):
        open_store(tmp_path).put("f.json", b"x")
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_a_draft_in_the_making_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    seen: list[object] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(store.list("")))
    store.put("f.json", b"x")
    assert seen == []


def test_names_the_disk_cannot_hold_are_storage_errors(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for name in ("n" * 300, "nul\0byte"):
        with pytest.raises(StorageError, match="cannot read"):
            store.get(name)
        with pytest.raises(StorageError, match="cannot write"):
            store.put(name, b"x")
