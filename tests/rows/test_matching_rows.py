"""Which rows come out: those that match, whatever is left out on the way to them."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from tests.builder import TableBuilder
from tests.builder.columns import sql_literal
from tests.builder.predicates import Condition, Reading, predicates, true_conditions
from tests.builder.values import arrow_type
from tests.rows.random_files import ROW, RandomFiles, random_files
from tests.rows.tables import one_file, parquet, put, read, struct_type, values
from tests.scan.effort import examples

from delta_sidecar import DeltaTable
from delta_sidecar.predicate import bind, matches, parse
from delta_sidecar.rows.query import RowQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.builder.actions import Row

# How rows are compared: NaN is like nothing, and a 32-bit float is compared as a double.
EXACT = Reading()

TRUE = pc.scalar(1) == 1


@contextmanager
def written(files: RandomFiles) -> Iterator[tuple[TableBuilder, list[Row]]]:
    with tempfile.TemporaryDirectory() as folder:
        yield files.write(Path(folder))


def found_by(table: TableBuilder, predicate: Any, columns: list[str] | None = None) -> list[int]:  # noqa: ANN401
    """Gives the numbers of the rows that match, and checks what was counted on the way to them."""
    stream = DeltaTable(table.root).scan(columns or [ROW], predicate)
    found = [number for batch in stream for number in batch.column(ROW).to_pylist()]
    metrics = stream.metrics
    files = [table.root / action["path"] for action in table.model_files().values()]
    groups = sum(pq.read_metadata(path).num_row_groups for path in files)
    assert metrics.row_groups_read + metrics.row_groups_skipped <= groups
    assert metrics.files_read == metrics.files_opened == metrics.files_found <= len(files)
    if metrics.files_found == len(files):
        assert metrics.row_groups_read + metrics.row_groups_skipped == groups
    event("row groups skipped" if metrics.row_groups_skipped else "no row group skipped")
    return sorted(found)


def expected_of(condition: Condition, rows: list[Row]) -> list[int]:
    return [row[ROW] for row in rows if condition.verdict(row, EXACT) is True]


def whole(table: TableBuilder) -> pa.Table:
    return read(table)


@pytest.mark.full
@examples(40)
@given(random_files(), st.data())
def test_just_the_rows_that_match_come_out(files: RandomFiles, data: st.DataObject) -> None:
    """By plain Python over the rows that were written, and by `matches` over all that are read."""
    with written(files) as (table, rows):
        everything = whole(table)
        assert sorted(everything.column(ROW).to_pylist()) == [row[ROW] for row in rows]
        columns = [column for column in table.model_columns() if column.path != (ROW,)]
        for _ in range(3):
            condition = data.draw(predicates(columns, rows))
            expected = expected_of(condition, rows)
            assert found_by(table, condition.sql) == expected
            mask = matches(bind(parse(condition.sql), everything.schema), everything)
            assert sorted(everything.filter(mask).column(ROW).to_pylist()) == expected
            event("some match" if expected else "none match")


@examples(25)
@given(random_files(), st.data())
def test_no_row_is_lost_by_what_is_true_of_it(files: RandomFiles, data: st.DataObject) -> None:
    with written(files) as (table, rows):
        columns = [column for column in table.model_columns() if column.path != (ROW,)]
        for row in rows[:: max(1, len(rows) // 3)]:
            condition = data.draw(true_conditions(columns, row))
            if condition.verdict(row, EXACT) is True:
                assert row[ROW] in found_by(table, condition.sql)


@examples(30)
@given(random_files())
def test_all_values_come_back(files: RandomFiles) -> None:
    with written(files) as (table, rows):
        names = [column.path[0] for column in table.model_columns() if len(column.path) == 1]
        full = [{name: row.get(name) for name in names} for row in rows]
        types = {field.name: field.type for field in whole(table).schema}
        expected = Counter(repr(_plain(row, types)) for row in full)
        assert Counter(repr(_plain(row, types)) for row in values(table)) == expected


def _plain(row: Any, types: dict[str, pa.DataType]) -> dict[str, Any]:  # noqa: ANN401
    """Gives a row as Arrow's own values: what was written, after the way through one type."""
    return {name: pa.array([row[name]], kind)[0].as_py() for name, kind in types.items()}


@pytest.mark.parametrize(
    ("expression", "predicate"),
    [
        (pc.field("a") > 3, "a > 3"),
        ((pc.field("a") > 3) & (pc.field("b") == "x7"), "a > 3 AND b = 'x7'"),
        (pc.field("b").isin(["x1", "x8"]), "b IN ('x1', 'x8')"),
        (pc.field("s", "x") <= 2, "s.x <= 2"),
        (~pc.is_valid(pc.field("a")), "a IS NULL"),
        (TRUE, "TRUE"),
        (~TRUE, "FALSE"),
        # What has no notation here prunes nothing, and is evaluated on the rows.
        (pc.equal(pc.utf8_upper(pc.field("b")), "X5"), "b = 'x5'"),
    ],
)
@pytest.mark.parametrize("columns", [None, ["b"], []])
def test_an_expression_of_arrow_filters_by_arrow(
    tmp_path: Path, expression: pc.Expression, predicate: str, columns: list[str] | None
) -> None:
    rows = pa.table(
        {
            "a": [None, *range(1, 10)],
            "b": [f"x{number}" for number in range(10)],
            "s": [{"x": number} for number in range(10)],
        }
    )
    kinds = {"a": "long", "b": "string", "s": struct_type(("x", "long"))}
    table = one_file(tmp_path, kinds, parquet(rows, row_group_size=3))
    found = read(table, columns, predicate=expression)
    wanted = read(table, columns, predicate=predicate)
    assert found.num_rows == wanted.num_rows == read(table, predicate=predicate).num_rows
    assert found.equals(wanted)


