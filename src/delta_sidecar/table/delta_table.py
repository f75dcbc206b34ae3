"""`DeltaTable`: a table by its address, read lazily, under the names of deltalake.

    from delta_sidecar import DeltaTable

    table = DeltaTable("abfss://lake@account.dfs.core.windows.net/telemetry")
    for batch in table.scan(predicate="_event_hour >= '2026021022'", limit=100):
        ...

What reads is ours: lists of files come as streams, rows come while files are still being found. What writes is
deltalake's, and goes through to it.
"""

from __future__ import annotations

import datetime as dt
import re
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow.compute as pc

from delta_sidecar.errors import OptionError, needed
from delta_sidecar.log.names import LogFileKind, parse_log_name
from delta_sidecar.predicate import all_of
from delta_sidecar.rows.columns import as_declared
from delta_sidecar.rows.query import RowQuery
from delta_sidecar.rows.table import count_rows
from delta_sidecar.store import open_store
from delta_sidecar.store.address import UnreachableStore, is_for_deltalake, settled
from delta_sidecar.store.redaction import redact_address
from delta_sidecar.table import files as listing
from delta_sidecar.table.facts import ProtocolVersions, TableMetadata, schema_of
from delta_sidecar.table.files import AddActions, TableSnapshot, stream_history
from delta_sidecar.table.filters import file_predicate, partition_predicate, row_predicate
from delta_sidecar.table.pinned import TableHandle
from delta_sidecar.table.statistics import stats_for_files
from delta_sidecar.table.writing import Writing, deltalake_module

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa
    import pyarrow.dataset as pads

    from delta_sidecar.events import Listener
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.rows.scan import RowMetrics, RowStream
    from delta_sidecar.scan.files import DeltaFile
    from delta_sidecar.store import Store, TokenCredential
    from delta_sidecar.table.filters import Filters
    from delta_sidecar.table.statistics import FileStats


