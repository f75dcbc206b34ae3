"""What happens to a table after its metadata sidecar was built: the sidecar is read as of its own version."""

from __future__ import annotations

import json
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add, commit_info, deletion_vector, metadata, protocol, remove
from tests.builder.schemas import Schema
from tests.scan.reading import STRATEGIES, agrees_with_model, key_of, keys_of, scan
from tests.scan.sidecar_tables import (
    BASE,
    gone,
    heard,
    hour_file,
    hourly,
    is_same,
    manifest_of,
    manifest_path,
    sidecar_path,
    with_sidecar,
    without_sidecars,
)

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar import DeltaFile

WAYS: list[dict[str, Any]] = [{"strategy": "reverse"}, {"strategy": "forward"}, {"order": "recent"}]


def answers(table: TableBuilder, *predicates: str | None) -> list[DeltaFile]:
    """Asserts that the sidecar is the base and gives what the log gives, in one way or another; gives all files."""
    for way, predicate in [*zip(cycle(WAYS), predicates, strict=False), *((way, None) for way in WAYS[:2])]:
        one = heard(table, predicate=predicate, **way)
        assert one.told == (1, None)
        is_same(one.files, without_sidecars(table, predicate=predicate, **way))
    return one.files


# --- files -------------------------------------------------------------------------------------------------------


def test_only_the_newest_vector_of_a_file_comes(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path, kind=None), BASE)
    vector = deletion_vector("second")
    for number in range(5):
        newer = deletion_vector(f"after {number}")
        table.commit([gone(hour_file(2, dv=vector)), hour_file(2, dv=newer)])
        vector = newer
    files = [file for file in answers(table, "id = 2") if file.path == "f002.parquet"]
    assert [key_of(file)[1] for file in files] == ["u" + vector["pathOrInlineDv"] + "@1"]
    agrees_with_model(table)


def test_a_vector_that_the_sidecar_has_may_go_and_come_back(tmp_path: Path) -> None:
    table = hourly(tmp_path)
    with_sidecar(table)
    vector = deletion_vector("second")
    table.commit([gone(hour_file(2, dv=vector)), hour_file(2)])
    table.commit([gone(hour_file(2)), hour_file(2, dv=vector)])
    answers(table, "id = 2")
    agrees_with_model(table)


def test_a_file_that_is_added_again_has_its_new_statistics(tmp_path: Path) -> None:
    """Without a remove, as OPTIMIZE and statistics jobs do it."""
    table = with_sidecar(hourly(tmp_path))
    again = hour_file(3)
    again["add"] |= {"stats": '{"numRecords":7}', "tags": {"fresh": "yes"}, "size": 7}
    table.commit([again])
    (file,) = (file for file in answers(table, "id = 99") if file.path == "f003.parquet")
    assert (file.stats, file.size, file.tags) == ('{"numRecords":7}', 7, {"fresh": "yes"})


