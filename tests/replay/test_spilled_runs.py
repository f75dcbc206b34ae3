from __future__ import annotations

import errno
import gc
import itertools
import os
import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar.errors import StorageError, TemporaryFileError
from delta_sidecar.replay.seen import runs as sorted_runs
from delta_sidecar.replay.seen import runs as spilled_runs
from delta_sidecar.replay.seen.runs import Run, SpilledRun
from delta_sidecar.replay.seen.seen import SeenSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

# Few fingerprints, so that many are equal; they also lie at the ends of what a word can hold.
ENTRIES = st.tuples(
    st.sampled_from([0, 1, 2, 3, 7, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]), st.integers(0, 5), st.integers(0, 1)
)
SMALL_BLOCKS = [1, 2, 3, 8192]


@dataclass(frozen=True)
class Wanted:
    """Digests that are looked up."""

    fingerprints: NDArray[np.uint64]
    digests: NDArray[np.uint64]

    def digests_at(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        return self.digests[rows]

    def between(self, start: int, end: int) -> Wanted:
        return Wanted(self.fingerprints[start:end], self.digests[start:end])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "BLOCK_KEYS", 100)
    monkeypatch.setattr(spilled_runs, "BLOCK_KEYS", 100)


def run_of(entries: set[tuple[int, int, int]]) -> Run:
    rows = np.array(sorted(entries, key=lambda entry: entry[0]), dtype=np.uint64).reshape(-1, 3)
    return Run(rows[:, 0].copy(), rows[:, 1:].copy())


def entries_of(runs: Iterator[Run]) -> list[tuple[int, int, int]]:
    return [
        (first, *digest)
        for run in runs
        for first, digest in zip(run.fingerprints.tolist(), run.digests.tolist(), strict=True)
    ]


@settings(deadline=None)
@given(
    st.lists(ENTRIES, unique=True, min_size=1, max_size=40),
    st.integers(1, 4),
    st.lists(ENTRIES, max_size=20),
    st.sampled_from(SMALL_BLOCKS),
)
def test_a_run_on_disk_holds_what_went_into_it(
    entries: list[tuple[int, int, int]], parts: int, asked: list[tuple[int, int, int]], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "BLOCK_KEYS", block)
        patch.setattr(spilled_runs, "BLOCK_KEYS", block)
        runs = [run_of(set(entries[start::parts])) for start in range(parts)]
        spilled = SpilledRun.of([run.blocks() for run in runs])
        again = SpilledRun.of([spilled.blocks()])
        merged = spilled_runs.merged(runs)
    for made in (entries_of(spilled.blocks()), entries_of(again.blocks()), entries_of(iter([merged]))):
        assert sorted(made) == sorted(entries)
        assert [entry[0] for entry in made] == sorted(entry[0] for entry in entries)
    for index in (spilled, again):
        assert (np.diff(index.firsts.astype(object)) > 0).all(), "equal fingerprints stay in one block"
    wanted = sorted([*asked, *entries], key=lambda entry: entry[0])
    rows = np.array(wanted, dtype=np.uint64).reshape(-1, 3)
    found = [run.find(Wanted(rows[:, 0], rows[:, 1:])).tolist() for run in (spilled, again, merged)]
    assert found == [[entry in set(entries) for entry in wanted]] * 3


@pytest.mark.usefixtures("small_blocks")
def test_little_of_a_run_on_disk_is_in_memory_and_little_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(20_000, dtype=np.uint64) << np.uint64(40)
    spilled = SpilledRun.of([Run(numbers, np.stack([numbers, numbers], axis=1)).blocks()])
    assert spilled.nbytes < 20_000
    reads: list[int] = []
    read = spilled_runs._ScratchFile._read

    def counted(file: spilled_runs._ScratchFile, offset: int, size: int) -> bytes:
        reads.append(size)
        return read(file, offset, size)

    monkeypatch.setattr(spilled_runs._ScratchFile, "_read", counted)
    some = numbers[5_000:5_003]
    assert spilled.find(Wanted(some, np.stack([some, some], axis=1))).all()
    assert reads == [800, 1_600]
    reads.clear()
    assert not spilled.find(Wanted(some + np.uint64(1), np.stack([some, some], axis=1))).any()
    assert reads == [800]


