"""The table that an engine is to read: one that is given, or one by its address."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from delta_sidecar.errors import OptionError
from delta_sidecar.table.delta_table import DeltaTable
from delta_sidecar.table.pinned import TableHandle

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

AnyTable: TypeAlias = "DeltaTable | TableHandle | str | os.PathLike[str]"


def open_handle(
    table: AnyTable,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> TableHandle:
    """Opens a table at a version.

    Args:
        table: A table, a path or an address; of a table, the version that it is at now.
        version: The version to read; None for the newest, or the table's own.
        storage_options: Credentials and settings, as object_store names them.
        options: How files are found and rows are read, by name.

    Raises:
        OptionError: The address or an option is not valid, or stands beside a table that has its own.
        TableNotFoundError: There is no table.
        VersionNotFoundError: There is no such version.
    """
    if not isinstance(table, DeltaTable | TableHandle):
        handle = TableHandle.of(table, version, storage_options, options)
        # Opened in one go: a version that is pinned first takes one trip more.
        handle.snapshot()
        return handle
    named = {"storage_options": storage_options, "options": options}
    given = [name for name, value in named.items() if value is not None]
    if given:
        msg = f"a DeltaTable has its own {' and '.join(given)}: give them to it, or give its address here"
        raise OptionError(msg)
    handle = table if isinstance(table, TableHandle) else table.snapshot().handle
    if version is not None:
        # The table itself stays where it is.
        handle = copy(handle)
        handle.pin(version=version)
    return handle
