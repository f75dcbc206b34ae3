"""Statistics of files under the names that users see, and what they come to for a table."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add, deletion_vector, protocol, remove
from tests.own_threads import forget
from tests.table.written import every_type, partitioned, write

from delta_sidecar import DeltaTable, LogCorruptionError, OptionError
from delta_sidecar.events import Event, ScanEnded
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore
from delta_sidecar.table.statistics import ColumnSummary, TableSummary, fold_stats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from delta_sidecar.table.statistics import FileStats

EXACT = True
VECTORS = protocol(features=["deletionVectors"])


def one(root: Path, columns: Sequence[str] | None = None) -> FileStats:
    (found,) = DeltaTable(root).get_stats_for_files(columns=columns)
    return found


def summary(root: Path, columns: Sequence[str] | None = None, predicate: str | None = None) -> TableSummary:
    return fold_stats(DeltaTable(root).snapshot().handle, columns, predicate)


def column(root: Path, name: str) -> ColumnSummary:
    (found,) = summary(root, [name]).columns
    return found


# --- file by file ---------------------------------------------------------------------------------------------------


def test_values_come_as_python_values(tmp_path: Path) -> None:
    found = one(write(tmp_path, every_type()))
    moment = dt.datetime(2026, 2, 10, 22, 15, 3, 456000, tzinfo=dt.UTC)
    assert found.num_records == 3
    assert (found.deleted_rows, found.tight_bounds) == (0, True)
    assert found.minimums == {
        "flag": False,
        "text": "a",
        "tiny": -2,
        "small": -2,
        "int": -2,
        "long": 1,
        "float": -2.5,
        "double": 1.5,
        "day": dt.date(1969, 12, 31),
        "moment": moment,
        "clock": moment.replace(tzinfo=None),
        "money": Decimal("-4.56"),
        "struct.x": 1,
        "struct.y.z": "q",
    }
    assert found.maximums["long"] == 2**62
    assert found.maximums["text"].startswith("é" * 31)
    assert found.null_counts["flag"] == 1
    assert found.null_counts["struct.y.z"] == 2
    assert found.size == next(tmp_path.glob("*.parquet")).stat().st_size


def test_a_partition_column_has_its_value_as_both_bounds(tmp_path: Path) -> None:
    write(tmp_path, partitioned(), partition_by=["d", "s"])
    found = {file.minimums.get("s"): file for file in DeltaTable(tmp_path).get_stats_for_files(columns=["s", "d", "v"])}
    assert found["a"].minimums == {"s": "a", "d": dt.date(2026, 1, 1), "v": 0} == found["a"].maximums
    assert found["a"].null_counts == {"s": 0, "d": 0, "v": 0}
    assert found[None].null_counts == {"s": 1, "d": 0, "v": 0}


def test_a_file_without_statistics_tells_nothing(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a", size=7)])
    found = one(tmp_path)
    assert (found.path, found.size, found.num_records, found.tight_bounds) == ("a", 7, None, None)
    assert (found.null_counts, found.minimums, found.maximums) == ({}, {}, {})


def test_deleted_rows_and_loose_bounds_are_told(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, protocol=VECTORS)
    stats = {
        "numRecords": 9,
        "tightBounds": False,
        "minValues": {"id": 1},
        "maxValues": {"id": 5},
        "nullCount": {"id": 0},
    }
    table.commit([add("a", stats=stats, dv=deletion_vector("v", cardinality=4))])
    found = one(tmp_path)
    assert (found.num_records, found.deleted_rows, found.tight_bounds) == (9, 4, False)
    assert (found.minimums, found.maximums, found.null_counts) == ({"id": 1}, {"id": 5}, {"id": 0})


def mapped(name: str, kind: object, physical: str, number: int) -> dict[str, Any]:
    notes = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": notes}


def test_names_are_those_of_today(tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [mapped("x.y", "long", "col-3", 3), mapped("z", "string", "col-4", 4)]}
    fields = [mapped("s", inner, "col-1", 1), mapped("n", "long", "col-2", 2), mapped("p", "string", "col-5", 5)]
    table = TableBuilder(
        tmp_path,
        schema={"type": "struct", "fields": fields},
        partition_columns=["p"],
        protocol=protocol(2, 5),
        configuration={"delta.columnMapping.mode": "name"},
    )
    bounds = {"col-1": {"col-3": 7, "col-4": "k"}, "col-2": 5}
    counts = {"col-1": {"col-3": 1, "col-4": 0}, "col-2": 0}
    stats = {"numRecords": 3, "minValues": bounds, "maxValues": bounds, "nullCount": counts}
    table.commit([add("a%20b", stats=stats, partition_values={"col-5": "v"})])
    found = one(tmp_path)
    assert found.path == "a b"
    assert found.minimums == {"s.`x.y`": 7, "s.z": "k", "n": 5, "p": "v"}
    assert found.null_counts == {"s.`x.y`": 1, "s.z": 0, "n": 0, "p": 0}
    assert one(tmp_path, columns=["s.`x.y`"]).minimums == {"s.`x.y`": 7}
    actions = DeltaTable(tmp_path).get_add_actions(flatten=True).read_all().to_pylist()
    assert actions[0]["path"] == "a%20b"
    assert (actions[0]["min.col-1.col-3"], actions[0]["partition.p"]) == (7, "v")


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["long"], ["long"]),
        (["LONG", "struct.X"], ["long", "struct.x"]),
        (["struct"], ["struct.x", "struct.y.z"]),
        (["struct.y", "flag"], ["struct.y.z", "flag"]),
        (["struct.x", "struct"], ["struct.x", "struct.y.z"]),
        ([], []),
    ],
)
def test_columns_are_chosen_by_name(tmp_path: Path, names: list[str], columns: list[str]) -> None:
    write(tmp_path, every_type())
    assert list(one(tmp_path, columns=names).minimums) == columns
    assert [found.name for found in summary(tmp_path, names).columns] == columns


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (["lung"], "did you mean long"),
        (["struct.w"], "struct"),
        (["nothing"], "the columns are"),
        ("long", "list of names"),
    ],
)
def test_a_column_that_is_not_there_is_refused(tmp_path: Path, names: list[str] | str, hint: str) -> None:
    table = DeltaTable(write(tmp_path, every_type()))
    with pytest.raises(OptionError, match=hint):
        table.get_stats_for_files(columns=names)
    with pytest.raises(OptionError, match=hint):
        fold_stats(table.snapshot().handle, names)


def test_a_name_with_a_dot_is_found_before_a_field(tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [{"name": "b", "type": "long", "nullable": True, "metadata": {}}]}
    table = TableBuilder(tmp_path, schema={"a": inner, "a.b": "long"})
    bounds = {"a": {"b": 1}, "a.b": 2}
    table.commit([add("f", stats={"numRecords": 1, "minValues": bounds, "maxValues": bounds})])
    assert one(tmp_path).minimums == {"a.b": 1, "`a.b`": 2}
    assert one(tmp_path, columns=["a.b"]).minimums == {"`a.b`": 2}
    assert one(tmp_path, columns=["a"]).minimums == {"a.b": 1}


def test_bounds_that_cannot_be_compared_are_left_out(tmp_path: Path) -> None:
    changes = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    fields = [
        {"name": "wide", "type": "double", "nullable": True, "metadata": changes},
        {"name": "odd", "type": "double", "nullable": True, "metadata": {}},
        {"name": "early", "type": "timestamp_ntz", "nullable": True, "metadata": {}},
    ]
    table = TableBuilder(tmp_path, schema={"type": "struct", "fields": fields})
    bounds = {"wide": 1.1, "odd": "NaN", "early": "0000-01-01T00:00:00"}
    counts = {"wide": 0, "odd": 0, "early": 0}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds | {"odd": 2.0}, "nullCount": counts}
    table.commit([add("f", stats=stats)])
    found = one(tmp_path)
    assert (found.minimums, found.maximums) == ({}, {"odd": 2.0})
    assert found.null_counts == counts
    assert column(tmp_path, "wide").files_without == column(tmp_path, "early").files_without == 1


def test_a_partition_value_of_another_type_is_refused(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long", "day": "date"}, partition_columns=["day"])
    table.commit([add("f", partition_values={"day": "2026-02-30"})])
    with pytest.raises(LogCorruptionError, match=r"'2026-02-30' as a value of partition column day"):
        list(DeltaTable(tmp_path).get_stats_for_files())
    with pytest.raises(LogCorruptionError, match="2026-02-30"):
        DeltaTable(tmp_path).get_add_actions().read_all()


# --- which files ----------------------------------------------------------------------------------------------------


def long_log(root: Path, commits: int = 40) -> TableBuilder:
    table = TableBuilder(root)
    for number in range(commits):
        table.commit(
            [add(f"f{number:02}", stats={"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number}})]
        )
    return table


def test_only_files_that_may_match_are_given(tmp_path: Path) -> None:
    long_log(tmp_path)
    table = DeltaTable(tmp_path)
    assert sorted(file.path for file in table.get_stats_for_files(predicate="id >= 38")) == ["f38", "f39"]
    assert len(list(table.get_stats_for_files(limit=3))) == 3
    assert list(table.get_stats_for_files(limit=0)) == []
    with pytest.raises(OptionError):
        table.get_stats_for_files(limit=-1)
    with pytest.raises(OptionError):
        table.get_stats_for_files(["f01"], limit=-1)


def test_files_are_chosen_by_path(tmp_path: Path) -> None:
    table = long_log(tmp_path)
    table.commit([remove("f05")])
    opened = DeltaTable(tmp_path)
    asked = ["f07", "f05", "nothing", "f33", "f07"]
    assert sorted(file.path for file in opened.get_stats_for_files(asked)) == ["f07", "f33"]
    assert len(list(opened.get_stats_for_files(iter(asked), limit=1))) == 1
    assert [file.path for file in opened.get_stats_for_files(asked, predicate="id < 20")] == ["f07"]
    assert list(opened.get_stats_for_files([])) == []
    with pytest.raises(OptionError, match="list of paths"):
        opened.get_stats_for_files("f07")


def test_the_search_ends_with_the_last_path(tmp_path: Path) -> None:
    long_log(tmp_path)
    store = RecordingStore(open_store(tmp_path))
    options = {"strategy": "reverse", "commit_read_parallelism": 2, "batch_size": 1}
    table = DeltaTable(tmp_path, store=store, options=options)
    table.snapshot()
    forget(store)
    assert [file.path for file in table.get_stats_for_files(["f39", "f38"])] == ["f39", "f38"]
    assert len(store.attempts) < 10


def test_who_stops_stops_the_requests(tmp_path: Path) -> None:
    long_log(tmp_path)
    store = RecordingStore(open_store(tmp_path))
    options = {"strategy": "reverse", "commit_read_parallelism": 2, "batch_size": 1}
    table = DeltaTable(tmp_path, store=store, options=options)
    table.snapshot()
    forget(store)
    stream = table.get_stats_for_files()
    assert next(stream).path == "f39"
    stream.close()  # type: ignore[attr-defined]
    assert list(stream) == []
    assert len(store.attempts) < 10
    reader = table.get_add_actions()
    assert reader.read_next_batch().num_rows == 1
    del reader
    assert len(store.attempts) < 20


def test_add_actions_are_a_stream_and_a_table_for_those_who_ask_for_columns(tmp_path: Path) -> None:
    long_log(tmp_path)
    table = DeltaTable(tmp_path, options={"strategy": "reverse", "batch_size": 1})
    actions, theirs = table.get_add_actions(flatten=True), deltalake.DeltaTable(tmp_path).get_add_actions(flatten=True)
    assert actions.read_next_batch().num_rows == 1
    # What was taken from the stream is not missing in the table.
    assert (actions.num_rows, len(actions), actions.column_names) == (40, 40, theirs.column_names)
    assert sorted(actions["path"].to_pylist()) == sorted(actions.column("path").to_pylist())
    assert sorted(actions.column(0).to_pylist()) == sorted(theirs.column(0).to_pylist())
    assert actions.schema == pa.schema(theirs.schema)
    assert (
        sum(batch.num_rows for batch in actions)
        == pa.table(actions).num_rows
        == actions.to_reader().read_all().num_rows
    )
    assert not hasattr(actions, "nothing")


def test_a_list_of_add_actions_takes_one_scan_and_so_does_all_else_after_a_table(tmp_path: Path) -> None:
    long_log(tmp_path)
    ended: list[Event] = []

    def listen(event: Event) -> None:
        if isinstance(event, ScanEnded):
            ended.append(event)

    table = DeltaTable(tmp_path, listeners=[listen])
    assert sum(batch.num_rows for batch in list(table.get_add_actions())) == 40
    assert len(ended) == 1
    actions = table.get_add_actions()
    assert actions.num_rows == sum(batch.num_rows for batch in actions) == pa.table(actions).num_rows == 40
    assert len(ended) == 2


# --- what they come to ----------------------------------------------------------------------------------------------


def stats(
    rows: int, low: object = None, high: object = None, nulls: int | None = 0, name: str = "id", **more: object
) -> dict[str, Any]:
    found: dict[str, Any] = {"numRecords": rows, **more}
    if low is not None:
        found |= {"minValues": {name: low}, "maxValues": {name: high if high is not None else low}}
    return found if nulls is None else found | {"nullCount": {name: nulls}}


def test_tight_bounds_are_values(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a", stats=stats(10, 5, 9, 2), size=10), add("b", stats=stats(5, -1, 7), size=20)])
    whole = summary(tmp_path)
    assert (whole.version, whole.files, whole.size, whole.rows, whole.deleted_rows) == (0, 2, 30, 15, 0)
    assert whole.files_without_rows == 0
    assert whole.columns[0] == ColumnSummary("id", "int64", -1, "value", 9, "value", 2, EXACT, 15, 2, 0)
    assert whole.columns[1] == ColumnSummary("value", "string", None, None, None, None, 0, EXACT, 0, 0, 2)


@pytest.mark.parametrize("loose", ["tightBounds", "deletion vector"])
def test_bounds_of_files_with_deleted_rows_are_bounds(tmp_path: Path, loose: str) -> None:
    table = TableBuilder(tmp_path, protocol=VECTORS)
    more: dict[str, Any] = {"tightBounds": False} if loose == "tightBounds" else {}
    dv = None if loose == "tightBounds" else deletion_vector("v", cardinality=4)
    table.commit([add("a", stats=stats(10, 5, 20, 3, **more), dv=dv), add("b", stats=stats(5, 2, 7, 1))])
    found = column(tmp_path, "id")
    assert (found.minimum, found.minimum_is, found.maximum, found.maximum_is) == (2, "value", 20, "bound")
    assert (found.null_count, found.null_count_is_exact) == (4, False)
    assert found.rows == (15 if dv is None else 11)
    assert summary(tmp_path).deleted_rows == (0 if dv is None else 4)


@pytest.mark.parametrize(("nulls", "counted"), [(0, 0), (10, 6)])
def test_nowhere_and_everywhere_null_is_sure_in_spite_of_deleted_rows(tmp_path: Path, nulls: int, counted: int) -> None:
    table = TableBuilder(tmp_path, protocol=VECTORS)
    table.commit(
        [add("a", stats=stats(10, None, None, nulls, tightBounds=False), dv=deletion_vector("v", cardinality=4))]
    )
    found = column(tmp_path, "id")
    assert (found.null_count, found.null_count_is_exact, found.rows) == (counted, True, 6)
    assert found.files_without == (0 if nulls else 1)


@pytest.mark.parametrize(
    ("low", "high", "meanings"),
    [
        ("a", "z", ("value", "value")),
        ("a" * 31, "z" * 32, ("value", "cut")),
        ("a" * 32, "z" * 31, ("cut", "value")),
        ("a", "\U0001f600" * 16, ("value", "cut")),
    ],
)
def test_texts_that_may_be_cut_off_are_marked(tmp_path: Path, low: str, high: str, meanings: tuple[str, str]) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a", stats=stats(2, low, high, name="value")), add("b", stats=stats(2, "m", name="value"))])
    found = column(tmp_path, "value")
    assert (found.minimum, found.maximum) == (low, high)
    assert (found.minimum_is, found.maximum_is) == meanings


def test_timestamps_may_be_rounded(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"t": "timestamp", "d": "date"})
    bounds = {"t": "2026-02-10T22:15:03.456Z", "d": "2026-02-10"}
    table.commit(
        [add("a", stats={"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"t": 0, "d": 0}})]
    )
    moment, day = summary(tmp_path).columns
    assert (moment.minimum_is, moment.maximum_is) == ("rounded", "rounded")
    assert moment.maximum == dt.datetime(2026, 2, 10, 22, 15, 3, 456000, tzinfo=dt.UTC)
    assert (day.minimum, day.minimum_is) == (dt.date(2026, 2, 10), "value")


def test_files_that_do_not_tell_are_counted(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit(
        [
            add("bounds", stats=stats(10, 5)),
            add("nulls", stats=stats(10, None, None, 10)),
            add("empty", stats=stats(0, None, None, None)),
            add("counts", stats=stats(10, None, None, 3)),
            add("rows", stats={"numRecords": 10}),
            add("nothing"),
        ]
    )
    found = column(tmp_path, "id")
    assert (found.files, found.files_without) == (3, 3)
    assert (found.null_count, found.null_count_is_exact, found.rows) == (13, True, 30)
    assert (found.minimum, found.minimum_is) == (5, "value")
    assert (summary(tmp_path).rows, summary(tmp_path).files_without_rows) == (40, 1)


def test_partition_columns_are_values(tmp_path: Path) -> None:
    write(tmp_path, partitioned(), partition_by=["s", "t"])
    text, moment = summary(tmp_path, ["s", "t"]).columns
    assert (text.minimum, text.minimum_is, text.maximum, text.maximum_is) == ("12", "value", "x y", "value")
    assert (text.null_count, text.null_count_is_exact, text.files, text.files_without) == (1, True, 6, 0)
    assert (moment.maximum, moment.maximum_is) == (dt.datetime(2027, 1, 1, 1, tzinfo=dt.UTC), "value")


def test_a_partition_whose_rows_are_not_told_is_a_bound(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, partition_columns=["value"])
    table.commit([add("a", partition_values={"value": "x"}), add("b", partition_values={"value": None})])
    found = column(tmp_path, "value")
    assert (found.minimum, found.minimum_is, found.files, found.files_without) == ("x", "bound", 2, 0)


def test_an_empty_table_comes_to_nothing(tmp_path: Path) -> None:
    TableBuilder(tmp_path).commit()
    whole = summary(tmp_path)
    assert (whole.files, whole.rows, whole.size) == (0, 0, 0)
    assert whole.columns[0] == ColumnSummary("id", "int64", None, None, None, None, 0, EXACT, 0, 0, 0)


def test_only_files_that_may_match_come_to_it(tmp_path: Path) -> None:
    long_log(tmp_path)
    whole = summary(tmp_path, ["id"], predicate="id >= 30")
    assert (whole.files, whole.rows, whole.columns[0].minimum) == (10, 10, 30)


def test_every_type_is_folded(tmp_path: Path) -> None:
    write(tmp_path, every_type())
    write(tmp_path, every_type().take(pa.array([2])))
    found = {each.name: each for each in summary(tmp_path).columns}
    stats_of_first = next(file for file in DeltaTable(tmp_path).get_stats_for_files() if file.num_records == 3)
    assert {name: each.minimum for name, each in found.items() if each.minimum is not None} == stats_of_first.minimums
    assert found["money"].maximum == Decimal("1.23")
    assert (found["flag"].null_count, found["tiny"].null_count) == (1, 2)
    assert found["list"].files_without == 2
    assert found["moment"].type == "timestamp[us, tz=UTC]"


def test_statistics_in_native_columns_of_a_checkpoint_are_the_same(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long", "value": "string", "t": "timestamp"})
    rows = [{"id": n, "value": f"v{n}", "t": dt.datetime(2026, 1, 1, n % 24, tzinfo=dt.UTC)} for n in range(50)]
    table.commit([add(f"f{n}", rows=rows[n : n + 5]) for n in range(0, 50, 5)])
    before = {file.path: file for file in DeltaTable(tmp_path).get_stats_for_files()}
    folded = summary(tmp_path)
    table.checkpoint(struct_stats=True, json_stats=False)
    table.clean_up(inclusive=True)
    assert {file.path: file for file in DeltaTable(tmp_path).get_stats_for_files()} == before
    assert summary(tmp_path) == folded
    assert json.loads(table.commits[0][-1]["add"]["stats"])["minValues"]["id"] == before["f45"].minimums["id"] == 45
