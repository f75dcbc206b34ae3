"""Rows as Spark reads them beside rows as we read them: the same ones, as often, in the same types."""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from delta_sidecar import DeltaTable


@dataclass(frozen=True)
class Reading:
    """What Spark reads from a table.

    Attributes:
        rows: All rows.
        verdicts: For each predicate what Spark thinks of each row.
    """

    rows: pa.Table
    verdicts: Mapping[str, pa.ChunkedArray]


def read_by_spark(
    spark: SparkSession,
    url: str,
    predicates: Sequence[str] = (),
    version: int | None = None,
    columns: Sequence[str] = ("*",),
) -> Reading:
    """Reads a table with Spark, once: what it thinks of each predicate is a further column.

    Args:
        spark: The session.
        url: The table.
        predicates: Conditions that Spark and we understand.
        version: The version to read; None for the newest.
        columns: Which columns, as expressions.
    """
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    verdicts = [f"({predicate}) as `verdict {at}`" for at, predicate in enumerate(predicates)]
    whole = reader.load(url).selectExpr(*columns, *verdicts).toArrow()
    own = whole.num_columns - len(predicates)
    return Reading(whole.select(range(own)), dict(zip(predicates, whole.columns[own:], strict=True)))


def assert_read_by_us(reading: Reading, table: DeltaTable, projections: Sequence[Sequence[str]] = ()) -> None:
    """Asserts that we read the same: all rows, those that match each predicate, some columns, and how many there are.

    Args:
        reading: What Spark reads.
        table: The same table at the same version.
        projections: Names of columns.
    """
    expected = reading.rows
    assert_same_rows(table.to_pyarrow_table(), expected)
    for predicate, verdict in reading.verdicts.items():
        found = table.scan(predicate=predicate).reader().read_all()
        assert_same_rows(found, expected.filter(verdict), predicate)
    for names in projections:
        assert_same_rows(table.to_pyarrow_table(columns=names), expected.select(names), str(names))
    assert table.count() == expected.num_rows


def assert_same_rows(ours: pa.Table, theirs: pa.Table, what: str = "all rows") -> None:
    """Asserts that two tables have the same columns and the same rows, in whatever order."""
    assert typed(ours.schema) == typed(theirs.schema), what
    found, expected = Counter(rows_of(ours)), Counter(rows_of(theirs))
    if found != expected:
        too_many, missing = list((found - expected).elements()), list((expected - found).elements())
        names = ", ".join(ours.schema.names)
        msg = (
            f"{what}: of {ours.num_rows} rows {len(too_many)} are wrong, of Spark's {theirs.num_rows} rows "
            f"{len(missing)} are missing\ncolumns: {names}\nwrong:   {too_many[:3]}\nmissing: {missing[:3]}"
        )
        raise AssertionError(msg)


def typed(schema: pa.Schema) -> list[tuple[str, Any]]:
    """Names and types of columns, at every depth."""
    return [(field.name, _type(field.type)) for field in schema]


def rows_of(table: pa.Table) -> list[Hashable]:
    """The rows as values that are equal where they are the same to the last bit."""
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(_values(column.combine_chunks()) for column in table.columns), strict=True))


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for a while."""
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def _type(kind: pa.DataType) -> Any:  # noqa: ANN401 - text, or a list of such
    if pa.types.is_struct(kind):
        return [(field.name, _type(field.type)) for field in kind]
    if pa.types.is_list(kind):
        return ["list", _type(kind.value_type)]
    if pa.types.is_map(kind):
        return ["map", _type(kind.key_type), _type(kind.item_type)]
    return str(kind)


def _values(array: pa.Array) -> list[Hashable]:
    kind = array.type
    if pa.types.is_struct(kind):
        children = [_values(array.field(at)) for at in range(kind.num_fields)]
        return _known(array, list(zip(*children, strict=True)) if children else [()] * len(array))
    if pa.types.is_list(kind):
        return _known(array, _lists(array, _values(array.values)))
    if pa.types.is_map(kind):
        entries = list(zip(_values(array.keys), _values(array.items), strict=True))
        return _known(array, _lists(array, entries))
    if pa.types.is_floating(kind):
        return [None if value is None else _bits(value) for value in array.to_pylist()]
    if pa.types.is_timestamp(kind):
        # Moments that Python has no name for are numbers too.
        return array.view(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


def _lists(array: pa.ListArray | pa.MapArray, values: list[Hashable]) -> list[Hashable]:
    offsets = array.offsets.to_pylist()
    return [tuple(values[start:end]) for start, end in pairwise(offsets)]


def _known(array: pa.Array, values: list[Hashable]) -> list[Hashable]:
    return [value if is_there else None for value, is_there in zip(values, array.is_valid().to_pylist(), strict=True)]


def _bits(value: float) -> Hashable:
    """Tells zeros with and without a sign apart; one NaN is as good as another."""
    return "NaN" if value != value else struct.pack("<d", value)  # noqa: PLR0124 - NaN is not itself
