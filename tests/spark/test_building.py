"""A sidecar that Spark builds has the rows, the order and the schema of one that is built locally."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from tests.builder import TableBuilder, add, deletion_vector, protocol, remove
from tests.spark.both_builds import LOCAL, Table, both, data_files

from delta_sidecar import build_sidecar as build_locally
from delta_sidecar.build.publish import Levels
from delta_sidecar.errors import OptionError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.events import BuildEnded, Event
from delta_sidecar.spark.build import build_sidecar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

HOURS = {"id": "long", "at": "timestamp", "_event_hour": "string"}


@pytest.fixture
def local(local_lake: Lake) -> Table:
    """A local table of one's own."""
    return Table(local_lake.new_url(), {})


def hours(root: Path, count: int = 25, **options: Any) -> TableBuilder:  # noqa: ANN401 - any option
    """A table with a time bucket, files in no particular order, and some without bucket or statistics."""
    table = TableBuilder(root, schema=HOURS, partition_columns=["_event_hour"], **options)
    for number in range(count):
        hour = number * 7 % 10
        moment = dt.datetime(2026, 2, 10, hour, 30, tzinfo=dt.UTC)
        row = {"id": number, "at": moment, "_event_hour": f"20260210{hour:02}"}
        values = {"_event_hour": row["_event_hour"]}
        table.commit([add(f"_event_hour=20260210{hour:02}/{number}.parquet", partition_values=values, rows=[row])])
    table.commit(
        [
            add("odd/nowhere.parquet", partition_values={"_event_hour": None}),
            add("odd/empty.parquet", partition_values={"_event_hour": ""}),
            add("odd/silent.parquet", partition_values={"_event_hour": "2026021003"}),
        ]
    )
    return table


@pytest.mark.azurite
def test_a_table_that_spark_wrote(spark: SparkSession, azure_lake: Lake) -> None:
    table = Table(azure_lake.new_url(), azure_lake.options)
    spark.sql(
        f"create table delta.`{table.url}` (id bigint, at timestamp, v double, _event_hour string) using delta "
        "partitioned by (_event_hour) tblproperties ('delta.checkpointInterval' = '2')"
    )
    frame = spark.range(40).selectExpr(
        "id",
        "timestamp_seconds(1770000000 + id * 900) at",
        "cast(id as double) / 3 v",
        "if(id = 7, null, date_format(timestamp_seconds(1770000000 + id * 900), 'yyyyMMddHH')) _event_hour",
    )
    for _ in range(2):
        frame.repartition(2).write.format("delta").mode("append").save(table.url)
    DeltaTable.forPath(spark, table.url).delete("id = 11")
    summary, found, _ = both(spark, table, rows_per_part=10, rows_per_group=4)
    assert summary.sorted_by == "time bucket _event_hour"
    assert len(found.manifest.files) > 3
    assert found.manifest.num_files == spark.read.format("delta").load(table.url).inputFiles().__len__()
    assert summary.kept_texts == 0


@pytest.mark.full
def test_many_row_groups_over_several_parts(spark: SparkSession, local: Table) -> None:
    hours(Path(local.url), 230).checkpoint()
    for levels in (None, Levels(3, 2, 2)):
        summary, found, _ = both(spark, local, rows_per_part=50, rows_per_group=10, levels=levels)
        parts = [each.name.split(".")[2].split("-")[0] for each in data_files(found.manifest)]
        assert parts == [f"{part:05}" for part in range(5)]
        assert len(found.manifest.files) == (5 if levels is None else 6)
        assert bool(found.manifest.segments) == (levels is not None)
        # Incomplete files come first, from whichever part.
        flags = [group.first_key[0] for group in found.groups]
        assert flags == sorted(flags)
        assert {group.file for group, flag in zip(found.groups, flags, strict=True) if not flag} <= {0, 1, 2}
        assert summary.files == 233


def test_few_files_are_one_part(spark: SparkSession, local: Table) -> None:
    hours(Path(local.url), 20)
    _, found, other = both(spark, local, rows_per_group=10)
    assert len(found.manifest.files) == 1
    assert [group.num_rows for group in found.groups] == [group.num_rows for group in other.groups] == [3, 10, 10]


