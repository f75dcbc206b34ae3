"""Writing and maintenance, which deltalake does.

Each name is deltalake's own, with its arguments and its result, and works on a `deltalake.DeltaTable` at the same
address and version. What that commits, the table then shows. Taking a name does nothing yet; calling it does.
"""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import needed

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from delta_sidecar.table.pinned import TableHandle


class Forwarded:
    """A method of `deltalake.DeltaTable`, as a method of ours: its own function, which works on our table's `_table`.

    deltalake is optional and slow to import, so the function is looked up when the method is taken.
    """

    def __init__(self, summary: str) -> None:
        self.__doc__ = f"{summary} deltalake does it, with its own arguments and result."
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: object | None, owner: type) -> Any:  # noqa: ANN401 - deltalake's own
        try:
            found = inspect.getattr_static(deltalake_module().DeltaTable, self._name)
        except ImportError:
            return _missing
        return found.__get__(table, owner)


def deltalake_module() -> Any:  # noqa: ANN401 - a module that may not be there
    """The package deltalake.

    Raises:
        ImportError: It is not installed.
    """
    with needed("writing and maintenance need the package deltalake", "deltalake"):
        import deltalake
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
    # Calling a method without deltalake raises the error that says how to install it.
    deltalake_module()


class Writing:
    """The part of `DeltaTable` that goes through to deltalake; the address is absolute."""

    def __init__(
        self, table_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None, handle: TableHandle
    ) -> None:
        self._uri = table_uri
        self._storage_options = None if storage_options is None else dict(storage_options)
        self._handle = handle
        self._deltalake: Any = None
        self._lock = threading.RLock()

    cleanup_metadata = Forwarded("Deletes log files that are no longer needed.")
    compact_logs = Forwarded("Writes a compacted commit.")
    create = Forwarded("Makes a new table.")
    create_checkpoint = Forwarded("Writes a checkpoint.")
    create_write_transaction = Forwarded("Commits actions.")
    delete = Forwarded("Deletes rows.")
    deletion_vectors = Forwarded("Gives the rows that deletion vectors keep.")
    generate = Forwarded("Writes a symlink manifest.")
    load_cdf = Forwarded("Reads the change data feed.")
    merge = Forwarded("Merges rows into the table.")
    repair = Forwarded("Removes files from the log that are gone.")
    restore = Forwarded("Restores an older version.")
    transaction_version = Forwarded("Gives the version of an application's last transaction.")
    update = Forwarded("Updates rows.")
    vacuum = Forwarded("Deletes files that no version needs.")

    @property
    def alter(self) -> Any:  # noqa: ANN401 - deltalake's own
        """Changes columns, constraints and properties. deltalake does it, with its own arguments and results."""
        return deltalake_module().table.TableAlterer(self)

    @property
    def optimize(self) -> Any:  # noqa: ANN401 - deltalake's own
        """Compacts or clusters files. deltalake does it, with its own arguments and results."""
        return deltalake_module().table.TableOptimizer(self)

    @property
    def table_config(self) -> Any:  # noqa: ANN401 - deltalake's own
        """Settings of deltalake for loading tables, which it has deprecated."""
        return self.as_deltalake().table_config

    def __datafusion_table_provider__(self, session: Any = None) -> Any:  # noqa: ANN401 - DataFusion's own
        """The table for DataFusion's `register_table`, at its version: deltalake's, which loads the list of files.

        `delta_sidecar.connect.datafusion.register` registers one that reads lazily.
        """
        return self.as_deltalake().__datafusion_table_provider__(session)

    @property
    def _table(self) -> Any:  # noqa: ANN401 - deltalake's own
        # deltalake's methods and its `QueryBuilder` work on it.
        return self.as_deltalake()._table  # noqa: SLF001

    def as_deltalake(self) -> Any:  # noqa: ANN401 - a class that may not be there
        """The same table, at the same version, as a `deltalake.DeltaTable`. What that commits, this one shows too.

        Raises:
            ImportError: deltalake is not installed.
        """
        with self._lock:
            if self._deltalake is None:
                self._deltalake = deltalake_module().DeltaTable(
                    self._uri, self._handle.version(), self._storage_options
                )
            return self._deltalake

    def follow_deltalake(self) -> None:
        """Moves to the version that the table in deltalake has come to; nothing is asked for before it is read."""
        if self._deltalake is None:
            # Without the lock: deltalake may be loading the table for another thread.
            return
        with self._lock:
            if self._deltalake is not None and self._deltalake.version() != self._handle.version():
                self._handle.move(self._deltalake.version())
