"""What the log tells of the values in data files, under the names that users see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from delta_sidecar._arrow import strings, values_of
from delta_sidecar.errors import OptionError
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.table.batch_statistics import READ, BatchStatistics, batch_statistics
from delta_sidecar.table.column_names import named_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from delta_sidecar.predicate import Predicate
    from delta_sidecar.scan.scanner import LazyDeltaScanner
    from delta_sidecar.table.handle import TableHandle


@dataclass(frozen=True, slots=True)
class FileStats:
    """What the log tells of the values in one data file.

    Bounds and counts are what the file's writer noted down. Where `tight_bounds` is false they are of all its rows,
    deleted ones included. A text may be cut off: the lower bound is then below all values, the upper one above them, or
    their beginning. A timestamp may be rounded down to a millisecond.

    Columns are named as users see them, a field of a struct `a.b`; a name with a dot in it stands in back-quotes. Those
    that the log tells nothing of are left out. A partition column has its value as both bounds.

    Attributes:
        path: As `DeltaFile.path` has it.
        size: In bytes.
        num_records: Rows in the file, deleted ones included; None where the log does not tell.
        deleted_rows: How many of them are deleted.
        null_counts: How many rows are null, by column.
        minimums: Lower bounds, by column.
        maximums: Upper bounds, by column.
        tight_bounds: Whether bounds and counts are of the rows that are there; None for a file without statistics.
    """

    path: str
    size: int
    num_records: int | None
    deleted_rows: int
    null_counts: Mapping[str, int] = field(hash=False)
    minimums: Mapping[str, Any] = field(hash=False)
    maximums: Mapping[str, Any] = field(hash=False)
    tight_bounds: bool | None


def stats_for_files(
    handle: TableHandle,
    paths: Iterable[str] | None = None,
    columns: Sequence[str] | None = None,
    predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None,
    limit: int | None = None,
) -> Iterator[FileStats]:
    """Streams the statistics of files, as they are found.

    Args:
        handle: The table.
        paths: Only these files, as `DeltaFile.path` names them; the search ends with the last of them. One that the
            table does not have is not given. None for all.
        columns: Only statistics of these columns; the name of a struct stands for all columns in it. None for all.
        predicate: Only files that may hold a matching row.
        limit: At most so many files.

    Raises:
        OptionError: There is no such column, or the limit is not valid.
    """
    if isinstance(paths, str):
        msg = f"paths is a list of paths: [{paths!r}]"
        raise OptionError(msg)
    LazyScanConfig(limit=limit)
    snapshot = handle.snapshot()
    chosen = named_columns(snapshot.columns, columns)
    # Which files count is not known to the scanner: it goes on until all are found.
    scanner = handle.scanner(predicate, limit if paths is None else None, snapshot=snapshot)
    found = scanner.scan_batches(READ) if paths is None else _named(scanner.scan_batches(READ), set(paths), limit)
    zone = handle.row_options.time_zone
    stats = (_values(batch, batch_statistics(batch, chosen, snapshot.columns, zone)) for batch in found)
    return _streamed(scanner, stats)


def _streamed(scanner: LazyDeltaScanner, batches: Iterable[Iterator[FileStats]]) -> Iterator[FileStats]:
    # However it ends, so do the requests.
    with scanner:
        for batch in batches:
            yield from batch


def _named(batches: Iterable[pa.RecordBatch], paths: set[str], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The files of some paths, until all of them or enough are found."""
    left = len(paths) if limit is None else min(limit, len(paths))
    if not left:
        return
    for batch in batches:
        here = batch.filter(pc.is_in(batch.column("path"), value_set=strings(paths))).slice(0, left)
        if here.num_rows:
            yield here
        paths.difference_update(here.column("path").to_pylist())
        left = min(left - here.num_rows, len(paths))
        if not left:
            return


def _values(found: pa.RecordBatch, stats: BatchStatistics) -> Iterator[FileStats]:
    names = tuple(stats.columns)
    told = list(stats.columns.values())
    rows = zip(
        found.column("path").to_pylist(),
        found.column("size").to_pylist(),
        stats.num_records.to_pylist(),
        stats.deleted.tolist(),
        _rows([column.null_count for column in told], found.num_rows),
        _rows([column.lower for column in told], found.num_rows),
        _rows([column.upper for column in told], found.num_rows),
        stats.tight.to_pylist(),
        strict=True,
    )
    for path, size, num_records, deleted, null_counts, lower, upper, tight in rows:
        yield FileStats(
            path,
            size,
            num_records,
            deleted,
            _known(names, null_counts),
            _known(names, lower),
            _known(names, upper),
            tight,
        )


def _rows(columns: Sequence[pa.Array], rows: int) -> Iterable[tuple[Any, ...]]:
    """The values of columns, row after row."""
    return zip(*map(values_of, columns), strict=True) if columns else [()] * rows


def _known(names: tuple[str, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}