def test_one_file_and_none(spark: SparkSession, local: Table) -> None:
    root = Path(local.url)
    table = TableBuilder(root, schema=HOURS, partition_columns=["_event_hour"])
    table.commit([add("a", partition_values={"_event_hour": "2026021003"})])
    table.commit([remove("a")])
    summary, found, _ = both(spark, local)
    assert (summary.files, summary.row_groups, summary.file) == (0, 0, "v1.parquet")
    assert found.rows.num_rows == 0
    summary, *_ = both(spark, local, version=0)
    assert (summary.version, summary.files, summary.row_groups) == (0, 1, 1)


@pytest.mark.full
@pytest.mark.parametrize("checkpoint", [{"kind": "v1-multipart"}, {"kind": "v2-parquet", "sidecars": 3}], ids=str)
def test_every_kind_of_checkpoint(spark: SparkSession, local: Table, checkpoint: dict[str, Any]) -> None:
    features = ["v2Checkpoint"] if checkpoint["kind"].startswith("v2") else []
    table = hours(Path(local.url), 12, protocol=protocol(features=features) if features else None)
    table.checkpoint(**checkpoint)
    table.commit([remove("_event_hour=2026021000/0.parquet"), add("z", partition_values={"_event_hour": "2026021009"})])
    both(spark, local, rows_per_part=5, rows_per_group=3)


@pytest.mark.full
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_statistics_that_a_checkpoint_has_as_a_struct_only(spark: SparkSession, local: Table, zone: str) -> None:
    properties = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
    hours(Path(local.url), 12, configuration=properties).checkpoint(kind="v1", struct_stats=True, json_stats=False)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    # Delta has made texts of them in the zone of this session.
    assert session.read.format("delta").load(local.url).where("id = 0").inputFiles()
    summary = build_sidecar(session, local.url, rows_per_part=5, rows_per_group=3)
    distributed = local.read(summary.version)
    local.clear()
    other = local.read(build_locally(local.url, rows_per_group=3, **LOCAL).version)
    # The texts are made by Delta there and by us here: in what they say nothing differs.
    assert distributed.rows.to_pylist() == other.rows.to_pylist()
    assert distributed.manifest.schema_hash == other.manifest.schema_hash
    assert (summary.kept_texts, distributed.manifest.stats_format) == (0, "spark")
    stats = [
        [json.loads(text or "null") for text in each.files.column("stats").to_pylist()] for each in (distributed, other)
    ]
    assert [each and each["numRecords"] for each in stats[0]] == [each and each["numRecords"] for each in stats[1]]


def test_texts_of_several_writers(spark: SparkSession, local: Table) -> None:
    table = TableBuilder(Path(local.url), schema=HOURS, partition_columns=["_event_hour"])
    # A few files of one writer in the checkpoint, more of another one after it: the first ones decide on the layout.
    for number in range(12):
        hour = f"2026-02-10T{number:02}:30:00" + (".000Z" if number < 3 else "Z")
        bounds = {"minValues": {"at": hour}, "maxValues": {"at": hour}, "nullCount": {"at": 0}}
        text = json.dumps({"numRecords": 1, **bounds}, separators=(",", ":"))
        table.commit([add(f"{number}", partition_values={"_event_hour": f"20260210{number:02}"}, stats=text)])
        if number == 2:
            table.checkpoint()
    summary, _, _ = both(spark, local)
    assert (summary.stats_format, summary.kept_texts) == ("spark", 0)


def test_a_table_without_partitions_is_in_the_order_of_time(spark: SparkSession, local: Table) -> None:
    table = TableBuilder(Path(local.url), schema={"at": "timestamp", "v": "double"})
    for number in range(30):
        moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=number * 17 % 30)
        rows = [{"at": moment if number % 7 else None, "v": number / 3 if number % 5 else float("nan")}]
        table.commit([add(f"{number}.parquet", rows=rows)])
    table.commit([add("silent.parquet"), add("half.parquet", stats='{"numRecords":1,"minValues":{"at":"no time"}}')])
    summary, found, _ = both(spark, local, rows_per_part=8, rows_per_group=4, summaries=["v"])
    assert summary.sorted_by == "lower bound of at"
    assert len(found.manifest.files) == 4


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (
            "timestamp",
            ["2026-01-01 00:00:00", "2026-01-01T00:00:00.5Z", "1969-12-31 23:59:59.999999", None, "", "never"],
        ),
        ("string", ["a b", "é", "ÿ", "\U0001f600", "\uffff", "Z", "", None, "a/b", "a%2Fb", "'", "\\", "\t"]),
    ],
)
def test_typed_partitions(spark: SparkSession, local: Table, kind: str, texts: list[str | None]) -> None:
    table = TableBuilder(Path(local.url), schema={"p": kind, "q": "integer"}, partition_columns=["p", "q"])
    for place, text in enumerate(texts):
        table.commit([add(f"{place}-{q}", partition_values={"p": text, "q": q}) for q in ("2", "10", "x")])
    both(spark, local, rows_per_part=8, rows_per_group=3)


