"""Commits that are JSON and not Delta's format: refused by their version, with nothing of them lost on the way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add
from tests.scan.reading import STRATEGIES, scan
from tests.scan.small_history import V2

from delta_sidecar import CorruptCheckpointError, CorruptCommitError

if TYPE_CHECKING:
    from pathlib import Path


def with_lines(tmp_path: Path, content: bytes, *, at: int = 1) -> TableBuilder:
    """Gives a table of three commits of which one has this content."""
    table = TableBuilder(tmp_path)
    for number in range(3):
        table.commit([add(f"{number}.parquet")])
    table.commit_path(at).write_bytes(content)
    return table


def line(action: dict[str, Any]) -> bytes:
    return json.dumps(action).encode()


GOOD, TAGGED = line(add("new.parquet")), line(add("new.parquet", tags={"a": "b"}))
OUT_OF_FORMAT = {
    "null": b"null\n",
    "null after a line": GOOD + b"\nnull\n",
    "null before a line": b"null\n" + GOOD,
    "null between lines": TAGGED + b"\n null \r\n" + GOOD + b"\n",
    "null without an end": GOOD + b"\n\n\t null",
    "null and an object": GOOD + b"\nnull" + GOOD,
    "no path": line({"add": {"size": 1}}),
    "an empty path": line(add("")),
    "an empty path among others": GOOD + b"\n" + line(add("")) + b"\n" + TAGGED,
    "a remove without a path": line({"remove": {"dataChange": True}}),
    "a remove with an empty path": line({"remove": {"path": "", "dataChange": True}}),
    "tags are a text": line({"add": {"path": "x", "size": 1, "tags": "a"}}),
    "tags are a list": line({"add": {"path": "x", "size": 1, "tags": ["a"]}}),
    "tags are a number": line({"add": {"path": "x", "size": 1, "tags": 7}}),
    "tags too deep to be read": b'{"add":{"path":"x","size":1,"tags":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}}",
    "tags under an escaped name": rb'{"add":{"path":"x","size":1,"\u0074ags":{"a":"b"}}}',
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", OUT_OF_FORMAT)
def test_what_is_out_of_format_is_refused_by_its_version(tmp_path: Path, case: str, strategy: str) -> None:
    table = with_lines(tmp_path, OUT_OF_FORMAT[case])
    with pytest.raises(CorruptCommitError) as refused:
        scan(table, strategy=strategy)
    error, message = refused.value, str(refused.value)
    assert error.version == 1
    assert f"{table.root} cannot be read: commit 1 (_delta_log/{1:020}.json)" in message
    assert "Restore the file, or read a version before it." in message
    assert len(message) < 500
    met: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        assert cause not in met, "an error that is its own cause has no end"
        met.append(cause)
        cause = cause.__cause__
    assert len(met) > 1


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "content",
    [
        b"\n" + GOOD + b"\n\n \r\n",
        line({"commitInfo": {"a": None}}) + b"\n" + GOOD,
        line(add("new.parquet", stats="null", tags={"a": "null", "null": None})),
        line(add("new.parquet", stats="\nnull\n")),
        b'{"add":null}\n' + GOOD,
    ],
)
def test_empty_lines_and_nulls_inside_are_fine(tmp_path: Path, content: bytes, strategy: str) -> None:
    table = with_lines(tmp_path, content)
    assert {file.path for file in scan(table, strategy=strategy)} == {"0.parquet", "new.parquet", "2.parquet"}


# --- tags: a map of texts ---

TAGS: dict[str, tuple[str, dict[str, str | None]]] = {
    "texts": ('{"a":"b","c":null}', {"a": "b", "c": None}),
    "nothing": ("{}", {}),
    "an object": ('{"a":{"b":[1,"x"]},"c":"d"}', {"a": '{"b": [1, "x"]}', "c": "d"}),
    "a list": ('{"a":["}"]}', {"a": '["}"]'}),
    "a number": ('{"a":7,"b":"7"}', {"a": "7", "b": "7"}),
    "a boolean": ('{"a":true}', {"a": "true"}),
    "escapes": (r'{"a\"":"\u0041","n":{}}', {'a"': "A", "n": "{}"}),
    "quotes and braces": (r'{"q\"":",{\"tags\":{}}"}', {'q"': ',{"tags":{}}'}),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", TAGS)
def test_tags_are_texts_and_what_is_none_comes_as_its_json(tmp_path: Path, case: str, strategy: str) -> None:
    text, expected = TAGS[case]
    action = '{"add":{"path":"new","size":1,"modificationTime":1,"partitionValues":{},"tags":%s}}'
    content = "\n".join([action % text, (action % text).replace("new", "other").replace('"tags":', '"tags" : '), "{}"])
    table = with_lines(tmp_path, content.encode() + b"\n" + GOOD)
    tags = {file.path: file.tags for file in scan(table, strategy=strategy)}
    assert tags == {"0.parquet": None, "2.parquet": None, "new.parquet": None, "new": expected, "other": expected}


def test_tags_of_something_else_are_not_the_file_s(tmp_path: Path) -> None:
    inner = {"tags": {"not": "these"}}
    lines = [add("none", future=inner), {"add": {"future": inner, **add("some", tags={"a": "b"})["add"]}}]
    table = with_lines(tmp_path, b"\n".join(map(line, lines)))
    tags = {file.path: file.tags for file in scan(table)}
    assert (tags["none"], tags["some"]) == (None, {"a": "b"})


@pytest.mark.parametrize("deep", [False, True])
def test_tags_in_a_json_checkpoint(tmp_path: Path, *, deep: bool) -> None:
    table = TableBuilder(tmp_path, protocol=V2)
    table.commit([add("a", tags={"k": "v"}), add("b")])
    (path,) = table.checkpoint("v2-json", sidecars=0)
    table.clean_up(inclusive=True)
    other = '{"n":%s}' % ("[" * 50_000 + "]" * 50_000 if deep else '{"x":1}')
    path.write_text(path.read_text().replace('{"k":"v"}', other))
    if deep:
        with pytest.raises(CorruptCheckpointError, match=path.name):
            scan(table)
    else:
        assert {file.path: file.tags for file in scan(table)} == {"a": {"n": '{"x": 1}'}, "b": None}