def test_a_tail_that_removes_every_file(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    table.commit([remove(path, dv=file.get("deletionVector")) for (path, _), file in table.model_files().items()])
    assert answers(table, "id > 0") == []
    table.commit([hour_file(50)])
    assert [file.path for file in answers(table)] == ["f050.parquet"]


@pytest.mark.parametrize("files", [0, 3])
def test_an_empty_table(tmp_path: Path, files: int) -> None:
    table = TableBuilder(tmp_path)
    table.commit()
    with_sidecar(table)
    table.commit([commit_info(), *(add(f"{number}.parquet", rows=[{"id": number}]) for number in range(files))])
    assert len(answers(table, "id > 0")) == files


@pytest.mark.full
def test_a_hundred_thousand_files_in_a_commit_after_it(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    many = [add(f"m{number}.parquet", partition_values={"_event_hour": "2026021023"}) for number in range(100_000)]
    table.commit([gone(hour_file(1, stats=False)), *many])
    expected = sorted(table.model_files(), key=repr)
    for strategy in STRATEGIES:
        one = heard(table, strategy=strategy)
        assert one.told == (1, None)
        assert keys_of(one.files) == expected


def test_paths_in_several_spellings_are_one_file(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add(path) for path in ("a%20b.parquet", "file:///x/y.parquet", "/x/z.parquet", "ü.parquet")])
    with_sidecar(table)
    table.commit([remove("a b.parquet"), remove("/x/y.parquet"), add("file:/x/z.parquet", size=5)])
    assert sorted(file.raw_path for file in answers(table)) == ["file:/x/z.parquet", "ü.parquet"]


# --- buckets -----------------------------------------------------------------------------------------------------

ODD = {
    "string": ["b", "a", "", None, "é", "A"],
    "integer": ["9", "10", "-1", None, "", "x", "007", "2147483648"],
    "date": ["2026-02-10", "2026-02-09", None, "", "10.2.2026", "9999-12-31", "0001-01-01"],
    "timestamp": [
        *("2026-02-10 10:00:00", "2026-02-10T09:00:00Z", "2026-02-10 10:00:00.000001", None, "", "noon"),
        *("1969-12-31 23:59:59.999999", "2026-02-10T10:00:00+02:00"),
    ],
    "double": ["1.5", "-0.0", "0.0", "NaN", "Infinity", "-Infinity", None, "one"],
    "boolean": ["true", "false", None, "maybe"],
    "decimal(10,2)": ["1.50", "-1.5", "99999999.99", None, "1e3", "x"],
}


@pytest.mark.full
@pytest.mark.parametrize("kind", ODD)
def test_buckets_of_every_type_with_odd_texts(tmp_path: Path, kind: str) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long", "_event_hour": kind}, partition_columns=["_event_hour"])
    files = [
        add(f"{number}-{copy}.parquet", partition_values={"_event_hour": text}, rows=[{"id": number}])
        for number, text in enumerate(ODD[kind])
        for copy in range(3)
    ]
    table.commit(files)
    table.checkpoint(row_group_rows=4)
    with_sidecar(table)
    values = {"string": "'a'", "integer": "9", "date": "DATE '2026-02-10'", "double": "0", "boolean": "TRUE"}
    literal = values.get(kind, "TIMESTAMP '2026-02-10 10:00:00'" if kind == "timestamp" else "1.5")
    answers(table, *(f"_event_hour {op} {literal}" for op in ("=", ">", "<=", "<>")), "_event_hour IS NULL")
    recent = scan(table, order="recent")
    assert keys_of(recent) == keys_of(without_sidecars(table))
    for limit in (4, 9, 20):
        assert scan(table, limit=limit) == recent[:limit]


def test_a_bucket_that_is_not_told(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long", "_event_hour": "string"}, partition_columns=["_event_hour"])
    told = [add(f"{n}.parquet", partition_values={"_event_hour": f"{n}"}) for n in range(4)]
    table.commit([*told, add("x.parquet"), add("y.parquet")])
    table.checkpoint()
    with_sidecar(table)
    files = answers(table, "_event_hour = '2'", "_event_hour IS NULL", "_event_hour > '5'")
    assert {file.path for file in files} >= {"x.parquet", "y.parquet"}


# --- schemas -----------------------------------------------------------------------------------------------------


def test_a_column_that_came_later(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long"})
    table.commit([add(f"{number}.parquet", rows=[{"id": number}]) for number in range(5)])
    with_sidecar(table)
    table.commit([metadata({"id": "long", "more": "string"}), add("new.parquet", rows=[{"id": 9, "more": "z"}])])
    answers(table, "more = 'z'", "more IS NULL", "more IS NOT NULL", "id > 3 AND more < 'z'")


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_were_renamed_dropped_and_replaced(tmp_path: Path, mode: str) -> None:
    first = Schema.first({"id": "long", "at": "timestamp", "name": "string"}, {"_event_hour": "string"}, mode)
    physical = {field.name: field.physical for field in first.fields}
    table = TableBuilder(
        tmp_path,
        schema=first.struct,
        partition_columns=first.partition_names,
        configuration=first.configuration,
        protocol=protocol(2, 5),
    )

    def file(number: int) -> dict[str, Any]:
        rows = [{physical["id"]: number, physical["name"]: f"n{number}"}]
        return add(f"{number}.parquet", rows=rows, partition_values={physical["_event_hour"]: f"{number % 4}"})

    table.commit([file(number) for number in range(9)])
    with_sidecar(table)
    place = (physical["name"],)
    renamed = first.renamed({(physical["id"],): "ident", (physical["_event_hour"],): "hour"})
    replaced = renamed.without(place).with_columns({"name": "long"}, ())
    table.commit([replaced.action(), file(20)])
    is_wanted = ["ident > 5", "hour = '2'", "name > 5", "name IS NULL", "hour > '1' AND ident < 3"]
    files = answers(table, *is_wanted)
    assert {"hour"} == files[0].partition_values.keys()
    assert keys_of(scan(table, predicate="ident = 8")) == [("8.parquet", None)]
    assert len(scan(table, predicate="name = 5")) == 10, "statistics of the dropped column say nothing of the new one"


WIDENED = {
    ("integer", "long"): ("id > 5", "id = 3000000000", "id < 2"),
    ("float", "double"): ("id > 5.5", "id = 0.1", "id < 2"),
    ("integer", "double"): ("id > 5.5", "id = 0.5", "id < 2"),
    ("decimal(5,2)", "decimal(12,4)"): ("id > 5.5", "id = 12345.6789", "id < 2"),
    ("integer", "decimal(12,2)"): ("id > 5.5", "id = 12345.67", "id < 2"),
    ("date", "timestamp_ntz"): (
        "id > timestamp_ntz '2026-02-05 12:00:00'",
        "id = timestamp_ntz '2026-02-03 00:00:00'",
        "id < timestamp_ntz '2026-02-02 00:00:01'",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("role", ["column", "partition"])
@pytest.mark.parametrize(("before", "after"), WIDENED)
def test_a_column_that_was_widened(tmp_path: Path, before: str, after: str, role: str) -> None:
    features = protocol(features=["typeWidening", "timestampNtz"])
    partitions = ["id"] if role == "partition" else []
    table = TableBuilder(tmp_path, schema={"id": before, "x": "long"}, partition_columns=partitions, protocol=features)

    def file(number: int) -> dict[str, Any]:
        value = f"2026-02-{number + 1:02}" if before == "date" else number
        if partitions:
            return add(f"{number}.parquet", partition_values={"id": str(value)})
        bounds = {"id": value}
        stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0}}
        return add(f"{number}.parquet", stats=stats)

    table.commit([file(number) for number in range(9)])
    with_sidecar(table)
    change = {"fromType": before, "toType": after, "tableVersion": 1}
    fields = [
        {"name": "id", "type": after, "nullable": True, "metadata": {"delta.typeChanges": [change]}},
        {"name": "x", "type": "long", "nullable": True, "metadata": {}},
    ]
    table.commit([metadata({"type": "struct", "fields": fields}, partitions), file(20)])
    answers(table, *WIDENED[before, after])
    # And a sidecar of the wider column.
    answers(with_sidecar(table), *WIDENED[before, after])


def test_other_statistics_columns_than_before(tmp_path: Path) -> None:
    """Files from before the property have statistics of columns that the sidecar does not keep as values."""
    schema = {"a": "long", "b": "long"}
    table = TableBuilder(tmp_path, schema=schema)
    table.commit([add(f"{number}.parquet", rows=[{"a": number, "b": -number}]) for number in range(6)])
    table.commit([metadata(schema, configuration={"delta.dataSkippingStatsColumns": "a"})])
    with_sidecar(table)
    assert manifest_of(table, 1).statistics == (("a",),)
    answers(table, "a = 3", "b = -3", "a = 3 OR b = -4", "b IS NULL")


# --- Delta's own sidecars beside them ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet"])
def test_sidecars_of_a_v2_checkpoint_in_the_same_folder(tmp_path: Path, kind: str) -> None:
    table = hourly(tmp_path, kind)
    answers(with_sidecar(table, BASE))
    answers(with_sidecar(table), "id > 3")
    for path in (manifest_path(table, 6), sidecar_path(table, 6), manifest_path(table, BASE)):
        path.unlink()
    one = heard(table)
    assert (one.bases, one.told) == ([(BASE, 2)], (2, "no_manifest"))


def test_a_v2_checkpoint_whose_own_sidecar_is_called_like_ours(tmp_path: Path) -> None:
    table = hourly(tmp_path, "v2-json")
    top = next(table.log.glob(f"{BASE:020}.checkpoint.*.json"))
    lines = [json.loads(line) for line in top.read_text().splitlines()]
    (first, *_) = (line["sidecar"] for line in lines if "sidecar" in line)
    (table.log / "_sidecars" / first["path"]).rename(sidecar_path(table, BASE))
    first["path"] = f"v{BASE}.parquet"
    top.write_text("".join(json.dumps(line) + "\n" for line in lines))
    theirs = sidecar_path(table, BASE).read_bytes()
    one = heard(table)
    assert one.bases == [(BASE, 3)]
    assert one.told[0] == 3
    agrees_with_model(table)
    # A build leaves it alone and takes another name.
    with_sidecar(table, BASE)
    assert manifest_of(table, BASE).sidecar_file != f"v{BASE}.parquet"
    assert sidecar_path(table, BASE).read_bytes() == theirs
    answers(table, "id > 3")
    agrees_with_model(table)
