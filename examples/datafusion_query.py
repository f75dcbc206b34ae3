"""Questions to a Delta table from DataFusion.

    pip install '.[datafusion]'
    python examples/datafusion_query.py ./telemetry

The table has the columns device_id, event_ts, value and _event_hour, the hour of a row. Only what a question needs is
read: the second one opens the files of one hour, however many the table has, and the third one opens none.
"""

from __future__ import annotations

import sys

from delta_sidecar.connect.datafusion import register, register_delta_function, session_context


def main(table: str) -> None:
    """Asks four questions."""
    ctx = session_context()
    register(ctx, "t", table)
    some = ctx.sql("SELECT device_id, value, _event_hour FROM t LIMIT 5")
    some.show()

    by_device = "SELECT device_id, count(*) AS rows, min(value) FROM t WHERE _event_hour = $hour GROUP BY 1 ORDER BY 1"
    ctx.sql(by_device, param_values={"hour": some.to_pylist()[0]["_event_hour"]}).show()

    # A table by its address, without a name of its own.
    register_delta_function(ctx)
    ctx.sql(f"SELECT count(*) FROM delta('{table}')").show()  # noqa: S608 - the function takes no parameters

    # Rows are handed over while others are read, and reading stops where you stop.
    for batch in ctx.sql("SELECT device_id, event_ts FROM t"):
        print(batch.to_pyarrow().slice(0, 1).to_pylist())
        break


if __name__ == "__main__":
    main(sys.argv[1])
