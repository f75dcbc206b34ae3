"""Tables of odd values in all types, which Spark writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.spark.row_equality import settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_LARGEST = "9999999999999999999999999999.9999999999"

# --- partition columns -----------------------------------------------------------------------------------------------

# The type of each column, and its value in each row.
_PARTITIONS = {
    "p_boolean": ("boolean", "true", "false", "true", "false", "null", "true", "null"),
    "p_byte": ("tinyint", "-128", "127", "0", "1", "1", "2", "null"),
    "p_short": ("smallint", "-32768", "32767", "0", "1", "1", "2", "null"),
    "p_int": ("int", "-2147483648", "2147483647", "0", "1", "1", "2", "null"),
    "p_long": ("bigint", "-9223372036854775808", "9223372036854775807", "0", "1", "1", "2", "null"),
    "p_float": ("float", "'NaN'", "'Infinity'", "'-0.0'", "'1.1'", "'1.4e-45'", "'3.4028235e38'", "null"),
    "p_double": ("double", "'NaN'", "'-Infinity'", "'4.9e-324'", "'1e300'", "'0'", "'-0.0'", "null"),
    "p_decimal": ("decimal(38,10)", f"-{_LARGEST}", _LARGEST, "0", "0.0000000001", "1.5", "2", "null"),
    "p_string": (
        "string",
        *("'a/b'", "'50% %2F '", "''", "'ü€😀 = + & ? # : * \" \\' \\\\ \\t'", "'null'"),
        *("'__HIVE_DEFAULT_PARTITION__'", "null"),
    ),
    "p_binary": ("binary", "binary('ab')", "binary('é€')", "x''", "x'fe'", "x'0a'", "binary('x')", "null"),
    "p_date": (
        "date",
        *("date'0001-01-01'", "date'9999-12-31'", "date'1970-01-01'", "date'1582-10-10'", "date'2024-02-29'"),
        *("date'2024-02-29'", "null"),
    ),
    "p_timestamp": (
        "timestamp",
        *("timestamp'0001-01-01 00:00:00'", "timestamp'9999-12-31 23:59:59.999999'", "timestamp'1970-01-01 00:00:00'"),
        *("timestamp'1582-10-04 12:34:56.789'", "timestamp'2024-02-29 12:34:56.789012'"),
        *("timestamp'2024-02-29 12:34:56.7'", "null"),
    ),
    "p_ntz": (
        "timestamp_ntz",
        *("timestamp_ntz'0001-01-01 00:00:00'", "timestamp_ntz'9999-12-31 23:59:59.999999'"),
        *("timestamp_ntz'1969-12-31 23:59:59.000001'", "timestamp_ntz'2024-02-29 12:34:56.7'"),
        *("timestamp_ntz'2024-02-29 00:00:00'", "timestamp_ntz'2024-02-29 00:00:00'", "null"),
    ),
}

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
    """A table with a partition column of every type that may be one, and one row in each partition."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in _PARTITIONS.items())
    spark.sql(f"create table delta.`{url}` (id int, {columns}) using delta partitioned by ({', '.join(_PARTITIONS)})")
    _insert(spark, url, _PARTITIONS)


# --- data columns ----------------------------------------------------------------------------------------------------

