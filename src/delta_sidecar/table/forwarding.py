"""Writing and maintenance, which deltalake does.

Each name goes through to a `deltalake.DeltaTable` at the same address, with its arguments and its result unchanged.
What it commits is what the table then shows.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.table.delta_table import DeltaTable


class Forwarded:
    """A method or property of `deltalake.DeltaTable`, as an attribute of ours."""

    def __init__(self, summary: str) -> None:
        """Makes the attribute.

        Args:
            summary: What it does, in a line.
        """
        self.__doc__ = f"{summary} deltalake does it, with its own arguments and result."
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, table: None, owner: type) -> Forwarded: ...
    @overload
    def __get__(self, table: DeltaTable, owner: type) -> Any: ...  # noqa: ANN401 - deltalake's own
    def __get__(self, table: DeltaTable | None, owner: type) -> Any:
        if table is None:
            return self
        found = getattr(table.as_deltalake(), self._name)
        return _updating(found, table) if callable(found) and hasattr(found, "__func__") else found


def deltalake_module() -> Any:  # noqa: ANN401 - a module that may not be there
    """The package deltalake.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import deltalake
    except ImportError as error:
        msg = "writing and maintenance need the package deltalake: pip install 'delta-sidecar[deltalake]'"
        raise ImportError(msg) from error
    return deltalake


def write_deltalake(table_or_uri: Any, data: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - deltalake's own
    """Writes to a Delta table. deltalake does it, with its own arguments.

    Args:
        table_or_uri: An address, or a `DeltaTable`, which shows what was written afterwards.
        data: The rows.
        args: As in deltalake.
        kwargs: As in deltalake.
    """
    own = getattr(table_or_uri, "as_deltalake", None)
    deltalake_module().write_deltalake(table_or_uri if own is None else own(), data, *args, **kwargs)
    if own is not None:
        table_or_uri.update_incremental()


def _updating(method: Callable[..., Any], table: DeltaTable) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - deltalake's own
        result = method(*args, **kwargs)
        table.follow_deltalake()
        return result

    return call
