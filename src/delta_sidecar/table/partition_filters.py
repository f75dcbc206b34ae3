"""Conditions that choose files, as deltalake takes them: tuples of column, operator and value, or SQL text.

In tuples, as in deltalake, an empty text stands for null beside a partition column, and beside a column of texts any
value for its text. A condition on partition columns chooses just the files whose values fulfil it; one on other columns
leaves out files that cannot hold a matching row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from delta_sidecar.data.filtering import check_collations
from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import And, Predicate, all_of, bind, columns, matches, parse
from delta_sidecar.predicate.literals import number
from delta_sidecar.table.partition_values import typed_partition_values

if TYPE_CHECKING:
    from delta_sidecar.log.schema import TableSchema
    from delta_sidecar.replay.snapshot import Snapshot

Filters: TypeAlias = Sequence[Any]
"""A list of tuples, all of which hold, or a list of such lists, of which one holds."""


def partition_predicate(filters: Filters | None, schema: TableSchema) -> Predicate | None:
    """Reads a filter on partition columns.

    Args:
        filters: The filter; None or empty for all.
        schema: The table's columns.

    Raises:
        PredicateError: It names a column that is no partition column, or cannot be read.
    """
    predicate = file_predicate(filters, schema)
    if predicate is None:
        return None
    known = {name.casefold() for name in schema.partition_columns}
    others = sorted({path[0] for path in columns(predicate) if path[0].casefold() not in known})
    if others:
        msg = (
            f"{', '.join(others)}: not a partition column; the partition columns are "
            f"{', '.join(schema.partition_columns) or 'none'}. A condition on other columns is a predicate."
        )
        raise PredicateError(msg)
    return predicate


def file_predicate(condition: Any, schema: TableSchema) -> Predicate | None:  # noqa: ANN401 - any notation
    """Reads a condition that chooses files.

    Args:
        condition: Filter tuples, or any other notation of a predicate; None or empty for all.
        schema: The table's columns.

    Raises:
        PredicateError: It cannot be read.
    """
    if condition is None or (isinstance(condition, Sequence) and not condition):
        return None
    is_tuples = isinstance(condition, Sequence) and not isinstance(condition, str | Predicate)
    return parse(_as_in_log(condition, _Columns(schema)) if is_tuples else condition)


@dataclass(frozen=True, slots=True)
class ChosenPartitions:
    """Which files a condition chooses by their partition values alone.

    Attributes:
        table: The table's columns.
        zone: The time zone of timestamps that were written without one.
        exact: What of the condition concerns nothing but partition columns, bound; None for nothing.
    """

    table: TableSchema
    zone: str
    exact: Predicate | None

    @classmethod
    def of(cls, predicate: Predicate | None, snapshot: Snapshot, zone: str) -> ChosenPartitions:
        """Takes out of a condition what can be decided exactly.

        Raises:
            PredicateError: It does not fit the table.
            UnsupportedFeatureError: It compares a partition column that has a collation.
        """
        bound = None if predicate is None else bind(predicate, snapshot.schema)
        terms = () if bound is None else bound.terms if isinstance(bound, And) else (bound,)
        known = set(snapshot.partition_columns)
        exact = [term for term in terms if (named := {path[0] for path in columns(term)}) and named <= known]
        for term in exact:
            check_collations(term, snapshot.schema)
        return cls(snapshot.columns, zone, all_of(exact) if exact else None)

    def __call__(self, files: pa.RecordBatch) -> pa.RecordBatch:
        """The files that are chosen, of a batch with `partition_values`."""
        if self.exact is None:
            return files
        values = typed_partition_values(files.column("partition_values"), self.table, self.zone)
        named = pa.RecordBatch.from_arrays(list(values.values()), names=list(values))
        return files.filter(matches(self.exact, named))


class _Columns:
    """The columns of a table as a filter names them: in any case."""

    def __init__(self, schema: TableSchema) -> None:
        self._partitions = frozenset(schema.partition_columns)
        self._named: dict[str, list[pa.Field]] = {}
        for field in schema.logical:
            self._named.setdefault(field.name.casefold(), []).append(field)

    def value(self, name: str, value: object) -> object:
        """A value beside a column, as the log has those of partition columns."""
        fields = self._named.get(name.casefold(), [])
        is_partition = any(field.name in self._partitions for field in fields)
        if is_partition and any(pa.types.is_float32(field.type) for field in fields):
            return _in_32_bits(value)
        if isinstance(value, str):
            return (value or None) if is_partition else value
        if value is None or not any(pa.types.is_string(field.type) for field in fields):
            return value
        if isinstance(value, bool):
            return str(value).lower()
        return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


def _in_32_bits(value: object) -> object:
    """A number as a column of 32-bit floats has it: a partition is chosen by its value, not by a double near it."""
    if isinstance(value, str):
        read = number(value)
        value = (value or None) if read is None else read
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    with np.errstate(over="ignore"):
        return float(np.float32(Decimal(value)))


def _as_in_log(filters: Filters, columns: _Columns) -> list[Any]:
    return [_clause(entry, columns) if _is_clause(entry) else _inner(entry, columns) for entry in filters]


def _inner(entry: Any, columns: _Columns) -> Any:  # noqa: ANN401 - whatever it is, the parser says what is wrong
    return _as_in_log(entry, columns) if isinstance(entry, list | tuple) else entry


def _is_clause(entry: object) -> bool:
    return isinstance(entry, list | tuple) and bool(entry) and isinstance(entry[0], str)


def _clause(clause: Sequence[Any], columns: _Columns) -> tuple[Any, ...]:
    name, *rest = clause
    if len(rest) != 2:  # noqa: PLR2004 - an operator and a value; whatever else it is, the parser says what is wrong
        return tuple(clause)
    operator, value = rest
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, Mapping):
            msg = (
                f"Could not encode partition value for type {type(each).__name__}: a column is compared with one value"
            )
            raise PredicateError(msg)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return (name, operator, [columns.value(name, item) for item in value])
    return (name, operator, columns.value(name, value))
