"""Texts of statistics, rebuilt from native columns: they say what the writers' texts said, or those are kept."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder.meaning import meaning

from delta_sidecar.build.live_rows import RowMaker
from delta_sidecar.log.stats import uniform_statistics
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT, STATS_FORMATS, choose_stats_format, statistics_text
from delta_sidecar.log.values import ARROW, JAVA, RUST, struct_text, value_text
from delta_sidecar.sidecar.layout import PlannedLayout
from delta_sidecar.sidecar.order import SidecarOrder
from delta_sidecar.sidecar.rows import native_statistics, read_statistics, stats_texts
from delta_sidecar.sidecar.schema import SidecarSchema

if TYPE_CHECKING:
    from delta_sidecar.log.stats import FileStatistics

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
    ("n", 'q"ü'): pa.int64(),
    ("n", "deep", "x"): pa.string(),
}
SCHEMA = SidecarSchema(None, (), None, COLUMNS)

SPARK = (
    '{"numRecords":3,"minValues":{"i":1,"f":1.0E-7,"f32":0.1,"s":"a\\"\\n\\u001F\\u0000/é","at":"2026-02-10T22:00:00.000Z",'
    '"clock":"2026-02-10T22:00:00.120","day":"2026-02-10","price":1.5000,"n":{"q\\"ü":-5,"deep":{"x":""}}},'
    '"maxValues":{"i":2,"f":1.0E10,"f32":16777.0,"s":"é","at":"2026-02-10T22:00:00.123Z","clock":"9999-12-31T23:59:59.999",'
    '"day":"2026-02-10","price":0.0001,"n":{"q\\"ü":9223372036854775807,"deep":{}}},'
    '"nullCount":{"i":1,"f":0,"f32":0,"s":1,"at":0,"clock":0,"day":0,"price":0,"flag":0,"bytes":2,'
    '"n":{"q\\"ü":0,"deep":{"x":0}}},"tightBounds":true}'
)

EMPTY = '{"numRecords":0,"minValues":{"n":{"deep":{}}},"maxValues":{"n":{"deep":{}}},"nullCount":{"n":{"deep":{}}}}'
PLAIN = SPARK.replace('a\\"\\n\\u001F\\u0000/é', "aé")
ALIKE = [PLAIN, PLAIN, PLAIN.replace("9999", "1999"), PLAIN.replace("1.0E10", "NaN"), SPARK, EMPTY]
DELTALAKE = (
    '{"numRecords":1,"minValues":{"at":"2026-02-10T22:00:00Z","n":{"deep":{}}},'
    '"maxValues":{"clock":"2026-02-10 22:00:00.120","n":{"deep":{}}},"nullCount":{"f":0,"n":{"deep":{}}}}'
)


def kept_and_given_back(texts: list[str | None], stats_format: str) -> tuple[list[str | None], list[str | None]]:
    """What is kept of texts as text, and what is given back of all of them."""
    maker = RowMaker(PlannedLayout(SCHEMA, SidecarOrder((), {}), ""), frozenset(), stats_format)
    actions = pa.RecordBatch.from_pydict(
        {"path": pa.array([str(number) for number in range(len(texts))]), "stats": pa.array(texts, pa.string())}
    )
    rows = maker.rows(actions)
    return rows.column("stats_json").to_pylist(), stats_texts(rows, SCHEMA, stats_format).to_pylist()


@pytest.mark.parametrize(
    ("text", "stats_format"),
    [
        (SPARK, "spark"),
        (EMPTY, "spark"),
        ('{"numRecords":5}', "spark-sparse"),
        ('{"nullCount":{"f":1}}', "spark-sparse"),
        ('{"minValues":{"n":{"deep":{"x":"z"}}},"tightBounds":false}', "spark-sparse"),
        (DELTALAKE, "deltalake"),
    ],
)
def test_what_a_writer_writes_is_rebuilt(text: str, stats_format: str) -> None:
    assert kept_and_given_back([text], stats_format) == ([None], [text])
    texts = pa.array([text])
    assert choose_stats_format(texts, read_statistics(texts, COLUMNS), COLUMNS) == stats_format


def test_structs_of_checkpoints_are_rebuilt() -> None:
    bounds = {
        "i": pa.int32(),
        "f": pa.float64(),
        "f32": pa.float32(),
        "at": pa.timestamp("us", "UTC"),
        "s": pa.string(),
    }
    kind = pa.struct(
        {
            "numRecords": pa.int64(),
            "minValues": pa.struct(bounds),
            "maxValues": pa.struct(bounds),
            "nullCount": pa.struct(dict.fromkeys(bounds, pa.int64())),
            "tightBounds": pa.bool_(),
        }
    )
    low = {"i": 1, "f": 1e300, "f32": 0.1, "at": 1_000_001, "s": "\\"}
    structs = pa.array(
        [
            {
                "numRecords": 1,
                "minValues": low,
                "maxValues": {"f": math.inf},
                "nullCount": {"s": 5},
                "tightBounds": True,
            },
            None,
        ],
        kind,
    )
    texts = struct_text(structs)
    columns = {(name,): column for name, column in bounds.items()}
    stats = read_statistics(texts, columns)
    assert choose_stats_format(texts, stats, columns) == "arrow"
    assert statistics_text(stats, 2, "arrow")[0].as_py() == texts[0].as_py()


@pytest.mark.parametrize("stats_format", STATS_FORMATS)
def test_what_cannot_be_rebuilt_is_kept(stats_format: str) -> None:
    odd = [
        "",
        "{}",
        "null",
        "[1]",
        "{torn",
        '{"numRecords":3.0}',
        '{"numRecords":99999999999999999999}',
        '{"numRecords":"3"}',
        '{"numRecords":3,"numRecords":4}',
        '{"numRecords":1,"minValues":{"unknown":1},"maxValues":{"unknown":1},"nullCount":{"unknown":0}}',
        '{"minValues":{"at":"2026-02-10T22:00:00.1234567Z"}}',
        '{"minValues":{"n":5}}',
        '{"minValues":[]}',
        "{" * 2_000,
        '{"numRecords":1}\n{"numRecords":2}',
    ]
    kept, given_back = kept_and_given_back([*odd, None, '{"numRecords":7}'], stats_format)
    assert given_back[:-1] == [*odd, None]
    assert meaning(given_back[-1]) == {"numRecords": 7}
    assert kept == [*odd, None, None]
    for text in odd:
        # One by one as well, where no other text decides how it is read.
        assert kept_and_given_back([text], stats_format)[1] == [text]


numbers = st.integers(-(2**63), 2**63 - 1) | st.floats() | st.sampled_from([0, 1, -1, 2**31, 1e7, 1e-3, 1e16, -0.0])
values = (
    numbers
    | st.text(max_size=8)
    | st.sampled_from(["2026-02-10T22:00:00.000Z", "2026-02-10 22:00:00", "2026-02-10", "NaN", "Infinity", "-1.5"])
    | st.booleans()
    | st.none()
)
names = st.sampled_from([*{path[0] for path in COLUMNS}, "x", "deep", 'q"ü', "unknown"])
objects = st.dictionaries(names, values | st.dictionaries(names, values, max_size=3), max_size=5)
documents = st.fixed_dictionaries(
    {},
    optional={
        "numRecords": st.integers(0, 9) | values,
        "minValues": objects,
        "maxValues": objects,
        "nullCount": objects | st.dictionaries(names, st.integers(0, 9), max_size=5),
        "tightBounds": st.booleans() | values,
        "unknown": values,
    },
)


@st.composite
def odd_texts(draw: st.DrawFn) -> str | None:
    """Texts as a careful writer, a careless one and nobody would write them."""
    document: Any = draw(documents | values)
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps(document, ensure_ascii=draw(st.booleans()), separators=separators)
    return draw(st.sampled_from([text, text, text, text[:-1], None]))


@given(
    texts=st.lists(odd_texts(), max_size=3),
    usual=st.lists(
        st.sampled_from([SPARK, EMPTY, SPARK.replace("1.0E10", "NaN"), SPARK.replace("9999", "1999")]), max_size=6
    ),
    stats_format=st.sampled_from(list(STATS_FORMATS)),
    data=st.data(),
)
def test_a_text_is_read_the_same_among_others_and_by_itself(
    texts: list[str | None], usual: list[str], stats_format: str, data: st.DataObject
) -> None:
    column = pa.array(data.draw(st.permutations([*texts, *usual])), pa.string())
    together, kept = native_statistics(column, COLUMNS, stats_format)
    parsed = read_statistics(column, COLUMNS)
    for row in range(len(column)):
        alone, own = native_statistics(column.slice(row, 1), COLUMNS, stats_format)
        assert kept.slice(row, 1).to_pylist() == own.to_pylist()
        assert listed(together, row) == listed(alone, 0) == listed(parsed, row)


def test_uniform_texts_are_read_as_others_are() -> None:
    text = PLAIN.replace(',"deep":{}', "")
    texts = pa.array([text, text.replace("9999", "1999")] * 100)
    guess, parsed = uniform_statistics(texts, COLUMNS, STATS_FORMATS["spark"]), read_statistics(texts, COLUMNS)
    assert guess is not None
    assert guess.num_records.equals(parsed.num_records)
    for path, column in guess.columns.items():
        for side in ("lower", "upper", "null_count"):
            found, expected = getattr(column, side), getattr(parsed.columns[path], side)
            assert expected is None or expected.null_count == len(texts) if found is None else found.equals(expected)


USUAL = (
    '{"numRecords":13,"minValues":{"i":1,"f":11.02,"s":"abc","at":"2026-02-10T22:00:00.000Z"},'
    '"maxValues":{"i":2,"f":11.0,"s":"é","at":"2026-02-10T22:00:00.123Z"},"nullCount":{"i":0,"f":0,"s":0,"at":0}}'
)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ('"numRecords"', '"numrecords"'),
        ('{"i":1', '{"j":1'),
        ("13", "-0"),
        ("13", "03"),
        ("13", "99999999999999999"),
        ("11.02", "11.20"),
        ("11.02", "011.2"),
        ("11.02", "1.1E1"),
        ("11.02", "-0.25"),
        ("11.02", "0.1000000000000000055"),
        ("abc", 'a\\"c'),
        ("abc", "a,c"),
        ("abc", "a\tc"),
        ("22:00:00.000Z", "22:00:00.0000"),
        ("22:00:00.000Z", "22:00:00.000z"),
        ("22:00:00.000Z", "22:00:00Z"),
        ("22:00:00.000Z", "22:00:00.000000Z"),
        ("T22:00:00.000Z", " 22:00:00.000Z"),
        ("T22:00:00.000Z", "T22:00:60.000Z"),
        ('"at":0}}', '"at":0} '),
        ('"at":0}}', '"at":0}} '),
        ('"nullCount"', ' "nullCount"'),
        ('"i":0,"f":0', '"f":0,"i":0'),
    ],
)
def test_one_odd_text_among_many_is_found(part: str, other: str) -> None:
    odd, row = USUAL.replace(part, other, 1), 4_500
    assert odd != USUAL
    column = pa.array([USUAL] * row + [odd] + [USUAL] * 9, pa.string())
    together, kept = native_statistics(column, COLUMNS, "spark")
    for at in (0, row, row + 1):
        one = column.slice(at, 1)
        alone, own = native_statistics(one, COLUMNS, "spark")
        assert listed(together, at) == listed(alone, 0) == listed(read_statistics(one, COLUMNS), 0)
        assert kept.slice(at, 1).to_pylist() == own.to_pylist()


def listed(stats: FileStatistics, row: int) -> list[str]:
    columns = [[column.lower, column.upper, column.null_count] for column in stats.columns.values()]
    every = [stats.num_records, stats.tight, *(each for column in columns for each in column)]
    return [str(None if each is None else each[row]) for each in every]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"numRecords":5',
        '{"numRecords":5}}',
        '{"unknown":5}',
        '{"numRecords":x}',
        '{"minValues":{"s":5}}',
    ],
)
def test_what_is_out_of_form_tells_nothing_of_others(text: str) -> None:
    texts = pa.array([text, '{"numRecords":5}'])
    stats, kept = native_statistics(texts, COLUMNS, "spark-sparse")
    assert stats.num_records[1].as_py() == 5
    assert kept.to_pylist() == [text, None]


@given(texts=st.lists(odd_texts(), min_size=1, max_size=6), stats_format=st.sampled_from(list(STATS_FORMATS)))
def test_whatever_a_text_is_it_comes_back(texts: list[str | None], stats_format: str) -> None:
    kept, given_back = kept_and_given_back(texts, stats_format)
    assert [text if own is not None else None for text, own in zip(texts, kept, strict=True)] == kept
    assert list(map(meaning, given_back)) == list(map(meaning, texts))


@st.composite
def statistics(draw: st.DrawFn) -> str:
    """Statistics as Delta on Spark writes them, of some of the columns."""
    chosen = draw(st.lists(st.sampled_from(["i", "s", "day"]), unique=True))
    value = {"i": st.integers(-(2**31), 2**31 - 1), "s": st.text(), "day": st.dates().map(str)}
    ordered = [name for name in ("i", "s", "day") if name in chosen]
    low, high = ({name: draw(value[name]) for name in ordered} for _ in range(2))
    counts = {name: draw(st.integers(0, 9)) for name in ordered}
    document = {"numRecords": draw(st.integers(0, 2**40)), "minValues": low, "maxValues": high, "nullCount": counts}
    return json.dumps(
        {name: each for name, each in document.items() if each != {}}, ensure_ascii=False, separators=(",", ":")
    )


@given(texts=st.lists(statistics(), min_size=1, max_size=4))
def test_nothing_is_kept_of_what_can_be_rebuilt(texts: list[str]) -> None:
    kept, given_back = kept_and_given_back(texts, "spark-sparse")
    assert list(map(meaning, given_back)) == list(map(meaning, texts))
    assert [text for text in kept if text is not None] == []


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_every_way_to_write_a_number_says_the_same(value: float) -> None:
    for style in (JAVA, RUST, ARROW):
        (text,) = value_text(pa.array([value]), style).to_pylist()
        assert json.loads(text) == value


@pytest.mark.parametrize(
    ("value", "java", "rust"),
    [
        (0.0, "0.0", "0.0"),
        (-0.0, "-0.0", "-0.0"),
        (1.0, "1.0", "1.0"),
        (0.001, "0.001", "0.001"),
        (0.00099, "9.9E-4", "0.00099"),
        (0.00001, "1.0E-5", "0.00001"),
        (0.0000095, "9.5E-6", "9.5e-6"),
        (1.5e-7, "1.5E-7", "1.5e-7"),
        (9999999.0, "9999999.0", "9999999.0"),
        (1e7, "1.0E7", "10000000.0"),
        (20500000.25, "2.050000025E7", "20500000.25"),
        (1e10, "1.0E10", "10000000000.0"),
        (123456789012.5, "1.234567890125E11", "123456789012.5"),
        (1e15, "1.0E15", "1000000000000000.0"),
        (1e16, "1.0E16", "1e+16"),
        (1.7976931348623157e308, "1.7976931348623157E308", "1.7976931348623157e+308"),
        (5e-324, "5.0E-324", "5e-324"),
        (math.nan, '"NaN"', '"NaN"'),
        (-math.inf, '"-Infinity"', '"-Infinity"'),
        (None, None, None),
    ],
)
def test_numbers_as_java_and_rust_write_them(value: float | None, java: str | None, rust: str | None) -> None:
    column = pa.array([value, None], pa.float64())
    assert value_text(column, JAVA)[0].as_py() == java
    assert value_text(column, RUST)[0].as_py() == rust


def test_no_texts_tell_nothing() -> None:
    assert DEFAULT_STATS_FORMAT == "spark"
    texts = pa.array([None, None], pa.string())
    assert choose_stats_format(texts, read_statistics(texts, COLUMNS), COLUMNS) == "spark"
