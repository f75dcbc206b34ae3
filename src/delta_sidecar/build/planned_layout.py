"""The layout of a table's metadata sidecar: its columns, its order, the summary columns of its row groups.

It depends on the table's schema and properties and on the options of the build, never on the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.errors import OptionError
from delta_sidecar.predicate.tree import read, written
from delta_sidecar.sidecar.layout import collected_columns
from delta_sidecar.sidecar.manifest import SortColumn
from delta_sidecar.sidecar.order import SidecarOrder
from delta_sidecar.sidecar.schema import SidecarSchema, default_time_column, sortable_type, type_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.sidecar.manifest import SortKind

_SHOWN = 8


@dataclass(frozen=True)
class PlannedLayout:
    """The layout of a sidecar."""

    schema: SidecarSchema
    order: SidecarOrder
    sorted_by: str  # the order in words


def lay_out(
    snapshot: Snapshot, *, bucket: str, sort: str | None = None, summaries: Sequence[str] = ()
) -> PlannedLayout:
    """Lays out the sidecar of a table, by logical names of columns as in `build_sidecar`.

    Raises:
        OptionError: A name is no column of the table, or of one that has no bounds.
    """
    columns = snapshot.columns
    partitions = {name: columns.physical_names[(name,)][0] for name in columns.partition_columns}
    statistics = collected_columns(columns, snapshot.metadata.configuration)
    names = _Names(snapshot, statistics)
    time = default_time_column(columns.physical, statistics) if sort is None else names.bounded(sort, "sort")
    summarized = [*([] if time is None else [time]), *(names.bounded(name, "summaries") for name in summaries)]
    buckets = [name for name in partitions if name.casefold() == bucket.casefold()][:1]
    others = tuple(physical for name, physical in partitions.items() if name not in buckets)
    schema = SidecarSchema(partitions[buckets[0]] if buckets else None, others, time, statistics)
    values, words = [], "path"
    if partitions:
        kind: SortKind = "bucket" if buckets else "partition"
        for name in buckets or partitions:
            named = type_name(sortable_type(columns.logical.field(name).type))
            values.append(SortColumn(kind, (partitions[name],), named))
        words = f"time bucket {buckets[0]}" if buckets else f"partition values {', '.join(partitions)}"
    elif time is not None:
        shown = next(path for path, physical in columns.physical_names.items() if physical == time)
        values = [SortColumn("lower_bound", time, type_name(statistics[time]))]
        words = f"lower bound of {written(shown)}"
    return PlannedLayout(schema, SidecarOrder(tuple(values), {path: statistics[path] for path in summarized}), words)


@dataclass(frozen=True)
class _Names:
    """Finds columns by the names that users give."""

    snapshot: Snapshot
    statistics: Mapping[ColumnPath, pa.DataType | None]

    def bounded(self, name: str, option: str) -> ColumnPath:
        """The physical path of a column that has bounds."""
        path = self._path(name, option)
        if path[0] in self.snapshot.columns.partition_columns:
            msg = f"{option}: {name!r} is a partition column, which has no statistics; name another column"
            raise OptionError(msg)
        physical = self.snapshot.columns.physical_names[path]
        if self.statistics.get(physical) is None:
            msg = f"{option}: {name!r} has no bounds in the statistics; {self._bounded()}"
            raise OptionError(msg)
        return physical

    def _path(self, name: str, option: str) -> ColumnPath:
        known = self.snapshot.columns.physical_names
        for named in (read(name), (name,)):
            if named in known:
                return named
            folded = tuple(part.casefold() for part in named)
            found = [path for path in known if tuple(part.casefold() for part in path) == folded]
            if len(found) == 1:
                return found[0]
        msg = f"{option}: the table has no column {name!r}; {self._bounded()}"
        raise OptionError(msg)

    def _bounded(self) -> str:
        paths = self.snapshot.columns.physical_names.items()
        names = [written(logical) for logical, physical in paths if self.statistics.get(physical) is not None]
        if not names:
            return "no column has"
        shown = ", ".join(names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"columns with bounds: {shown}{more}"
