"""Tables for DataFusion: `register` makes one known by a name, `register_delta_function` all of them by address.

    from delta_sidecar.connect.datafusion import register, register_delta_function, session_context

    ctx = session_context()
    register(ctx, "t", "abfss://lake@account.dfs.core.windows.net/telemetry")
    ctx.sql("SELECT device_id, value FROM t WHERE _event_hour >= '2026021022' LIMIT 10").to_arrow_table()
    register_delta_function(ctx)
    ctx.sql("SELECT count(*) FROM delta('./telemetry', 41)").to_arrow_table()

DataFusion asks for columns and hands over filters, which leave out files, row groups and rows. A LIMIT it keeps to
itself: it stops to take rows, and with that reading stops too. A filter that it does not hand over, such as LIKE 'x%',
it applies by itself, and by default it then reads ahead in many tasks at once: `session_context` makes sessions that do
not.

Statistics: DataFusion takes none from a Python dataset, so its optimizer knows neither the number of rows nor bounds of
columns. What can be answered from the log is answered here: files are pruned by their statistics, and for count(*) the
log is counted and no file is opened, unless a filter looks at more than partition columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import datafusion
except ImportError as error:
    from delta_sidecar.errors import to_install

    msg = f"reading with DataFusion needs the package datafusion: {to_install('datafusion')}"
    raise ImportError(msg) from error

from delta_sidecar.connect.datafusion_filters import as_meant
from delta_sidecar.connect.tables import open_handle
from delta_sidecar.data.dataset import LazyDataset
from delta_sidecar.data.query import RowQuery
from delta_sidecar.errors import DeltaSidecarError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    import pyarrow.compute as pc

    from delta_sidecar.connect.tables import AnyTable
    from delta_sidecar.data.dataset_scanner import DatasetScanner
    from delta_sidecar.data.projection import Columns

_ROUND_ROBIN = "datafusion.optimizer.enable_round_robin_repartition"


class DataFusionDataset(LazyDataset):
    """A table as DataFusion scans it.

    DataFusion lists all fragments of a dataset before it begins, so it gets to see one, which is the whole table. It
    trusts the rows that come back, so filters are taken as it means them.
    """

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int | None = None,
        **manner: Any,  # noqa: ANN401 - pyarrow's
    ) -> DatasetScanner:
        """Asks for some columns and rows, as `LazyDataset` does.

        Args:
            columns: Names of columns, or expressions by name; None for all.
            filter: Only rows that match, by DataFusion's rules for nulls and NaN.
            batch_size: Most rows of a batch.
            manner: Further arguments of pyarrow.
        """
        try:
            meant = None if filter is None else as_meant(filter, self.schema)
        except DeltaSidecarError as error:
            self.last_error = error
            raise
        return super().scanner(columns, meant, batch_size, **manner)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[_WholeTable]:  # type: ignore[override]  # noqa: A002
        """The table, as one fragment; nothing is read.

        Args:
            filter: Comes again with the question for rows.
        """
        del filter
        yield _WholeTable(self)


def register(
    ctx: datafusion.SessionContext,
    name: str,
    table: AnyTable,
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFusionDataset:
    """Makes a table known to a session, under a name, at the version that it has now.

    The table is opened, so that its columns are known; of its data nothing is read before a query.

    Args:
        ctx: The session.
        name: The name of the table there; one that is there already is replaced.
        table: A table, a path or an address; of a table, the version that it is at now.
        version: The version to read; None for the newest, or the table's own.
        storage_options: Credentials and settings, as object_store names them.
        options: How files are found and rows are read, by name; the page "Options" has them all.

    Returns:
        What DataFusion scans. An error while it reads reaches you as DataFusion's own, with ours in the text; the error
        itself is `last_error` of this.

    Raises:
        OptionError: The address or an option is not valid, or stands beside a table that has its own.
        TableNotFoundError: There is no table.
        VersionNotFoundError: There is no such version.
    """
    dataset = DataFusionDataset(open_handle(table, version, storage_options, options), RowQuery())
    if ctx.table_exist(name):
        ctx.deregister_table(name)
    ctx.register_dataset(name, dataset)
    return dataset


def register_delta_function(
    ctx: datafusion.SessionContext,
    name: str = "delta",
    *,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Makes a table function known to a session: `delta('address')`, or `delta('address', version)`.

    Whoever writes the SQL chooses the address, and the storage options go there: give options with credentials only to
    sessions whose SQL you trust.

    Args:
        ctx: The session.
        name: The name of the function.
        storage_options: Credentials and settings for all addresses, as object_store names them.
        options: How files are found and rows are read, by name.
    """

    def delta(*arguments: Any) -> DataFusionDataset:  # noqa: ANN401 - expressions of DataFusion
        address, version = _address(name, [_constant(argument) for argument in arguments])
        return DataFusionDataset(open_handle(address, version, storage_options, options), RowQuery())

    ctx.register_udtf(datafusion.udtf(delta, name))


def session_context(config: datafusion.SessionConfig | None = None) -> datafusion.SessionContext:
    """Makes a session that does not read ahead of its filters, so that a LIMIT above one stops reading soon.

    Args:
        config: What else is to be set; None for the defaults.
    """
    return datafusion.SessionContext((config or datafusion.SessionConfig()).set(_ROUND_ROBIN, "false"))


class _WholeTable:
    """The fragment that DataFusion reads."""

    def __init__(self, dataset: DataFusionDataset) -> None:
        self._dataset = dataset

    def scanner(self, schema: pa.Schema, **asked: Any) -> DatasetScanner:  # noqa: ANN401 - as for the dataset
        """Asks for some columns and rows.

        Args:
            schema: The dataset's own.
            asked: What is asked of the dataset.
        """
        del schema
        return self._dataset.scanner(**asked)


def _address(function: str, values: list[object]) -> tuple[str, int | None]:
    address, version = (*values, None, None)[:2]
    is_version = version is None or (isinstance(version, int) and not isinstance(version, bool))
    if len(values) not in (1, 2) or not isinstance(address, str) or not is_version:
        msg = f"{function} takes the address of a table, and a version if you like: {function}('./telemetry', 41)"
        raise OptionError(msg)
    return address, version  # type: ignore[return-value]


def _constant(argument: Any) -> object:  # noqa: ANN401 - an expression of DataFusion
    try:
        value = argument.python_value()
    except TypeError:
        # A column or a parameter.
        return None
    return value.as_py() if hasattr(value, "as_py") else value
