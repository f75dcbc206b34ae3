"""What the log tells of the values in data files, under the names that users see."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s, nullable_int64s, numbers_of, scalar, strings, valid_mask
from delta_sidecar.errors import OptionError
from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.table.column_names import named_columns
from delta_sidecar.table.partition_values import typed_partition_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from delta_sidecar.log.schema import TableSchema
    from delta_sidecar.log.stats import ColumnStatistics, FileStatistics
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.table.column_names import NamedColumn
    from delta_sidecar.table.handle import TableHandle

READ = ("path", "size", "partition_values", "stats", "deletion_vector")
"""The columns of a batch of files that statistics are made of."""


@dataclass(frozen=True, slots=True)
class FileStats:
    """What the log tells of the values in one data file.

    Bounds and counts are what the writer of the file noted down. They are of all rows in the file, deleted ones
    included, where `tight_bounds` is false. A text may be cut off (the lower bound is then below all values, the upper
    one above them, or their beginning), and a timestamp may be rounded down to a millisecond.

    Attributes:
        path: As `DeltaFile.path` has it.
        size: In bytes.
        num_records: Rows in the file, deleted ones included; None where the log does not tell.
        deleted_rows: How many of them are deleted.
        null_counts: How many rows are null, by the column's name; a column is missing where the log does not tell.
        minimums: Lower bounds, likewise.
        maximums: Upper bounds, likewise.
        tight_bounds: Whether bounds and counts are of the rows that are there. None for a file without statistics.
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
        paths: Only these files, as `DeltaFile.path` names them; the search ends with the last of them. Files that the
            table does not have are not given. None for all.
        columns: Only statistics of these columns; the name of a struct stands for all columns in it. None for all.
        predicate: Only files that may hold a matching row.
        limit: At most so many files.

    Raises:
        OptionError: There is no such column, or the limit is not valid.
    """
    if isinstance(paths, str):
        msg = f"paths is a list of paths: [{paths!r}]"
        raise OptionError(msg)
    snapshot = handle.snapshot()
    chosen = named_columns(snapshot.columns, columns)
    wanted = None if paths is None else set(paths)
    scanner = handle.scanner(predicate, limit if wanted is None else None, snapshot=snapshot)
    if wanted is None:
        return _all(scanner.scan_batches(READ), chosen, snapshot.columns)
