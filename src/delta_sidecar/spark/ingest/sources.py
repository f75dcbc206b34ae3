"""Files to be ingested, as rows: with the columns of the files, in the types of the table where it has them already.

Texts are read as the type that the table has, and the timestamp column as a timestamp. A line that cannot be read as
its columns say fails the batch: a row with nulls in its place would be a loss that nobody sees.

A stream is one of files: which have arrived is kept by Spark, and the files of each batch are read as those of a batch
are, so that columns which come in later are seen too.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql import types as T  # noqa: N812 - as above

from delta_sidecar.errors import IngestError, OptionError
from delta_sidecar.spark.access import hadoop_configuration
from delta_sidecar.spark.ingest.tables import KINDS, column_named, columns_of, quoted, read_table, timestamp_field
from delta_sidecar.spark.spark_errors import SPARK_ERRORS, line_of

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@dataclass(frozen=True, slots=True)
class Source:
    """Files to be ingested."""

    url: str  # as Spark names them: a file, a folder or a pattern
    format: SourceFormat
    timestamp_column: str
    timestamp_format: str | None = None  # a pattern of Spark's or a name of `EPOCHS`; None for ISO 8601

    def rows(self, spark: SparkSession, store: Store) -> DataFrame:
        """Reads the rows that are there now, for the table of a store.

        Timestamps without a time zone are in that of the session.

        Raises:
            IngestError: The files cannot be read.
            SchemaMismatchError: There is no timestamp column.
            OptionError: It is not written as the format says.
        """
        return self._rows(spark, store, files_at(spark, self.url))

    def stream(self, spark: SparkSession) -> DataFrame:
        """Streams the files as they arrive, of any age and in any folder below; `arrived` makes rows of them."""
        options = {"recursiveFileLookup": "true", "maxFileAge": _ANY_AGE, "maxFilesPerTrigger": str(_MOST_FILES)}
        return spark.readStream.format("binaryFile").schema(_FILE).options(**options).load(self.url).select("path")

    def arrived(self, files: DataFrame, store: Store) -> DataFrame:
        """Reads the rows of a batch of `stream`; raises as `rows` does."""
        paths = sorted({row["path"] for row in files.collect()})
        return self._rows(files.sparkSession, store, files_of(files.sparkSession, self.url, paths))

    def _rows(self, spark: SparkSession, store: Store, files: SourceFiles) -> DataFrame:
        snapshot = read_table(store)
        known = T.StructType() if snapshot is None else columns_of(snapshot)
        inferred = self._inferred(spark, files, known)
        if self.format == "parquet":
            return self._timed(self._reader(spark, files).schema(inferred).load(files.paths), known)
        schema = T.StructType([self._field(field, column_named(known, field.name)) for field in inferred.fields])
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

    def _inferred(self, spark: SparkSession, files: SourceFiles, known: T.StructType) -> T.StructType:
        """The columns of the files, in the types that they have there."""
        options = {"inferSchema": "true"} if self.format == "csv" else {}
        with self._readable():
            inferred: T.StructType = self._reader(spark, files).options(**options).load(files.paths).schema
        timestamp = timestamp_field(inferred, self.timestamp_column, self.url)
        if isinstance(timestamp.dataType, T.NumericType) and self.timestamp_format not in EPOCHS:
            msg = (
                f"{self.timestamp_column} is a number in {self.url}: say what it counts since 1970, as the timestamp "
                f"format {', '.join(EPOCHS)}"
            )
            raise OptionError(msg)
        if self.format != "csv":
            return inferred
        # Everything in CSV is a text: new columns that would lose something as another type stay texts.
        fields = (field for field in inferred.fields if field.name.lower() != self.timestamp_column.lower())
        new = T.StructType([field for field in fields if column_named(known, field.name) is None])
        texts = T.StructType([T.StructField(name, T.StringType()) for name in inferred.names])
        with self._readable():
            misread = misread_columns(self._reader(spark, files).schema(texts).load(files.paths), new)
        return T.StructType(
            [T.StructField(each.name, T.StringType()) if each.name in misread else each for each in inferred.fields]
        )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except SPARK_ERRORS as error:
            msg = f"{self.url} cannot be read as {self.format}: {line_of(error)}"
            raise IngestError(msg) from error

    def _field(self, inferred: T.StructField, known: T.StructField | None) -> T.StructField:
        name = inferred.name
        if name.lower() == self.timestamp_column.lower():
            # Read as it is written; what is no timestamp counts as a bad one.
            kind: T.DataType = T.LongType() if self.timestamp_format in EPOCHS else T.StringType()
            return T.StructField(name, kind)
        return inferred if known is None else T.StructField(name, type_to_read(inferred.dataType, known.dataType))

    def _timed(self, df: DataFrame, known: T.StructType) -> DataFrame:
        """The rows with their timestamp column as a timestamp, of the table's own kind where it was a text."""
        timestamp = timestamp_field(df.schema, self.timestamp_column, self.url)
        name, kind = timestamp.name, timestamp.dataType
        if type(kind) in KINDS:
            return df
        micros = None if self.timestamp_format is None else EPOCHS.get(self.timestamp_format)
        if micros is not None and isinstance(kind, T.IntegerType | T.LongType):
            found = F.timestamp_micros(F.try_multiply(quoted(name), F.lit(micros).cast("bigint")))
        elif micros is None and isinstance(kind, T.StringType):
            found = moment(quoted(name), self.timestamp_format)
        else:
            msg = (
                f"{self.timestamp_column} is {kind.simpleString()} in {self.url}, and cannot be read as "
                f"{self.timestamp_format or 'a timestamp'}"
            )
            raise OptionError(msg)
        field = column_named(known, name)
        if field is not None and isinstance(field.dataType, T.TimestampNTZType):
            found = found.cast(field.dataType)
        return df.withColumn(name, found)