_TYPES = {
    "flag": ("boolean", "true", "false", "null", "null"),
    "byte": ("tinyint", "-128", "127", "0", "null"),
    "short": ("smallint", "-32768", "32767", "0", "null"),
    "number": ("int", "-2147483648", "2147483647", "0", "null"),
    "long": ("bigint", "-9223372036854775808", "9223372036854775807", "0", "null"),
    "real": ("float", "'NaN'", "'Infinity'", "'-0.0'", "null"),
    "precise": ("double", "'NaN'", "'-Infinity'", "'4.9e-324'", "null"),
    "widest": ("decimal(38,10)", f"-{_LARGEST}", _LARGEST, "0.0000000001", "null"),
    "narrow": ("decimal(4,1)", "-999.9", "999.9", "0.1", "null"),
    "middle": ("decimal(15,3)", "-999999999999.999", "999999999999.999", "0", "null"),
    "text": ("string", "''", "'ü€😀\\n'", "'x'", "null"),
    "bytes": ("binary", "x''", "x'00ff'", "x'01'", "null"),
    "day": ("date", "date'0001-01-01'", "date'9999-12-31'", "date'1970-01-01'", "null"),
    "moment": (
        "timestamp",
        *("timestamp'0001-01-01 00:00:00'", "timestamp'9999-12-31 23:59:59.999999'"),
        *("timestamp'1969-12-31 23:59:59.999999'", "null"),
    ),
    "clock": (
        "timestamp_ntz",
        *("timestamp_ntz'0001-01-01 00:00:00'", "timestamp_ntz'9999-12-31 23:59:59.999999'"),
        *("timestamp_ntz'1969-12-31 23:59:59.999999'", "null"),
    ),
    "padded": ("char(5)", "'ab'", "'abcde'", "''", "null"),
    "short_text": ("varchar(7)", "''", "'abcdefg'", "'b'", "null"),
    "nothing": ("void", "null", "null", "null", "null"),
    "moments": (
        "array<timestamp>",
        "array(timestamp'0001-01-01 00:00:00', null, timestamp'2024-01-01 00:00:00.123456')",
        *("array()", "array(null)", "null"),
    ),
    "by_moment": (
        "map<timestamp, array<timestamp>>",
        "map(timestamp'2024-01-01 00:00:00.123', array(timestamp'9999-12-31 23:59:59.999999', null))",
        *("map()", "map(timestamp'1970-01-01 00:00:00', null)", "null"),
    ),
    "inside": (
        "struct<t timestamp, l array<struct<t timestamp, n timestamp_ntz>>>",
        (
            "struct(timestamp'1582-10-10 00:00:00.001', array(struct("
            "timestamp'2024-01-01 00:00:00.123456', timestamp_ntz'2024-01-01 00:00:00.123456'), null))"
        ),
        *("struct(null, array())", "struct(null, null)", "null"),
    ),
    "deep": (
        "array<array<map<string, struct<a array<decimal(20,2)>, b map<int, binary>>>>>",
        "array(array(map('a', struct(array(1.5, null), map(1, x'ff')), 'b', null), map()), array(), null)",
        *("array()", "array(null, array(null, map()))", "null"),
    ),
}
ROWS_OF_EVERY_TYPE = len(_TYPES["flag"]) - 1

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

_TIMESTAMPS, _LEGACY = "spark.sql.parquet.outputTimestampType", "spark.sql.parquet.writeLegacyFormat"
LAYOUTS = (
    {_TIMESTAMPS: "INT96"},
    {_TIMESTAMPS: "INT96", _LEGACY: "true"},
    {_TIMESTAMPS: "TIMESTAMP_MILLIS"},
    {_TIMESTAMPS: "TIMESTAMP_MICROS", _LEGACY: "true"},
)
"""Settings by which Spark writes the same types in other ways."""


def of_every_type(spark: SparkSession, url: str) -> None:
    """A table with a column of every type; each of its files is written in another layout."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in _TYPES.items())
    spark.sql(f"create table delta.`{url}` (id int, {columns}) using delta")
    for layout in LAYOUTS:
        with settings(spark, layout):
            _insert(spark, url, _TYPES)


# --- variants --------------------------------------------------------------------------------------------------------

_VARIANTS = {
    "v": ("variant", "null", "parse_json('{\"a\": 1}')"),
    "s": ("struct<v variant>", "null", "struct(parse_json('[1, null]'))"),
    "l": ("array<variant>", "null", "array(parse_json('2'), null)"),
    "m": ("map<string, variant>", "null", "map('k', parse_json('\"x\"'))"),
}


def with_variants(spark: SparkSession, url: str) -> None:
    """A table with variants at the top, in a struct, in an array and in a map."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in _VARIANTS.items())
    spark.sql(f"create table delta.`{url}` (id int, {columns}) using delta")
    _insert(spark, url, _VARIANTS)


def with_shreds(spark: SparkSession, url: str) -> None:
    """A table with a variant of which a field is a column of its own."""
    spark.sql(
        f"create table delta.`{url}` (id int, v variant) using delta "
        "tblproperties ('delta.enableVariantShredding' = 'true')"
    )
    by_field = {
        "spark.sql.variant.writeShredding.enabled": "true",
        "spark.sql.variant.forceShreddingSchemaForTest": "a int",
    }
    with settings(spark, by_field):
        _insert(spark, url, {"v": _VARIANTS["v"]})


# --- tables of their own kind ----------------------------------------------------------------------------------------