def test_column_mapping(spark: SparkSession, local: Table) -> None:
    spark.sql(
        f"create table delta.`{local.url}` (id bigint, `a.b` timestamp, `q``d ü` struct<x: int, `y.z`: string>, "
        "`hour of` string) using delta partitioned by (`hour of`) tblproperties "
        "('delta.columnMapping.mode' = 'name', 'deltaSidecar.bucket.column' = 'hour of')"
    )
    rows = spark.range(12).selectExpr(
        "id",
        "timestamp_seconds(id * 3000) `a.b`",
        "named_struct('x', cast(id as int), 'y.z', 'é') `q``d ü`",
        "cast(id % 5 as string) `hour of`",
    )
    rows.repartition(2).write.format("delta").mode("append").save(local.url)
    spark.sql(f"alter table delta.`{local.url}` rename column id to number")
    summary, found, _ = both(spark, local, rows_per_part=4, rows_per_group=2)
    assert summary.sorted_by == "time bucket hour of"
    assert found.manifest.bucket_column != "hour of"


@pytest.mark.full
def test_deletion_vectors_and_row_tracking(spark: SparkSession, local: Table) -> None:
    spark.sql(
        f"create table delta.`{local.url}` (id bigint, at timestamp) using delta tblproperties "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')"
    )
    frame = spark.range(0, 40, 1, 4).selectExpr("id", "timestamp_seconds(id) at")
    frame.write.format("delta").mode("append").save(local.url)
    DeltaTable.forPath(spark, local.url).delete("id in (3, 33)")
    _, found, _ = both(spark, local, rows_per_part=2, rows_per_group=1)
    assert found.rows.column("dv.cardinality").to_pylist().count(1) == 2
    assert found.rows.column("base_row_id").null_count == 0
    # The same file with two vectors can be live at once, by the letter of the protocol.
    root = Path(f"{local.url}-by-hand")
    table = TableBuilder(root, protocol=protocol(features=["deletionVectors"]))
    inline = deletion_vector("c", storage_type="i")
    stored = [deletion_vector("a"), deletion_vector("a", offset=9), deletion_vector("b", offset=None)]
    table.commit([add("same", dv=dv) for dv in (None, inline, *stored)])
    both(spark, Table(str(root), {}), rows_per_part=1, rows_per_group=1)


def test_some_files_without_statistics(spark: SparkSession, local: Table) -> None:
    spark.sql(
        f"create table delta.`{local.url}` (id bigint, at timestamp, _event_hour string) using delta "
        "partitioned by (_event_hour) tblproperties ('delta.dataSkippingNumIndexedCols' = '0')"
    )
    frame = spark.range(12).selectExpr("id", "timestamp_seconds(id) at", "cast(id % 3 as string) _event_hour")
    frame.repartition(2).write.format("delta").mode("append").save(local.url)
    spark.sql(f"alter table delta.`{local.url}` set tblproperties ('delta.dataSkippingNumIndexedCols' = '32')")
    frame.repartition(2).write.format("delta").mode("append").save(local.url)
    _, found, _ = both(spark, local, rows_per_part=3, rows_per_group=2)
    flags = [group.first_key[0] for group in found.groups]
    assert flags == sorted(flags)
    assert set(flags) == {0, 1}
    # Every part has some of both kinds.
    assert len(found.manifest.files) == 3


