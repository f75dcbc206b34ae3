"""The tables that the command is tried on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builder import TableBuilder, add, deletion_vector, protocol

from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

TELEMETRY = TelemetryLog(files=20_000, files_per_hour=500, tail_commits=3, adds_per_commit=10)
"""Large enough that its lines fit into no pipe."""

PRICE = "1234567890123456789012345678.1200000000"
"""A number that Python's floats cannot hold."""


def write_small(root: Path) -> TableBuilder:
    """Three files in three commits: a plain one, one with everything, one with an odd path and torn statistics."""
    table = TableBuilder(
        root,
        partition_columns=["day"],
        schema={"price": "decimal(38,10)", "day": "integer"},
        protocol=protocol(features=["deletionVectors"]),
    )
    table.commit([add("day=1/a.parquet", partition_values={"day": "1"}, size=999, modification_time=0)])
    everything = add(
        "day=2/b.parquet",
        partition_values={"day": None},
        size=1_250_000,
        modification_time=1_770_000_000_123,
        stats=f'{{"numRecords": 1200,\n "minValues": {{"price": {PRICE}}}}}',
        dv=deletion_vector("b", cardinality=7),
        tags={"zone": "eu"},
        baseRowId=5,
    )
    table.commit([everything])
    table.commit([add("day=3/c%0A%1B%5B2J%20%C3%BC.parquet", partition_values={"day": "3"}, stats="{torn")])
    return table