@pytest.mark.usefixtures("small_blocks")
def test_there_are_few_files() -> None:
    seen = SeenSet(20_000)
    most = 0
    for start in range(0, 30_000, 100):
        seen.insert(numbered(range(start, start + 100)))
        most = max(most, len(seen._seen.spilled))
    assert 1 < most <= 8
    for run in seen._seen.spilled:
        assert np.diff(run.starts).max() <= 100, "blocks do not grow where runs are merged"
        assert len(run.firsts) <= len(run) / 50 + 1
    sizes = [len(run) for run in seen._seen.spilled]
    assert all(older > 2 * newer for older, newer in itertools.pairwise(sizes))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are looked up in /proc")
def test_files_have_no_name_and_go_with_the_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = SeenSet(0)
    for number in range(5):
        seen.insert(numbered(range(number * 100, number * 100 + 60)))
    copy = pickle.loads(pickle.dumps(seen))  # noqa: S301
    assert copy.contains(numbered(range(60))).all()
    assert not list(tmp_path.iterdir())
    assert open_below(tmp_path)
    del seen, copy
    gc.collect()
    assert not open_below(tmp_path)


def test_a_file_is_read_in_the_same_way_where_there_is_no_pread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pread")
    seen = SeenSet(0)
    seen.insert(numbered(range(1_000)))
    seen.insert(numbered(range(500, 1_500)))
    assert seen.contains(numbered(range(2_000))).tolist() == [True] * 1_500 + [False] * 500


@pytest.mark.full
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("has_pread", [True, False])
def test_several_threads_look_keys_up(monkeypatch: pytest.MonkeyPatch, *, has_pread: bool) -> None:
    if not has_pread:
        monkeypatch.delattr(os, "pread")
    seen = SeenSet(50_000)
    for start in range(0, 20_000, 1_000):
        seen.insert(numbered(range(start, start + 1_000)))
    seen.freeze()
    assert seen.tier == "disk"

    def look_up(thread: int) -> bool:
        return all(
            seen.contains(numbered(range(start - 30, start + 30))).tolist() == [start > 0] * 30 + [True] * 30
            for start in range(0, 19_000, 397 + thread)
        )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(look_up, range(6)))


class TestFailures:
    """What cannot be written or read is an error that says so, and no answer."""

    def test_a_folder_that_is_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        with pytest.raises(TemporaryFileError, match="remove_set_memory_limit"):
            SeenSet(0).insert(numbered(range(3)))

    def test_a_full_disk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = SeenSet(0)
        seen.insert(numbered(range(100)))
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FullDisk())
        with pytest.raises(TemporaryFileError, match="No space left") as caught:
            seen.insert(numbered(range(100, 200)))
        assert isinstance(caught.value.__cause__, OSError)
        # Such an error is never taken for one of the table's store: another base would not help.
        assert not isinstance(caught.value, StorageError | OSError)

    def test_a_file_size_that_is_not_allowed(self) -> None:
        code = """
import resource, signal
import pyarrow as pa
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.replay.seen.seen import SeenSet

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
seen = SeenSet(0)
seen.insert(pa.array([b"%d" % number for number in range(300)], pa.binary()))
try:
    seen.insert(pa.array([b"%d" % number for number in range(300, 700)], pa.binary()))
except TemporaryFileError as error:
    print(error)
"""
        run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert "File too large" in run.stdout
        assert not run.stderr

    @pytest.mark.parametrize("left", [0, 100])
    def test_a_file_that_is_cut_off(self, left: int) -> None:
        seen = SeenSet(0)
        seen.insert(numbered(range(100)))
        os.ftruncate(seen._seen.spilled[0]._file._file.fileno(), left)
        with pytest.raises(TemporaryFileError, match="lost its end"):
            seen.contains(numbered(range(100)))

    def test_a_file_that_cannot_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = SeenSet(0)
        seen.insert(numbered(range(100)))

        def broken(*_: object) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "pread", broken)
        with pytest.raises(TemporaryFileError, match="Input/output error"):
            seen.contains(numbered(range(100)))


class FullDisk:
    """A file that takes a few bytes."""

    def __init__(self) -> None:
        self.taken = 0

    def write(self, data: memoryview) -> int:
        if self.taken >= 300:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.taken += len(data[:100])
        return len(data[:100])

    def close(self) -> None:
        pass


def numbered(numbers: range) -> pa.BinaryArray:
    return pa.array([b"part-%d.parquet" % number for number in numbers], pa.binary())


def open_below(folder: Path) -> list[Path]:
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(entry.readlink())
    return [link for link in links if str(link).startswith(str(folder))]
