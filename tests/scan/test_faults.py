"""Whatever goes wrong with a log: the right answer, or an error that names what is wrong. Never part of an answer."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add, deletion_vector, protocol, remove
from tests.scan.reading import STRATEGIES, agrees_with_model, keys_of, scan, scanner, store_of

from delta_sidecar import (
    CorruptCheckpointError,
    CorruptCommitError,
    DeltaSidecarError,
    LogCorruptionError,
    MissingCommitError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_sidecar.log.names import commit_path
from delta_sidecar.store.wrappers import (
    EmptyAfterOffset,
    Fail,
    FaultStore,
    Hide,
    IgnoreOffset,
    RecordingStore,
)
from delta_sidecar.store.wrappers.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from delta_sidecar import DeltaFile
    from delta_sidecar.store import Fetched, Store

V2 = protocol(features=["v2Checkpoint", "deletionVectors"])
KINDS = ["v1", "v1-multipart", "v2-json", "v2-parquet", "v2-classic"]
FIRST, LAST = 4, 7


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


def history(root: Path, kind: str = "v1", *, checksum: bool = False, **checkpoint: object) -> TableBuilder:
    """Gives a table with a checkpoint at version 3 and commits 4..7 after it."""
    table = TableBuilder(root, protocol=V2)
    for number in range(4):
        rows = [{"id": number * 10 + place, "value": f"v{number}"} for place in range(3)]
        table.commit([add(f"base-{number}.parquet", rows=rows), add(f"more%20{number}.parquet", rows=rows)])
    table.checkpoint(kind, **checkpoint)
    if checksum:
        table.checksum()
    for number in range(FIRST, LAST + 1):
        rows = [{"id": number * 10, "value": f"v{number}"}]
        vector = deletion_vector(f"dv-{number}")
        table.commit(
            [
                remove(f"base-{number - FIRST}.parquet"),
                add(f"tail-{number}.parquet", rows=rows),
                add(f"base-{number - FIRST}.parquet", rows=rows, dv=vector),
            ]
        )
    return table


def fails_without_seeming_complete(
    table: TableBuilder, error: type[DeltaSidecarError], store: Store | None = None, **config: object
) -> list[str]:
    """Asserts that every way to read a table fails; gives the messages."""
    messages = []
    for strategy in STRATEGIES:
        reader = scanner(table, store, strategy=strategy, **config)
        found: list[DeltaFile] = []
        with pytest.raises(error) as failure:
            found.extend(reader.scan_files())
        messages.append(str(failure.value))
        assert set(keys_of(found)) <= set(table.model_files())
        assert not reader.metrics.is_complete
        with pytest.raises(error):
            scanner(table, store, strategy=strategy, **config).scan_batches().read_all()
    return messages


# --- commits ---------------------------------------------------------------------------------------------------


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


# --- listings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checksum", [False, True])
def test_a_listing_without_the_newest_commit_gives_the_version_before(tmp_path: Path, *, checksum: bool) -> None:
    table = history(tmp_path, checksum=checksum)
    stale = FaultStore(store_of(table), Hide(f"*{LAST:020}.json"))
    assert scanner(table, stale).snapshot().version == LAST - 1
    for strategy in STRATEGIES:
        found = scan(table, stale, strategy=strategy)
        assert keys_of(found) == sorted(table.model_files(LAST - 1), key=repr)


@pytest.mark.parametrize("hidden", range(FIRST, LAST))
@pytest.mark.parametrize("hint", [True, False])
def test_a_commit_that_the_listing_skips_is_found_by_name(tmp_path: Path, hidden: int, *, hint: bool) -> None:
    table = history(tmp_path, last_checkpoint=hint)
    agrees_with_model(table, FaultStore(store_of(table), Hide(f"*{hidden:020}.json")))


@pytest.mark.parametrize("missing", range(FIRST, LAST))
def test_a_commit_that_is_nowhere_is_named(tmp_path: Path, missing: int) -> None:
    table = history(tmp_path)
    table.delete_commit(missing)
    for message in fails_without_seeming_complete(table, MissingCommitError):
        assert f"commit {missing} " in message


@pytest.mark.parametrize("rule", [IgnoreOffset(), EmptyAfterOffset()])
@pytest.mark.parametrize("version", [None, 0, 3, 5])
def test_listings_that_do_not_understand_offsets(
    tmp_path: Path, rule: IgnoreOffset | EmptyAfterOffset, version: int | None
) -> None:
    table = history(tmp_path)
    agrees_with_model(table, FaultStore(store_of(table), rule), version=version)


def test_an_offset_listing_without_the_checkpoint_is_made_again_in_full(tmp_path: Path) -> None:
    table = history(tmp_path)
    table.checkpoint()
    store = RecordingStore(FaultStore(store_of(table), Hide(f"*{LAST:020}.checkpoint.parquet")))
    agrees_with_model(table, store)
    assert store.paths("list") == ["_delta_log/"] * 4


def test_an_older_version_is_read_where_the_hint_has_no_base_for_it(tmp_path: Path) -> None:
    table = history(tmp_path)
    table.clean_up()
    table.checkpoint()
    table.last_checkpoint('{"version":5,"size":1}')
    agrees_with_model(table, version=6)


# --- _last_checkpoint ------------------------------------------------------------------------------------------

HINTS = {
    "missing": None,
    "empty": "",
    "not JSON": "{",
    "not an object": "[3]",
    "no version": "{}",
    "a text": '{"version":"3"}',
    "a fraction": '{"version":3.5}',
    "null": '{"version":null}',
    "true": '{"version":true}',
    "negative": '{"version":-1}',
    "stale": '{"version":0}',
    "without a checkpoint": '{"version":2}',
    "a version of the tail": '{"version":6}',
    "the future": '{"version":1000}',
    "huge": '{"version":99999999999999999999}',
    "beyond all names": '{"version":' + "9" * 40 + "}",
    "thousands of digits": '{"version":' + "9" * 5000 + "}",
    "nested": "[" * 100_000,
    "a megabyte and more": '{"version":3,"x":"' + "x" * (2 << 20) + '"}',
    "wrong parts": '{"version":3,"parts":17,"size":-1,"v2Checkpoint":{"path":"../x"}}',
}


@pytest.mark.parametrize("hint", HINTS)
def test_the_last_checkpoint_is_only_a_hint(tmp_path: Path, hint: str) -> None:
    table = history(tmp_path)
    table.last_checkpoint(HINTS[hint])
    agrees_with_model(table)
    agrees_with_model(table, version=5)


def test_a_last_checkpoint_that_is_not_text(tmp_path: Path) -> None:
    table = history(tmp_path)
    (table.log / "_last_checkpoint").write_bytes(b"\xff\xfe\x00\x00{")
    agrees_with_model(table)


# --- checkpoints -----------------------------------------------------------------------------------------------


def zero(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


def halved(path: Path) -> None:
    TableBuilder.tear(path, path.stat().st_size // 2)


def without_its_end(path: Path) -> None:
    TableBuilder.tear(path, -1)


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def garbage_footer(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-40:-8] = b"\xff" * 32
    path.write_bytes(data)


def huge_footer_length(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-8:-4] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)


DAMAGES = [zero, missing, halved, without_its_end, garbage, garbage_footer, huge_footer_length]


def damaged(tmp_path: Path, kind: str, victim: int, damage: Callable[[Path], None], **options: object) -> TableBuilder:
    table = history(tmp_path, kind, **options)
    paths = table.checkpoint(kind)
    damage(paths[victim])
    return table


def applies(kind: str, victim: int, damage: Callable[[Path], None]) -> bool:
    is_json = kind == "v2-json" and victim == -1
    return not (is_json and damage in (without_its_end, garbage_footer, huge_footer_length))


TORN = [
    pytest.param(kind, victim, damage, id=f"{kind}-{'top' if victim else 'leaf'}-{damage.__name__}")
    for kind in KINDS
    for victim in ((-1,) if kind == "v1" else (0, -1))
    for damage in DAMAGES
    if applies(kind, victim, damage)
]


@pytest.mark.parametrize(("kind", "victim", "damage"), TORN)
def test_a_torn_checkpoint_is_passed_over(
    tmp_path: Path, kind: str, victim: int, damage: Callable[[Path], None]
) -> None:
    table = damaged(tmp_path, kind, victim, damage)
    table.commit([add("newest.parquet"), remove("tail-4.parquet")])
    agrees_with_model(table)
    # With a checksum file the checkpoint is opened only once the tail has been given out.
    table.checksum()
    agrees_with_model(table)


@pytest.mark.parametrize(
    ("kind", "victim", "damage"), [case for case in TORN if case.values[2] in (zero, missing, halved)]
)
def test_a_torn_checkpoint_with_nothing_before_it_is_named(
    tmp_path: Path, kind: str, victim: int, damage: Callable[[Path], None]
) -> None:
    table = history(tmp_path, kind)
    for name in table.log.glob("*.checkpoint.*"):
        name.unlink()
    paths = table.checkpoint(kind)
    table.clean_up()
    table.commit([add("newest.parquet")])
    damage(paths[victim])
    listed = not (damage is missing and (kind == "v1" or victim == -1 or kind == "v1-multipart"))
    messages = fails_without_seeming_complete(table, CorruptCheckpointError if listed else DeltaSidecarError)
    if listed:
        for message in messages:
            assert paths[victim].name in message or paths[-1].name in message


@pytest.mark.parametrize("hint", [True, False])
def test_the_log_before_a_torn_checkpoint_may_be_gone_whatever_the_hint_says(tmp_path: Path, *, hint: bool) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    table.commit([add("b.parquet")])
    (path,) = table.checkpoint(last_checkpoint=hint)
    table.clean_up()
    table.commit([add("c.parquet")])
    halved(path)
    for message in fails_without_seeming_complete(table, CorruptCheckpointError):
        assert path.name in message


def test_the_second_of_two_checkpoints_of_one_version_is_used_where_the_first_is_torn(tmp_path: Path) -> None:
    table = history(tmp_path)
    (classic,) = table.checkpoint("v1")
    table.checkpoint("v2-parquet")
    table.clean_up()
    for name in table.log.glob(f"{3:020}.checkpoint.*"):
        name.unlink()
    halved(classic)
    agrees_with_model(table)


def test_every_checkpoint_torn_leaves_the_commits(tmp_path: Path) -> None:
    table = history(tmp_path)
    table.checkpoint("v1-multipart")
    table.commit([add("newest.parquet")])
    table.checkpoint("v2-json")
    for path in [*table.log.glob("*.checkpoint.*"), *table.log.glob("_sidecars/*")]:
        halved(path)
    agrees_with_model(table)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["v1", "v1-multipart", "v2-parquet"])
def test_a_checkpoint_that_breaks_in_the_middle_fails_and_is_named(tmp_path: Path, kind: str, strategy: str) -> None:
    table = TableBuilder(tmp_path, protocol=V2)
    rows = [{"id": 1, "value": "x"}]
    table.commit([add(f"{number:05}.parquet", rows=rows) for number in range(200)])
    paths = table.checkpoint(kind, row_group_rows=50)
    table.commit([add("tail.parquet")])
    victim = paths[0]
    _break_last_page(victim, "add.path")
    found: list[DeltaFile] = []
    with pytest.raises(CorruptCheckpointError, match=victim.name):
        found.extend(scanner(table, strategy=strategy).scan_files())
    assert set(keys_of(found)) < set(table.model_files())


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_out_of_reach_is_no_torn_one(tmp_path: Path, kind: str) -> None:
    table = history(tmp_path, kind)
    recording = RecordingStore(FaultStore(store_of(table), Fail("*.checkpoint.*", "get")))
    for strategy in STRATEGIES:
        with pytest.raises(DeltaSidecarError, match=r"checkpoint.*injected: 500"):
            scan(table, recording, strategy=strategy)
    assert commit_path(0) not in recording.paths("get")


@pytest.mark.parametrize(
    "named", ["../../x", "..%2F..%2Fx", "/etc/passwd", "file:///etc/passwd", "..", "", "a/../../b"]
)
@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet"])
def test_a_checkpoint_sidecar_outside_of_its_folder_is_not_read(tmp_path: Path, kind: str, named: str) -> None:
    table = history(tmp_path, kind)
    top = next(table.log.glob("*.checkpoint.*"))
    first = next((table.log / "_sidecars").iterdir())
    first.rename(tmp_path / "x")
    _rename_sidecar(top, first.name, named)
    store = RecordingStore(store_of(table))
    for strategy in STRATEGIES:
        try:
            found = scan(table, store, strategy=strategy)
        except DeltaSidecarError:
            continue
        assert keys_of(found) == sorted(table.model_files(), key=repr)
    assert all(path.startswith("_delta_log/") and ".." not in path.split("/")[:-1] for path in store.paths("get"))


def _break_last_page(path: Path, column: str) -> None:
    """Writes over the data of the last row group's chunk of a column: its footer stays whole."""
    metadata = pq.ParquetFile(path).metadata
    group = metadata.row_group(metadata.num_row_groups - 1)
    chunk = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == column)
    start = chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size // 2] = b"\xff" * (chunk.total_compressed_size // 2)
    path.write_bytes(data)


