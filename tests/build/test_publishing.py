"""What is in the table after a build: the same bytes every time, one good sidecar whatever goes wrong."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from tests.build.checked import hours
from tests.build.reading_back import read_back, scanned_files
from tests.builder import TableBuilder, add

from delta_sidecar import LazyDeltaScanner
from delta_sidecar.build import build as assembling
from delta_sidecar.build import build_sidecar
from delta_sidecar.build.build import SortMemoryError
from delta_sidecar.build.publish import Levels, put_row_groups
from delta_sidecar.errors import DeltaSidecarError, StorageError, TemporaryFileError
from delta_sidecar.log.names import part_name
from delta_sidecar.sidecar.layout import PlannedLayout, SidecarLayout
from delta_sidecar.sidecar.manifest import SidecarFile, decode_manifest, decode_segment, encode_manifest
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import Fail, FaultStore, RecordingStore
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.build import BuildSummary
    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.store.testing import Attempt

SMALL: dict[str, Any] = {"threads": 1, "rows_per_group": 4}
TWO_LEVELS: dict[str, Any] = SMALL | {"levels": Levels(2, 3, 2)}


def folder(root: Path) -> dict[str, bytes]:
    """Names and bytes of everything in the folder of sidecars."""
    return {path.name: path.read_bytes() for path in (root / "_delta_log" / "_sidecars").glob("*")}


def clear(root: Path) -> None:
    for path in (root / "_delta_log" / "_sidecars").glob("*"):
        path.unlink()


def built(root: Path, **options: Any) -> BuildSummary:  # noqa: ANN401 - any option
    summary = build_sidecar(root, **SMALL | options)
    assert read_back(root, summary.version).files() == scanned_files(root, summary.version)
    return summary


@pytest.fixture
def root(tmp_path: Path) -> Path:
    table = hours(tmp_path / "table", 14)
    table.checkpoint()
    table.commit([add("late", partition_values={"_event_hour": "2026021023"})])
    return table.root


@pytest.mark.parametrize("options", [SMALL, TWO_LEVELS], ids=["one level", "two levels"])
def test_the_same_table_gives_the_same_bytes(root: Path, options: dict[str, Any]) -> None:
    build_sidecar(root, **options)
    first = folder(root)
    clear(root)
    build_sidecar(root, **options | {"threads": 3, "memory_limit": "128MB"})
    assert folder(root) == first


def test_rows_too_large_to_sort_give_the_same_bytes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built(root)
    first = folder(root)
    clear(root)
    monkeypatch.setattr(assembling, "sort_threads", lambda *_: 0)
    built(root)
    assert folder(root) == first


def test_rows_that_prove_too_large_are_read_again(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built(root)
    first = folder(root)
    clear(root)
    original = assembling.write_pieces
    calls = []

    def fails_once(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as it is
        calls.append(args)
        if len(calls) == 1:
            msg = "too large"
            raise SortMemoryError(msg)
        return original(*args, **kwargs)

    monkeypatch.setattr(assembling, "write_pieces", fails_once)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    built(root, temp_directory=temporary)
    assert len(calls) == 2
    assert folder(root) == first
    assert list(temporary.iterdir()) == []


def test_what_is_there_and_good_is_not_built_again(root: Path) -> None:
    built(root)
    before = folder(root)
    store = RecordingStore(open_store(root))
    again = build_sidecar(root, store=store, **SMALL)
    assert again.already_there
    assert (again.files, again.kept_texts) == (15, None)
    assert store.paths("put") == []
    assert folder(root) == before


@pytest.mark.parametrize(
    "other", [{"sort": "id"}, {"summaries": ["id"]}, {"rows_per_group": 5}, {"bucket_column": "none"}], ids=str
)
def test_another_layout_is_built_beside_it(root: Path, other: dict[str, Any]) -> None:
    built(root)
    before = folder(root)
    summary = built(root, **other)
    after = folder(root)
    assert not summary.already_there
    assert summary.file != "v14.parquet"
    assert after["v14.parquet"] == before["v14.parquet"]
    assert built(root, **other).already_there
    # And back again, onto the data file that is still there.
    assert built(root).file == "v14.parquet"
    assert folder(root) == after | {"v14.manifest.json": before["v14.manifest.json"]}


@pytest.mark.parametrize("damage", ["cut", "emptied", "another", "not JSON", "bit"])
def test_a_manifest_that_is_broken_is_written_again(root: Path, damage: str) -> None:
    built(root)
    before = folder(root)
    whole = before["v14.manifest.json"]
    other = whole.replace(b'"num_files":15', b'"num_files":14')
    texts = {
        "cut": whole[:100],
        "emptied": b"",
        "another": other,
        "not JSON": b"\xff\xfe",
        "bit": whole[:-9] + b"\0" + whole[-8:],
    }
    (root / "_delta_log" / "_sidecars" / "v14.manifest.json").write_bytes(texts[damage])
    assert not built(root).already_there
    assert folder(root) == before


@pytest.mark.parametrize("place", ["index", "statistics", "cut"])
def test_a_data_file_that_is_damaged_is_built_again_under_another_name(root: Path, place: str) -> None:
    built(root)
    group = read_back(root, 14).groups[1]
    path = root / "_delta_log" / "_sidecars" / "v14.parquet"
    data = bytearray(path.read_bytes())
    if place == "cut":
        del data[-10:]
    else:
        data[(group.byte_offset if place == "index" else group.stats_offset) + 50] ^= 1
    path.write_bytes(data)
    damaged = path.read_bytes()
    summary = built(root)
    assert (summary.already_there, summary.file == "v14.parquet") == (False, False)
    assert path.read_bytes() == damaged
    # One damaged again is passed over too.
    (root / "_delta_log" / "_sidecars" / summary.file).write_bytes(damaged)
    third = built(root)
    assert third.file == summary.file.replace("00000-0", "00000-1")


def test_a_data_file_that_is_gone_is_built_again(root: Path) -> None:
    built(root)
    before = folder(root)
    (root / "_delta_log" / "_sidecars" / "v14.parquet").unlink()
    assert not built(root).already_there
    assert folder(root) == before


def test_another_table_in_the_same_place_is_not_mistaken(root: Path) -> None:
    built(root)
    commit = root / "_delta_log" / f"{14:020}.json"
    commit.write_text(commit.read_text().replace("late", "lateX"))
    assert not built(root).already_there


def puts(root: Path, options: dict[str, Any]) -> list[str]:
    """What a build writes, in order."""
    store = RecordingStore(open_store(root))
    build_sidecar(root, store=store, **options)
    found = store.paths("put")
    clear(root)
    return found


def answer(root: Path) -> list[str]:
    return sorted(file.raw_path for file in LazyDeltaScanner(root).scan_files())


@pytest.mark.full
@pytest.mark.parametrize("options", [SMALL, TWO_LEVELS], ids=["one level", "two levels"])
@pytest.mark.parametrize("before", [False, True], ids=["nothing there", "an older sidecar there"])
def test_a_build_that_is_cut_off_at_any_write(root: Path, options: dict[str, Any], *, before: bool) -> None:
    written = puts(root, options)
    assert written[-1].endswith("v14.manifest.json")
    assert len(written) == (3 if options is TWO_LEVELS else 2)
    build_sidecar(root, **options)
    whole = folder(root)
    expected = answer(root)
    for number in range(1, len(written) + 1):
        clear(root)
        if before:
            build_sidecar(root, version=10, **options)
        cut = FaultStore(open_store(root), Fail(kind="put", first=number, error=StorageError("cut")))
        with pytest.raises(StorageError, match="cut"):
            build_sidecar(root, store=cut, **options)
        assert len([name for name in folder(root) if name.startswith("v14")]) == number - 1
        assert answer(root) == expected
        build_sidecar(root, **options)
        assert whole.items() <= folder(root).items()
        assert read_back(root, 14).files() == scanned_files(root)


def test_a_build_whose_reads_fail_writes_nothing(root: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    reads = RecordingStore(open_store(root))
    build_sidecar(root, store=reads, **SMALL)
    clear(root)
    count = len(reads.paths("get"))
    failed = 0
    for number in range(1, count + 1):
        broken = FaultStore(open_store(root), Fail(kind="get", first=number, error=StorageError("no answer")))
        try:
            build_sidecar(root, store=broken, temp_directory=temporary, **SMALL)
        except DeltaSidecarError:
            failed += 1
            assert folder(root) == {}
        clear(root)
        assert list(temporary.iterdir()) == []
    assert failed >= count - 1


def test_two_builds_at_once_give_one_sidecar(root: Path) -> None:
    build_sidecar(root, **SMALL)
    whole = folder(root)
    clear(root)
    # Both have looked and found nothing before either of them writes.
    ready = threading.Barrier(2, timeout=120)
    waited: set[int] = set()

    def together(attempt: Attempt) -> None:
        if attempt.kind == "put" and threading.get_ident() not in waited:
            waited.add(threading.get_ident())
            ready.wait()

    found: list[BuildSummary | BaseException] = []

    def run() -> None:
        try:
            found.append(build_sidecar(root, store=RecordingStore(open_store(root), together), **SMALL))
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            found.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [getattr(each, "file", each) for each in found] == ["v14.parquet", "v14.parquet"]
    assert folder(root) == whole


def test_two_builds_at_once_of_other_layouts_give_a_good_one(root: Path) -> None:
    # The other one is through, with all of it, when the first one comes to write its data file.
    def meanwhile(attempt: Attempt) -> None:
        if attempt.kind == "put" and attempt.path.endswith("/v14.parquet"):
            build_sidecar(root, **SMALL | {"summaries": ["id"]})

    summary = build_sidecar(root, store=RecordingStore(open_store(root), meanwhile), **SMALL)
    assert summary.file != "v14.parquet"
    assert read_back(root, 14).manifest.summaries == (("at",),)
    assert read_back(root, 14).files() == scanned_files(root)
    assert len(folder(root)) == 3


def test_the_temporary_folder_is_always_removed(root: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    seen: list[str] = []

    def watch(progress: Any) -> None:  # noqa: ANN401 - a `BuildProgress`
        seen.extend(path.name for path in temporary.iterdir())
        if progress.stage == "writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_sidecar(root, temp_directory=temporary, progress=watch, **SMALL)
    assert seen
    assert list(temporary.iterdir()) == []
    assert folder(root) == {}


def test_a_temporary_folder_that_is_not_there(root: Path, tmp_path: Path) -> None:
    with pytest.raises(TemporaryFileError, match=r"no temporary folder can be made in .*nowhere"):
        build_sidecar(root, temp_directory=tmp_path / "nowhere", **SMALL)


def test_a_large_manifest_gets_a_second_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(f"{number:0200}") for number in range(60)])
    monkeypatch.setattr("delta_sidecar.build.publish.LARGEST_DOCUMENT", 8_000)
    assert built(tmp_path, rows_per_group=1).row_groups == 60
    assert read_back(tmp_path, 0).manifest.segments


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The manifest of a telemetry table, with row groups of few rows."""
    root = tmp_path_factory.mktemp("telemetry")
    TelemetryLog(files=1_000, tail_commits=0).write(root)
    return read_back(root, build_sidecar(root, rows_per_group=10).version).manifest


