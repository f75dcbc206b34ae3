"""Rows of tables that Spark made are those that Spark reads: same values, same types, as often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import VariantVal
from tests.spark import row_tables
from tests.spark.random_tables import OF_COLUMNS, WITHOUT_MAPPING, RandomTable
from tests.spark.row_equality import assert_read_by_us, assert_same_rows, read_by_spark, settings

from delta_sidecar import DeltaTable, UnreadableFileError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake


@pytest.fixture(scope="module", autouse=True)
def plain_plans(spark: SparkSession) -> Iterator[None]:
    """Plans are not changed on their way, which takes longer than to read a few rows; values are as they are stored."""
    with settings(spark, {"spark.sql.adaptive.enabled": "false", "spark.sql.readSideCharPadding": "false"}):
        yield


def mapped_by_id(spark: SparkSession, url: str) -> RandomTable:
    """Columns have ids from the beginning, and timestamps are the oldest ones of Parquet."""
    table = RandomTable(spark, url, seed=2)
    with settings(spark, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        table.create("id")
        table.go_through((*OF_COLUMNS, "insert", "delete", "update", "checkpoint"))
    return table


def mapped_by_name(spark: SparkSession, url: str) -> RandomTable:
    """Columns have names of their own from the beginning, and some are partition columns."""
    table = RandomTable(spark, url, seed=1, partitioned=True)
    table.create("name")
    table.go_through((*OF_COLUMNS, "insert", "delete", "merge", "optimize"))
    return table


def mapped_later(spark: SparkSession, url: str) -> RandomTable:
    """Column mapping is turned on when there are files, some of them in a layout of other days."""
    table = RandomTable(spark, url, seed=3)
    table.create("none")
    with settings(spark, {"spark.sql.parquet.writeLegacyFormat": "true"}):
        table.go_through(WITHOUT_MAPPING)
    table.upgrade()
    table.go_through((*OF_COLUMNS, "delete"))
    return table


@pytest.fixture(scope="module", params=[mapped_by_id, mapped_by_name, mapped_later], ids=lambda make: make.__name__)
def changed(request: pytest.FixtureRequest, spark: SparkSession, local_lake: Lake) -> RandomTable:
    """A table that random operations have changed."""
    made: RandomTable = request.param(spark, local_lake.new_url(request.param.__name__))
    return made


@pytest.mark.full
def test_a_table_is_the_same_after_random_operations(changed: RandomTable) -> None:
    newest = changed.moments[-1]
    assert newest.reading.rows.num_rows
    assert_read_by_us(newest.reading, DeltaTable(changed.url), [newest.projection])


def test_the_operations_have_left_their_marks(changed: RandomTable) -> None:
    schemas = {str(moment.reading.rows.schema) for moment in changed.moments}
    assert len(schemas) > 2
    tables = [DeltaTable(changed.url, moment.version) for moment in changed.moments]
    assert any(file.deletion_vector is not None for table in tables for file in table.file_infos())
    assert {"columnMapping", "deletionVectors", "typeWidening"} <= set(tables[-1].protocol().reader_features)


def test_older_versions_are_the_same_as_when_spark_read_them(changed: RandomTable) -> None:
    for moment in changed.moments[:-1]:
        try:
            assert_read_by_us(moment.reading, DeltaTable(changed.url, moment.version), [moment.projection])
        except Exception as error:
            error.add_note(f"version {moment.version}, made by {moment.statement}")
            raise


@pytest.mark.full
def test_spark_travels_to_the_same_version(spark: SparkSession, changed: RandomTable) -> None:
    moment = changed.moments[len(changed.moments) // 2]
    there = read_by_spark(spark, changed.url, version=moment.version)
    assert_same_rows(there.rows, moment.reading.rows)
    assert_read_by_us(there, DeltaTable(changed.url, moment.version))


def test_partition_columns_of_every_type_are_the_same(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url("partitions")
    row_tables.partitioned_by_everything(spark, url)
    reading = read_by_spark(spark, url, row_tables.PARTITION_PREDICATES)
    chosen = [verdict.to_pylist().count(True) for verdict in reading.verdicts.values()]
    assert all(0 < count < reading.rows.num_rows for count in chosen)
    assert_read_by_us(reading, DeltaTable(url), [["id"], ["p_string", "id", "p_binary"], ["p_timestamp"]])


@pytest.fixture(scope="module")
def every_type(spark: SparkSession, local_lake: Lake) -> str:
    """A table with the first and last values of every type, in each layout that Spark writes."""
    url = local_lake.new_url("types")
    row_tables.of_every_type(spark, url)
    return url


@pytest.mark.full
def test_values_of_every_type_are_the_same_in_every_layout(spark: SparkSession, every_type: str) -> None:
    reading = read_by_spark(spark, every_type, row_tables.TYPE_PREDICATES)
    assert reading.rows.num_rows == len(row_tables.LAYOUTS) * row_tables.ROWS_OF_EVERY_TYPE
    columns = reading.rows.schema.names
    assert_read_by_us(reading, DeltaTable(every_type), [[name] for name in columns])


def test_structs_whose_fields_are_all_new_are_null_where_they_were(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url("new-fields")
    row_tables.with_new_fields(spark, url)
    reading = read_by_spark(spark, url, ["s is null", "s.b is null"])
    assert reading.rows["s"].null_count == 1
    assert_read_by_us(reading, DeltaTable(url))


def test_deleted_rows_are_left_out_of_each_row_group(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url("row-groups")
    row_tables.of_many_row_groups(spark, url)
    reading = read_by_spark(spark, url, row_tables.ROW_GROUP_PREDICATES)
    assert_read_by_us(reading, DeltaTable(url))
    with DeltaTable(url).scan(predicate=row_tables.ROW_GROUP_PREDICATES[0]) as stream:
        list(stream)
        assert stream.metrics.files_opened == 1
        assert stream.metrics.row_groups_skipped > row_tables.ROW_GROUPS / 2


def test_columns_with_dots_in_their_names_are_told_apart(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url("dots")
    row_tables.with_dots(spark, url)
    reading = read_by_spark(spark, url, row_tables.DOTTED_PREDICATES)
    assert_read_by_us(reading, DeltaTable(url), [["a"], ["a.b"], ["a.c", "id"]])


@pytest.mark.full
def test_a_shallow_clone_is_the_same_where_files_elsewhere_are_allowed(spark: SparkSession, local_lake: Lake) -> None:
    url, source = local_lake.new_url("clone"), local_lake.new_url("cloned")
    row_tables.cloned(spark, url, source)
    with pytest.raises(UnreadableFileError, match=r"is outside of the table .*allow_external_paths"):
        DeltaTable(url).to_pyarrow_table()
    reading = read_by_spark(spark, url, ["id > 20", "p = '%'"])
    assert_read_by_us(reading, DeltaTable(url, options={"allow_external_paths": True}))


def test_a_variant_is_read_in_its_two_parts(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url("variants")
    row_tables.with_variants(spark, url)
    # Spark has no Arrow for a variant that is null.
    rows = spark.read.format("delta").load(url).orderBy("id").collect()
    expected = [_parted(row) for row in rows]
    assert expected[0]["v"] is None
    assert expected[1]["s"]["v"]["value"]
    assert DeltaTable(url).to_pyarrow_table().sort_by("id").to_pylist(maps_as_pydicts="strict") == expected


def test_a_variant_in_shreds_is_refused_by_name_and_other_columns_are_read(
    spark: SparkSession, local_lake: Lake
) -> None:
    url = local_lake.new_url("shreds")
    row_tables.with_shreds(spark, url)
    with pytest.raises(UnsupportedFeatureError, match=r"column v of part-.* is a shredded variant"):
        DeltaTable(url).to_pyarrow_table()
    reading = read_by_spark(spark, url, columns=["id"])
    assert_same_rows(DeltaTable(url).to_pyarrow_table(columns=["id"]), reading.rows)


def _parted(value: Any) -> Any:  # noqa: ANN401 - a row, or a value in it
    if isinstance(value, VariantVal):
        return {"metadata": bytes(value.metadata), "value": bytes(value.value)}
    if isinstance(value, list):
        return [_parted(each) for each in value]
    fields = value.asDict() if isinstance(value, Row) else value
    return {key: _parted(each) for key, each in fields.items()} if isinstance(fields, dict) else value
