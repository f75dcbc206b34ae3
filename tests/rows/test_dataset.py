"""`LazyDataset`: the rows, columns and fragments of a table, as pyarrow has them of its own datasets."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builder import TableBuilder
from tests.connect import odd_rows
from tests.rows.tables import WITH_VECTORS, parquet, put

from delta_sidecar import DeltaTable, OptionError, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from delta_sidecar.rows.dataset import LazyDataset

ROWS = odd_rows.rows()
FIELDS = {name: pc.field(name) for name in ROWS.schema.names}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("odd")
    odd_rows.write(root)
    return root


@pytest.fixture(scope="module")
def dataset(root: Path) -> LazyDataset:
    made: LazyDataset = DeltaTable(root).to_pyarrow_dataset()
    return made


@pytest.fixture(scope="module")
def peer() -> pads.Dataset:
    """The same rows as a dataset of pyarrow's own."""
    return pads.dataset(ROWS)


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by("row") if "row" in table.schema.names else table


def test_it_is_a_dataset_of_pyarrow(dataset: LazyDataset, root: Path) -> None:
    assert isinstance(dataset, pads.Dataset)
    assert dataset.schema == ROWS.schema
    assert repr(dataset) == f"LazyDataset({str(root)!r}, version=4)"


def test_all_rows_come_in_the_types_of_the_schema(dataset: LazyDataset) -> None:
    found = dataset.to_table()
    assert found.schema == dataset.schema
    assert in_order(found).to_pylist().__repr__() == ROWS.to_pylist().__repr__()
    assert sum(batch.num_rows for batch in dataset.to_batches()) == ROWS.num_rows


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        ["row"],
        ["part", "row"],
        ["money", "day", "row", "v"],
        {"row": FIELDS["row"], "next": FIELDS["i"] + 1},
        {"row": FIELDS["row"], "hour": pc.hour(FIELDS["moment"]), "part": FIELDS["part"]},
        {"row": FIELDS["row"], "one": pc.scalar(1), "text": pc.utf8_upper(FIELDS["name"])},
        {"row": FIELDS["row"], "both": pc.if_else(FIELDS["flag"], FIELDS["v"], FIELDS["f"].cast(pa.float64()))},
    ],
)
def test_columns_are_as_pyarrow_has_them(dataset: LazyDataset, peer: pads.Dataset, columns: Any) -> None:  # noqa: ANN401
    scanner = dataset.scanner(columns=columns)
    wanted = peer.scanner(columns=columns)
    assert scanner.projected_schema == wanted.projected_schema
    assert scanner.dataset_schema == dataset.schema
    assert str(in_order(scanner.to_table()).to_pydict()) == str(in_order(wanted.to_table()).to_pydict())


def test_constants_alone_have_as_many_rows(dataset: LazyDataset) -> None:
    assert dataset.to_table(columns={"one": pc.scalar(1)}).to_pydict() == {"one": [1] * ROWS.num_rows}
    assert dataset.to_table(columns=[]).num_rows == ROWS.num_rows
    assert dataset.to_table(columns={}, filter=FIELDS["row"] < 3).num_rows == 3


def test_columns_come_out_as_often_as_they_are_asked_for(dataset: LazyDataset) -> None:
    found = dataset.to_table(columns=["row", "name", "row"], filter=FIELDS["row"] < 3)
    assert found.column_names == ["row", "name", "row"]
    assert found.column(0) == found.column(2)
    assert dataset.to_table(columns=["ROW"]).column_names == ["row"]


def test_columns_that_are_not_there_are_refused(dataset: LazyDataset) -> None:
    with pytest.raises(OptionError, match=r"no column 'nmae'; did you mean name"):
        dataset.scanner(columns=["row", "nmae"])
    with pytest.raises(OptionError, match="no column 'nothing'"):
        dataset.scanner(columns={"x": pc.field("nothing") + 1})
    with pytest.raises(OptionError, match="asked for twice"):
        dataset.scanner(columns=["row", "ROW"])
    with pytest.raises(OptionError, match="a list of names"):
        dataset.scanner(columns="row")
    with pytest.raises(OptionError, match="a list of names, or expressions by name"):
        dataset.scanner(columns=[FIELDS["row"]])
    with pytest.raises(OptionError, match="no expression of pyarrow"):
        dataset.scanner(columns={"x": 1})
    with pytest.raises(OptionError, match="cannot be made"):
        dataset.scanner(columns={"x": FIELDS["flag"] + FIELDS["day"]})


