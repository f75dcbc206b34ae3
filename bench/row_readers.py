"""Readers of rows that are compared. Each function gets ready and gives what is to be measured (`bench.measure`).

Every one counts the rows of one hour, adds up a column, and tells when the first row was there. With a limit it takes
so many rows of the whole table instead.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa


def ours(table: str, hour: str, limit: int | None = None) -> Callable[[], dict[str, Any]]:
    """This library: `DeltaTable.scan`."""
    from delta_sidecar import DeltaTable
    from delta_sidecar.predicate import parse

    # Reading SQL imports a parser.
    predicate = parse(f"_event_hour = '{hour}'")
    if limit is not None:
        return lambda: _counted(lambda: DeltaTable(table).scan(limit=limit))
    return lambda: _counted(lambda: DeltaTable(table).scan(predicate=predicate))


def ours_duckdb(table: str, hour: str, limit: int | None = None) -> Callable[[], dict[str, Any]]:
    """This library, queried by DuckDB."""
    import duckdb

    from delta_sidecar import DeltaTable
    from delta_sidecar.connect.duckdb import register

    def batches() -> Iterable[pa.RecordBatch]:
        with duckdb.connect() as con:
            register(con, "t", DeltaTable(table))
            yield from con.sql(_query(hour, limit)).to_arrow_reader(8192)

    return lambda: _counted(batches)


def ours_polars(table: str, hour: str, limit: int | None = None) -> Callable[[], dict[str, Any]]:
    """This library, queried by Polars."""
    import polars as pl

    from delta_sidecar.connect.polars import scan_delta

    return lambda: _framed(lambda: _asked(scan_delta(table), pl.col("_event_hour") == hour, limit))


def ours_datafusion(table: str, hour: str, limit: int | None = None) -> Callable[[], dict[str, Any]]:
    """This library, queried by DataFusion."""
    from delta_sidecar.connect.datafusion import register, session_context

    def batches() -> Iterable[pa.RecordBatch]:
        context = session_context()
        register(context, "t", table)
        return (batch.to_pyarrow() for batch in context.sql(_query(hour, limit)).execute_stream())

    return lambda: _counted(batches)


def deltalake_dataset(table: str, hour: str, limit: int | None = None) -> Callable[[], dict[str, Any]]:
    """deltalake: its dataset of pyarrow."""
    import pyarrow.compute as pc
    import pyarrow.dataset  # noqa: F401 - an import is no part of what is measured
    from deltalake import DeltaTable

    def batches() -> Iterable[pa.RecordBatch]:
        dataset = DeltaTable(table).to_pyarrow_dataset()
        if limit is not None:
            return (batch.slice(0, limit) for batch in islice(filter(len, dataset.to_batches()), 1))
        return dataset.scanner(filter=pc.field("_event_hour") == hour).to_batches()

    return lambda: _counted(batches)


def deltalake_sql(table: str, hour: str, limit: int | None = None) -> Callable[[], dict[str, Any]]:
    """deltalake: its QueryBuilder, which is DataFusion."""
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    def batches() -> Iterable[pa.RecordBatch]:
        query = QueryBuilder().register("t", DeltaTable(table))
        return pa.RecordBatchReader.from_stream(query.execute(_query(hour, limit)))

    return lambda: _counted(batches)


def polars_delta(table: str, hour: str, limit: int | None = None) -> Callable[[], dict[str, Any]]:
    """Polars: its own `scan_delta`, which asks deltalake for the files."""
    import deltalake  # noqa: F401 - an import is no part of what is measured
    import polars as pl

    return lambda: _framed(lambda: _asked(pl.scan_delta(table), pl.col("_event_hour") == hour, limit))


def _query(hour: str, limit: int | None) -> str:
    return "SELECT * FROM t " + (f"WHERE _event_hour = '{hour}'" if limit is None else f"LIMIT {limit}")  # noqa: S608


def _asked(frame: Any, condition: Any, limit: int | None) -> Any:  # noqa: ANN401 - Polars'
    return (frame.filter(condition) if limit is None else frame.head(limit)).collect()


def _counted(source: Callable[[], Iterable[pa.RecordBatch]]) -> dict[str, Any]:
    import pyarrow.compute as pc

    started = time.perf_counter()
    first, rows, total = None, 0, 0.0
    for batch in source():
        if batch.num_rows:
            first = first or time.perf_counter() - started
        rows += batch.num_rows
        values = batch.column(batch.schema.get_field_index("value"))
        total += pc.sum(values.filter(pc.is_finite(values))).as_py() or 0.0
    return {"rows": rows, "total": round(total, 3), "first_seconds": first}


def _framed(collect: Callable[[], Any]) -> dict[str, Any]:
    """A frame comes whole, so that its first row comes with its last."""
    started = time.perf_counter()
    frame = collect()
    taken = time.perf_counter() - started
    return {"rows": frame.height, "total": round(frame["value"].fill_nan(0).sum(), 3), "first_seconds": taken}
