"""Questions to a Delta table from Polars.

    pip install '.[polars]'
    python examples/polars_query.py ./telemetry

The table has the columns device_id, event_ts, value and _event_hour, the hour of a row. Only what a question needs is
read: the second one opens the files of one hour, however many the table has.
"""

from __future__ import annotations

import sys

import polars as pl

from delta_sidecar.connect.polars import scan_delta


def main(table: str) -> None:
    """Asks three questions."""
    frame = scan_delta(table)
    print(frame.explain())

    some = frame.head(5).collect()
    print(some)

    hour = some.item(0, "_event_hour")
    of_the_hour = frame.filter(pl.col("_event_hour") == hour)
    print(of_the_hour.group_by("device_id").agg(pl.len(), pl.col("value").mean()).sort("device_id").collect())

    # The streaming engine hands rows over while others are read, and stops where you stop.
    for batch in of_the_hour.select("device_id", "event_ts").collect_batches(chunk_size=100):
        print(batch.tail(1))
        break


if __name__ == "__main__":
    main(sys.argv[1])