def test_what_only_prunes_does_not_filter(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"a": "long"})
    for number in range(3):
        stats = {"numRecords": 4, "minValues": {"a": number * 10}, "maxValues": {"a": number * 10 + 3}}
        content = parquet(pa.table({"a": range(number * 10, number * 10 + 4)}), row_group_size=2)
        built.commit([put(built, f"{number}.parquet", content, stats=stats)])
    handle = DeltaTable(tmp_path)._handle
    found = handle.rows(RowQuery(prunes=parse("a = 12"))).reader().read_all()
    assert sorted(found.column("a").to_pylist()) == [12, 13]


# --- row groups -------------------------------------------------------------------------------------------------


def groups_of(table: TableBuilder, predicate: str) -> tuple[list[Any], int]:
    """Gives the values of the column x that match, and how many row groups were left out."""
    stream = DeltaTable(table.root).scan(["x"], predicate)
    return [found for batch in stream for found in batch.column("x").to_pylist()], stream.metrics.row_groups_skipped


@pytest.mark.parametrize(
    ("kind", "groups", "predicate", "expected", "skipped"),
    [
        ("long", [[-5, -1], [0, 3], [None, 9], [None, None]], "x < 0", [-5, -1], 3),
        ("long", [[-5, -1], [0, 3], [None, 9], [None, None]], "x IS NULL", [None] * 3, 2),
        ("long", [[-5, -1], [0, 3], [None, 9], [None, None]], "x IS NOT NULL AND x >= 9", [9], 3),
        ("integer", [[-(2**31)], [0], [2**31 - 1]], "x = -2147483648", [-(2**31)], 2),
        ("string", [["a", "b"], ["é", "ü"], ["😀", "😀"]], "x > 'é'", ["ü", "😀", "😀"], 1),
        ("string", [["a", "b"], ["é", "ü"], ["", "A"]], "x LIKE 'a%'", ["a"], 2),
        ("double", [[1.0, 2.0], [float("nan"), 5.0], [-0.0, 0.0]], "x = 0.0", [-0.0, 0.0], 2),
        ("double", [[1.0, 2.0], [float("nan"), 5.0]], "x > 4", [5.0], 0),
        ("float", [[1.5, 2.5], [-3.5]], "x < 0", [-3.5], 1),
        ("boolean", [[True], [False], [None]], "x", [True], 2),
        ("date", [[dt.date(1, 1, 1)], [dt.date(2026, 2, 10)]], "x = DATE '0001-01-01'", [dt.date(1, 1, 1)], 1),
        ("binary", [[b"a"], [b"b"]], "x = X'61'", [b"a"], 0),
    ],
)
def test_row_groups_are_left_out_by_their_bounds(
    tmp_path: Path, kind: str, groups: list[list[Any]], predicate: str, expected: list[Any], skipped: int
) -> None:
    table = one_file(tmp_path, {"x": kind}, _in_groups(groups, arrow_type(kind)))
    found, left_out = groups_of(table, predicate)
    assert (found, left_out) == (expected, skipped)


def _in_groups(groups: list[list[Any]], kind: pa.DataType) -> bytes:
    into = pa.BufferOutputStream()
    with pq.ParquetWriter(into, pa.schema({"x": kind})) as writer:
        for group in groups:
            writer.write_table(pa.table({"x": pa.array(group, kind)}))
    content: bytes = into.getvalue().to_pybytes()
    return content


def test_bounds_are_those_of_the_column_whatever_stands_before_it(tmp_path: Path) -> None:
    """What is one column to Arrow may be several to Parquet."""
    pair = pa.array([{"p": 9, "q": 9}] * 4, pa.struct({"p": pa.int64(), "q": pa.int64()}))
    before = {
        "opaque": pa.ExtensionArray.from_storage(pa.opaque(pair.type, "pair", "tests"), pair),
        "map": pa.array([[("k", 9)]] * 4, pa.map_(pa.string(), pa.int64())),
        "list": pa.array([[{"p": 9, "q": 9}]] * 4, pa.list_(pair.type)),
        "fixed": pa.array([[9, 9]] * 4, pa.list_(pa.int64(), 2)),
        "words": pa.array(["9"] * 4).dictionary_encode(),
    }
    rows = pa.table({**before, "x": [1, 2, 3, 4]})
    table = one_file(tmp_path, {"x": "long", "words": "string"}, parquet(rows, row_group_size=2))
    assert groups_of(table, "x >= 3") == ([3, 4], 1)
    assert groups_of(table, "x = 9 OR words = '8'") == ([], 2)