# --- filters ----------------------------------------------------------------------------------------------------------

LITERALS: dict[str, list[Any]] = {
    "i": [-3, 0, 14],
    "h": [0, 2],
    "v": [0.0, -0.0, 2.5, odd_rows.NAN, odd_rows.INFINITY],
    "f": [1.0, 0.0, odd_rows.NAN],
    "name": ["a", "", "éé"],
    "flag": [True],
    "day": ROWS["day"].unique().drop_null()[2:4].to_pylist(),
    "moment": ROWS["moment"].unique().drop_null()[5:9].to_pylist(),
    "money": ROWS["money"].unique().drop_null()[5:9].to_pylist(),
    "part": ["x", "w"],
}
COMPARISONS: list[Callable[[Any, Any], pc.Expression]] = [
    pc.equal,
    pc.not_equal,
    pc.less,
    pc.less_equal,
    pc.greater,
    pc.greater_equal,
]


def leaves() -> st.SearchStrategy[pc.Expression]:
    def of(column: str) -> st.SearchStrategy[pc.Expression]:
        field, value = FIELDS[column], st.sampled_from(LITERALS[column])
        return st.one_of(
            st.builds(lambda compare, one: compare(field, one), st.sampled_from(COMPARISONS), value),
            st.builds(lambda compare, one: compare(pc.scalar(one), field), st.sampled_from(COMPARISONS), value),
            st.lists(value, min_size=1, max_size=5).map(lambda some: field.isin(pa.array(some, ROWS[column].type))),
            st.sampled_from([field.is_null(), field.is_valid(), field.is_null(nan_is_null=True)]),
        )

    special = [
        FIELDS["flag"],
        pc.is_nan(FIELDS["v"]),
        FIELDS["v"] < FIELDS["f"],
        FIELDS["i"] + 2 > FIELDS["h"],
        pc.starts_with(FIELDS["name"], "a"),
        pc.match_like(FIELDS["name"], "%é"),
        pc.hour(FIELDS["moment"]) > 12,
        pc.field(0) < 9,
    ]
    return st.sampled_from(sorted(LITERALS)).flatmap(of) | st.sampled_from(special)


EXPRESSIONS = st.recursive(
    leaves(),
    lambda inner: (
        st.builds(lambda x, y: x & y, inner, inner)
        | st.builds(lambda x, y: x | y, inner, inner)
        | st.builds(lambda x: ~x, inner)
    ),
    max_leaves=4,
)


@pytest.mark.full
@settings(max_examples=60)
@given(EXPRESSIONS)
def test_a_filter_has_the_rows_that_it_has_in_memory(dataset: LazyDataset, expression: pc.Expression) -> None:
    wanted = odd_rows.places(ROWS.filter(expression))
    assert odd_rows.places(dataset.to_table(columns=["row"], filter=expression)) == wanted
    assert dataset.count_rows(filter=expression) == len(wanted)
    assert sum(fragment.count_rows(filter=expression) for fragment in dataset.get_fragments(expression)) == len(wanted)


def test_columns_may_be_meant_by_their_places(dataset: LazyDataset) -> None:
    third = dataset.schema.get_field_index("h")
    wanted = ROWS.filter(FIELDS["h"] == 2)
    for columns in (["row"], ["name", "row"], ["row", "h"], None):
        found = dataset.to_table(columns=columns, filter=pc.field(third) == 2)
        assert odd_rows.places(found) == odd_rows.places(wanted)
        assert found.schema.names == (columns or dataset.schema.names)


def test_filters_add_up(dataset: LazyDataset) -> None:
    narrowed = dataset.filter(FIELDS["row"] > 3).filter(FIELDS["row"] < 7)
    assert type(narrowed) is type(dataset)
    assert odd_rows.places(narrowed.to_table()) == [4, 5, 6]
    assert odd_rows.places(narrowed.to_table(columns=["row"], filter=FIELDS["row"] != 5)) == [4, 6]
    assert odd_rows.places(narrowed.head(9, columns=["row"])) == [4, 5, 6]
    assert narrowed.count_rows() == 3
    assert odd_rows.places(pa.concat_tables(fragment.to_table() for fragment in narrowed.get_fragments())) == [4, 5, 6]
    assert dataset.count_rows() == ROWS.num_rows


