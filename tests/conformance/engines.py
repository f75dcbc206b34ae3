"""The ways to the rows of a table, by name; each gives all rows of a version, or raises this library's own error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from delta_sidecar import DeltaTable
from delta_sidecar.connect import datafusion as with_datafusion
from delta_sidecar.connect import duckdb as with_duckdb
from delta_sidecar.connect import polars as with_polars

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa


def by_table(root: Path, version: int | None) -> pa.Table:
    """Reads rows as `DeltaTable` gives them."""
    return DeltaTable(root, version).scan().reader().read_all()


def by_dataset(root: Path, version: int | None) -> pa.Table:
    """Reads rows through the dataset of pyarrow."""
    return DeltaTable(root, version).to_pyarrow_dataset().to_table()


def by_duckdb(root: Path, version: int | None) -> pa.Table:
    """Reads rows as DuckDB gives them."""
    with duckdb.connect() as con:
        dataset = with_duckdb.register(con, "t", root, version=version)
        try:
            return con.sql("FROM t").to_arrow_table()
        except duckdb.Error as error:
            raise dataset.last_error or error from None


def by_datafusion(root: Path, version: int | None) -> pa.Table:
    """Reads rows as DataFusion gives them."""
    ctx = with_datafusion.session_context()
    dataset = with_datafusion.register(ctx, "t", root, version=version)
    try:
        return ctx.sql("SELECT * FROM t").to_arrow_table()
    except Exception as error:  # noqa: BLE001 - of no class of its own
        raise dataset.last_error or error from None


def by_polars(root: Path, version: int | None) -> pa.Table:
    """Reads rows as Polars gives them."""
    return with_polars.scan_delta(root, version=version).collect().to_arrow()


ENGINES: dict[str, Callable[[Path, int | None], pa.Table]] = {
    "table": by_table,
    "dataset": by_dataset,
    "duckdb": by_duckdb,
    "datafusion": by_datafusion,
    "polars": by_polars,
}
