from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar.execute.json import line_blocks, parse_lines
from delta_sidecar.log.actions import KEYS_SCHEMA
from delta_sidecar.plan import LINE

PATIENTLY = settings(deadline=None)
SCHEMA = pa.schema([("a", pa.struct([("x", pa.int64()), ("s", pa.string())])), ("b", pa.string())])
CONTENT = st.binary(max_size=40) | st.lists(st.sampled_from([b"\n", b"ab", b"\r", b"{}"]), max_size=20).map(b"".join)


def chunked(content: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    return [content[start:end] for start, end in itertools.pairwise(places)]


@PATIENTLY
@given(content=CONTENT, cuts=st.lists(st.integers(0, 1_000), max_size=8), views=st.booleans())
def test_any_chunks_give_the_same_lines(content: bytes, cuts: list[int], *, views: bool) -> None:
    chunks = chunked(content, cuts)
    blocks = list(line_blocks(memoryview(chunk) if views else chunk for chunk in chunks))
    assert b"".join(blocks) == content
    assert all(blocks)
    assert all(block.endswith(b"\n") for block in blocks[:-1]), "only the last may be without its end"


def test_blocks_come_as_soon_as_they_are_whole() -> None:
    taken: list[bytes] = []

    def chunks() -> Any:  # noqa: ANN401
        for chunk in (b"a\nb", b"c\n", b"d"):
            taken.append(chunk)
            yield chunk

    blocks = line_blocks(chunks())
    assert next(blocks) == b"a\n"
    assert taken == [b"a\nb"]
    assert list(blocks) == [b"bc\n", b"d"]


def test_a_file_without_content_has_no_block() -> None:
    assert list(line_blocks(iter([]))) == []
    assert list(line_blocks(iter([b"", b""]))) == []


def parsed(text: str, *, lines: bool = True, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    batch = parse_lines(text.encode(), schema, lines=lines)
    assert batch is not None
    return batch


def test_rows_come_with_their_text() -> None:
    batch = parsed('{"a":{"x":1,"y":[2]}}\n{"b":"t","c":null}')
    assert batch.schema.names == ["a", "b", LINE]
    assert batch.to_pylist() == [
        {"a": {"x": 1, "s": None}, "b": None, LINE: '{"a":{"x":1,"y":[2]}}'},
        {"a": None, "b": "t", LINE: '{"b":"t","c":null}'},
    ]


def test_texts_are_left_out_where_they_are_not_wanted() -> None:
    batch = parsed('{"b":"t"}\n{"b":"u"}\n', lines=False)
    assert batch.column(LINE).null_count == 2
    assert batch.column("b").to_pylist() == ["t", "u"]


@pytest.mark.parametrize("text", ["", "\n", " \n\t\r\n ", "\r\n\r\n"])
def test_white_space_is_nothing(text: str) -> None:
    assert parse_lines(text.encode(), SCHEMA, lines=True) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "b": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "a": st.none() | st.fixed_dictionaries({"x": st.integers(-(2**63), 2**63 - 1)}),
        "c": VALUES.filter(lambda value: value is not None),
    },
)


@PATIENTLY
@given(
    rows=st.lists(ROWS, min_size=1, max_size=6),
    end=st.sampled_from(["\n", "\r\n", "\n\n", "\r\n\r\n", "\n \n", " \n\t\n"]),
    ascii_only=st.booleans(),
    last=st.booleans(),
)
def test_every_row_has_its_own_text(rows: list[dict[str, Any]], end: str, *, ascii_only: bool, last: bool) -> None:
    text = end.join(json.dumps(row, ensure_ascii=ascii_only) for row in rows) + (end if last else "")
    batch = parsed(text)
    assert [json.loads(line) for line in batch.column(LINE).to_pylist()] == rows
    assert batch.column("b").to_pylist() == [row.get("b") for row in rows]
    numbers = [None if row.get("a") is None else row["a"]["x"] for row in rows]
    assert [None if value is None else value["x"] for value in batch.column("a").to_pylist()] == numbers


@pytest.mark.parametrize(
    "text",
    ["{", "x", '{"a":1}', '{"b":1}', '{"a":{"x":"1"}}', '{"a":{"x":1.5}}', "[1]", "1", '{"b":"x"}}', '{"b":"x"} y'],
)
@pytest.mark.parametrize("lines", [False, True])
def test_what_is_not_of_the_schema_is_refused(text: str, *, lines: bool) -> None:
    for content in (text, '{"b":"ok"}\n' + text + "\n", text + '\n{"b":"ok"}\n'):
        with pytest.raises(pa.ArrowInvalid):
            parse_lines(content.encode(), SCHEMA, lines=lines)


@pytest.mark.parametrize("lines", [False, True])
def test_a_line_that_is_null_is_refused_and_a_text_with_it_is_not(*, lines: bool) -> None:
    for content in ("null", '{"b":"x"}\nnull', '{"b":"x"}\r\n\r\n \tnull\n{"b":"y"}', '{"b":"x"}\nnull{"b":"y"}'):
        with pytest.raises(pa.ArrowInvalid, match="not a JSON object"):
            parse_lines(content.encode(), SCHEMA, lines=lines)
    assert parsed('{"b":null}\n{"b":"\\nnull"}\n{}\n', lines=lines).column("b").to_pylist() == [None, "\nnull", None]


@pytest.mark.parametrize("content", [b'{"b":"\xff"}', b'{"b":"\xed\xa0\x80"}', b'{"b":"a\xc3"}'])
@pytest.mark.parametrize("lines", [False, True])
def test_texts_that_are_no_utf8_are_refused(content: bytes, *, lines: bool) -> None:
    with pytest.raises(pa.ArrowInvalid):
        parse_lines(content, SCHEMA, lines=lines)


@pytest.mark.parametrize("text", ['{"b":"x"}{"b":"y"}', ' \n{"b":"x"}{"b":"y"}\n', '{"b":"x"}{"b":"y"}\n\t\n{"b":"z"}'])
def test_two_objects_in_a_line_are_refused_where_texts_are_wanted(text: str) -> None:
    """Whose text would it be? Without texts both are rows."""
    with pytest.raises(pa.ArrowInvalid):
        parse_lines(text.encode(), SCHEMA, lines=True)
    assert parsed(text, lines=False).column("b").to_pylist()[:2] == ["x", "y"]


def test_a_very_long_line_is_one_row() -> None:
    text = json.dumps({"b": "x" * (20 << 20)})
    assert parsed(text).num_rows == 1
    assert parsed(text + "\n" + text, lines=False).num_rows == 2


def test_unknown_actions_are_rows_with_nothing_in_them() -> None:
    batch = parsed('{"future":{"path":"x"}}\n{"add":{"path":"a"}}', schema=KEYS_SCHEMA)
    assert batch.column("add").to_pylist()[0] is None
    assert batch.column("add").to_pylist()[1]["path"] == "a"