_RFC_3339 = re.compile(r"(?i)\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class DeltaTable(Writing):
    """A Delta table at one version.

    The constructor pins the version, by the hint and the listing of the log alone; what it holds is read at the first
    use. Everything reads that version, and every write is checked against it, until the table itself commits, or
    `load_as_version` or `update_incremental` moves it.
    """

    def __init__(  # noqa: PLR0913 - the first are deltalake's
        self,
        table_uri: str | os.PathLike[str],
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        credential: TokenCredential | None = None,
        listeners: Iterable[Listener] = (),
        store: Store | None = None,
        without_files: bool = False,
        log_buffer_size: int | None = None,
        skip_stats: bool = False,
    ) -> None:
        """Pins the version of a table; nothing else of it is read yet.

        Args:
            table_uri: A path or an address such as `abfss://container@account.dfs.core.windows.net/table`. A relative
                path is taken from the folder that is the current one now. An address that only deltalake knows, such
                as `lakefs://repo/main/table`, is opened by it: what goes through to deltalake works, and what reads
                here is an `OptionError`.
            version: The version to read; None for the newest.
            storage_options: Credentials and settings, as object_store names them.
            options: How files are found and rows are read, by name; the page "Options" has them all.
            credential: For Azure, an object that gives tokens, such as one of azure-identity's.
            listeners: Each is called with the events of `delta_sidecar.events`.
            store: A store to use instead of the one that the address names.
            without_files: As in deltalake, where it has no effect either.
            log_buffer_size: Likewise.
            skip_stats: Likewise.

        Raises:
            AuthenticationError: There are no credentials, and nowhere to look for any.
            OptionError: The address or an option is not valid.
            StorageError: The log cannot be listed.
            TableNotFoundError: There is no table.
            VersionNotFoundError: There is no such version.
        """
        del without_files, log_buffer_size, skip_stats
        if store is None and is_for_deltalake(table_uri):
            opened = deltalake_module().DeltaTable(str(table_uri), version, storage_options)
            unreachable = UnreachableStore(redact_address(str(table_uri).rstrip("/")))
            handle = TableHandle("", options=options, listeners=listeners, store=cast("Store", unreachable))
            handle.move(opened.version())
            super().__init__(table_uri, storage_options, handle)
            self._deltalake = opened
            return
        try:
            place = settled(table_uri)
        except OptionError:
            if store is None:
                raise
            # With a store of its own only deltalake uses the address.
            place = table_uri
        handle = TableHandle(
            place, version, storage_options, options, credential=credential, listeners=listeners, store=store
        )
        handle.pin(version)
        super().__init__(place, storage_options, handle)

    def __repr__(self) -> str:
        return f"DeltaTable({self.table_uri!r}, version={self.version()})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops every scan of this table that is under way, from any thread."""
        self._handle.close()

    # --- the table itself ------------------------------------------------------------------------------------------

    @classmethod
    def is_deltatable(cls, table_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> bool:
        """True if there is a Delta log at an address."""
        if is_for_deltalake(table_uri):
            return bool(deltalake_module().DeltaTable.is_deltatable(str(table_uri), storage_options))
        pages = open_store(table_uri, storage_options).list("_delta_log/")
        names = (parse_log_name(found.path) for page in pages for found in page)
        return any(name and name.kind in (LogFileKind.COMMIT, LogFileKind.CHECKPOINT) for name in names)

    @property
    def table_uri(self) -> str:
        """The table's address as a URL that ends in `/`, without secrets."""
        return listing.table_uri(self._handle.store.url)

    def version(self) -> int:
        """The version that is read."""
        self.follow_deltalake()
        return self._handle.version()

    def schema(self) -> Any:  # noqa: ANN401 - a class that may not be there
        """The table's schema: a `Schema` of deltalake where that is installed, else one with the same names.

        The latter also where the table has a type that deltalake does not know.
        """
        return schema_of(self._pinned())

    def metadata(self) -> TableMetadata:
        """Identity, partitioning and properties of the table."""
        return TableMetadata.of(self._pinned())

    def protocol(self) -> ProtocolVersions:
        """The features that a client must implement to read or write the table."""
        return ProtocolVersions.of(self._pinned())

    def snapshot(self) -> TableSnapshot:
        """The table at its version, whose files can be streamed."""
        return TableSnapshot(self._handle, self._pinned())

    def load_as_version(self, version: int | str | dt.datetime) -> None:
        """Reads another version from now on.

        Args:
            version: Its number, or a time: the newest version that was committed up to it. A text has a zone, such as
                `2026-02-10T22:00:00Z`, as RFC 3339 has it; a datetime without one is in UTC.

        Raises:
            OptionError: It is neither.
            VersionNotFoundError: There is no such version.
        """
        if isinstance(version, dt.datetime) and version.tzinfo is None:
            version = version.replace(tzinfo=dt.UTC)
        if isinstance(version, str) and not _RFC_3339.fullmatch(version):
            msg = (
                f"Failed to parse datetime string: {version!r} is not RFC 3339 with a zone, as 2026-02-10T22:00:00Z is"
            )
            raise OptionError(msg)
        with self._lock:
            if isinstance(self._handle.store, UnreachableStore):
                self._deltalake.load_as_version(version)
                self.follow_deltalake()
                return
            if isinstance(version, int):
                self._handle.pin(version=version)
            else:
                self._handle.pin(timestamp=version.upper() if isinstance(version, str) else version)
            self._deltalake = None

    def update_incremental(self) -> None:
        """Reads the newest version from now on."""
        with self._lock:
            if self._deltalake is None:
                self._handle.pin()
            else:
                # It has the files in memory, and takes those of the newer commits.
                self._deltalake.update_incremental()
                self.follow_deltalake()

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The `commitInfo` of the commits, newest first.

        Args:
            limit: At most so many; None for all that are still there.

        Raises:
            CorruptCommitError: A commit cannot be read.
            OptionError: The limit is not valid.
        """
        RowQuery(limit=limit)
        with closing(stream_history(self._handle.store, self.version(), limit)) as infos:
            return list(infos)

    # --- its files -------------------------------------------------------------------------------------------------

    def file_infos(
        self,
        predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None,
        limit: int | None = None,
    ) -> Iterator[DeltaFile]:
        """Streams the live files, as they are found.

        Args:
            predicate: Only files that may hold a matching row; None for all.
            limit: At most so many, of the newest.
        """
        return self.snapshot().stream_active_files(predicate, limit)

    def file_uris(
        self,
        partition_filters: Filters | None = None,
        *,
        file_pruning_predicate: Any = None,  # noqa: ANN401
    ) -> list[str]:
        """Addresses of the live files, as a list; `file_infos` streams them.

        Args:
            partition_filters: Only files of some partitions, such as `[("day", "=", "2026-02-10")]`.
            file_pruning_predicate: Only files that may hold a matching row, as SQL text or filter tuples.
        """
        return listing.file_uris(self._handle, self._condition(partition_filters, file_pruning_predicate))

    def partitions(
        self,
        partition_filters: Filters | None = None,
        *,
        file_pruning_predicate: Any = None,  # noqa: ANN401
    ) -> list[dict[str, str | None]]:
        """The values of the partition columns, each combination once; as many are held, not as many as files.

        Args:
            partition_filters: Only some partitions, such as `[("day", "=", "2026-02-10")]`.
            file_pruning_predicate: Only those of files that may hold a matching row.
        """
        return listing.partitions(self._handle, self._condition(partition_filters, file_pruning_predicate))

    def get_add_actions(self, flatten: bool = False) -> AddActions:  # noqa: FBT001, FBT002 - as deltalake has it
        """The live files with their typed statistics and partition values, under the names of deltalake.

        Args:
            flatten: Whether each statistic is a column of its own, such as `min.x`, not a field of a struct.

        Returns:
            A stream of Arrow batches that can be read again and again; asked for its columns, it is a table in memory.
        """
        self.follow_deltalake()
        return AddActions(self._handle, flatten=flatten)

    def get_stats_for_files(
        self,
        paths: Iterable[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None,
        limit: int | None = None,
    ) -> Iterator[FileStats]:
        """Streams the statistics of files, under the names that users see.

        Args:
            paths: Only these files, as `DeltaFile.path` names them; the search ends with the last of them.
            columns: Only statistics of these columns; None for all.
            predicate: Only files that may hold a matching row.
            limit: At most so many files.
        """
        self.follow_deltalake()
        return stats_for_files(self._handle, paths, columns, predicate, limit)

    def count(self) -> int:
        """Counts the rows, without the deleted ones.

        The manifest of a metadata sidecar or a short log may have the number; else it is summed up from the statistics
        of the files, or from the footer of a file without statistics.

        Raises:
            UnreadableFileError: A file without statistics cannot be read.
        """
        self.follow_deltalake()
        return count_rows(self._handle, RowQuery())

    # --- its rows --------------------------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[str] | None = None,
        predicate: Any = None,  # noqa: ANN401 - any notation
        limit: int | None = None,
        *,
        progress: Callable[[RowMetrics], None] | None = None,
    ) -> RowStream:
        """Streams rows as Arrow batches, while files are still being found.

        Args:
            columns: Names of the columns, in order; None for all.
            predicate: Only rows that match: SQL text, filter tuples, a mapping or an expression of pyarrow.
            limit: At most so many rows. Those of the newest commits come first.
            progress: Is called with the metrics after each batch and at the end.

        Returns:
            A stream that is iterated once, and that everything which takes Arrow streams takes.
        """
        return self._handle.rows(self._query(columns, predicate, limit), progress)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        predicate: Any = None,  # noqa: ANN401 - any notation
        limit: int | None = None,
    ) -> RowStream:
        """The same as `scan`."""
        return self.scan(columns, predicate, limit)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)

    def to_pyarrow_dataset(
        self,
        partitions: Filters | None = None,
        filesystem: object | None = None,
        parquet_read_options: object | None = None,
        schema: pa.Schema | None = None,
        as_large_types: bool = False,  # noqa: FBT001, FBT002 - as deltalake has it
        file_pruning_predicate: Any = None,  # noqa: ANN401 - any notation
    ) -> pads.Dataset:
        """A dataset of pyarrow that reads lazily: columns and filters reach the files, and stopping stops all.

        Args:
            partitions: Only some partitions, such as `[("_event_hour", ">=", "2026021022")]`.
            filesystem: As in deltalake, whose own dataset is then given: it holds every file, and refuses some tables.
            parquet_read_options: Likewise.
            schema: Likewise.
            as_large_types: Likewise.
            file_pruning_predicate: Files that hold no row which matches may be left out.
        """
        from delta_sidecar.rows.dataset import LazyDataset

        if as_large_types or not (filesystem is parquet_read_options is schema is None):
            return self.as_deltalake().to_pyarrow_dataset(
                partitions, filesystem, parquet_read_options, schema, as_large_types, file_pruning_predicate
            )
        snapshot = self._pinned()
        prunes = file_predicate(file_pruning_predicate, snapshot.columns)
        query = RowQuery(predicate=partition_predicate(partitions, snapshot.columns), prunes_files=prunes)
        return LazyDataset(self._handle, query)

    def to_pyarrow_table(
        self,
        partitions: Filters | None = None,
        columns: Sequence[str] | None = None,
        filesystem: object | None = None,
        filters: Filters | pc.Expression | None = None,
    ) -> pa.Table:
        """The rows as a table of pyarrow, all in memory.

        A column is not nullable where the table's schema says so and no row is null.

        Args:
            partitions: Only some partitions.
            columns: Names of the columns; None for all.
            filesystem: As in deltalake, which then reads the files.
            filters: Only rows that match, as filter tuples or an expression of pyarrow.
        """
        if filesystem is not None:
            return self.as_deltalake().to_pyarrow_table(partitions, columns, filesystem, filters)
        columns = columns if columns is None or isinstance(columns, str) else list(columns)
        # Each is read once, however often it comes out.
        names = columns if columns is None or isinstance(columns, str) else list(dict.fromkeys(columns))
        condition = row_predicate(filters) if isinstance(filters, list | tuple) and filters else filters
        query = self._query(names, condition, None)
        if partitions:
            own = partition_predicate(partitions, self._pinned().columns)
            terms = [term for term in (own, query.parsed_predicate) if term is not None]
            query = replace(query, predicate=all_of(terms))
        with self._handle.rows(query) as stream:
            found = as_declared(stream.read_all(), self._pinned().schema)
        return found if names is None or columns is None else found.select([names.index(name) for name in columns])

    def to_pandas(
        self,
        partitions: Filters | None = None,
        columns: Sequence[str] | None = None,
        filesystem: object | None = None,
        filters: Filters | pc.Expression | None = None,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
    ) -> pd.DataFrame:
        """The rows as a DataFrame of pandas, all in memory.

        Args:
            partitions: Only some partitions, such as `[("_event_hour", ">=", "2026021022")]`.
            columns: Names of the columns; None for all.
            filesystem: As in deltalake, which then reads the files.
            filters: Only rows that match, as filter tuples or an expression of pyarrow.
            types_mapper: From Arrow types to those of pandas.

        Raises:
            ImportError: pandas is not installed.
        """
        with needed("a DataFrame needs the package pandas", "pandas"):
            import pandas  # noqa: F401, ICN001 - pyarrow would miss it after all rows were read
        return self.to_pyarrow_table(partitions, columns, filesystem, filters).to_pandas(types_mapper=types_mapper)

    def _pinned(self) -> Any:  # noqa: ANN401 - a Snapshot
        self.follow_deltalake()
        return self._handle.snapshot()

    def _query(self, columns: Sequence[str] | None, condition: Any, limit: int | None) -> RowQuery:  # noqa: ANN401
        if isinstance(columns, str):
            msg = f"columns is a list of names: [{columns!r}]; a condition on rows is given as predicate="
            raise OptionError(msg)
        self.follow_deltalake()
        names = None if columns is None else tuple(columns)
        if isinstance(condition, pc.Expression):
            return RowQuery(names, expression=condition, limit=limit)
        is_empty = isinstance(condition, str | list | tuple | dict) and not condition
        return RowQuery(names, None if is_empty else condition, limit=limit)

    def _condition(self, filters: Filters | None, predicate: Any) -> Predicate | None:  # noqa: ANN401
        table = self._pinned().columns
        both = (file_predicate(each, table) for each in (filters, predicate))
        terms = [term for term in both if term is not None]
        return all_of(terms) if terms else None
