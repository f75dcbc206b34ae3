"""The table that an engine is to read: a table, or the one at an address."""

from __future__ import annotations

import datetime as dt
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
    version: int | str | dt.datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 - as TableHandle has them
) -> TableHandle:
    """Opens a table at a version.

    Args:
        table: A table, a path or an address; of a table, the version that it is at now.
        version: The version to read, by its number or a time; None for the newest, or the table's own.
        storage_options: Credentials and settings, as object_store names them.
        options: How files are found and rows are read, by name.
        more: Further arguments of `TableHandle`.

    Raises:
        OptionError: The address or an option is not valid, or stands beside a table that has its own.
        TableNotFoundError: There is no table.
        VersionNotFoundError: There is no such version.
    """
    named = {"storage_options": storage_options, "options": options, **more}
    if isinstance(table, DeltaTable | TableHandle):
        own = [name for name, value in named.items() if value not in (None, ())]
        if own:
            msg = f"a DeltaTable has its own {', '.join(own)}: give them to it, or give its address here"
            raise OptionError(msg)
        handle = table if isinstance(table, TableHandle) else table.snapshot().handle
        if version is None:
            return handle
        # The table itself stays at its version.
        handle = copy(handle)
    else:
        number = None if isinstance(version, str | dt.datetime) else version
        handle = TableHandle(table, number, **named)
        if number is version:
            # Opened in one go: a version that is pinned first takes one trip more.
            handle.snapshot()
            return handle
    if isinstance(version, int):
        handle.pin(version=version)
    else:
        handle.pin(timestamp=version)
    return handle
