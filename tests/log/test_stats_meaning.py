"""What it means that two texts of statistics say the same."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder.meaning import meaning

from delta_sidecar.log import stats_text as stats_meaning
from delta_sidecar.log.stats import parse_members
from delta_sidecar.log.stats_text import STATS_FORMATS, choose_stats_format, say_the_same
from delta_sidecar.sidecar.rows import native_statistics, read_statistics, rebuilt_texts

COLUMNS: dict[tuple[str, ...], pa.DataType | None] = {
    ("i",): pa.int32(),
    ("f",): pa.float64(),
    ("f32",): pa.float32(),
    ("s",): pa.string(),
    ("at",): pa.timestamp("us", "UTC"),
    ("clock",): pa.timestamp("us"),
    ("day",): pa.date32(),
    ("price",): pa.decimal128(20, 4),
    ("flag",): pa.bool_(),
    ("bytes",): None,
    ("n", "x"): pa.int64(),
    ("n", "y"): pa.string(),
}


def low(values: str) -> str:
    return f'{{"numRecords":1,"minValues":{{{values}}}}}'


EQUAL = [
    (
        "the order of members",
        '{"nullCount":{"i":0,"f":1},"numRecords":1}',
        '{"numRecords":1,"nullCount":{"f":1,"i":0}}',
    ),
    ("the order of nested members", low('"n":{"y":"q","x":1},"i":2'), low('"i":2,"n":{"x":1,"y":"q"}')),
    ("white space", low('"i" : 1 ,\n "f":2.5'), low('"i":1,"f":2.5')),
    ("a fraction of zero in a double", low('"f":1'), low('"f":1.0')),
    ("an exponent", low('"f":1E7'), low('"f":10000000.0')),
    ("digits that 64 bits do not have", low('"f":0.1000000000000000055511151231257827'), low('"f":0.1')),
    ("zeros at the end of a decimal", low('"price":1.5'), low('"price":1.5000')),
    ("the exponent of a decimal", low('"price":15e-1'), low('"price":1.5000')),
    ("escapes", low(r'"s":"\u00e9\/"'), low('"s":"é/"')),
    ("a pair of surrogates", low(r'"s":"\ud83d\ude00"'), low('"s":"😀"')),
    ("zeros behind the second", low('"at":"2024-01-01T00:00:00Z"'), low('"at":"2024-01-01T00:00:00.000Z"')),
    ("microseconds", low('"at":"2024-01-01T00:00:00.123Z"'), low('"at":"2024-01-01T00:00:00.123000Z"')),
    ("another zone", low('"at":"2024-01-01T05:30:00+05:30"'), low('"at":"2024-01-01T00:00:00.000Z"')),
    (
        "what is between date and time",
        low('"clock":"2024-01-01 00:00:00.120"'),
        low('"clock":"2024-01-01T00:00:00.12"'),
    ),
    ("a null", low('"i":null,"f":1.0'), low('"f":1.0')),
    ("an empty object", '{"numRecords":1,"minValues":{},"nullCount":{"n":{}}}', '{"numRecords":1}'),
    ("a null bound of a column that has none", low('"bytes":null,"i":1'), low('"i":1')),
]
DIFFERENT = [
    ("another number", low('"i":1'), low('"i":2')),
    ("a missing member", low('"i":1,"f":1.0'), low('"i":1')),
    ("a member more", low('"i":1'), low('"i":1,"f":1.0')),
    ("minus zero", low('"f":-0.0'), low('"f":0.0')),
    ("the next double", low('"f":0.30000000000000004'), low('"f":0.3')),
    ("32 bits in the digits of 64", low('"f32":0.1'), low('"f32":0.10000000149011612')),
    ("an unknown column", low('"other":1,"i":1'), low('"i":1')),
    ("an unknown null", low('"other":null,"i":1'), low('"i":1')),
    ("an unknown nested column", low('"n":{"x":1,"z":1}'), low('"n":{"x":1}')),
    ("an unknown member", '{"numRecords":1,"other":{"a":[1]}}', '{"numRecords":1}'),
    ("a member twice", '{"numRecords":1,"numRecords":1}', '{"numRecords":1}'),
    ("a nested member twice", low('"i":1,"i":1'), low('"i":1')),
    ("a fraction of a whole number", low('"i":1.0'), low('"i":1')),
    ("a number in quotes", low('"i":"1"'), low('"i":1')),
    ("NaN", low('"f":"NaN","i":1'), low('"i":1,"f":"NaN"')),
    ("NaN without quotes", low('"f":NaN'), low('"f":"NaN"')),
    ("digits that a decimal does not have", low('"price":1.50001'), low('"price":1.5000')),
    ("nanoseconds", low('"at":"2024-01-01T00:00:00.123456789Z"'), low('"at":"2024-01-01T00:00:00.123456Z"')),
    ("a millisecond that is cut", low('"at":"2024-01-01T00:00:00.123456Z"'), low('"at":"2024-01-01T00:00:00.123Z"')),
    ("no zone", low('"at":"2024-01-01T00:00:00.000"'), low('"at":"2024-01-01T00:00:00.000Z"')),
    ("a zone", low('"clock":"2024-01-01T00:00:00.000Z"'), low('"clock":"2024-01-01T00:00:00.000"')),
    ("a date in the place of a timestamp", low('"clock":"2024-01-01"'), low('"clock":"2024-01-01T00:00:00.000"')),
    ("another way to write a date", low('"day":"20240101"'), low('"day":"2024-01-01"')),
    ("half a pair of surrogates", low(r'"s":"\ud800"'), low('"s":"?"')),
    ("bounds of a column that has none", low('"bytes":"a"'), '{"numRecords":1}'),
    ("an array", '{"numRecords":1,"minValues":[]}', '{"numRecords":1}'),
    ("a value for an object", low('"n":5'), '{"numRecords":1}'),
    ("more than one object", '{"numRecords":1}{"numRecords":1}', '{"numRecords":1}'),
    ("more behind it", '{"numRecords":1}x', '{"numRecords":1}'),
    ("no object", "[]", '{"numRecords":1}'),
    ("torn", '{"numRecords":1', '{"numRecords":1}'),
    ("nothing", "", '{"numRecords":1}'),
]


@pytest.mark.parametrize(("text", "other"), [pair[1:] for pair in EQUAL], ids=[pair[0] for pair in EQUAL])
def test_what_is_equal(text: str, other: str) -> None:
    assert same([text], [other]) == [True]


@pytest.mark.parametrize(("text", "other"), [pair[1:] for pair in DIFFERENT], ids=[pair[0] for pair in DIFFERENT])
def test_what_is_not(text: str, other: str) -> None:
    assert same([text], [other]) == [False]


def test_one_text_does_not_decide_for_others() -> None:
    pairs = [*EQUAL, *DIFFERENT, *EQUAL]
    expected = [True] * len(EQUAL) + [False] * len(DIFFERENT) + [True] * len(EQUAL)
    assert same([text for _, text, _ in pairs], [other for _, _, other in pairs]) == expected


def test_no_text_says_the_same_as_none() -> None:
    assert same([None, '{"numRecords":1}', None, "{}"], ['{"numRecords":1}', None, None, None]) == [False] * 4


@pytest.mark.parametrize(
    "deep", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000], ids=["lists", "objects"]
)
@pytest.mark.parametrize(
    "member", ['"other"', '"minValues"', '"numRecords"', '"nullCount":{"i"', '"minValues":{"bytes"']
)
def test_a_text_may_nest_as_deep_as_it_likes(member: str, deep: str) -> None:
    text = f"{{{member}:{deep}}}" + "}" * member.count("{")
    assert same([text, '{"numRecords":1}'], ['{"numRecords":1}'] * 2) == [False, True]


@pytest.mark.parametrize("value", ['"1"', "1.5", '1,"other":2'])
def test_texts_that_are_all_out_of_form_are_not_read_one_by_one(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = counted_reads(monkeypatch)
    texts = pa.array([low(f'"i":{value}')] * 3_000)
    _, kept = native_statistics(texts, COLUMNS, "spark")
    assert kept.equals(texts)
    # One, and two for each of 64 slices that were halved.
    assert len(reads) <= 129
    reads.clear()
    assert choose_stats_format(texts, read_statistics(texts, COLUMNS), COLUMNS) == "spark"
    assert len(reads) <= 129


def test_moments_that_are_all_out_of_form_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = counted_reads(monkeypatch)
    texts = pa.array([low('"at":"2024-01-01T00:00:00.123456789Z"')] * 3_000)
    others = pa.array([low('"at":"2024-01-01T00:00:00.123456Z"')] * 3_000)
    assert not say_the_same(texts, others, COLUMNS).any()
    assert len(reads) <= 2 * 129


def test_a_few_texts_out_of_form_are_found_among_many() -> None:
    texts = [low('"f":1,"i":1')] * 3_000
    odd = [7, 1_500, 1_501, 2_999]
    for place in odd:
        texts[place] = low('"i":"1"')
    _, kept = native_statistics(pa.array(texts), COLUMNS, "spark")
    assert [place for place, text in enumerate(kept.to_pylist()) if text is not None] == odd


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each call that reads texts to compare them."""
    reads: list[int] = []

    def counted(texts: pa.StringArray, columns: Any) -> pa.StructArray:  # noqa: ANN401
        reads.append(len(texts))
        return parse_members(texts, columns)

    monkeypatch.setattr(stats_meaning, "parse_members", counted)
    return reads


