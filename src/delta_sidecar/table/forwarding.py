"""Writing and maintenance, which deltalake does.

Each name is deltalake's own, with its arguments and its result, and works on a `deltalake.DeltaTable` at the same
address and version. What it commits is what the table then shows. Taking a name does nothing yet; calling it does.
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import to_install

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.table.writing import Writing


class Forwarded:
    """A method of `deltalake.DeltaTable`, as a method of ours: its own function, which works on our table's `_table`.

    deltalake is optional and slow to import, so the function is looked up when it is taken.
    """

    def __init__(self, summary: str) -> None:
        """Makes the method.

        Args:
            summary: What it does, in a line.
        """
        self.__doc__ = f"{summary} deltalake does it, with its own arguments and result."
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: object | None, owner: type) -> Any:  # noqa: ANN401 - deltalake's own
        return self._function() if table is None else MethodType(self._function(), table)

    def _function(self) -> Callable[..., Any]:
        try:
            found = getattr(deltalake_module().DeltaTable, self._name)
        except ImportError:
            # Who calls it is told.
            return _missing
        return getattr(found, "__func__", found)  # type: ignore[no-any-return]


class ForwardedClassMethod(Forwarded):
    """A class method of `deltalake.DeltaTable`, as a class method of ours."""

    def __get__(self, table: object | None, owner: type) -> Any:  # noqa: ANN401 - deltalake's own
        return MethodType(self._function(), owner)


class RawTable:
    """The object in which deltalake keeps a table: where its methods and its `QueryBuilder` look for it."""

    def __get__(self, table: Writing | None, owner: type) -> Any:  # noqa: ANN401 - deltalake's own
        return self if table is None else table.as_deltalake()._table  # noqa: SLF001


def deltalake_module() -> Any:  # noqa: ANN401 - a module that may not be there
    """The package deltalake.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import deltalake
    except ImportError as error:
        msg = f"writing and maintenance need the package deltalake: {to_install('deltalake')}"
        raise ImportError(msg) from error
    return deltalake


def write_deltalake(table_or_uri: Any, data: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - deltalake's own
    """Writes to a Delta table. deltalake does it, with its own arguments.

    Args:
        table_or_uri: An address, or a `DeltaTable`, which shows what was written afterwards.
        data: The rows.
        args: As in deltalake.
        kwargs: As in deltalake.

    Raises:
        ImportError: deltalake is not installed.
    """
    write = deltalake_module().write_deltalake
    own = getattr(table_or_uri, "as_deltalake", None)
    write(table_or_uri if own is None else own(), data, *args, **kwargs)
    if own is not None:
        table_or_uri.follow_deltalake()


def _missing(*_: object, **__: object) -> None:
    deltalake_module()