# Spark passes over files that are a week older than the newest one, unless this is set.
_ANY_AGE = "36500d"
_MOST_FILES = 10_000
_FILE = "path string, modificationTime timestamp, length bigint, content binary"


# The files that an ingestion reads: all below a folder, those of a pattern, or those that have arrived.
#
# Spark passes over what is in a folder's folders unless these name partitions (`day=2026-02-10`), takes brackets in a
# name for a pattern, and forgets the partitions of single files. Here none of it goes unseen.


_PATTERN = re.compile(r"[*?{}\[\]\\]")


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Files that are read together."""

    paths: list[str]
    options: dict[str, str]  # of Spark's reader, so that it reads all of them and nothing else


def files_at(spark: SparkSession, url: str) -> SourceFiles:
    """Finds the files of a folder, of a pattern, or the one file.

    Raises:
        IngestError: The place cannot be looked at, or has folders of two kinds.
    """
    try:
        is_literal, folders = _found(spark, url)
    except SPARK_ERRORS as error:
        msg = f"{url} cannot be looked at: {line_of(error)}"
        raise IngestError(msg) from error
    plain = [name for name in folders if "=" not in name]
    if plain and len(plain) < len(folders):
        other = next(name for name in folders if "=" in name)
        msg = f"{url} has the folder {plain[0]} beside {other}, which names a partition: ingest one after the other"
        raise IngestError(msg)
    return SourceFiles([_escaped(url) if is_literal else url], {"recursiveFileLookup": "true"} if plain else {})


def files_of(spark: SparkSession, url: str, paths: list[str]) -> SourceFiles:
    """Single files below a folder or of a pattern.

    Raises:
        IngestError: Their folders name partitions, and it is not known where these begin.
    """
    options = {}
    if any("=" in part for path in paths for part in path.split("/")[:-1]):
        is_literal, _ = _found(spark, url)
        if not is_literal and _PATTERN.search(url):
            msg = f"{url} is a pattern over folders that name partitions: give the folder above them"
            raise IngestError(msg)
        options["basePath"] = url
    return SourceFiles(list(map(_escaped, paths)), options)


def _escaped(path: str) -> str:
    """A path whose brackets and stars are themselves."""
    return _PATTERN.sub(r"\\\g<0>", path)


def _found(spark: SparkSession, url: str) -> tuple[bool, list[str]]:
    """True if there is something of just this name; and the folders right below it, or below a pattern's matches."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    path = jvm.org.apache.hadoop.fs.Path(url)
    system = path.getFileSystem(hadoop_configuration(spark))
    is_literal = bool(system.exists(path))
    matches = [system.getFileStatus(path)] if is_literal else list(system.globStatus(path) or [])
    folders = (each.getPath() for each in matches if each.isDirectory())
    inside = (each for folder in folders for each in system.listStatus(folder) if each.isDirectory())
    names = (each.getPath().getName() for each in inside)
    return is_literal, sorted(name for name in names if not name.startswith((".", "_")))


