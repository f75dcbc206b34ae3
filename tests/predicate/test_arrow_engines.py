"""What DuckDB and DataFusion really hand to a dataset's scanner, and what it comes to as a predicate."""

# ruff: noqa: ANN401 - a dataset takes whatever an engine hands to it
from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from delta_sidecar.predicate import matches
from delta_sidecar.predicate.arrow_expression import prunable

if TYPE_CHECKING:
    from collections.abc import Iterator

HOURS = [dt.datetime(2026, 2, 8, hour) for hour in range(5)]  # noqa: DTZ001 - with a zone and without one
STRUCTS = [{"x": 1, "z": {"w": True}}, {"x": 2, "z": {"w": False}}, {"x": None, "z": None}, None, {"x": 5, "z": None}]
TABLE = pa.table(
    {
        "id": pa.array(range(6)),
        "i": pa.array([1, 2, 3, 4, 5, None], pa.int32()),
        "f": pa.array([0.1, 0.7, float("nan"), 1.5, -0.0, None]),
        "f4": pa.array([0.1, 0.7, float("nan"), 1.5, -0.0, None], pa.float32()),
        "s": pa.array(["a", "ab", "b%", "é", "", None]),
        "b": pa.array([True, False, True, False, True, None]),
        "tn": pa.array([*HOURS, None], pa.timestamp("us")),
        "ts": pa.array([*HOURS, None], pa.timestamp("us", "UTC")),
        "d": pa.array([*(dt.date(2026, 2, day) for day in range(6, 11)), None]),
        "dec": pa.array([*map(Decimal, ("0.10", "0.70", "1.50", "2.00", "-1.00")), None], pa.decimal128(7, 2)),
        "bin": pa.array([b"a", b"b", b"\xff", b"", b"x", None]),
        "st": pa.array([*STRUCTS, None], pa.struct([("x", pa.int64()), ("z", pa.struct([("w", pa.bool_())]))])),
        "a.b": pa.array([1, 2, 3, 4, 5, None]),
    }
)


@dataclass(frozen=True)
class Answer:
    """What a scanner gives: rows that the predicate keeps, then those that the expression keeps."""

    table: pa.Table

    @property
    def projected_schema(self) -> pa.Schema:
        return self.table.schema

    def to_reader(self) -> pa.RecordBatchReader:
        return self.table.to_reader()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.table.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


class Spy(ds.Dataset):  # type: ignore[misc]
    """A dataset that keeps what it was asked for, and prunes its rows by it."""

    def __init__(self) -> None:
        self.asked: list[pc.Expression | None] = []

    @property
    def schema(self) -> pa.Schema:
        return TABLE.schema

    def scanner(
        self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any  # noqa: A002
    ) -> Answer:
        self.asked.append(filter)
        table = TABLE
        if filter is not None:
            predicate = prunable(filter, TABLE.schema)
            if predicate is not None:
                table = table.filter(matches(predicate, table))
            table = table.filter(filter)
        return Answer(table if columns is None else table.select(columns))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Fragment]:  # noqa: A002, ARG002
        yield Fragment(self)


@dataclass(frozen=True)
class Fragment:
    dataset: Spy

    @property
    def physical_schema(self) -> pa.Schema:
        return TABLE.schema

    def scanner(self, schema: object = None, **asked: Any) -> Answer:  # noqa: ARG002
        return self.dataset.scanner(**asked)


def in_duckdb(condition: str) -> tuple[list[int], Spy]:
    spy = Spy()
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.register("t", spy)
        found = connection.execute(f"SELECT id FROM t WHERE {condition} ORDER BY id").fetchall()  # noqa: S608
    return [row for (row,) in found], spy


def in_datafusion(condition: str) -> tuple[list[int], Spy]:
    spy = Spy()
    context = datafusion.SessionContext()
    context.register_dataset("t", spy)
    found = context.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id").to_arrow_table()  # noqa: S608
    return found["id"].to_pylist(), spy


def predicate_of(spy: Spy) -> str | None:
    assert spy.asked
    assert len({str(expression) for expression in spy.asked}) == 1
    if spy.asked[0] is None:
        return None
    return str(prunable(spy.asked[0], TABLE.schema))


ALL = range(6)
NOON = "TIMESTAMP '2026-02-08 02:00:00'"
UTC_NOON = "TIMESTAMP '2026-02-08 02:00:00+00:00'"
# The condition, the rows that meet it, and the predicate from DuckDB and from DataFusion: None if it keeps it.
