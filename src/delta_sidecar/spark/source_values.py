"""Values in files of text, read as the types of a table: as they are, or refused.

Spark's own readers round a decimal, cut the time off a date, make an infinity of a number that is too large, and take
`22:15` for a time of today. Columns of such types are read as something wider, and converted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql import types as T  # noqa: N812 - as above

from delta_sidecar.spark.files import quoted
from delta_sidecar.spark.tables import column_named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# With a day, and with whatever may follow it.
_DAY = r"^\s*[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
_DATE = _DAY + r"\s*$"
_MOMENT = _DAY + r"([T ]\s*\d{1,2}:.*)?\s*$"
_HIGHEST_FLOAT = 3.4028234663852886e38
_WIDEST = 38

# Numbers that are names: of devices, of telephones. And those with more digits than a double has.
_NAMES = r"^\s*([+]|-?0\d)"
_LONG = r"^\s*-?[\d.]{18,}"


def type_to_read(told: T.DataType, known: T.DataType) -> T.DataType:
    """The type that a column of a table is read as, so that nothing of a value is lost before it is looked at.

    Args:
        told: What the files say.
        known: What the table has. Fields of a struct that only the files have are kept: none is left out unseen.
    """
    if isinstance(known, _CONVERTED):
        return T.DoubleType() if isinstance(known, T.FloatType) else T.StringType()
    return _nested(told, known)


def converted(column: Column, name: str, known: T.DataType) -> Column:
    """A column that was read as `type_to_read` says, in the type of the table.

    Args:
        column: The column.
        name: Its name, for the error that a value raises which does not fit.
        known: The type of the table.
    """
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
    """Texts as timestamps; null where one is none.

    Args:
        text: The texts.
        pattern: How they are written, in Spark's words; None for ISO 8601, at least a whole day.
    """
    if pattern is not None:
        return F.try_to_timestamp(text, F.lit(pattern))
    return F.when(text.rlike(_MOMENT), F.try_to_timestamp(text))


def misread_columns(texts: DataFrame, inferred: T.StructType) -> set[str]:
    """The columns that have lost something by what Spark inferred them to be; they had better stay texts.

    Args:
        texts: The rows, with every column as text.
        inferred: What Spark takes the columns for.
    """
    patterns = {field.name: _lossy(field.dataType) for field in inferred.fields}
    found = {name: pattern for name, pattern in patterns.items() if pattern is not None and name in texts.columns}
    if not found:
        return set()
    checks = [F.max(quoted(name).rlike(pattern)).alias(str(at)) for at, (name, pattern) in enumerate(found.items())]
    row = texts.agg(*checks).collect()[0]
    return {name for name, is_lossy in zip(found, row, strict=True) if is_lossy}


_CONVERTED = (T.DecimalType, T.DateType, T.FloatType, T.TimestampType, T.TimestampNTZType)


def _nested(told: T.DataType, known: T.DataType) -> T.DataType:
    if isinstance(told, T.StructType) and isinstance(known, T.StructType):
        fields = ((field, column_named(known, field.name)) for field in told.fields)
        return T.StructType(
            [
                T.StructField(each.name, each.dataType if same is None else _nested(each.dataType, same.dataType))
                for each, same in fields
            ]
        )
    if isinstance(told, T.ArrayType) and isinstance(known, T.ArrayType):
        return T.ArrayType(_nested(told.elementType, known.elementType))
    # Inside of others they stay as the files say, and Delta refuses what it cannot convert.
    return told if isinstance(known, _CONVERTED) else known


def _lossy(kind: T.DataType) -> str | None:
    """What a text looks like that a type does not keep; None where it keeps all."""
    if isinstance(kind, T.DoubleType | T.FloatType):
        return f"{_NAMES}|{_LONG}"
    if isinstance(kind, T.NumericType):
        return _NAMES
    return f"^(?!{_MOMENT[1:-1]}$)" if isinstance(kind, T.TimestampType | T.TimestampNTZType) else None
