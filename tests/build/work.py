"""Builds as pieces of work for `bench.measure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def building(table: str, memory_limit: str) -> Callable[[], dict[str, Any]]:
    """A build of a table's sidecar."""
    import duckdb  # noqa: F401 - imports are not measured

    from delta_sidecar.build import build_sidecar

    return lambda: build_sidecar(table, memory_limit=memory_limit).as_dict()
