"""What holds for every store: local, memory, Azure by key, signature and token, S3 and Google Cloud."""

from __future__ import annotations

import pickle
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.recorded_log import RecordedLog
from tests.store.credentials import Credential
from tests.store.google_server import GoogleServer

from delta_sidecar.errors import ObjectExistsError, ObjectNotFoundError, StorageError
from delta_sidecar.store import RequestLog, ScanCancelledError, TripClock, open_store, remote, run_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.azurite import Azurite
    from tests.moto_server import Moto

    from delta_sidecar.store import Store

NAMES = ["a%20b", "x=1 2", "é", "[", "#", "a?b", "a+b", "ts=00%3A00%3A00", "日本", "%", "%zz", "a&b=c", "~", "'"]


@pytest.fixture(scope="module")
def google() -> Iterator[GoogleServer]:
    with GoogleServer() as server:
        yield server


@pytest.fixture(params=["local", "memory", "key", "sas", "sas-url", "token", "s3", "gs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    kind: str = request.param
    if kind == "local":
        return open_store(tmp_path / "table #1%20")
    if kind == "memory":
        return open_store(f"memory://{uuid.uuid4().hex}/some/table")
    if kind == "s3":
        moto: Moto = request.getfixturevalue("moto")
        return open_store(f"s3://{moto.create_bucket()}/some/table", moto.options)
    if kind == "gs":
        google: GoogleServer = request.getfixturevalue("google")
        return open_store(f"gs://b{uuid.uuid4().hex}/some/table", google.options)
    if kind == "token":
        secure: Azurite = request.getfixturevalue("secure_azurite")
        address = f"az://{secure.create_container()}/some/table"
        return open_store(address, secure.secure_options, credential=Credential())
    azurite: Azurite = request.getfixturevalue("azurite")
    container = azurite.create_container()
    if kind == "key":
        return open_store(f"az://{container}/some/table", azurite.options)
    if kind == "sas":
        options = {"ACCOUNT_NAME": azurite.account, "endpoint": azurite.endpoint}
        return open_store(
            f"abfss://{container}/some/table/", {**options, "sas_token": azurite.container_sas(container)}
        )
    return open_store(f"{azurite.endpoint}/{container}/some%20table?{azurite.container_sas(container)}")


def paths(store: Store, prefix: str = "", after: str | None = None) -> list[str]:
    return sorted(meta.path for page in store.list(prefix, after=after) for meta in page)


def test_reads_what_was_written(store: Store) -> None:
    put = store.put("_delta_log/0.json", b"hello world")
    got = store.get("_delta_log/0.json")
    assert bytes(got.data) == b"hello world"
    assert (got.size, got.e_tag) == (11, put.e_tag)
    assert pa.py_buffer(got.data).size == 11


def test_first_bytes_tell_the_whole_size(store: Store) -> None:
    store.put("f.json", b"hello world")
    got = store.get("f.json", max_bytes=5)
    assert (bytes(got.data), got.size) == (b"hello", 11)
    more = store.get("f.json", max_bytes=500)
    assert (bytes(more.data), more.size) == (b"hello world", 11)


def test_an_empty_object_has_no_first_bytes(store: Store) -> None:
    store.put("empty.json", b"")
    got = store.get("empty.json", max_bytes=4096)
    assert (bytes(got.data), got.size) == (b"", 0)


@pytest.mark.parametrize("bad", [0, -1])
def test_max_bytes_must_be_positive(store: Store, bad: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        store.get("f", max_bytes=bad)


def test_a_range_is_exact(store: Store) -> None:
    store.put("f.bin", bytes(range(100)))
    assert bytes(store.get_range("f.bin", 10, 20)) == bytes(range(10, 20))
    assert bytes(store.get_range("f.bin", 99, 100)) == b"c"
    assert bytes(store.get_range("f.bin", 7, 7)) == b""


@pytest.mark.parametrize("wanted", [(90, 101), (100, 110), (500, 600)])
def test_a_range_beyond_the_end_is_an_error(store: Store, wanted: tuple[int, int]) -> None:
    store.put("f.bin", bytes(100))
    with pytest.raises(StorageError, match=r"f\.bin"):
        store.get_range("f.bin", *wanted)
    with pytest.raises(StorageError, match=r"f\.bin"):
        store.get_ranges("f.bin", [(0, 1), wanted])


@pytest.mark.parametrize("wanted", [(-1, 5), (5, 4)])
def test_an_impossible_range_is_refused(store: Store, wanted: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not a range"):
        store.get_range("f.bin", *wanted)


def test_ranges_come_in_the_order_asked_for_in_one_trip(store: Store) -> None:
    data = bytes(i % 251 for i in range(3_000_000))
    store.put("f.bin", data)
    log = RequestLog()
    wanted = [(2_900_000, 2_900_010), (0, 10), (5, 20), (1_500_000, 1_500_500), (0, 0)]
    parts = run_in(TripClock(), lambda: store.bind(log).get_ranges("f.bin", wanted))
    assert [bytes(part) for part in parts] == [data[start:end] for start, end in wanted]
    assert log.snapshot().trips == 1
    assert log.snapshot().gets >= 3
    assert store.get_ranges("f.bin", []) == []


def test_a_missing_object_is_not_found(store: Store) -> None:
    for ask in (store.get, store.head):
        with pytest.raises(ObjectNotFoundError, match=r"nope\.json"):
            ask("nope.json")
    with pytest.raises(FileNotFoundError):
        store.get_range("nope.json", 0, 10)


def test_a_folder_is_not_an_object(store: Store) -> None:
    store.put("folder/f.json", b"x")
    with pytest.raises(ObjectNotFoundError):
        store.get("folder")
    with pytest.raises(ObjectNotFoundError):
        store.head("folder")


def test_paths_stay_below_the_root(store: Store, subtests: pytest.Subtests) -> None:
    for path in ("../secret", "a/../b", "/etc/passwd", "", "a//b", "./a", "a/"):
        with subtests.test(path), pytest.raises(StorageError, match="not a path below"):
            store.get(path)


def test_put_does_not_overwrite_unless_asked(store: Store) -> None:
    store.put("f.json", b"one")
    with pytest.raises(ObjectExistsError, match=r"f\.json.*already there"):
        store.put("f.json", b"two")
    assert bytes(store.get("f.json").data) == b"one"
    store.put("f.json", b"three", overwrite=True)
    assert bytes(store.get("f.json").data) == b"three"


def test_delete_removes(store: Store) -> None:
    store.put("f.json", b"x")
    store.delete("f.json")
    assert paths(store) == []
    store.delete("f.json")


def test_head_list_and_put_agree(store: Store) -> None:
    put = store.put("d/f.json", b"four")
    (page,) = store.list("d/")
    assert page == [store.head("d/f.json")]
    assert (page[0].path, page[0].size, page[0].e_tag) == ("d/f.json", 4, put.e_tag)
    assert page[0].e_tag is not None
    assert '"' not in page[0].e_tag
    assert abs(page[0].last_modified - put.last_modified) < 60_000


def test_listing_is_recursive_and_only_below_the_folder(store: Store) -> None:
    for name in ("_delta_log/1.json", "_delta_log/_sidecars/x.parquet", "_delta_log2/1.json", "f.parquet"):
        store.put(name, b"x")
    assert paths(store, "_delta_log/") == ["_delta_log/1.json", "_delta_log/_sidecars/x.parquet"]
    assert paths(store, "_delta_log") == paths(store, "_delta_log/")
    assert len(paths(store)) == 4


def test_a_missing_folder_lists_nothing(store: Store) -> None:
    assert paths(store, "_delta_log/") == []
    assert paths(store, "_delta_log/", after="_delta_log/5") == []


def test_listing_after_a_path(store: Store) -> None:
    names = ["l/0.json", "l/1.json", "l/2.json", "l/_sidecars/v1", "l/_last.json", "l/a/b.json"]
    for name in names:
        store.put(name, b"x")
    for after in ["", *names, "l/1", "l/1.json.", "l/_sidecars/", "l/_sidecars/v0", "l/zzz", "k", "m"]:
        assert paths(store, "l/", after=after) == sorted(name for name in names if name > after), after


def test_folder_markers_are_not_listed(store: Store) -> None:
    store.put("l/_staged_commits", b"")
    store.put("l/00.json", b"")
    store.put("l/_last_checkpoint", b"{}")
    assert paths(store, "l/") == ["l/00.json", "l/_last_checkpoint"]


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_names_are_taken_as_they_are(store: Store, name: str) -> None:
    path = f"p={name}/{name}.bin"
    store.put(path, name.encode())
    assert paths(store) == [path]
    assert bytes(store.get(path).data) == name.encode()
    assert bytes(store.get_range(path, 0, 1)) == name.encode()[:1]
    assert store.head(path).path == path
    assert paths(store, f"p={name}/", after=f"p={name}/") == [path]
    store.delete(path)
    assert paths(store) == []


def test_requests_are_counted(store: Store) -> None:
    log = RecordedLog()
    bound = store.bind(log)
    bound.put("f.bin", b"12345")
    bound.get("f.bin")
    bound.get_range("f.bin", 1, 3)
    bound.head("f.bin")
    list(bound.list(""))
    with pytest.raises(ObjectNotFoundError):
        bound.get("nope")
    bound.delete("f.bin")
    counts = log.snapshot()
    assert (counts.gets, counts.lists, counts.heads, counts.puts, counts.deletes) == (3, 1, 1, 1, 1)
    assert counts.requests == 7
    assert counts.bytes == 5 + 5 + 2
    assert [(r.kind, r.moved) for r in log.records][1:3] == [("get", 5), ("get", 2)]
    assert [r.trip - log.records[0].trip for r in log.records] == list(range(7))


def test_a_cancelled_view_asks_nothing_more(store: Store) -> None:
    store.put("f.bin", b"12345")
    log = RequestLog()
    bound = store.bind(log)
    listing = bound.list("")
    log.cancel()
    for ask in (
        lambda: bound.get("f.bin"),
        lambda: bound.get_range("f.bin", 0, 1),
        lambda: bound.get_ranges("f.bin", [(0, 1)]),
        lambda: bound.head("f.bin"),
        lambda: next(listing),
        lambda: bound.put("g.bin", b"x"),
        lambda: bound.delete("f.bin"),
    ):
        with pytest.raises(ScanCancelledError):
            ask()
    assert log.snapshot().requests == 0
    assert bytes(store.get("f.bin").data) == b"12345"


def test_stores_pickle(store: Store) -> None:
    store.put("f.bin", b"12345")
    copy = pickle.loads(pickle.dumps(store.bind(RequestLog())))  # noqa: S301 - its own pickle
    assert copy.url == store.url
    assert bytes(copy.get("f.bin").data) == b"12345"


def test_the_url_has_no_slash_at_its_end(store: Store) -> None:
    assert not store.url.endswith("/")
    assert "?" not in store.url


@pytest.fixture(params=["small", "large"])
def uploaded(request: pytest.FixtureRequest, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file of some blocks, which counts as small or as large."""
    if request.param == "large":
        if store.url.startswith("gs://"):
            pytest.skip("the stand-in for Google Cloud takes no uploads in blocks")
        monkeypatch.setattr(remote, "LARGE_FILE", 1 << 20)
        monkeypatch.setattr(remote, "_BLOCK", 5 << 20)
    file = tmp_path / "source.bin"
    file.write_bytes(bytes(range(256)) * 50_000)
    return file


@pytest.mark.full
def test_a_file_is_written_whole_and_stays(store: Store, uploaded: Path) -> None:
    written = store.put_file("_delta_log/_sidecars/v1.parquet", str(uploaded))
    assert written.size == 12_800_000
    assert bytes(store.get("_delta_log/_sidecars/v1.parquet").data) == uploaded.read_bytes()
    assert paths(store) == ["_delta_log/_sidecars/v1.parquet"]


@pytest.mark.full
def test_a_file_does_not_replace_an_object_unasked(store: Store, uploaded: Path) -> None:
    store.put("v1.parquet", b"first")
    with pytest.raises(ObjectExistsError, match=r"v1\.parquet"):
        store.put_file("v1.parquet", str(uploaded))
    assert bytes(store.get("v1.parquet").data) == b"first"
    assert paths(store) == ["v1.parquet"]
    store.put_file("v1.parquet", str(uploaded), overwrite=True)
    assert store.head("v1.parquet").size == 12_800_000


def test_a_file_that_is_not_there_cannot_be_written(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        store.put_file("v1.parquet", str(tmp_path / "nothing"))
    assert paths(store) == []
