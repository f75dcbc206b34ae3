"""Tables of odd values in all types, which Spark writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.spark.row_equality import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# --- partition columns -----------------------------------------------------------------------------------------------

_PARTITIONS = {
    "p_boolean": "boolean",
    "p_byte": "tinyint",
    "p_short": "smallint",
    "p_int": "int",
    "p_long": "bigint",
    "p_float": "float",
    "p_double": "double",
    "p_decimal": "decimal(38,10)",
    "p_string": "string",
    "p_binary": "binary",
    "p_date": "date",
    "p_timestamp": "timestamp",
    "p_ntz": "timestamp_ntz",
}

# One row a line, in the order of the columns.
_PARTITION_VALUES = (
    "true, -128, -32768, -2147483648, -9223372036854775808, float('nan'), double('nan'), "
    "-9999999999999999999999999999.9999999999, 'a/b', binary('ab'), "
    "date'0001-01-01', timestamp'0001-01-01 00:00:00', timestamp_ntz'0001-01-01 00:00:00'",
    "false, 127, 32767, 2147483647, 9223372036854775807, float('infinity'), double('-infinity'), "
    "9999999999999999999999999999.9999999999, '50% %2F ', binary('é€'), "
    "date'9999-12-31', timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'9999-12-31 23:59:59.999999'",
    "true, 0, 0, 0, 0, float('-0.0'), double('4.9e-324'), 0, '', binary(''), "
    "date'1970-01-01', timestamp'1970-01-01 00:00:00', timestamp_ntz'1969-12-31 23:59:59.000001'",
    "false, 1, 1, 1, 1, float('1.1'), double('1e300'), 0.0000000001, 'ü€😀 = + & ? # : * \" \\' \\\\ \\t', x'fe', "
    "date'1582-10-10', timestamp'1582-10-04 12:34:56.789', timestamp_ntz'2024-02-29 12:34:56.7'",
    "null, 1, 1, 1, 1, float('1.4e-45'), double('0'), 1.5, 'null', x'0a', "
    "date'2024-02-29', timestamp'2024-02-29 12:34:56.789012', timestamp_ntz'2024-02-29 00:00:00'",
    "true, 2, 2, 2, 2, 2, 2, 2, '__HIVE_DEFAULT_PARTITION__', binary('x'), "
    "date'2024-02-29', timestamp'2024-02-29 12:34:56.789012', timestamp_ntz'2024-02-29 00:00:00'",
    ", ".join(["null"] * len(_PARTITIONS)),
)

PARTITION_PREDICATES = (
    "p_boolean = true",
    "p_byte < 1",
    "p_short >= 1",
    "p_int <> 0",
    "p_long in (1, 9223372036854775807)",
    "p_float < 1",
    "p_double <= 0",
    "p_decimal > 0.0000000001",
    "p_string = '50% %2F '",
    "p_string is null",
    "p_string >= 'a'",
    "p_date < date'1582-10-15'",
    "p_timestamp = timestamp'2024-02-29 12:34:56.789012'",
    "p_timestamp < timestamp'1970-01-01 00:00:00'",
    "p_ntz > timestamp_ntz'2024-02-29 00:00:00'",
    "not (p_byte = 1 and id < 5) or p_boolean is null",
)


def partitioned_by_everything(spark: SparkSession, url: str) -> None:
    """A table with a partition column of every type that may be one, and few rows in each partition."""
    columns = ", ".join(f"{name} {kind}" for name, kind in _PARTITIONS.items())
    spark.sql(f"create table delta.`{url}` (id int, {columns}) using delta partitioned by ({', '.join(_PARTITIONS)})")
    values = ", ".join(f"({number}, {values})" for number, values in enumerate(_PARTITION_VALUES))
    spark.sql(f"insert into delta.`{url}` values {values}")


# --- data columns ----------------------------------------------------------------------------------------------------

_TYPES = {
    "flag": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "number": "int",
    "long": "bigint",
    "real": "float",
    "precise": "double",
    "widest": "decimal(38,10)",
    "narrow": "decimal(4,1)",
    "middle": "decimal(15,3)",
    "text": "string",
    "bytes": "binary",
    "day": "date",
    "moment": "timestamp",
    "clock": "timestamp_ntz",
    "padded": "char(5)",
    "short_text": "varchar(7)",
    "nothing": "void",
    "moments": "array<timestamp>",
    "by_moment": "map<timestamp, array<timestamp>>",
    "inside": "struct<t timestamp, l array<struct<t timestamp, n timestamp_ntz>>>",
    "deep": "array<array<map<string, struct<a array<decimal(20,2)>, b map<int, binary>>>>>",
}

_TYPE_VALUES = (
    "true, -128, -32768, -2147483648, -9223372036854775808, float('nan'), double('nan'), "
    "-9999999999999999999999999999.9999999999, -999.9, -999999999999.999, '', x'', "
    "date'0001-01-01', timestamp'0001-01-01 00:00:00', timestamp_ntz'0001-01-01 00:00:00', 'ab', '', null, "
    "array(timestamp'0001-01-01 00:00:00', null, timestamp'2024-01-01 00:00:00.123456'), "
    "map(timestamp'2024-01-01 00:00:00.123', array(timestamp'9999-12-31 23:59:59.999999', null)), "
    "named_struct('t', timestamp'1582-10-10 00:00:00.001', 'l', array("
    "named_struct('t', timestamp'2024-01-01 00:00:00.123456', 'n', timestamp_ntz'2024-01-01 00:00:00.123456'), null)), "
    "array(array(map('a', named_struct('a', array(1.5, null), 'b', map(1, x'ff')), 'b', null), map()), array(), null)",
    "false, 127, 32767, 2147483647, 9223372036854775807, float('infinity'), double('-infinity'), "
    "9999999999999999999999999999.9999999999, 999.9, 999999999999.999, 'ü€😀\\n', x'00ff', "
    "date'9999-12-31', timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'9999-12-31 23:59:59.999999', "
    "'abcde', 'abcdefg', null, array(), map(), named_struct('t', null, 'l', array()), array()",
    "null, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'x', x'01', "
    "date'1970-01-01', timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'1969-12-31 23:59:59.999999', "
    "'a', 'b', null, array(null), map(timestamp'1970-01-01 00:00:00', null), named_struct('t', null, 'l', null), "
    "array(null, array(null, map()))",
    "null, null, null, null, null, float('-0.0'), double('4.9e-324'), 0.0000000001, 0.1, 0.001, null, null, "
    "null, null, null, null, null, null, null, null, null, null",
)
ROWS_OF_EVERY_TYPE = len(_TYPE_VALUES)

TYPE_PREDICATES = (
    "long = -9223372036854775808",
    "long > 9223372036854775806",
    "short < 0",
    "widest > 9999999999999999999999999999.9999999998",
    "narrow >= 0.1",
    "middle = -999999999999.999",
    "text = ''",
    "text > 'x'",
    "day <= date'0001-01-01'",
    "moment < timestamp'1582-10-15 00:00:00'",
    "moment >= timestamp'9999-12-31 00:00:00'",
    "clock = timestamp_ntz'1969-12-31 23:59:59.999999'",
    "flag is null and byte is not null",
    "short_text = 'abcdefg'",
)

LAYOUTS = (
    {"parquet_outputTimestampType": "INT96"},
    {"parquet_outputTimestampType": "INT96", "parquet_writeLegacyFormat": "true"},
    {"parquet_outputTimestampType": "TIMESTAMP_MILLIS"},
    {"parquet_outputTimestampType": "TIMESTAMP_MICROS", "parquet_writeLegacyFormat": "true"},
)
"""Settings by which Spark writes the same types in other ways."""


def of_every_type(spark: SparkSession, url: str) -> None:
    """A table with a column of every type; each of its files is written in another layout."""
    columns = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())
    spark.sql(f"create table delta.`{url}` (id int, {columns}) using delta")
    for number, layout in enumerate(LAYOUTS):
        rows = ", ".join(f"({number * 10 + at}, {values})" for at, values in enumerate(_TYPE_VALUES))
        with settings(spark, **layout):
            spark.sql(f"insert into delta.`{url}` select /*+ coalesce(1) */ * from values {rows}")  # noqa: S608


def with_variants(spark: SparkSession, url: str) -> None:
    """A table with variants at the top, in a struct, in an array and in a map."""
    spark.sql(
        f"create table delta.`{url}` (id int, v variant, s struct<v variant>, l array<variant>, m map<string, variant>) "
        "using delta"
    )
    spark.sql(
        f"insert into delta.`{url}` values (1, null, null, null, null), "
        "(2, parse_json('{\"a\": 1}'), named_struct('v', parse_json('[1, null]')), array(parse_json('2'), null), "
        "map('k', parse_json('\"x\"')))"
    )


def with_shreds(spark: SparkSession, url: str) -> None:
    """A table with a variant of which a field is a column of its own."""
    spark.sql(
        f"create table delta.`{url}` (id int, v variant) using delta "
        "tblproperties ('delta.enableVariantShredding' = 'true')"
    )
    with settings(spark, variant_writeShredding_enabled="true", variant_forceShreddingSchemaForTest="a int"):
        spark.sql(f"insert into delta.`{url}` values (1, parse_json('{{\"a\": 1}}'))")