# Values in files of text, read as the types of a table: as they are, or refused.
#
# Spark's own readers round a decimal, cut the time off a date, make an infinity of a number that is too large, and take
# `22:15` for a time of today. Columns of such types are read as something wider, and converted here.


# With a day, and with what may follow it.
_DAY = r"^\s*[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
_DATE = _DAY + r"\s*$"
_MOMENT = _DAY + r"([T ]\s*\d{1,2}:.*)?\s*$"
_HIGHEST_FLOAT = 3.4028234663852886e38
_WIDEST = 38

# Numbers that are names: of devices, of telephones. And those with more digits than a double has.
_NAMES = r"^\s*([+]|-?0\d)"
_LONG = r"^\s*-?[\d.]{18,}"


def type_to_read(inferred: T.DataType, known: T.DataType) -> T.DataType:
    """The type to read a column of a table as, so that nothing of a value is lost before it is converted.

    Fields of a struct that the files have and the table has not are kept: none is left out unseen.
    """
    if isinstance(known, _CONVERTED):
        return T.DoubleType() if isinstance(known, T.FloatType) else T.StringType()
    return _nested(inferred, known)


def converted(column: Column, name: str, known: T.DataType) -> Column:
    """Converts a column that was read as `type_to_read` to the type of the table; `name` is for the error."""
    if not isinstance(known, _CONVERTED):
        return column
    kind = known.simpleString()
    if isinstance(known, T.FloatType):
        fits = (F.abs(column) <= _HIGHEST_FLOAT) | F.isnan(column) | column.isin(float("inf"), float("-inf"))
        value = column.cast(known)
    elif isinstance(known, T.DecimalType):
        value = column.try_cast(known)
        # As many digits before the point, and all others behind it.
        wide = column.try_cast(T.DecimalType(_WIDEST, _WIDEST - known.precision + known.scale))
        fits = F.coalesce(value == wide, F.lit(False))  # noqa: FBT003 - a value
    elif isinstance(known, T.DateType):
        value = column.try_cast(known)
        fits = column.rlike(_DATE) & value.isNotNull()
    else:
        value = moment(column)
        fits = value.isNotNull()
        value = value.cast(known)
    refusal = F.raise_error(F.lit(f"a value of the column {name} is no {kind}, or not without loss"))
    return F.when(column.isNull() | fits, value).otherwise(refusal)


def moment(text: Column, pattern: str | None = None) -> Column:
    """Texts as timestamps, by a pattern of Spark's or as ISO 8601 with a whole day; null where one is none."""
    if pattern is not None:
        return F.try_to_timestamp(text, F.lit(pattern))
    return F.when(text.rlike(_MOMENT), F.try_to_timestamp(text))


def misread_columns(texts: DataFrame, inferred: T.StructType) -> set[str]:
    """The columns whose texts lose something in the types that Spark inferred."""
    found = {field.name: pattern for field in inferred.fields if (pattern := _lossy(field.dataType)) is not None}
    if not found:
        return set()
    row = texts.agg(*(F.max(quoted(name).rlike(pattern)) for name, pattern in found.items())).collect()[0]
    return {name for name, is_lossy in zip(found, row, strict=True) if is_lossy}


_CONVERTED = (T.DecimalType, T.DateType, T.FloatType, T.TimestampType, T.TimestampNTZType)


def _nested(inferred: T.DataType, known: T.DataType) -> T.DataType:
    if isinstance(inferred, T.StructType) and isinstance(known, T.StructType):
        fields = ((field, column_named(known, field.name)) for field in inferred.fields)
        return T.StructType(
            [
                T.StructField(each.name, each.dataType if same is None else _nested(each.dataType, same.dataType))
                for each, same in fields
            ]
        )
    if isinstance(inferred, T.ArrayType) and isinstance(known, T.ArrayType):
        return T.ArrayType(_nested(inferred.elementType, known.elementType))
    # Inside of others they stay as the files have them, and Delta refuses what it cannot convert.
    return inferred if isinstance(known, _CONVERTED) else known


def _lossy(kind: T.DataType) -> str | None:
    """The pattern of texts that a type does not keep; None where it keeps all."""
    if isinstance(kind, T.DoubleType | T.FloatType):
        return f"{_NAMES}|{_LONG}"
    if isinstance(kind, T.NumericType):
        return _NAMES
    return f"^(?!{_MOMENT[1:-1]}$)" if isinstance(kind, T.TimestampType | T.TimestampNTZType) else None