def same(texts: list[str | None], others: list[str | None]) -> list[bool]:
    return say_the_same(pa.array(texts, pa.string()), pa.array(others, pa.string()), COLUMNS).tolist()


# --- what a builder keeps, by another reading of the same texts -----------------------------------------------------

moments = st.sampled_from(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.120Z", "2024-01-01T01:00:00.123456+01:00"])
clocks = st.sampled_from(["2024-01-01 00:00:00", "2024-01-01T00:00:00.12", "2024-01-01T00:00:00.123456"])
floats = st.floats(allow_nan=False, allow_infinity=False)
bounds = st.fixed_dictionaries(
    {},
    optional={
        "i": st.integers(-(2**31), 2**31 - 1),
        "f": floats,
        "f32": st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from([0.1, 0.15]),
        "s": st.text(st.characters(codec="utf-8"), max_size=4),
        "at": moments,
        "clock": clocks,
        "day": st.dates().map(str),
        "price": st.sampled_from([1, 1.5, 0.0001, -2.25, 0.00001]),
        "flag": st.booleans() | st.none(),
        "n": st.fixed_dictionaries({}, optional={"x": st.integers(-9, 9), "y": st.text(max_size=2)}),
        "other": st.integers(),
    },
)
counts = st.dictionaries(st.sampled_from(["i", "f", "bytes", "flag"]), st.integers(0, 9))
documents = st.fixed_dictionaries(
    {"numRecords": st.integers(0, 9)},
    optional={"minValues": bounds, "maxValues": bounds, "nullCount": counts, "tightBounds": st.booleans()},
)


@given(
    documents=st.lists(documents, min_size=1, max_size=4),
    stats_format=st.sampled_from(list(STATS_FORMATS)),
    data=st.data(),
)
def test_what_comes_back_says_the_same(documents: list[Any], stats_format: str, data: st.DataObject) -> None:
    texts = [json.dumps(shuffled(document, data), ensure_ascii=data.draw(st.booleans())) for document in documents]
    found, kept = native_statistics(pa.array(texts), COLUMNS, stats_format)
    rebuilt = rebuilt_texts(found, len(texts), stats_format).to_pylist()
    for text, own, other in zip(texts, kept.to_pylist(), rebuilt, strict=True):
        assert own in (None, text)
        assert (own is None) == (other is not None and meaning(text) == meaning(other)), (text, other)


def shuffled(document: Any, data: st.DataObject) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(document, dict):
        return document
    return {name: shuffled(document[name], data) for name in data.draw(st.permutations(list(document)))}