def _rename_sidecar(top: Path, name: str, new: str) -> None:
    if top.suffix == ".json":
        top.write_text(top.read_text().replace(json.dumps(name), json.dumps(new)))
        return
    schema = pq.read_schema(top)
    rows = pq.read_table(top).to_pylist()
    for row in rows:
        if row["sidecar"] and row["sidecar"]["path"] == name:
            row["sidecar"]["path"] = new
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), top)


# --- hostile commits -------------------------------------------------------------------------------------------


def with_lines(tmp_path: Path, content: bytes, *, at: int = 2) -> TableBuilder:
    """Gives a table of three commits of which one has this content."""
    table = TableBuilder(tmp_path)
    for number in range(3):
        table.commit([add(f"{number}.parquet")])
    table.commit_path(at).write_bytes(content)
    return table


def line(**fields: object) -> bytes:
    action = {"path": "new.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return json.dumps({"add": {**action, **fields}}).encode()


def paths_by_strategy(table: TableBuilder) -> list[list[str]]:
    return [sorted(file.path for file in scan(table, strategy=strategy)) for strategy in STRATEGIES]


TIDY = {
    "no last newline": (line(), ["new.parquet"]),
    "blank lines": (b"\n\n" + line() + b"\n\n\n" + line(path="b") + b"\n\n", ["b", "new.parquet"]),
    "blank lines and tags": (
        b"\n\n" + line(tags={"a": "b"}) + b"\n\n\n" + line(path="b") + b"\n\n",
        ["b", "new.parquet"],
    ),
    "white space in blank lines and tags": (b"  \n" + line(tags={"a": "b"}) + b"\n\t\n", ["new.parquet"]),
    "white space around a line with tags": (b"  " + line(tags={"a": "b"}) + b"  \n", ["new.parquet"]),
    "CRLF": (line() + b"\r\n" + line(path="b") + b"\r\n", ["b", "new.parquet"]),
    "CRLF and tags": (b"\r\n" + line(tags={"a": "b"}) + b"\r\n\r\n" + line(path="b") + b"\r\n", ["b", "new.parquet"]),
    "the same file twice": (line() + b"\n" + line(size=2) + b"\n", ["new.parquet"]),
    "unknown actions": (b'{"futureAction":{"x":[1,{"y":null}]}}\n{"cdc":{"path":"c"}}\n' + line(), ["new.parquet"]),
    "unknown fields": (line(future={"a": [1, 2]}, more=None), ["new.parquet"]),
    "null actions": (b'{"add":null,"remove":null}\n' + line(), ["new.parquet"]),
    "empty object": (b"{}\n" + line(), ["new.parquet"]),
    "deeply nested and unknown": (b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n" + line(), ["new.parquet"]),
    "a line of 20 MB": (line(stats="x" * (20 << 20)), ["new.parquet"]),
    "a line of 20 MB with tags": (line(tags={"a": "x" * (20 << 20)}), ["new.parquet"]),
    "percent without digits": (line(path="100%.parquet") + b"\n" + line(path="a%2"), ["100%.parquet", "a%2"]),
    "escapes that are no UTF-8": (line(path="a%FFb") + b"\n" + line(path="c%20d"), ["a%FFb", "c d"]),
    "an escaped NUL": (line(path="a%00b"), ["a\0b"]),
    "NUL in JSON": (line(path="a\0b"), ["a\0b"]),
    "quotes and commas": (line(path='a"b,c\\.parquet', tags={'q"': ',{"tags":{}}'}), ['a"b,c\\.parquet']),
}


@pytest.mark.parametrize("case", TIDY)
def test_odd_commits_are_read(tmp_path: Path, case: str) -> None:
    content, expected = TIDY[case]
    table = with_lines(tmp_path, content)
    assert paths_by_strategy(table) == [sorted(["0.parquet", "1.parquet", *expected])] * 2


def test_blank_lines_do_not_matter_beside_protocol_and_metadata(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    lines = table.commit_path(0).read_bytes().splitlines()
    table.commit_path(0).write_bytes(b"\r\n \r\n" + b"\r\n\r\n\t\r\n".join(lines))
    assert [file.path for file in scan(table)] == ["a.parquet"]


BROKEN = {
    "nothing": b"",
    "only white space": b"\n \n\t",
    "no path": line(path=None),
    "no fields": b'{"add":{}}',
    "a remove without a path": b'{"remove":{"dataChange":true}}',
    "size is a text": line(size="1"),
    "size is a fraction": line(size=1.5),
    "size beyond all numbers": line(size=10**30),
    "path is a number": line(path=7),
    "path is an object": line(path={"a": "b"}),
    "add is a list": b'{"add":[1]}',
    "add is a text": b'{"add":"x"}',
    "stats is an object": line(stats={"numRecords": 1}),
    "deletion vector is a text": line(deletionVector="x"),
    "a list": b"[1,2]",
    "a number": b"42",
    "not JSON": b"hello",
    "an unfinished object": b'{"add":{"path":"x"',
    "an unfinished text": b'{"add":{"path":"x',
    "NUL bytes": b"\0" * 100,
    "NUL bytes at the end": line() + b"\n" + b"\0" * 100,
    "a NUL byte in a text": b'{"add":{"path":"a\0b","size":1}}',
    "a control character in a text": b'{"add":{"path":"a\x01b","size":1,"tags":{}}}',
    "bytes that are no UTF-8": b'{"add":{"path":"\xff\xfe","size":1}}',
    "deeply nested and unfinished": b'{"add":' + b"[" * 200_000,
    "UTF-16": line().decode().encode("utf-16"),
    "gzip": b"\x1f\x8b\x08\x00" + b"\x01\x02" * 50,
}


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("case", BROKEN)
def test_broken_commits_are_named(tmp_path: Path, case: str, at: int) -> None:
    table = with_lines(tmp_path, BROKEN[case] + b"\n", at=at)
    for strategy in STRATEGIES:
        with pytest.raises(LogCorruptionError, match=f"commit {at} "):
            scan(table, strategy=strategy)


def paths_or_version(table: TableBuilder, strategy: str = "reverse") -> set[str] | int:
    """Gives the paths that a scan finds, or the version of the commit that it refuses."""
    try:
        return {file.path for file in scan(table, strategy=strategy)}
    except CorruptCommitError as error:
        return error.version


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_byte_order_mark_is_read_or_refused_but_never_hides_an_action(tmp_path: Path, strategy: str) -> None:
    table = with_lines(tmp_path, b"\xef\xbb\xbf" + line(tags={"a": "b"}) + b"\n")
    assert paths_or_version(table, strategy) in ({"0.parquet", "1.parquet", "new.parquet"}, 2)


@pytest.mark.parametrize("tags", [{}, {"tags": {"a": "b"}}])
def test_two_objects_in_a_line_are_both_read_or_refused(tmp_path: Path, tags: dict[str, Any]) -> None:
    table = with_lines(tmp_path, line(**tags) + line(path="b") + b"\n")
    assert paths_or_version(table) in ({"0.parquet", "1.parquet", "new.parquet", "b"}, 2)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_statistics_that_are_garbage_keep_their_files(tmp_path: Path, strategy: str) -> None:
    texts = ["", " ", "{", "null", "[]", "7", '{"numRecords":1}{"numRecords":2}', " ", '"x"', "{}\n{}", "\0", "NaN"]
    table = TableBuilder(tmp_path, schema={"id": "long"})
    table.commit([add(f"{number}.parquet", stats=text) for number, text in enumerate(texts)])
    table.commit([add("in.parquet", rows=[{"id": 5}]), add("out.parquet", rows=[{"id": 6}])])
    expected = {f"{number}.parquet" for number in range(len(texts))} | {"in.parquet"}
    assert {file.path for file in scan(table, predicate="id = 5", strategy=strategy)} == expected


def test_statistics_stay_with_their_file_where_one_text_holds_two_objects(tmp_path: Path) -> None:
    def bounds(value: int) -> str:
        return f'{{"numRecords":1,"minValues":{{"id":{value}}},"maxValues":{{"id":{value}}},"nullCount":{{"id":0}}}}'

    table = TableBuilder(tmp_path, schema={"id": "long"})
    texts = [bounds(1) + bounds(1), bounds(5), " "]
    table.commit([add(f"{number}.parquet", stats=text) for number, text in enumerate(texts)])
    assert "1.parquet" in {file.path for file in scan(table, predicate="id = 5")}


def in_a_process_of_its_own(table: TableBuilder, **config: object) -> str:
    """Scans in another process, which may crash; gives the paths, or the error's class."""
    program = (
        "import json, sys\n"
        "from delta_sidecar import DeltaSidecarError, LazyDeltaScanner, LazyScanConfig\n"
        "scanner = LazyDeltaScanner(sys.argv[1], LazyScanConfig(**json.loads(sys.argv[2])))\n"
        "try:\n    print(*sorted(file.path for file in scanner.scan_files()))\n"
        "except DeltaSidecarError as error:\n    print(type(error).__name__, error)\n"
    )
    command = [sys.executable, "-c", program, table.root, json.dumps(config)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"the process ended with {done.returncode}: {done.stderr[-300:]}"
    return done.stdout.strip()


@pytest.mark.parametrize("text", [" null", "null\n{}"])
def test_statistics_that_are_null_keep_their_file(tmp_path: Path, text: str) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long"})
    table.commit([add("a.parquet", stats=text)])
    assert in_a_process_of_its_own(table, predicate="id = 5") == "a.parquet"


@pytest.mark.parametrize("content", [b"null", b"\n null\n" + line()])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_commit_that_begins_with_null_does_not_end_the_process(tmp_path: Path, content: bytes, strategy: str) -> None:
    table = with_lines(tmp_path, content)
    said = in_a_process_of_its_own(table, strategy=strategy)
    expected = "0.parquet 1.parquet" + (" new.parquet" if b"add" in content else "")
    assert said == expected or (said.startswith("CorruptCommitError") and "commit 2 " in said)


# --- hostile folders -------------------------------------------------------------------------------------------


def test_a_commit_of_an_absurd_version_is_an_error_at_once(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    (table.log / ("9" * 20 + ".json")).write_text("{}")
    program = (
        "import sys\n"
        "from delta_sidecar import LazyDeltaScanner, MissingCommitError\n"
        "try:\n    list(LazyDeltaScanner(sys.argv[1]).scan_files())\n"
        "except MissingCommitError as error:\n    sys.exit(0 if error.version == 1 else 3)\n"
    )

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))

    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], check=False, timeout=20, capture_output=True, preexec_fn=bounded
    )
    assert done.returncode == 0, done.stderr.decode()[-500:]


def test_what_is_no_part_of_a_log_is_passed_over(tmp_path: Path) -> None:
    table = history(tmp_path)
    for name in (
        ".00000000000000000005.json.crc",
        "00000000000000000009.json.tmp",
        "00000000000000000009.checkpoint.parquet.tmp",
        "00000000000000000009.00000000000000000012.compacted.json",
        "00000000000000000009.checkpoint.0000000001.0000000002.parquet",
        "_staged_commits/00000000000000000008.aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee.json",
        "0000000000000000009.json",
        "000000000000000000009.json",
        "00000000000000000009.JSON",
        "readme.txt",
        "_commits/00000000000000000009.json",
    ):
        path = table.log / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"not for you")
    agrees_with_model(table)


def test_no_log_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        scan(TableBuilder(tmp_path))
    with pytest.raises(VersionNotFoundError, match="newest is 7"):
        scan(history(tmp_path / "t"), version=8)