def test_a_filter_is_an_expression(dataset: LazyDataset) -> None:
    for filtering in (dataset.filter, lambda it: dataset.scanner(filter=it), dataset.get_fragments):
        with pytest.raises(OptionError, match="a filter is an expression of pyarrow"):
            filtering("row > 3")


def test_partitions_of_the_call_count_too(root: Path) -> None:
    some = DeltaTable(root).to_pyarrow_dataset(partitions=[("part", "=", "x")])
    wanted = [row["row"] for row in ROWS.to_pylist() if row["part"] == "x"]
    assert odd_rows.places(some.to_table()) == wanted[: len(wanted)]
    assert some.count_rows() == len(wanted)
    assert some.count_rows(filter=FIELDS["row"] > wanted[0]) == len(wanted) - 1
    assert sum(fragment.count_rows() for fragment in some.get_fragments()) == len(wanted)


# --- some rows --------------------------------------------------------------------------------------------------------


def test_the_first_rows(dataset: LazyDataset) -> None:
    assert dataset.head(3).num_rows == 3
    assert dataset.head(0).schema == dataset.schema
    assert dataset.head(1_000, columns=["row"]).num_rows == ROWS.num_rows
    assert odd_rows.places(dataset.head(2, columns=["row"], filter=FIELDS["row"] == 4)) == [4]


@pytest.mark.parametrize("places", [[0], [24, 0, 3, 3], [], np.array([1, 20]), pa.array([7, 6])])
def test_rows_by_their_places(dataset: LazyDataset, places: Any) -> None:  # noqa: ANN401
    every = dataset.to_table(columns=["row"])
    assert dataset.take(places, columns=["row"]).equals(every.take(pa.array(places, pa.int64())))


def test_rows_that_are_not_there_are_refused(dataset: LazyDataset) -> None:
    with pytest.raises(IndexError, match="there is no row 25: there are 25"):
        dataset.take([3, 25])
    with pytest.raises(IndexError, match="there is no row -1"):
        dataset.take([3, -1])


def test_batches_are_no_larger_than_asked(dataset: LazyDataset) -> None:
    assert max(batch.num_rows for batch in dataset.to_batches(batch_size=2)) == 2
    assert sum(batch.num_rows for batch in dataset.to_batches(batch_size=2)) == ROWS.num_rows
    with pytest.raises(OptionError, match="batch_size"):
        dataset.to_table(batch_size=0)


def test_a_scanner_is_a_stream_of_arrow(dataset: LazyDataset) -> None:
    scanner = dataset.scanner(columns=["row", "name"])
    for _ in range(2):
        assert pa.table(scanner).num_rows == ROWS.num_rows
        assert pa.RecordBatchReader.from_stream(scanner).schema.names == ["row", "name"]


# --- fragments --------------------------------------------------------------------------------------------------------


def test_fragments_are_the_files(dataset: LazyDataset, root: Path) -> None:
    fragments = list(dataset.get_fragments())
    assert sorted(root / fragment.path for fragment in fragments) == sorted(root.rglob("part=*/*.parquet"))
    every = pa.concat_tables(fragment.to_table() for fragment in fragments)
    assert every.schema == dataset.schema
    assert odd_rows.places(every) == list(range(ROWS.num_rows))


def test_a_fragment_has_the_methods_of_pyarrow(dataset: LazyDataset) -> None:
    (fragment,) = dataset.get_fragments(FIELDS["row"] == 12)
    assert str(fragment.partition_expression) == '(part == "z")'
    assert fragment.physical_schema.names == [name for name in ROWS.schema.names if name != "part"]
    assert odd_rows.places(fragment.to_table(columns=["row"], filter=FIELDS["row"] > 11)) == [12, 13, 14]
    assert fragment.scanner(dataset.schema, columns=["part"], batch_size=2).projected_schema.names == ["part"]
    assert [batch.num_rows for batch in fragment.to_batches(batch_size=3)] == [3, 2]
    assert fragment.head(2).num_rows == 2
    assert fragment.take([4, 0], columns=["row"]).to_pydict() == {"row": [14, 10]}
    assert fragment.count_rows() == 5
    assert fragment.count_rows(filter=FIELDS["row"] > 11) == 3
    assert fragment.path in repr(fragment)
    with pytest.raises(OptionError, match="leave schema out"):
        fragment.scanner(pa.schema([("row", pa.int32())]))
    with pytest.raises(OptionError, match="fragment_scan_options is not supported"):
        fragment.to_table(fragment_scan_options=pads.ParquetFragmentScanOptions())


