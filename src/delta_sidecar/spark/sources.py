"""Files to be ingested, as rows: their columns told by the files, or by the table where it has them already.

Texts are read as the type that the table has, and the timestamp column as a timestamp. A line that cannot be read as
its columns say fails the batch, for a row with nulls in its place would be a loss that nobody sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql import types as T  # noqa: N812 - as above

from delta_sidecar.errors import IngestError, OptionError, SchemaMismatchError
from delta_sidecar.spark.failures import SPARK_ERRORS, line_of
from delta_sidecar.spark.files import quoted
from delta_sidecar.spark.tables import KINDS, column_named, columns_of, read_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from delta_sidecar.store import Store

SourceFormat: TypeAlias = Literal["json", "csv", "parquet"]

EPOCHS = {"epoch-s": 1_000_000, "epoch-ms": 1000, "epoch-us": 1}
"""Formats of timestamps that are numbers: micro-seconds of one."""

_OPTIONS: dict[str, dict[str, str]] = {
    "json": {"mode": "FAILFAST"},
    # Names in the first line count, not places: files may have their columns in another order.
    "csv": {"mode": "FAILFAST", "header": "true", "inferSchema": "true", "enforceSchema": "false"},
    "parquet": {"mergeSchema": "true"},
}


@dataclass(frozen=True, slots=True)
class Source:
    """Files to be ingested.

    Attributes:
        url: What Spark calls them: a file, a folder or a pattern.
        format: What they are.
        timestamp_column: The column that time buckets come from.
        timestamp_format: How it is written, as Spark's patterns have it or as a name of `EPOCHS`; None for ISO 8601.
    """

    url: str
    format: SourceFormat
    timestamp_column: str
    timestamp_format: str | None = None

    def rows(self, spark: SparkSession, store: Store) -> DataFrame:
        """The rows that are there now.

        Args:
            spark: The session, whose time zone is that of timestamps that name none.
            store: The store of the table that they go to.

        Raises:
            IngestError: The files cannot be read.
            SchemaMismatchError: There is no timestamp column.
            OptionError: It is not written as the format says.
        """
        schema = self._schema(spark, store)
        return self._timed(self._reader(spark.read).schema(schema).load(self.url))

    def stream(self, spark: SparkSession, store: Store) -> DataFrame:
        """The rows as they arrive. What is there now tells the columns.

        Args:
            spark: The session, as for `rows`.
            store: The store of the table that they go to.

        Raises:
            IngestError: The files cannot be read, or there are none yet.
            SchemaMismatchError: There is no timestamp column.
            OptionError: It is not written as the format says.
        """
        schema = self._schema(spark, store)
        return self._timed(self._reader(spark.readStream).schema(schema).load(self.url))

    def _reader(self, reader: Any) -> Any:  # noqa: ANN401 - of a batch or a stream, which have no type in common
        return reader.format(self.format).options(**_OPTIONS[self.format])

    def _schema(self, spark: SparkSession, store: Store) -> T.StructType:
        try:
            told: T.StructType = self._reader(spark.read).load(self.url).schema
        except SPARK_ERRORS as error:
            msg = f"{self.url} cannot be read as {self.format}: {line_of(error)}"
            raise IngestError(msg) from error
        timestamp = column_named(told, self.timestamp_column)
        if timestamp is None:
            names = ", ".join(told.names) or "none"
            msg = (
                f"{self.url} has no column {self.timestamp_column}, which time buckets come from; its columns: {names}"
            )
            raise SchemaMismatchError(msg)
        if isinstance(timestamp.dataType, T.NumericType) and self.timestamp_format not in EPOCHS:
            msg = (
                f"{self.timestamp_column} is a number in {self.url}: say what it counts since 1970, as the timestamp "
                f"format {', '.join(EPOCHS)}"
            )
            raise OptionError(msg)
        if self.format == "parquet":
            return told
        snapshot = read_table(store)
        known = T.StructType() if snapshot is None else columns_of(snapshot)
        return T.StructType([self._field(field, column_named(known, field.name)) for field in told.fields])

    def _field(self, told: T.StructField, known: T.StructField | None) -> T.StructField:
        if told.name.lower() == self.timestamp_column.lower():
            # Read as it is written; what is no timestamp counts as a bad one.
            kind: T.DataType = T.LongType() if self.timestamp_format in EPOCHS else T.StringType()
            return T.StructField(told.name, kind)
        return told if known is None else T.StructField(told.name, _type(told.dataType, known.dataType))

    def _timed(self, df: DataFrame) -> DataFrame:
        """The rows with their timestamp column as a timestamp."""
        name = next(each for each in df.columns if each.lower() == self.timestamp_column.lower())
        kind = df.schema[name].dataType
        if type(kind) in KINDS:
            return df
        return df.withColumn(name, self._moment(quoted(name), kind))

    def _moment(self, column: Column, kind: T.DataType) -> Column:
        if self.timestamp_format in EPOCHS and isinstance(kind, T.IntegerType | T.LongType):
            return F.timestamp_micros(F.try_multiply(column, F.lit(EPOCHS[self.timestamp_format]).cast("bigint")))
        if isinstance(kind, T.StringType) and self.timestamp_format not in EPOCHS:
            pattern = () if self.timestamp_format is None else (F.lit(self.timestamp_format),)
            return F.try_to_timestamp(column, *pattern)
        msg = (
            f"{self.timestamp_column} is {kind.simpleString()} in {self.url}, and cannot be read as "
            f"{self.timestamp_format or 'a timestamp'}"
        )
        raise OptionError(msg)


def _type(told: T.DataType, known: T.DataType) -> T.DataType:
    """The type of a table's column, with the nested fields that only the files have: none is left out unseen."""
    if isinstance(told, T.StructType) and isinstance(known, T.StructType):
        fields = ((field, column_named(known, field.name)) for field in told.fields)
        return T.StructType(
            [
                T.StructField(each.name, each.dataType if same is None else _type(each.dataType, same.dataType))
                for each, same in fields
            ]
        )
    if isinstance(told, T.ArrayType) and isinstance(known, T.ArrayType):
        return T.ArrayType(_type(told.elementType, known.elementType))
    return known