@pytest.mark.parametrize("parts", [1, 400], ids=["one file", "400 parts"])
@pytest.mark.parametrize("count", [513, 1_000, 10_000])
def test_a_manifest_is_small_at_any_size(tmp_path: Path, telemetry: Manifest, count: int, parts: int) -> None:
    """10,000 row groups are 100 million files."""
    real, index, statistics = telemetry.row_groups, 356_034, 282_147
    assert len(real) == 100
    # Numbers are as long as those of large row groups are.
    groups = tuple(
        replace(
            real[number % len(real)],
            index=number,
            num_rows=10_000,
            byte_offset=number * index,
            byte_length=index,
            stats_offset=count * index + number * statistics,
            stats_length=statistics,
        )
        for number in range(count)
    )
    names = [part_name(telemetry.version, "0123456789abcdef", part, 1_000 + part) for part in range(1, parts)]
    body = replace(
        telemetry,
        num_files=count * 10_000,
        sidecar_size_bytes=count * (index + statistics) + 5_000_000,
        other_files=tuple(SidecarFile(name, 160_000_000) for name in names),
    )
    laid_out = SidecarLayout.of(telemetry, "it")
    layout = PlannedLayout(laid_out.schema, laid_out.order, "time")
    store = open_store(tmp_path)
    made = put_row_groups(store, tmp_path, body, groups, layout, Levels())
    data = encode_manifest(made)
    assert len(data) < 100_000
    read = decode_manifest(data)
    assert 32 <= len(read.row_groups) <= 64
    assert max(segment.num_row_groups for segment in read.segments) == 128
    path = f"_delta_log/_sidecars/{read.files[-1].name}"
    found = [
        group
        for each in read.segments
        for group in decode_segment(
            bytes(store.get_range(path, each.byte_offset, each.byte_offset + each.byte_length)), each, read
        )
    ]
    assert (*found, *read.row_groups) == groups


def test_a_segments_file_of_another_build_is_left_alone(root: Path) -> None:
    build_sidecar(root, **TWO_LEVELS)
    before = folder(root)
    build_sidecar(root, **TWO_LEVELS | {"rows_per_group": 2})
    after = folder(root)
    assert after["v14.segments.json"] == before["v14.segments.json"]
    assert sorted(name.count(".") for name in after if "segments" in name) == [2, 3]
    assert read_back(root, 14).files() == scanned_files(root)
