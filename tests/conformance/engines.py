"""The ways to the rows of a table, by name; each gives all rows of a version, or raises this library's own error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa


def by_table(root: Path, version: int | None) -> pa.Table:
    """Reads rows as `DeltaTable` gives them."""
    return DeltaTable(root, version).scan().reader().read_all()


ENGINES: dict[str, Callable[[Path, int | None], pa.Table]] = {"table": by_table}
