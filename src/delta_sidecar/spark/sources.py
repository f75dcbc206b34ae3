"""Files to be ingested, as rows: their columns told by the files, or by the table where it has them already.

Texts are read as the type that the table has, and the timestamp column as a timestamp. A line that cannot be read as
its columns say fails the batch, for a row with nulls in its place would be a loss that nobody sees.

A stream is one of files: which have arrived is kept by Spark, and the files of each batch are read as those of a batch
are, so that columns which come in later are seen too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql import types as T  # noqa: N812 - as above

from delta_sidecar.errors import IngestError, OptionError, SchemaMismatchError
from delta_sidecar.spark.failures import SPARK_ERRORS, line_of
from delta_sidecar.spark.files import quoted
from delta_sidecar.spark.source_files import SourceFiles, files_at, files_of
from delta_sidecar.spark.source_values import converted, misread_columns, moment, type_to_read
from delta_sidecar.spark.tables import KINDS, column_named, columns_of, read_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from delta_sidecar.store import Store

SourceFormat: TypeAlias = Literal["json", "csv", "parquet"]

EPOCHS = {"epoch-s": 1_000_000, "epoch-ms": 1000, "epoch-us": 1}
"""Formats of timestamps that are numbers: micro-seconds of one."""

_OPTIONS: dict[str, dict[str, str]] = {
    "json": {"mode": "FAILFAST"},
    # Names in the first line count: a file that has its columns in another order than others is refused.
    "csv": {"mode": "FAILFAST", "header": "true", "enforceSchema": "false"},
    "parquet": {"mergeSchema": "true"},
}
_INFERENCE = {"csv": {"inferSchema": "true"}}


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
        return self._rows(spark, store, files_at(spark, self.url))

    def stream(self, spark: SparkSession) -> DataFrame:
        """The files as they arrive, whatever their age and in whatever folder below; `arrived` makes rows of them.

        Args:
            spark: The session.
        """
        options = {"recursiveFileLookup": "true", "maxFileAge": _ANY_AGE, "maxFilesPerTrigger": str(_MOST_FILES)}
        return spark.readStream.format("binaryFile").schema(_FILE).options(**options).load(self.url).select("path")

    def arrived(self, files: DataFrame, store: Store) -> DataFrame:
        """The rows of files that have arrived.

        Args:
            files: A batch of `stream`.
            store: As for `rows`.

        Raises:
            IngestError: As for `rows`.
            SchemaMismatchError: As for `rows`.
            OptionError: As for `rows`.
        """
        paths = sorted({row["path"] for row in files.collect()})
        return self._rows(files.sparkSession, store, files_of(files.sparkSession, self.url, paths))

    def _rows(self, spark: SparkSession, store: Store, files: SourceFiles) -> DataFrame:
        snapshot = read_table(store)
        known = T.StructType() if snapshot is None else columns_of(snapshot)
        told = self._told(spark, files, known)
        if self.format == "parquet":
            return self._timed(self._reader(spark, files).schema(told).load(files.paths), known)
        schema = T.StructType([self._field(field, column_named(known, field.name)) for field in told.fields])
        df = self._reader(spark, files).schema(schema).load(files.paths)
        columns = []
        for name in df.columns:
            field = column_named(known, name)
            is_timestamp = name.lower() == self.timestamp_column.lower()
            kept = quoted(name) if field is None or is_timestamp else converted(quoted(name), name, field.dataType)
            columns.append(kept.alias(name))
        return self._timed(df.select(*columns), known)

    def _reader(self, spark: SparkSession, files: SourceFiles) -> Any:  # noqa: ANN401 - what it gives is untyped
        return spark.read.format(self.format).options(**_OPTIONS[self.format], **files.options)

    def _told(self, spark: SparkSession, files: SourceFiles, known: T.StructType) -> T.StructType:
        """The columns of the files, in the types that these have there."""
        reader = self._reader(spark, files)
        try:
            told: T.StructType = reader.options(**_INFERENCE.get(self.format, {})).load(files.paths).schema
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
        return self._without_guesses(spark, files, told, known) if self.format == "csv" else told

    def _without_guesses(
        self, spark: SparkSession, files: SourceFiles, told: T.StructType, known: T.StructType
    ) -> T.StructType:
        """The columns of CSV, of which those stay texts that would lose something: everything there is a text."""
        fields = (field for field in told.fields if field.name.lower() != self.timestamp_column.lower())
        new = T.StructType([field for field in fields if column_named(known, field.name) is None])
        texts = T.StructType([T.StructField(name, T.StringType()) for name in told.names])
        try:
            misread = misread_columns(self._reader(spark, files).schema(texts).load(files.paths), new)
        except SPARK_ERRORS as error:
            msg = f"{self.url} cannot be read as {self.format}: {line_of(error)}"
            raise IngestError(msg) from error
        return T.StructType(
            [T.StructField(field.name, T.StringType()) if field.name in misread else field for field in told.fields]
        )

    def _field(self, told: T.StructField, known: T.StructField | None) -> T.StructField:
        if told.name.lower() == self.timestamp_column.lower():
            # Read as it is written; what is no timestamp counts as a bad one.
            kind: T.DataType = T.LongType() if self.timestamp_format in EPOCHS else T.StringType()
            return T.StructField(told.name, kind)
        return told if known is None else T.StructField(told.name, type_to_read(told.dataType, known.dataType))

    def _timed(self, df: DataFrame, known: T.StructType) -> DataFrame:
        """The rows with their timestamp column as a timestamp, of the table's own kind where it was a text."""
        name = next(each for each in df.columns if each.lower() == self.timestamp_column.lower())
        kind = df.schema[name].dataType
        if type(kind) in KINDS:
            return df
        found, wanted = self._moment(quoted(name), kind), column_named(known, name)
        if wanted is not None and isinstance(wanted.dataType, T.TimestampNTZType):
            found = found.cast(wanted.dataType)
        return df.withColumn(name, found)

    def _moment(self, column: Column, kind: T.DataType) -> Column:
        if self.timestamp_format in EPOCHS and isinstance(kind, T.IntegerType | T.LongType):
            return F.timestamp_micros(F.try_multiply(column, F.lit(EPOCHS[self.timestamp_format]).cast("bigint")))
        if isinstance(kind, T.StringType) and self.timestamp_format not in EPOCHS:
            return moment(column, self.timestamp_format)
        msg = (
            f"{self.timestamp_column} is {kind.simpleString()} in {self.url}, and cannot be read as "
            f"{self.timestamp_format or 'a timestamp'}"
        )
        raise OptionError(msg)


# Spark passes over files that are a week older than the newest one, unless it is told otherwise.
_ANY_AGE = "36500d"
_MOST_FILES = 10_000
_FILE = "path string, modificationTime timestamp, length bigint, content binary"