def test_row_groups_of_a_column_that_came_later_are_left_out(tmp_path: Path) -> None:
    kinds = {"x": "long", "later": "string", "s": struct_type(("x", "long"), ("later", "long"))}
    rows = pa.table({"x": range(4), "s": [{"x": number} for number in range(4)]})
    table = one_file(tmp_path, kinds, parquet(rows, row_group_size=2))
    assert groups_of(table, "later = 'a'") == ([], 2)
    assert groups_of(table, "s.later > 0") == ([], 2)
    assert groups_of(table, "s.x >= 3") == ([3], 1)
    assert groups_of(table, "later IS NULL AND s.later IS NULL AND x = 3") == ([3], 1)


def test_a_column_that_became_wider_is_pruned_only_where_that_is_sure(tmp_path: Path) -> None:
    kinds = {"x": "long", "d": "double", "m": "decimal(12,2)", "t": "timestamp_ntz"}
    rows = pa.table(
        {
            "x": pa.array([1, 2, 3, 4], pa.int16()),
            "d": pa.array([1, 2, 3, 4], pa.int32()),
            "m": pa.array([1, 2, 3, 4], pa.int32()),
            "t": [dt.date(2026, 2, day) for day in (1, 2, 3, 4)],
        }
    )
    table = one_file(tmp_path, kinds, parquet(rows, row_group_size=2))
    assert groups_of(table, "x > 3") == ([4], 1)
    assert groups_of(table, "d > 3.5") == ([4], 0)
    assert groups_of(table, "m > 3.5") == ([4], 0)
    assert groups_of(table, "t > TIMESTAMP '2026-02-03 00:00:00'") == ([4], 0)


moments = st.integers(-3_000, 3_000) | st.sampled_from([2**63 - 1, -(2**63), 2**62])


@examples(40)
@given(
    st.lists(st.none() | moments, min_size=1, max_size=8),
    st.sampled_from(["ns", "us", "ms", "s"]),
    st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]),
    st.integers(-3, 3),
    st.sampled_from(["timestamp", "timestamp_ntz"]),
)
@example([1_999, 1_001], "ns", "=", 1, "timestamp")
@example([-1, -999], "ns", "=", -1, "timestamp_ntz")
@example([-1, -999], "ns", ">=", 0, "timestamp")
def test_timestamps_of_every_unit_are_pruned_as_they_are_read(
    numbers: list[int | None], unit: str, sign: str, literal: int, kind: str
) -> None:
    per_unit = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}[unit]
    near = [number for number in numbers if number is None or unit == "ns" or abs(number) <= 3_000]
    micros = [None if number is None else number * per_unit // 1_000 for number in near]
    column = pa.array(near, pa.timestamp(unit))
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=literal)  # noqa: DTZ001 - a zone is added where it is due
    written_moment = moment.replace(tzinfo=dt.UTC) if kind == "timestamp" else moment
    with tempfile.TemporaryDirectory() as folder:
        table = one_file(Path(folder), {"x": kind}, parquet(pa.table({"x": column}), row_group_size=2))
        found = read(table, predicate=f"x {sign} {sql_literal(written_moment)}").column("x").cast(pa.int64())
    compare = {"=": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "<>": "__ne__"}[sign]
    expected = [value for value in micros if value is not None and getattr(value, compare)(literal)]
    assert found.to_pylist() == expected


texts = st.text(st.sampled_from("axz\x7f\x80ÿ\u07ff\ud7ff\uffff😀\U0010ffff"), max_size=4)


@examples(25)
@given(
    st.lists(
        st.builds(lambda first, last: first * 10 + last, st.sampled_from("az\U0010ffff"), texts), min_size=2, max_size=8
    ),
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.data(),
)
def test_texts_whose_bounds_are_cut_off_are_found(words: list[str], sign: str, data: st.DataObject) -> None:
    """Written by a writer that keeps a few bytes of a bound, which is fewer than these have."""
    literal = data.draw(st.sampled_from(words) | texts | st.sampled_from([word + "!" for word in words]))
    with tempfile.TemporaryDirectory() as folder:
        properties = deltalake.WriterProperties(max_row_group_size=2, statistics_truncate_length=8)
        rows = pa.table({"x": words})
        deltalake.write_deltalake(folder, rows, writer_properties=properties)
        (path,) = Path(folder).glob("*.parquet")
        metadata = pq.read_metadata(path)
        assert metadata.num_row_groups == -(-len(words) // 2)
        bounds = [metadata.row_group(group).column(0).statistics for group in range(metadata.num_row_groups)]
        assert all(len(found.min_raw) <= 8 for found in bounds)
        found = read(Path(folder), predicate=f"x {sign} {sql_literal(literal)}").column("x").to_pylist()
    ours = {"=": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[sign]
    expected = [word for word in words if getattr(word.encode(), ours)(literal.encode())]
    assert found == expected
