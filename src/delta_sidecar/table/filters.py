"""Conditions in deltalake's notation: tuples of column, operator and value, or SQL text.

In tuples, as in deltalake, an empty text stands for null beside a partition column, and any value beside a column of
texts for its text. A condition on partition columns selects exactly the files whose values match; one on other columns
skips files that cannot hold a matching row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import from_numpy, scalar
from delta_sidecar.errors import LogCorruptionError, PredicateError
from delta_sidecar.log.partition_values import lookup, read_known_values, read_partition_column
from delta_sidecar.predicate import FALSE, And, Not, Predicate, all_of, any_of, bind, columns, matches, parse
from delta_sidecar.predicate.literals import number
from delta_sidecar.rows.convert import in_zone
from delta_sidecar.rows.reader import check_collations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.log.partition_values import PartitionTexts
    from delta_sidecar.log.schema import TableSchema
    from delta_sidecar.replay.snapshot import Snapshot


Filters: TypeAlias = Sequence[Any]
"""A list of tuples, joined by AND, or a list of such lists, joined by OR."""


def partition_predicate(filters: Filters | None, schema: TableSchema) -> Predicate | None:
    """Parses a filter on partition columns; None if it is None or empty.

    Raises:
        PredicateError: It names a column that is no partition column, or cannot be parsed.
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
    """Parses filter tuples or any other notation of a predicate; None if it is None or empty.

    Raises:
        PredicateError: It cannot be parsed.
    """
    if condition is None or (isinstance(condition, Sequence) and not condition):
        return None
    is_tuples = isinstance(condition, Sequence) and not isinstance(condition, str | Predicate)
    return parse([_as_in_log(entry, schema) for entry in condition] if is_tuples else condition)


def matching_partitions(
    files: Iterable[pa.RecordBatch], predicate: Predicate | None, snapshot: Snapshot, zone: str
) -> Iterator[pa.RecordBatch]:
    """Filters batches of files with `partition_values` by the terms that partition values alone decide.

    `zone` is the time zone of timestamps that were written without one.

    Raises:
        PredicateError: The predicate does not fit the table.
        UnsupportedFeatureError: It compares a partition column that has a collation.
    """
    bound = None if predicate is None else bind(predicate, snapshot.schema)
    terms = () if bound is None else bound.terms if isinstance(bound, And) else (bound,)
    known = set(snapshot.partition_columns)
    exact = [term for term in terms if (named := {path[0] for path in columns(term)}) and named <= known]
    for term in exact:
        check_collations(term, snapshot.schema)
    for batch in files:
        if not exact:
            yield batch
            continue
        values = typed_partition_values(batch.column("partition_values"), snapshot.columns, zone)
        typed = pa.RecordBatch.from_arrays(list(values.values()), names=list(values))
        yield batch.filter(matches(all_of(exact), typed))


def _value_in_log(value: object, fields: Sequence[pa.Field], table: TableSchema) -> object:
    """The value that a column is compared with, in the notation of the log for a partition column."""
    is_partition = any(field.name in table.partition_columns for field in fields)
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
    """Rounds a number to 32 bits: a partition value is equal to that, not to a double near it."""
    if isinstance(value, str):
        read = number(value)
        value = (value or None) if read is None else read
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    with np.errstate(over="ignore"):
        return float(np.float32(Decimal(value)))


def _as_in_log(entry: Any, table: TableSchema) -> Any:  # noqa: ANN401 - the parser refuses what is malformed
    if not isinstance(entry, list | tuple):
        return entry
    if not entry or not isinstance(entry[0], str):
        return [_as_in_log(inner, table) for inner in entry]
    name, *rest = entry
    if len(rest) != 2:  # noqa: PLR2004 - an operator and a value; the parser refuses everything else
        return tuple(entry)
    operator, value = rest
    fields = [field for field in table.logical if field.name.casefold() == name.casefold()]
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, Mapping):
            kind = type(each).__name__
            msg = f"Could not encode partition value for type {kind}: a column is compared with one value"
            raise PredicateError(msg)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return (name, operator, [_value_in_log(item, fields, table) for item in value])
    return (name, operator, _value_in_log(value, fields, table))


# Filter tuples on rows, with nulls treated as deltalake and pyarrow do: in SQL a null is neither in a list nor not in
# it; in these tuples `not in` is true for a null, unless the list has one too.


_CLAUSE_LENGTH = 3


def row_predicate(filters: Filters) -> Predicate:
    """Parses filter tuples on rows.

    Raises:
        PredicateError: They cannot be parsed.
    """
    groups = [filters] if all(map(_is_row_clause, filters)) else filters
    if all(_is_list(group) and group and all(map(_is_row_clause, group)) for group in groups):
        return any_of(all_of(map(_row_clause, group)) for group in groups)
    # The parser says what is malformed.
    return parse(filters)


def _row_clause(clause: Sequence[Any]) -> Predicate:
    name, operator, value = clause
    kind = " ".join(str(operator).lower().split())
    if kind not in ("in", "not in") or not isinstance(value, Collection) or isinstance(value, str | bytes):
        return parse([clause])
    known = [item for item in value if item is not None]
    is_in = parse([(name, "in", known)]) if known else FALSE
    is_null = parse([(name, "=", None)])
    has_null = len(known) < len(value)
    if kind == "in":
        return any_of([is_in, is_null]) if has_null else is_in
    return all_of([Not(is_in), Not(is_null)]) if has_null else any_of([Not(is_in), is_null])


def _is_row_clause(item: object) -> bool:
    return _is_list(item) and len(item) == _CLAUSE_LENGTH and isinstance(item[0], str)  # type: ignore[arg-type, index]


def _is_list(item: object) -> bool:
    return isinstance(item, Sequence) and not isinstance(item, str | bytes)


# Partition values of a batch of files, in the types of their columns.


def typed_partition_values(values: pa.MapArray, table: TableSchema, zone: str) -> dict[str, pa.Array]:
    """The values of each partition column by its logical name, a row a file.

    `zone` is the time zone of timestamps that were written without one, as in the rows of their files.

    Raises:
        LogCorruptionError: A text is no value of its column's type.
    """
    return {
        name: _typed(name, lookup(values, name), table.logical.field(name).type, zone)
        for name in table.partition_columns
    }


def _typed(name: str, raw: PartitionTexts, kind: pa.DataType, zone: str) -> pa.Array:
    texts = raw.texts
    if pa.types.is_null(kind):
        return pa.nulls(len(texts), kind)
    if pa.types.is_binary(kind):
        empty = pc.equal(texts, scalar("", pa.string()))
        return pc.if_else(empty, scalar(None, pa.string()), texts).cast(kind)
    column = read_partition_column(texts, kind)
    if column is not None:
        return in_zone(column, zone)
    known, _ = read_known_values(raw, kind)
    invalid = texts.filter(from_numpy(raw.known & ~known.known))
    msg = f"the log has {invalid[0].as_py()!r} as a value of partition column {name}, which is no {kind}"
    raise LogCorruptionError(msg)
