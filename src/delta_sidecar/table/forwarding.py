"""Writing and maintenance, which deltalake does.

Each name goes through to a `deltalake.DeltaTable` at the same address, with its arguments and its result unchanged.
What it commits is what the table then shows. Taking a name does nothing yet; calling it does.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.table.writing import Writing


class Forwarded:
    """A method of `deltalake.DeltaTable`, as a method of ours."""

    def __init__(self, summary: str) -> None:
        """Makes the method.

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
    def __get__(self, table: Writing, owner: type) -> Any: ...  # noqa: ANN401 - deltalake's own
    def __get__(self, table: Writing | None, owner: type) -> Any:
        return self if table is None else self.taken(table)

    def taken(self, table: Writing) -> Any:  # noqa: ANN401 - deltalake's own
        """The method of a table."""
        return _forwarded(table, "DeltaTable", self._name)


class ForwardedNamespace(Forwarded):
    """A property of `deltalake.DeltaTable` that holds methods, as a property of ours."""

    def __init__(self, summary: str, holder: str) -> None:
        """Makes the property.

        Args:
            summary: What the methods do, in a line.
            holder: The class in deltalake that has them.
        """
        super().__init__(summary)
        self._holder = holder

    def taken(self, table: Writing) -> Any:  # noqa: ANN401 - deltalake's own
        """What holds the methods of a table."""
        return _Namespace(table, self._name, self._holder)


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

    Raises:
        ImportError: deltalake is not installed.
    """
    write = deltalake_module().write_deltalake
    own = getattr(table_or_uri, "as_deltalake", None)
    write(table_or_uri if own is None else own(), data, *args, **kwargs)
    if own is not None:
        table_or_uri.follow_deltalake()


class _Namespace:
    """The methods that deltalake has below a name, such as `optimize.compact`."""

    def __init__(self, table: Writing, name: str, holder: str) -> None:
        self._table = table
        self._name = name
        self._holder = holder

    def __repr__(self) -> str:
        return f"{self._table!r}.{self._name}"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - deltalake's own
        if name.startswith("_"):
            raise AttributeError(name)
        return _forwarded(self._table, self._holder, self._name, name)


def _forwarded(table: Writing, holder: str, *names: str) -> Callable[..., Any]:
    """A function that calls what deltalake has under a name, and then goes on to what that has committed.

    Raises:
        AttributeError: deltalake has nothing under this name.
    """

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - deltalake's own
        result = functools.reduce(getattr, names, table.as_deltalake())(*args, **kwargs)
        table.follow_deltalake()
        return result

    try:
        method = getattr(getattr(deltalake_module().table, holder), names[-1])
    except ImportError:
        # Who calls it is told.
        return call
    functools.update_wrapper(call, method)
    signature = inspect.signature(method)
    call.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return call