def with_new_fields(spark: SparkSession, url: str) -> None:
    """A table whose structs have lost every field that its file has, and whose lists and maps have become wider."""
    spark.sql(
        f"create table delta.`{url}` (id int, s struct<a int>, l array<struct<a int>>, m map<string, struct<a int>>, "
        "k map<struct<a tinyint, b date>, array<int>>, n map<int, int>, ll array<array<int>>) using delta "
        "tblproperties ('delta.columnMapping.mode' = 'id', 'delta.enableTypeWidening' = 'true', "
        "'delta.feature.timestampNtz' = 'supported')"
    )
    rows = (
        "(1, null, null, null, null, null, null), "
        "(2, struct(1), array(struct(1), null, struct(null)), map('k', struct(1), 'l', null), "
        "map(struct(1, date'2024-01-01'), array(1, null)), map(1, 2), array(array(1), null, array())), "
        "(3, struct(null), array(), map(), map(struct(null, null), null), map(2, null), array(array(null)))"
    )
    spark.sql(f"insert into delta.`{url}` values {rows}")  # noqa: S608 - all of it is from here
    spark.sql(f"alter table delta.`{url}` add columns (s.b string, l.element.b string, m.value.b string)")
    spark.sql(f"alter table delta.`{url}` drop columns (s.a, l.element.a, m.value.a)")
    spark.sql(f"alter table delta.`{url}` rename column k.key.a to `a, renamed`")
    wider = {
        "k.key.`a, renamed`": "int",
        "k.key.b": "timestamp_ntz",
        "n.key": "bigint",
        "ll.element.element": "decimal(12,2)",
    }
    for place, kind in wider.items():
        spark.sql(f"alter table delta.`{url}` alter column {place} type {kind}")


ROW_GROUPS = 8
ROW_GROUP_PREDICATES = (
    "id between 900 and 1100",
    "id >= 1150",
    "moment < timestamp'1970-01-01 00:02:00'",
    "name = 's5' and id > 600",
    "id < 0",
)


def of_many_row_groups(spark: SparkSession, url: str) -> None:
    """A table of one file with more than a few row groups, of which one has only deleted rows."""
    spark.sql(
        f"create table delta.`{url}` (id bigint, moment timestamp, name string) using delta "
        "tblproperties ('delta.enableDeletionVectors' = 'true')"
    )
    small = {"parquet.block.size": "2048", "parquet.page.size": "512", _TIMESTAMPS: "INT96"}
    with settings(spark, small):
        spark.sql(
            f"insert into delta.`{url}` select id, timestamp_micros(id * 1000001), "  # noqa: S608 - likewise
            "concat('s', id % 100) from range(0, 1200, 1, 1)"
        )
    spark.sql(f"delete from delta.`{url}` where id % 7 = 3 or id between 300 and 700")  # noqa: S608 - likewise


DOTTED_PREDICATES = ("`a.b` = 10", "a.b = 100", "`a.c`.d = 7", "a.`c.d`.e = 6", "`a.b` > 20")


def with_dots(spark: SparkSession, url: str) -> None:
    """A table in which a dotted name may mean this or that."""
    spark.sql(
        f"create table delta.`{url}` (id int, `a.b` int, a struct<b int, `c.d` struct<e int>>, `a.c` struct<d int>) "
        "using delta"
    )
    rows = "(1, 10, struct(100, struct(5)), struct(7)), (2, 20, struct(200, struct(6)), struct(8))"
    spark.sql(f"insert into delta.`{url}` values {rows}")  # noqa: S608 - likewise


def cloned(spark: SparkSession, url: str, source: str) -> None:
    """A table that has files and deletion vectors of another one beside its own."""
    spark.sql(
        f"create table delta.`{source}` (id int, p string) using delta partitioned by (p) "
        "tblproperties ('delta.enableDeletionVectors' = 'true')"
    )
    rows = "select cast(id as int), if(id % 2 = 0, 'x y', '%') from range(0, 40, 1, 1)"
    spark.sql(f"insert into delta.`{source}` {rows}")
    spark.sql(f"delete from delta.`{source}` where id % 5 = 1")  # noqa: S608 - likewise
    spark.sql(f"create table delta.`{url}` shallow clone delta.`{source}`")
    spark.sql(f"insert into delta.`{url}` values (100, 'new')")  # noqa: S608 - likewise


def _insert(spark: SparkSession, url: str, columns: Mapping[str, tuple[str, ...]]) -> None:
    """Writes one file, or one for each partition."""
    casts = ", ".join(f"cast({name} as {_stored(kind)})" for name, (kind, *_) in columns.items())
    values = zip(*(values for _, *values in columns.values()), strict=True)
    rows = ", ".join(f"({number}, {', '.join(row)})" for number, row in enumerate(values))
    spark.sql(
        f"insert into delta.`{url}` select /*+ coalesce(1) */ id, {casts} "  # noqa: S608 - all of it is from here
        f"from values {rows} as rows(id, {', '.join(columns)})"
    )


def _stored(kind: str) -> str:
    return "string" if "char(" in kind else kind
