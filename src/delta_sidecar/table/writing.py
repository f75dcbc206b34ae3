"""The part of `DeltaTable` that writes: deltalake does it, and the table then shows what it committed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from delta_sidecar.table.facts import DeltaSchema
from delta_sidecar.table.forwarding import Forwarded, ForwardedNamespace, deltalake_module

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Self

    from delta_sidecar.table.handle import TableHandle


class Writing:
    """What goes through to deltalake.

    Args:
        table_uri: The table's address, as it was given.
        storage_options: What it is opened with.
        handle: What reads it.
    """

    def __init__(
        self, table_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None, handle: TableHandle
    ) -> None:
        self._uri = table_uri
        self._storage_options = None if storage_options is None else dict(storage_options)
        self._handle = handle
        self._deltalake: Any = None
        self._deltalake_version: int | None = None
        self._lock = threading.RLock()

    alter = ForwardedNamespace("Changes columns, constraints and properties.", "TableAlterer")
    cleanup_metadata = Forwarded("Deletes log files that are no longer needed.")
    compact_logs = Forwarded("Writes a compacted commit.")
    create_checkpoint = Forwarded("Writes a checkpoint.")
    create_write_transaction = Forwarded("Commits actions.")
    delete = Forwarded("Deletes rows.")
    deletion_vectors = Forwarded("Gives the rows that deletion vectors keep.")
    generate = Forwarded("Writes a symlink manifest.")
    load_cdf = Forwarded("Reads the change data feed.")
    merge = Forwarded("Merges rows into the table.")
    optimize = ForwardedNamespace("Compacts or clusters files.", "TableOptimizer")
    repair = Forwarded("Removes files from the log that are gone.")
    restore = Forwarded("Restores an older version.")
    transaction_version = Forwarded("Gives the version of an application's last transaction.")
    update = Forwarded("Updates rows.")
    vacuum = Forwarded("Deletes files that no version needs.")

    @classmethod
    def create(
        cls,
        table_uri: str | os.PathLike[str],
        schema: Any,  # noqa: ANN401 - deltalake's own
        mode: str = "error",
        partition_by: list[str] | str | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str | None] | None = None,
        storage_options: Mapping[str, str] | None = None,
        *args: Any,  # noqa: ANN401 - deltalake's own
        **kwargs: Any,  # noqa: ANN401 - deltalake's own
    ) -> Self:
        """Makes a new table. deltalake does it, with its own arguments.

        Raises:
            ImportError: deltalake is not installed.
        """
        deltalake = deltalake_module()
        columns = deltalake.Schema.from_json(schema.to_json()) if isinstance(schema, DeltaSchema) else schema
        given = (mode, partition_by, name, description, configuration, storage_options)
        deltalake.DeltaTable.create(str(table_uri), columns, *given, *args, **kwargs)
        # The class is `DeltaTable`, whose other arguments may be left out.
        return cls(table_uri, storage_options=storage_options)  # type: ignore[call-arg]

    def as_deltalake(self) -> Any:  # noqa: ANN401 - a class that may not be there
        """The same table, at the same version, as a `deltalake.DeltaTable`. What that commits, this one shows too.

        Raises:
            ImportError: deltalake is not installed.
        """
        with self._lock:
            if self._deltalake is None:
                opened = deltalake_module().DeltaTable
                made = opened(self._uri, self._handle.snapshot().version, self._storage_options)
                self._deltalake, self._deltalake_version = made, made.version()
            return self._deltalake

    def follow_deltalake(self) -> None:
        """Reads the version that the table in deltalake has come to, if it has gone on."""
        if self._deltalake is None:
            # Nobody has to wait while deltalake loads the table.
            return
        with self._lock:
            if self._deltalake is not None and self._deltalake.version() != self._deltalake_version:
                self._handle.pin(version=self._deltalake.version())
                self._deltalake_version = self._handle.snapshot().version

    def _forget_deltalake(self) -> None:
        self._deltalake = self._deltalake_version = None
