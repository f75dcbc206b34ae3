"""DuckDB's own reader of Delta tables, as a reader of rows, which runs in an environment of its own.

Nothing but DuckDB and the standard library is imported here, so that the interpreter of `tests/duckdb_delta.py`, which
has neither this library nor Arrow, can run it: `in_own_environment` gives the environment variables for that.
"""

from __future__ import annotations

import os
import pathlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ROWS = 1024


def duckdb_delta(table: str, hour: str, limit: int | None = None) -> Callable[[], dict[str, Any]]:
    """DuckDB: its extension `delta`, with delta-kernel-rs inside; takes what the functions of `row_readers` take."""
    import duckdb
    import duckdb_extension_delta

    folder = pathlib.Path(duckdb_extension_delta.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    connection.execute(f"LOAD '{folder / 'delta.duckdb_extension'}'")
    where = "" if limit is not None else " WHERE _event_hour = ?"
    # A moment as a value of Python would need a package that is not there.
    columns = "* REPLACE (CAST(event_ts AS VARCHAR) AS event_ts)"
    query = f"SELECT {columns} FROM delta_scan(?){where}" + (f" LIMIT {limit}" if limit is not None else "")  # noqa: S608

    def work() -> dict[str, Any]:
        started = time.perf_counter()
        found = connection.execute(query, [table] if limit is not None else [table, hour])
        at = [column[0] for column in found.description].index("value")
        first, rows, total = None, 0, 0.0
        while values := found.fetchmany(_ROWS):
            first = first or time.perf_counter() - started
            rows += len(values)
            # NaN is equal to nothing.
            total += sum(row[at] for row in values if row[at] == row[at])
        return {"rows": rows, "total": round(total, 3), "first_seconds": first}

    return work


def in_own_environment() -> dict[str, str]:
    """The environment for an interpreter that runs `duckdb_delta`, by `python -S -P`; installed at the first call."""
    from tests.duckdb_delta import install

    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(install()), str(pathlib.Path(__file__).parents[1])])}
