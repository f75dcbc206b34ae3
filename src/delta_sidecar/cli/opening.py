"""A table by what a call says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.table.handle import TableHandle


def open_table(
    address: str,
    version: int | None,
    timestamp: str | None,
    storage_options: Mapping[str, str],
) -> TableHandle:
    """A table at a version, at a time, or as it is at its first use. Only a time is looked up at once.

    Raises:
        OptionError: A version and a time are given, or what is no time.
    """
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.table.handle import TableHandle

    wanted = LazyScanConfig(version=version, timestamp=timestamp)
    table = TableHandle.of(address, version, storage_options)
    if wanted.timestamp is not None:
        table.pin(timestamp=wanted.timestamp)
    return table
