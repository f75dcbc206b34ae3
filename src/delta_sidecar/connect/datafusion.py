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

import math
import operator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar
from delta_sidecar.connect.tables import open_handle
from delta_sidecar.errors import DeltaSidecarError, OptionError, PredicateError, needed
from delta_sidecar.log.schema import type_at
from delta_sidecar.predicate.approximate import arrow_tree
from delta_sidecar.predicate.approximate.arrow_tree import Call, Field, Literal
from delta_sidecar.rows.dataset import LazyDataset
from delta_sidecar.rows.query import RowQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from delta_sidecar.connect.tables import AnyTable
    from delta_sidecar.predicate.approximate.arrow_tree import Node
    from delta_sidecar.rows.columns import Columns
    from delta_sidecar.rows.dataset import DatasetScanner

with needed("reading with DataFusion needs the package datafusion", "datafusion"):
    import datafusion


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
        **more: Any,  # noqa: ANN401 - pyarrow's
    ) -> DatasetScanner:
        """Asks for some columns and rows, as `LazyDataset` does.

        Args:
            columns: Names of columns, or expressions by name; None for all.
            filter: Only rows that match, by DataFusion's rules for nulls and NaN.
            batch_size: Most rows of a batch.
            more: Further arguments of pyarrow.
        """
        try:
            translated = None if filter is None else arrow_filter(filter, self.schema)
        except DeltaSidecarError as error:
            self.last_error = error
            raise
        return super().scanner(columns, translated, batch_size, **more)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:  # type: ignore[override]  # noqa: A002
        """The table, as one fragment; nothing is read. The filter comes again when rows are asked for."""
        del filter
        # The schema, which comes first, is always the dataset's own.
        yield SimpleNamespace(scanner=lambda _schema, **arguments: self.scanner(**arguments))


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

    The author of the SQL chooses the address, and the storage options go there: give options with credentials only to
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
        config: Other settings; None for the defaults.
    """
    return datafusion.SessionContext((config or datafusion.SessionConfig()).set(_ROUND_ROBIN, "false"))


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


# Filters of DataFusion in Arrow's terms.
#
# DataFusion hands a filter over as an expression of pyarrow and leaves out every row for which that is not true. But
# the two do not mean the same everywhere:
#
# - NaN equals NaN in DataFusion, and is above every number; in Arrow it equals nothing, and nothing is above or below
#   it.
# - `x IN (...)` is null in DataFusion where `x` is null, which NOT leaves as it is; in Arrow it is false.


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "and_kleene": operator.and_,
    "or_kleene": operator.or_,
    "invert": operator.invert,
    "is_null": pc.Expression.is_null,
    "is_valid": pc.Expression.is_valid,
}
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}


def arrow_filter(filter_: pc.Expression | pa.Scalar, schema: pa.Schema) -> pc.Expression:
    """An expression that is true in Arrow where a filter is true in DataFusion.

    A filter is a scalar where it is the same for all rows.

    Raises:
        PredicateError: A function in it is not known here.
    """
    if isinstance(filter_, pa.Scalar):
        return pc.scalar(filter_)
    root = arrow_tree.read(filter_)
    if root is None:
        msg = f"DataFusion hands over a filter that cannot be taken apart: {filter_}"
        raise PredicateError(msg)
    # Without recursion: a chain of many ORs is as deep as it is long.
    made: list[pc.Expression] = []
    waiting: list[tuple[Node, bool]] = [(root, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if isinstance(node, Field):
            made.append(pc.field(*node.path))
        elif isinstance(node, Literal):
            made.append(pc.scalar(_plain(node.value)))
        elif is_ready:
            first = len(made) - len(node.arguments)
            arguments = made[first:]
            made[first:] = [_called(node, arguments, schema)]
        else:
            waiting.append((node, True))
            waiting.extend((argument, False) for argument in reversed(node.arguments))
    return made[0]


def _called(node: Call, arguments: list[pc.Expression], schema: pa.Schema) -> pc.Expression:
    if node.function in _COMPARISONS and any(_is_floating(argument, schema) for argument in node.arguments):
        return _compared_floats(node, *arguments)
    if node.function in _FUNCTIONS:
        return _FUNCTIONS[node.function](*arguments)
    if node.function == "is_in":
        (inner,) = arguments
        found = inner.isin(node.option("value_set").values)
        return pc.if_else(inner.is_valid(), found, pc.scalar(scalar(None, pa.bool_())))
    msg = f"DataFusion hands over a filter with {node.function}, which is not known here"
    raise PredicateError(msg)


def _compared_floats(node: Call, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    """Compares numbers of which one may be NaN.

    Beside a constant that is none, as little is added as can be: files are pruned by what stays a plain comparison.
    """
    plain = _FUNCTIONS[node.function](left, right)
    first, second = node.arguments
    if _is_number(second) or _is_number(first):
        column, above = (left, "greater") if _is_number(second) else (right, "less")
        return plain | pc.is_nan(column) if node.function.startswith(above) else plain
    if node.function.startswith("less"):
        left, right = right, left
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if node.function == "equal":
        return plain | (left_nan & right_nan)
    if node.function == "not_equal":
        return ~((left == right) | (left_nan & right_nan))
    return plain | (left_nan & (right.is_valid() if node.function.endswith("equal") else ~right_nan))


def _is_floating(node: Node, schema: pa.Schema) -> bool:
    if isinstance(node, Call):
        return False
    return bool(pa.types.is_floating(node.value.type if isinstance(node, Literal) else type_at(schema, node.path)))


def _is_number(node: Node) -> bool:
    """True for a constant that is neither null nor NaN."""
    return isinstance(node, Literal) and bool(node.value.is_valid) and not math.isnan(node.value.as_py())


def _plain(value: pa.Scalar) -> pa.Scalar:
    """A constant in a layout that columns of files have."""
    return value.cast(pa.string()) if pa.types.is_string_view(value.type) else value