HOSTILE = [
    "a b.parquet",
    "a%20b.parquet",
    "a%2Fb.parquet",
    "%C3%A9.parquet",
    "é.parquet",
    "\U0001f600.parquet",
    "p=x%253Ay/1.parquet",
    "'\";--.parquet".replace('"', "%22"),
    "a&b=c,d+e~f!g@h$i(j)*.parquet",
    "double//slash.parquet",
    "./here.parquet",
    "x/../there.parquet",
    "x/./y.parquet",
    "/absolute/f.parquet",
    "file:/other/f.parquet",
    "file:///third/f.parquet",
    "abfss://lake@account.dfs.core.windows.net/f.parquet",
    "s3://bucket/%20.parquet",
]


def test_hostile_names(spark: SparkSession, local: Table) -> None:
    table = TableBuilder(Path(local.url))
    table.commit([add(name, rows=[{"id": 1, "value": name}]) for name in HOSTILE if " " not in name])
    table.commit([remove("/absolute/f.parquet"), remove("x/./y.parquet"), remove("double//slash.parquet")])
    table.commit([add("file:///absolute/f.parquet"), add("x/./y.parquet", tags={"a": "é", "b": None})])
    table.checkpoint()
    table.commit([add("late//1.parquet"), add("late/%41.parquet", tags={})])
    # Once under one spelling, later under another.
    table.commit([remove("./here.parquet"), add("here.parquet"), remove("x/../there.parquet")])
    table.commit([add("there.parquet")])
    _, found, _ = both(spark, local, rows_per_part=6, rows_per_group=2)
    paths = found.rows.column("path").to_pylist()
    assert {"here.parquet", "there.parquet"} < set(paths)
    assert not {"./here.parquet", "x/../there.parquet"} & set(paths)
    assert "late//1.parquet" in paths
    assert "file:///absolute/f.parquet" in paths
    assert "/absolute/f.parquet" not in paths


def test_an_older_version(spark: SparkSession, local: Table) -> None:
    hours(Path(local.url), 8)
    summary, *_ = both(spark, local, version=3, rows_per_part=2)
    assert (summary.version, summary.files) == (3, 4)


def test_events_progress_and_summary(spark: SparkSession, local: Table) -> None:
    hours(Path(local.url), 8)
    told: list[Event] = []
    stages: list[str] = []
    options: dict[str, Any] = {"listeners": [told.append], "progress": lambda each: stages.append(each.stage)}
    summary = build_sidecar(spark, local.url, **options)
    build_sidecar(spark, local.url, **options)
    ended = [event for event in told if isinstance(event, BuildEnded)]
    assert [(event.outcome, event.files, event.sidecar_bytes) for event in ended] == [
        ("complete", 11, summary.bytes),
        ("already_there", 11, summary.bytes),
    ]
    assert list(dict.fromkeys(stages)) == ["opening", "reading", "writing", "publishing", "checking"]
    assert json.dumps(summary.as_dict())


@pytest.mark.parametrize("rows_per_part", [0, -1, "many", 1.5])
def test_bad_options(spark: SparkSession, local: Table, rows_per_part: Any) -> None:  # noqa: ANN401 - no number
    with pytest.raises(OptionError, match="rows_per_part"):
        build_sidecar(spark, local.url, rows_per_part=rows_per_part)


def test_no_table_and_no_version(spark: SparkSession, local: Table) -> None:
    with pytest.raises(TableNotFoundError):
        build_sidecar(spark, local.url)
    hours(Path(local.url), 2)
    with pytest.raises(VersionNotFoundError):
        build_sidecar(spark, local.url, version=9)
    assert local.sidecar_files() == {}


@pytest.mark.full
@pytest.mark.parametrize("told", [1, 99, -5])
def test_a_checksum_file_that_is_wrong(spark: SparkSession, local: Table, told: int) -> None:
    table = TableBuilder(Path(local.url))
    table.commit([add(f"{number}") for number in range(4)])
    path = table.checksum()
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"numFiles": told}), encoding="utf-8")
    assert build_sidecar(spark, local.url, rows_per_part=2).files == 4
    table.commit([remove(f"{number}") for number in range(4)])
    path = table.checksum()
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"numFiles": told}), encoding="utf-8")
    assert build_sidecar(spark, local.url).files == 0
    assert local.scanned(sidecar=True).num_rows == 0
