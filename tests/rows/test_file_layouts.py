"""Data files of every age and writer: what they hold comes out as the table's schema has it, or is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import TableBuilder
from tests.rows.old_lists import repeated, two_levels
from tests.rows.tables import (
    MAPPED,
    array_type,
    field,
    map_type,
    one_file,
    parquet,
    put,
    read,
    struct_type,
    values,
    with_id,
)

from delta_sidecar import DeltaTable, OptionError, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOMENT = dt.datetime(2020, 1, 2, 3, 4, 5, 678_901)  # noqa: DTZ001 - readings of a clock
OLD = dt.datetime(1890, 5, 6, 7, 8, 9, 123_456)  # noqa: DTZ001
NTZ, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


# --- names ------------------------------------------------------------------------------------------------------


def test_a_dot_in_a_name_is_no_path(tmp_path: Path) -> None:
    inner = struct_type(("b", "long"), ("c.d", "string"))
    rows = [{"a.b": 1, "a": {"b": 10, "c.d": "x"}, "a.b.c": 100}, {"a.b": 2, "a": None, "a.b.c": 200}]
    kind = pa.struct({"b": pa.int64(), "c.d": pa.string()})
    content = pa.table([[1, 2], pa.array([row["a"] for row in rows], kind), [100, 200]], names=["a.b", "a", "a.b.c"])
    table = one_file(tmp_path, {"a.b": "long", "a": inner, "a.b.c": "long"}, content)
    assert values(table) == rows
    for name in ("a.b", "a", "a.b.c"):
        assert values(table, [name]) == [{name: row[name]} for row in rows]
    assert values(table, ["a.b.c"], predicate="`a.b` = 2") == [{"a.b.c": 200}]
    assert values(table, ["a.b"], predicate="a.b = 10") == [{"a.b": 1}]
    assert values(table, ["a.b"], predicate="a.`c.d` IS NULL") == [{"a.b": 2}]


def test_the_bounds_of_a_name_with_a_dot_are_its_own(tmp_path: Path) -> None:
    """The column `a.b` and the field b of a have the same path in Parquet."""
    groups = {"a.b": [1, 1, 2, 2], "a": [{"b": 8}, {"b": 8}, {"b": 9}, {"b": 9}]}
    content = parquet(pa.table(groups), row_group_size=2)
    table = one_file(tmp_path, {"a.b": "long", "a": struct_type(("b", "long"))}, content)
    for predicate, found in (("`a.b` = 2", [2, 2]), ("a.b = 8", [1, 1]), ("a.b = 9 AND `a.b` = 2", [2, 2])):
        stream = DeltaTable(tmp_path).scan(["a.b"], predicate)
        assert [value for batch in stream for value in batch.column(0).to_pylist()] == found
        assert stream.metrics.row_groups_skipped == 1
    assert values(table, predicate="a.b = 1") == []


def test_a_column_in_another_case_is_found(tmp_path: Path) -> None:
    content = pa.table({"ID": [1, 2], "S": pa.array([{"X": 3}, {"X": 4}])})
    table = one_file(tmp_path, {"id": "long", "s": struct_type(("x", "long"))}, content)
    assert values(table) == [{"id": 1, "s": {"x": 3}}, {"id": 2, "s": {"x": 4}}]
    assert values(table, ["Id"], predicate="s.X = 4") == [{"id": 2}]


def test_the_same_name_comes_before_one_in_another_case(tmp_path: Path) -> None:
    table = one_file(tmp_path, {"id": "long"}, pa.table({"ID": [1], "id": [2], "Id": [3]}))
    assert values(table) == [{"id": 2}]


@pytest.mark.parametrize("names", [["id", "id"], ["ID", "Id"]])
def test_columns_that_cannot_be_told_apart_are_refused(tmp_path: Path, names: list[str]) -> None:
    content = pa.table([[1], [2], [3]], names=[*names, "other"])
    table = one_file(tmp_path, {"id": "long", "other": "long"}, content)
    with pytest.raises(UnreadableFileError, match=r"part-0.parquet has .* columns? .*'id'"):
        read(table)
    assert values(table, ["other"]) == [{"other": 3}]


def test_fields_of_a_struct_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    inner = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    table = one_file(tmp_path, {"s": struct_type(("x", "long"))}, pa.table({"s": inner}))
    with pytest.raises(UnreadableFileError, match="2 columns that are 'x'"):
        read(table)


def test_the_log_tells_partition_values_even_where_files_have_them(tmp_path: Path) -> None:
    content = pa.table({"id": [1, 2], "day": ["in the file"] * 2, "DAY": [7, 7]})
    table = one_file(tmp_path, {"id": "long", "day": "date"}, content, partition_values={"day": "2026-02-10"})
    assert values(table) == [{"id": number, "day": dt.date(2026, 2, 10)} for number in (1, 2)]
    assert values(table, ["day"], predicate="day = DATE '2026-02-10' AND id = 2") == [{"day": dt.date(2026, 2, 10)}]


# --- files without rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [{"id": pa.int64()}, {"other": pa.int64()}])
def test_files_without_rows_give_none(tmp_path: Path, schema: dict[str, pa.DataType]) -> None:
    empty = pa.schema(schema).empty_table()
    built = TableBuilder(tmp_path, schema={"id": "long"})
    some = parquet(pa.concat_tables([empty, pa.table({name: [1] for name in schema})]), row_group_size=1)
    contents = [parquet(empty), parquet(empty, row_group_size=1), some]
    built.commit([put(built, f"{number}.parquet", content) for number, content in enumerate(contents)])
    assert read(built).num_rows == 1
    assert read(built, []).num_rows == 1
    assert read(built, ["id"], predicate="id > 5").num_rows == 0


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all, but long enough to be"])
def test_what_is_no_parquet_file_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UnreadableFileError, match=r"data file part-0.parquet cannot be read"):
        read(one_file(tmp_path, {"id": "long"}, content))


def test_a_footer_that_is_damaged_is_refused(tmp_path: Path) -> None:
    written = parquet(pa.table({"text": ["a", "b"]}), row_group_size=1)
    content = written.replace(b"parquet-cpp-arrow", b"parquet\xffcpp-arrow")
    with pytest.raises(UnreadableFileError, match=r"data file part-0.parquet cannot be read: 'utf-8' codec"):
        read(one_file(tmp_path, {"text": "string"}, content), predicate="text = 'a'")


def test_of_files_that_are_alike_the_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long", "d": "decimal(3,0)"})
    content = [pa.table({"id": [number], "d": pa.array([number], pa.int32())}) for number in (1, 2, 3000, 4)]
    built.commit([put(built, f"{at}.parquet", rows) for at, rows in enumerate(content)])
    with pytest.raises(UnreadableFileError, match=r"column d is int32 in 2\.parquet, and decimal.* hold") as refusal:
        read(built)
    assert refusal.value.path == "2.parquet"
    assert [row["id"] for row in values(built, ["id"])] == [1, 2, 3000, 4]


def test_files_of_many_layouts_in_turn(tmp_path: Path) -> None:
    """More layouts than are remembered, each of them again and again; ids alone may tell two apart."""
    fields = struct_type(field("a", "long", 1), field("b", "string", 2))
    built = TableBuilder(tmp_path, schema=fields, protocol=MAPPED, configuration={"delta.columnMapping.mode": "id"})
    kinds = [pa.int64(), pa.int32(), pa.int16()]
    expected, actions = [], []
    for number in range(36):
        first, second = (1, 2) if number % 2 else (2, 1)
        columns = {1: pa.array([number], kinds[number % 3]), 2: pa.array([str(number)])}
        schema = [with_id(pa.field(name, columns[at].type), at) for name, at in (("x", first), ("y", second))]
        rows = pa.table([columns[first], columns[second]], schema=pa.schema(schema))
        actions.append(put(built, f"{number}.parquet", rows))
        expected.append({"a": number, "b": str(number)})
    built.commit(actions)
    assert sorted(values(built), key=lambda row: row["a"]) == expected


def test_a_size_in_the_log_that_is_wrong_does_no_harm(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"})
    content = pa.table({"id": range(5)})
    length = len(parquet(content))
    wrong = [0, 1, 12, length - 1, length + 1, 10 * length, 2 << 20]
    built.commit([put(built, f"{size}.parquet", content, size=size) for size in wrong])
    assert sorted(row["id"] for row in values(built)) == sorted([*range(5)] * len(wrong))


# --- types ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("long", pa.array([1, None, -(2**7)], pa.int8()), [1, None, -128]),
        ("long", pa.array([1, 2**31 - 1], pa.int32()), [1, 2**31 - 1]),
        ("integer", pa.array([1, -5], pa.int16()), [1, -5]),
        ("double", pa.array([1, -(2**31)], pa.int32()), [1.0, -(2.0**31)]),
        ("double", pa.array([0.1, None], pa.float32()), [0.10000000149011612, None]),
        ("float", pa.array([0.5, float("inf")], pa.float16()), [0.5, float("inf")]),
        ("decimal(10,2)", pa.array([7, -7], pa.int8()), [Decimal("7.00"), Decimal("-7.00")]),
        ("decimal(20,1)", pa.array([2**63 - 1], pa.int64()), [Decimal(2**63 - 1)]),
        ("decimal(38,20)", pa.array([123, None], pa.int64()), [Decimal(123), None]),
        ("decimal(20,5)", pa.array([Decimal("1.25")], pa.decimal128(5, 2)), [Decimal("1.25")]),
        ("decimal(5,2)", pa.array([Decimal("1.20")], pa.decimal128(10, 4)), [Decimal("1.20")]),
        ("timestamp_ntz", pa.array([dt.date(1969, 12, 31), None]), [dt.datetime(1969, 12, 31), None]),  # noqa: DTZ001
        ("date", pa.array([dt.date(2026, 2, 10)], pa.date64()), [dt.date(2026, 2, 10)]),
        ("string", pa.array([b"caf\xc3\xa9", None]), ["café", None]),
        ("string", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        ("string", pa.array(["a"], pa.large_string()), ["a"]),
        ("string", pa.array(["a"], pa.string_view()), ["a"]),
        ("string", pa.array(['{"a":1}'], pa.json_()), ['{"a":1}']),
        ("binary", pa.array(["a"]), [b"a"]),
        ("binary", pa.array([b"abc"], pa.binary(3)), [b"abc"]),
        ("binary", pa.array([b"u" * 16], pa.uuid()), [b"u" * 16]),
        ("short", pa.array([300], pa.uint16()), [300]),
        ("long", pa.array([2**32 - 1], pa.uint32()), [2**32 - 1]),
        ("integer", pa.array([5, None], pa.uint64()), [5, None]),
        ("boolean", pa.nulls(2), [None, None]),
        (array_type("long"), pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), [[1, 2], None]),
        (array_type("long"), pa.array([[1, 2, 3], []], pa.large_list(pa.int16())), [[1, 2, 3], []]),
    ],
)
def test_values_in_the_table_s_type(tmp_path: Path, kind: Any, content: pa.Array, expected: list[Any]) -> None:  # noqa: ANN401
    table = one_file(tmp_path, {"x": kind}, pa.table({"x": content}))
    found = read(table)
    assert found.column("x").to_pylist() == expected
    assert found.schema == DeltaTable(tmp_path).scan(limit=0).schema


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("integer", pa.array([1, 2**31])),
        ("byte", pa.array([200], pa.uint8())),
        ("long", pa.array([2**63], pa.uint64())),
        ("long", pa.array([1.0])),
        ("long", pa.array(["1"])),
        ("long", pa.array([True])),
        ("float", pa.array([1.5], pa.float64())),
        ("double", pa.array([2**53 + 1])),
        ("decimal(3,2)", pa.array([10])),
        ("decimal(5,1)", pa.array([Decimal("1.25")])),
        ("decimal(2,0)", pa.array([Decimal(100)])),
        ("double", pa.array([Decimal(1)])),
        ("timestamp", pa.array([dt.date(2026, 2, 10)])),
        ("date", pa.array([MOMENT], NTZ)),
        ("timestamp", pa.array([1])),
        ("timestamp", pa.array([2**62], pa.timestamp("ms"))),
        ("long", pa.array([MOMENT], NTZ)),
        ("string", pa.array([b"\xff\xfe"])),
        ("string", pa.array([b"u" * 16], pa.uuid())),
        ("string", pa.array([1])),
        ("string", pa.array([dt.time(1)])),
        ("boolean", pa.array([1], pa.int8())),
        ("long", pa.array([[1]])),
        (array_type("long"), pa.array([1])),
        (array_type("long"), pa.array([["1"]])),
        (map_type("string", "long"), pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))),
        (map_type("string", "long"), pa.array([{"a": 1}])),
        (struct_type(("x", "long")), pa.array([{"x": "a"}])),
        (struct_type(("x", "long")), pa.array([[{"x": 1}]])),
    ],
)
def test_what_could_change_a_value_is_refused_by_name(tmp_path: Path, kind: Any, content: pa.Array) -> None:  # noqa: ANN401
    rows = pa.table({"odd": content, "fine": range(len(content))})
    table = one_file(tmp_path, {"odd": kind, "fine": "long"}, rows)
    with pytest.raises(UnreadableFileError, match=r"column odd[.\w]* is .* in part-0.parquet, and"):
        read(table)
    assert read(table, ["fine"]).num_rows == len(content)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_timestamps_of_every_unit_and_zone(tmp_path: Path, unit: str, zone: str | None, kind: str) -> None:
    moments = [MOMENT.replace(microsecond=0), None, OLD.replace(microsecond=0)]
    content = pa.table({"at": pa.array(moments, pa.timestamp(unit)).cast(pa.int64()).cast(pa.timestamp(unit, zone))})
    table = one_file(tmp_path, {"at": kind}, content)
    found = read(table)
    assert found.schema.field("at").type == (UTC if kind == "timestamp" else NTZ)
    assert found.column("at").cast(pa.int64()).to_pylist() == pa.array(moments, NTZ).cast(pa.int64()).to_pylist()


def test_what_is_finer_than_a_microsecond_is_cut_towards_the_past(tmp_path: Path) -> None:
    nanos = [1_999, -1, -1_000, -1_001, 0, None, 2**63 - 1, -(2**63)]
    table = one_file(tmp_path, {"at": "timestamp_ntz"}, pa.table({"at": pa.array(nanos, pa.timestamp("ns"))}))
    expected = [None if value is None else value // 1000 for value in nanos]
    assert read(table).column("at").cast(pa.int64()).to_pylist() == expected


@pytest.mark.parametrize("digits", [4, 9, 12, 18, 20, 38])
@pytest.mark.parametrize("as_integer", [True, False])
def test_decimals_however_they_are_stored(tmp_path: Path, digits: int, as_integer: bool) -> None:  # noqa: FBT001
    numbers = [Decimal("1.23"), Decimal("-99.99"), None, Decimal(0), Decimal("-0.01")]
    content = pa.table({"d": pa.array(numbers, pa.decimal128(digits, 2))})
    table = one_file(tmp_path, {"d": f"decimal({digits},2)"}, parquet(content, store_decimal_as_integer=as_integer))
    assert read(table).column("d").to_pylist() == numbers
    assert values(table, predicate="d < 0") == [{"d": Decimal("-99.99")}, {"d": Decimal("-0.01")}]
    assert values(table, predicate="d > 5") == []


# --- the oldest timestamps --------------------------------------------------------------------------------------


def oldest(rows: pa.Table) -> bytes:
    return parquet(rows, use_deprecated_int96_timestamps=True, store_schema=False)


def test_the_oldest_timestamps_at_every_depth(tmp_path: Path) -> None:
    row = {
        "at": MOMENT,
        "list": [OLD, None, MOMENT],
        "map": [("a", OLD), ("b", None)],
        "keys": [(MOMENT, 1), (OLD, 2)],
        "deep": {"raw": b"r" * 12, "lists": [[{"at": OLD, "raw": b"s" * 12}, None], None, []]},
    }
    nested = pa.struct({"at": NTZ, "raw": pa.binary(12)})
    schema = pa.schema(
        {
            "at": NTZ,
            "list": pa.list_(NTZ),
            "map": pa.map_(pa.string(), NTZ),
            "keys": pa.map_(NTZ, pa.int64()),
            "deep": pa.struct({"raw": pa.binary(12), "lists": pa.list_(pa.list_(nested))}),
        }
    )
    inner = struct_type(("at", "timestamp_ntz"), ("raw", "binary"))
    kinds = {
        "at": "timestamp_ntz",
        "list": array_type("timestamp_ntz"),
        "map": map_type("string", "timestamp_ntz"),
        "keys": map_type("timestamp_ntz", "long"),
        "deep": struct_type(("raw", "binary"), ("lists", array_type(array_type(inner)))),
    }
    empty: dict[str, Any] = dict.fromkeys(row)
    bare = {"at": OLD, "list": [], "map": [], "keys": [], "deep": {"raw": None, "lists": None}}
    content = pa.Table.from_pylist([row, empty, bare, row], schema)
    table = one_file(tmp_path, kinds, oldest(content))
    assert values(table) == [row, empty, bare, row]
    for name in row:
        assert values(table, [name]) == [{name: each[name]} for each in (row, empty, bare, row)]


@pytest.mark.parametrize(("below", "day"), [(0, 2**31 - 1), (0, 0), (-1, 2_440_588)])
def test_an_oldest_timestamp_that_nobody_can_tell_is_an_error_and_no_null(tmp_path: Path, below: int, day: int) -> None:
    rows = pa.table({"id": [1], "s": pa.array([{"at": MOMENT}], pa.struct({"at": NTZ}))})
    content = parquet(rows, use_deprecated_int96_timestamps=True, compression="none", use_dictionary=False)
    nanos = (MOMENT - MOMENT.replace(hour=0, minute=0, second=0, microsecond=0)) // dt.timedelta(microseconds=1) * 1000
    held = nanos.to_bytes(8, "little") + (2_440_588 + (MOMENT.date() - dt.date(1970, 1, 1)).days).to_bytes(4, "little")
    assert content.count(held) >= 1
    content = content.replace(held, below.to_bytes(8, "little", signed=True) + day.to_bytes(4, "little"))
    table = one_file(tmp_path, {"id": "long", "s": struct_type(("at", "timestamp_ntz"))}, content)
    with pytest.raises(
        UnreadableFileError, match=r"part-0.parquet cannot be read: column s.at has a timestamp that 64"
    ):
        read(table)
    assert values(table, ["id"]) == [{"id": 1}]


def test_the_oldest_timestamps_in_lists_of_one_length(tmp_path: Path) -> None:
    rows = pa.table({"l": pa.array([[MOMENT, OLD]], pa.list_(NTZ, 2))})
    content = parquet(rows, use_deprecated_int96_timestamps=True)
    assert values(one_file(tmp_path, {"l": array_type("timestamp_ntz")}, content)) == [{"l": [MOMENT, OLD]}]


@pytest.mark.parametrize(("change", "nullable"), [(two_levels, True), (repeated, False)])
def test_lists_of_older_writers(tmp_path: Path, change: Callable[[bytes], bytes], nullable: bool) -> None:  # noqa: FBT001
    element = pa.struct({"at": NTZ, "n": pa.int32()})
    schema = pa.schema(
        [
            pa.field("at", pa.list_(pa.field("element", NTZ, nullable=False)), nullable=nullable),
            pa.field("n", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=nullable),
            pa.field("s", pa.list_(pa.field("element", element, nullable=False)), nullable=nullable),
            pa.field("id", pa.int64()),
        ]
    )
    rows = [
        {"at": [MOMENT, OLD], "n": [1, 2], "s": [{"at": OLD, "n": 1}, {"at": None, "n": None}], "id": 1},
        {"at": [], "n": [], "s": [], "id": 2},
    ]
    if nullable:
        rows.append({"at": None, "n": None, "s": None, "id": 3})
    kinds = {
        "at": array_type("timestamp_ntz"),
        "n": array_type("long"),
        "s": array_type(struct_type(("n", "long"), ("at", "timestamp_ntz"), ("new", "string"))),
        "id": "long",
    }
    table = one_file(tmp_path, kinds, change(oldest(pa.Table.from_pylist(rows, schema))))
    expected = [
        {**row, "s": None if row["s"] is None else [{**each, "new": None} for each in row["s"]]} for row in rows
    ]
    assert values(table) == expected
    assert values(table, ["id"], predicate="id = 2") == [{"id": 2}]


# --- columns that came later ------------------------------------------------------------------------------------


def test_missing_fields_are_null_at_every_depth(tmp_path: Path) -> None:
    old = pa.struct({"a": pa.int32()})
    content = pa.table(
        {
            "s": pa.array([{"a": 1}, None, {"a": None}], old),
            "list": pa.array([[{"a": 1}, None], None, []], pa.list_(old)),
            "map": pa.array([[("k", {"a": 2}), ("n", None)], None, []], pa.map_(pa.string(), old)),
            "gone": pa.array([{"a": 1}, None, {"a": 3}], old),
            "lists": pa.array([[[{"a": 1}]], [None, []], None], pa.list_(pa.list_(old))),
        }
    )
    new = struct_type(("b", "string"), ("a", "long"), ("c", array_type("date")))
    table = one_file(
        tmp_path,
        {
            "s": new,
            "list": array_type(new),
            "map": map_type("string", new),
            "gone": struct_type(("x", "long"), ("y", struct_type(("z", "string")))),
            "lists": array_type(array_type(new)),
            "added": "timestamp",
            "void": "void",
            "struct": new,
        },
        content,
    )
    one, two = ({"b": None, "a": number, "c": None} for number in (1, 2))
    none = {"b": None, "a": None, "c": None}
    nothing = {"x": None, "y": None}
    rest = {"added": None, "void": None, "struct": None}
    assert [{**row, "map": row["map"] and dict(row["map"])} for row in values(table)] == [
        {"s": one, "list": [one, None], "map": {"k": two, "n": None}, "gone": nothing, "lists": [[one]], **rest},
        {"s": None, "list": None, "map": None, "gone": None, "lists": [None, []], **rest},
        {"s": none, "list": [], "map": [], "gone": nothing, "lists": None, **rest},
    ]
    assert read(table, ["s"], predicate="s.b IS NULL AND added IS NULL").num_rows == 3
    assert values(table, ["s"], predicate="s.a = 1") == [{"s": one}]
    assert read(table, ["s"], predicate="s.b = 'x' OR struct.a > 0").num_rows == 0


def test_types_are_widened_at_every_depth(tmp_path: Path) -> None:
    content = pa.table(
        {
            "list": pa.array([[1, None], None], pa.list_(pa.int8())),
            "map": pa.array([[(1, 1.5)], []], pa.map_(pa.int16(), pa.float32())),
            "s": pa.array([{"d": dt.date(2026, 2, 10), "m": Decimal("1.5")}, None]),
        }
    )
    kinds = {
        "list": array_type("integer"),
        "map": map_type("long", "double"),
        "s": struct_type(("d", "timestamp_ntz"), ("m", "decimal(12,4)")),
    }
    assert values(one_file(tmp_path, kinds, content)) == [
        {"list": [1, None], "map": [(1, 1.5)], "s": {"d": dt.datetime(2026, 2, 10), "m": Decimal("1.5")}},  # noqa: DTZ001
        {"list": None, "map": [], "s": None},
    ]


def test_what_must_not_be_null_may_be_in_older_files(tmp_path: Path) -> None:
    schema = struct_type(
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "new", "type": "long", "nullable": False, "metadata": {}},
    )
    content = pa.table({"id": [1, 2]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    found = read(one_file(tmp_path, schema, content))
    assert found.to_pylist() == [{"id": 1, "new": None}, {"id": 2, "new": None}]
    assert all(each.nullable for each in found.schema)


# --- column mapping ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_found_by_their_mapping(tmp_path: Path, mode: str) -> None:
    inner = struct_type(field("first", "long", 4), field("second", "long", 5))
    schema = struct_type(field("id", "long", 1), field("s", inner, 2), field("l", array_type(inner), 3))
    kind = pa.struct([with_id(pa.field("col-5", pa.int64()), 5), with_id(pa.field("col-4", pa.int64()), 4)])
    held = pa.schema(
        [
            with_id(pa.field("col-3", pa.list_(kind)), 3),
            with_id(pa.field("id", pa.int64()), 9),
            with_id(pa.field("col-2", kind), 2),
            with_id(pa.field("col-1", pa.int64()), 1),
        ]
    )
    pair = {"col-4": 4, "col-5": 5}
    content = pa.Table.from_pylist([{"col-3": [pair], "id": -1, "col-2": pair, "col-1": 1}], held)
    table = one_file(tmp_path, schema, content, protocol=MAPPED, configuration={"delta.columnMapping.mode": mode})
    both = {"first": 4, "second": 5}
    assert values(table) == [{"id": 1, "s": both, "l": [both]}]
    assert values(table, ["s"], predicate="s.second = 5 AND id = 1") == [{"s": both}]
    assert values(table, predicate="s.second = 4") == []


def test_by_id_names_do_not_matter(tmp_path: Path) -> None:
    schema = struct_type(field("a", "long", 1, "x"), field("b", "long", 2, "y"), field("c", "long", 3, "z"))
    held = pa.schema([with_id(pa.field("y", pa.int64()), 1), with_id(pa.field("x", pa.int64()), 2), pa.field("z", UTC)])
    content = pa.Table.from_pylist([{"y": 1, "x": 2, "z": MOMENT}], held)
    table = one_file(tmp_path, schema, content, protocol=MAPPED, configuration={"delta.columnMapping.mode": "id"})
    assert values(table) == [{"a": 1, "b": 2, "c": None}]


def test_by_id_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    schema = struct_type(field("a", "long", 1, "x"), field("b", "long", 2, "y"))
    held = [with_id(pa.field("x", pa.int64()), number) for number in (1, 2)]
    table = one_file(
        tmp_path,
        schema,
        pa.table([[1], [2]], schema=pa.schema(held)),
        protocol=MAPPED,
        configuration={"delta.columnMapping.mode": "id"},
    )
    with pytest.raises(UnreadableFileError, match="more than one column 'x'"):
        read(table)


def test_by_id_a_file_without_ids_is_refused(tmp_path: Path) -> None:
    """The protocol leaves the choice: nulls in the place of values would look like values."""
    schema = struct_type(field("a", struct_type(field("b", "long", 2, "y")), 1, "x"), field("day", "date", 3, "day"))
    mapped: Any = {"protocol": MAPPED, "configuration": {"delta.columnMapping.mode": "id"}}
    built = TableBuilder(tmp_path, schema=schema, partition_columns=["day"], **mapped)
    content = pa.table({"x": pa.array([{"y": 1}])})
    built.commit([put(built, "no-ids.parquet", content, partition_values={"day": "2026-02-10"})])
    with pytest.raises(UnreadableFileError, match=r"columnMapping.mode is id.*no-ids.parquet has none at x"):
        read(built)
    assert values(built, ["day"]) == [{"day": dt.date(2026, 2, 10)}]
    inner = one_file(
        tmp_path / "inner",
        struct_type(*schema["fields"][:1]),
        pa.table([content.column("x")], schema=pa.schema([with_id(pa.field("x", pa.struct({"y": pa.int64()})), 1)])),
        **mapped,
    )
    with pytest.raises(UnreadableFileError, match="has none at y"):
        read(inner)


def test_columns_are_named_once_and_as_they_are(tmp_path: Path) -> None:
    table = one_file(tmp_path, {"id": "long", "value": "string"}, pa.table({"id": [1]}))
    with pytest.raises(OptionError, match="asked for twice: id"):
        read(table, ["id", "ID"])
    with pytest.raises(OptionError, match="did you mean value"):
        read(table, ["valu"])
