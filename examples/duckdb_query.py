"""Questions to a Delta table from DuckDB.

    pip install '.[duckdb]'
    python examples/duckdb_query.py ./telemetry

The table has the columns device_id, event_ts, value and _event_hour, the hour of a row. Only what a question needs is
read: the second one opens the files of one hour, however many the table has.
"""

from __future__ import annotations

import sys

import duckdb

from delta_sidecar.connect.duckdb import register


def main(table: str) -> None:
    """Asks three questions."""
    with duckdb.connect() as con:
        register(con, "t", table)
        some = con.sql("SELECT device_id, value, _event_hour FROM t LIMIT 5")
        print(some)

        (_, _, hour) = some.fetchall()[0]
        by_device = "SELECT device_id, count(*), min(value) FROM t WHERE _event_hour = ? GROUP BY 1 ORDER BY 1"
        print(con.sql(by_device, params=[hour]))

        # Rows are handed over while others are read. DuckDB holds a part of the result: the less, the sooner it stops.
        con.execute("SET streaming_buffer_size = '100KB'")
        with con.sql("SELECT device_id, event_ts FROM t").to_arrow_reader(100) as batches:
            print(next(batches).slice(0, 1).to_pylist())


if __name__ == "__main__":
    main(sys.argv[1])
