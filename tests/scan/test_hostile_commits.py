"""Commits whose content is odd or hostile: read as everybody reads them, or refused by their version."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add
from tests.scan.reading import STRATEGIES, scan

from delta_sidecar import CorruptCommitError, LogCorruptionError

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.full
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
def test_broken_commits_are_named(tmp_path: Path, at: int, subtests: pytest.Subtests) -> None:
    for case, content in BROKEN.items():
        with subtests.test(case):
            table = with_lines(tmp_path / case, content + b"\n", at=at)
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


@pytest.mark.full
@pytest.mark.parametrize("content", [b"null", b"\n null\n" + line()])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_commit_that_begins_with_null_does_not_end_the_process(tmp_path: Path, content: bytes, strategy: str) -> None:
    table = with_lines(tmp_path, content)
    said = in_a_process_of_its_own(table, strategy=strategy)
    expected = "0.parquet 1.parquet" + (" new.parquet" if b"add" in content else "")
    assert said == expected or (said.startswith("CorruptCommitError") and "commit 2 " in said)