def test_a_partition_may_be_null_or_not_there(dataset: LazyDataset, tmp_path: Path) -> None:
    (fragment,) = dataset.get_fragments(FIELDS["row"] == 17)
    assert str(fragment.partition_expression) == "is_null(part, {nan_is_null=false})"
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    (fragment,) = DeltaTable(tmp_path).to_pyarrow_dataset().get_fragments()
    assert str(fragment.partition_expression) == "true"


def test_a_fragment_that_is_gone_is_named(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    dataset = DeltaTable(tmp_path).to_pyarrow_dataset()
    (gone,) = tmp_path.glob("*.parquet")
    gone.unlink()
    (fragment,) = dataset.get_fragments()
    for ask in (fragment.to_table, lambda: fragment.physical_schema, dataset.to_table):
        with pytest.raises(UnreadableFileError, match=gone.name):
            ask()
    assert isinstance(dataset.last_error, UnreadableFileError)


# --- counting ---------------------------------------------------------------------------------------------------------


def test_files_without_statistics_are_counted_by_their_footers(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"x": "long", "p": "string"}, partition_columns=["p"])
    rows = pa.table({"x": range(10)})
    table.commit(
        [
            put(table, "a.parquet", rows, partition_values={"p": "a"}),
            put(table, "b.parquet", rows, partition_values={"p": "b"}, stats={"numRecords": 10}),
            put(table, "c.parquet", rows, partition_values={"p": None}, stats="no JSON"),
        ]
    )
    dataset = DeltaTable(tmp_path).to_pyarrow_dataset()
    assert dataset.count_rows() == 30
    assert dataset.count_rows(filter=pc.field("p") != "b") == 10
    assert dataset.count_rows(filter=~(pc.field("p") == "a")) == 10
    assert dataset.count_rows(filter=pc.field("p").is_null()) == 10
    assert dataset.to_table(columns=[], filter=pc.field("p") == "b").num_rows == 10
    assert dataset.scanner(columns=[]).head(25).num_rows == 25


def test_deleted_rows_do_not_count(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"x": "long", "p": "string"}, partition_columns=["p"], protocol=WITH_VECTORS)
    content = parquet(pa.table({"x": range(10)}))
    vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 1, "cardinality": 4}
    table.commit(
        [
            put(table, "a.parquet", content, partition_values={"p": "a"}, stats={"numRecords": 10}, dv=vector),
            put(table, "b.parquet", content, partition_values={"p": "b"}, stats={"numRecords": 10}),
        ]
    )
    dataset = DeltaTable(tmp_path).to_pyarrow_dataset()
    assert dataset.count_rows() == 16
    assert dataset.count_rows(filter=pc.field("p") == "a") == 6


# --- versions and threads ---------------------------------------------------------------------------------------------


def test_a_dataset_stays_at_its_version(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    table = DeltaTable(tmp_path)
    first = table.to_pyarrow_dataset()
    write_deltalake(tmp_path, pa.table({"x": [2], "y": [3]}), mode="append", schema_mode="merge")
    table.update_incremental()
    second = table.to_pyarrow_dataset()
    table.load_as_version(0)
    assert first.to_table().to_pydict() == {"x": [1]}
    assert second.schema.names == ["x", "y"]
    assert (first.count_rows(), second.count_rows()) == (1, 2)
    assert (len(list(first.get_fragments())), len(list(second.get_fragments()))) == (1, 2)
    assert first.filter(pc.field("x") > 0).schema.names == ["x"]


def test_threads_read_at_once(dataset: LazyDataset) -> None:
    found: list[list[Any]] = []

    def ask(number: int) -> None:
        found.extend(odd_rows.places(dataset.to_table(filter=FIELDS["row"] > number)) for _ in range(5))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == sorted(list(range(number + 1, 25)) for number in range(6) for _ in range(5))


def test_streams_may_be_taken_side_by_side(dataset: LazyDataset) -> None:
    streams = [dataset.to_batches(columns=["row"], batch_size=1) for _ in range(3)]
    rows = [[batch["row"][0].as_py() for batch in step] for step in zip(*streams, strict=True)]
    assert all(len(set(step)) == 1 for step in rows)
    assert len(rows) == ROWS.num_rows
