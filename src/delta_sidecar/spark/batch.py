"""The rows of a batch: whether their columns fit the table, and which time bucket each is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it

from delta_sidecar.errors import BadTimestampsError, SchemaMismatchError
from delta_sidecar.spark.failures import BAD_TIMESTAMP, condition_of
from delta_sidecar.spark.files import quoted
from delta_sidecar.spark.tables import column_named, nullable, timestamp_kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from delta_sidecar.spark.settings import IngestSettings


# What Delta says of types that it cannot make one of.
_TYPE_CONDITIONS = {
    "DELTA_FAILED_TO_MERGE_FIELDS",
    "DELTA_MERGE_INCOMPATIBLE_DATATYPE",
    "DELTA_MERGE_INCOMPATIBLE_DECIMAL_TYPE",
    "DELTA_METADATA_MISMATCH",
    "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
}


class Batch:
    """The rows of a batch, beside what the pipeline expects of them.

    Args:
        df: The rows.
        settings: How the pipeline writes.
        table: The table's address, for messages.

    Attributes:
        rows: The rows.
        bucket: The time bucket of each.

    Raises:
        SchemaMismatchError: They have no timestamp column.
    """

    def __init__(self, df: DataFrame, settings: IngestSettings, table: str) -> None:
        self.rows = df
        self._settings = settings
        self._table = table
        kind = timestamp_kind(df.schema, settings.bucket, "the batch")
        self.bucket: Column = F.expr(settings.bucket.expression(kind))

    def check(self, table: StructType) -> None:
        """Refuses columns that do not fit the table's.

        Raises:
            SchemaMismatchError: Which, and what to do.
        """
        schema, bucket = self.rows.schema, self._settings.bucket
        names = [name.lower() for name in schema.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"{self._table}: the batch has the column {', '.join(twice)} more than once"
            raise SchemaMismatchError(msg)
        wanted, given = (timestamp_kind(each, bucket, "it") for each in (table, schema))
        if wanted != given:
            msg = f"{self._table}: {bucket.timestamp_column} is {wanted} in the table and {given} in the batch: cast it"
            raise SchemaMismatchError(msg)
        new = [field.name for field in schema.fields if column_named(table, field.name) is None]
        if new and not self._settings.merge_schema:
            msg = (
                f"{self._table}: the table has no column {', '.join(new)}, which the batch has: leave it out, or let "
                "the pipeline add columns (merge_schema=True, --merge-schema)"
            )
            raise SchemaMismatchError(msg)

    def mismatch(self, table: StructType, error: Exception) -> SchemaMismatchError | None:
        """The error for columns of other types than the table's, which Delta refused; None where it is not about them.

        Delta widens some types by itself, so that it is asked first.
        """
        if condition_of(error) not in _TYPE_CONDITIONS:
            return None
        pairs = ((field, column_named(table, field.name)) for field in self.rows.schema.fields)
        differing = [
            f"{ours.name} is {theirs.dataType.simpleString()} in the table, {ours.dataType.simpleString()} in the batch"
            for ours, theirs in pairs
            if theirs is not None and nullable(ours.dataType) != nullable(theirs.dataType)
        ]
        if not differing:
            return None
        return SchemaMismatchError(f"{self._table}: {'; '.join(differing)}: cast, and run the batch again")

    def check_timestamps(self, bad: int) -> None:
        """Refuses rows without a time bucket, where that is wanted.

        Raises:
            BadTimestampsError: How many there are.
        """
        if bad and self._settings.bad_timestamps == "reject":
            raise self.refusal(bad)

    def guarded(self) -> DataFrame:
        """The rows; where bad timestamps are rejected, one that comes in after the count stops the write."""
        if self._settings.bad_timestamps == "null_bucket":
            return self.rows
        name = next(n for n in self.rows.columns if n.lower() == self._settings.bucket.timestamp_column.lower())
        checked = F.when(self.bucket.isNotNull(), quoted(name)).otherwise(F.raise_error(F.lit(BAD_TIMESTAMP)))
        return self.rows.withColumn(name, checked)

    def refusal(self, count: int) -> BadTimestampsError:
        """The error for rows without a time bucket."""
        column = self._settings.bucket.timestamp_column
        rows = "1 row of the batch has" if count == 1 else f"{count:,} rows of the batch have"
        msg = (
            f"{self._table}: {rows} no {column}, or one outside the years 1 to 9999, and nothing was written: correct "
            "that, or let it in without a time bucket (bad_timestamps='null_bucket', --bad-timestamps null-bucket)"
        )
        return BadTimestampsError(msg, count)
