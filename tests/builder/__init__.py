"""Delta tables for tests: logs made action by action, with an independent model of what they mean.

table = TableBuilder(tmp_path, partition_columns=["day"], schema={"id": "long", "day": "date"})
table.commit([add("day=2026-02-10/a.parquet", partition_values={"day": "2026-02-10"}, rows=[{"id": 1}])])
table.commit([remove("day=2026-02-10/a.parquet"), add("b.parquet", partition_values={"day": None})])
table.checkpoint(kind="v2-parquet", sidecars=2)
table.model_files()    # {(canonical path, deletion vector id): add action}
"""

from __future__ import annotations

from tests.builder.actions import (
    AddAction,
    add,
    commit_info,
    deletion_vector,
    metadata,
    protocol,
    remove,
    txn,
)
from tests.builder.model import Key, ModelColumn, canonical_path, dv_id, file_key, live_files
from tests.builder.statistics import stats_of
from tests.builder.table import TableBuilder

__all__ = [
    "AddAction",
    "Key",
    "ModelColumn",
    "TableBuilder",
    "add",
    "canonical_path",
    "commit_info",
    "deletion_vector",
    "dv_id",
    "file_key",
    "live_files",
    "metadata",
    "protocol",
    "remove",
    "stats_of",
    "txn",
]
