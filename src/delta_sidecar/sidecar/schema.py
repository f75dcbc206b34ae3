"""The columns of a metadata sidecar: one row a live file, the *index* columns and then the *statistics* columns.

The index is what every scan needs: where a file is, its bucket, its partition values and the bounds of the time column.
The statistics are what a predicate on other columns needs, and what it takes to rebuild the `add` action whole.

A column of the table is named by its *physical* path, the parts joined by dots. A part that is empty or has a dot or a
back-quote in it stands in back-quotes, with the back-quotes inside doubled: `a.b`, `` a.`b.c` ``.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.log.actions import ADD_FIELDS, DELETION_VECTOR
from delta_sidecar.log.schema import NAMED_TYPES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from delta_sidecar.log.schema import ColumnPath

FORMAT_VERSION = 1
"""The version of the format that this package reads and writes."""

STATS_COLUMNS = "delta.dataSkippingStatsColumns"
NUM_INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
DEFAULT_INDEXED_COLUMNS = 32


def _add_fields(piece: str) -> list[pa.Field]:
    return [pa.field(each.column, each.type) for each in ADD_FIELDS if each.piece == piece]


HEAD = (pa.field("path", pa.string()), *_add_fields("index"))
"""The first index columns. The bucket comes after them."""

BODY = (
    pa.field("num_records", pa.int64()),
    pa.field("tight_bounds", pa.bool_()),
    *(pa.field(f"dv.{part.name}", part.type) for part in DELETION_VECTOR),
    pa.field("untold", pa.string()),
)
"""The index columns after the bucket. Other partition columns and the bounds of the time column come after them.

`untold` is a JSON list of the partition columns whose values the log does not have; null where it has all.
"""

REST = (*_add_fields("statistics"), pa.field("stats_json", pa.string()))
"""The first statistics columns. Those of the table's columns come after them."""


class SidecarSchema(Struct, frozen=True, dict=True):
    """The columns of a metadata sidecar, made of physical names of the table's columns, in the table's order."""

    bucket: str | None
    partitions: tuple[str, ...] = ()  # the other partition columns
    time: ColumnPath | None = None  # one of `statistics`, with bounds
    # The type of the bounds of every column with statistics; None for a column that has a count of nulls only.
    statistics: Mapping[ColumnPath, pa.DataType | None] = {}

    def __post_init__(self) -> None:
        if self.time is not None and self.statistics.get(self.time) is None:
            msg = f"the time column {column_name(self.time)} has no bounds"
            raise ValueError(msg)

    @cached_property
    def index(self) -> pa.Schema:
        """The columns of the index pieces."""
        bucket = [] if self.bucket_column is None else [pa.field(self.bucket_column, pa.string())]
        return pa.schema([*HEAD, *bucket, *BODY, *self._partition_fields(), *self._time_fields()])

    @cached_property
    def statistics_schema(self) -> pa.Schema:
        """The columns of the statistics pieces."""
        columns = [
            found for path, kind in self.statistics.items() if path != self.time for found in _fields(path, kind)
        ]
        return pa.schema([*REST, *columns])

    @cached_property
    def bucket_column(self) -> str | None:
        """The name under which the bucket stands in the file; None for no bucket.

        It is the column's physical name, or `partition.<name>` where another column has that name already, in any
        case: engines find columns by names in any case.
        """
        if self.bucket is None:
            return None
        others = [*HEAD, *BODY, *REST, *self._partition_fields()]
        taken = {found.name.lower() for found in others}
        bounds = {found.name.lower() for path, kind in self.statistics.items() for found in _fields(path, kind)}
        # Names that begin with `#` are those of columns that a build adds for itself.
        is_taken = self.bucket.lower() in taken | bounds or self.bucket.startswith("#")
        return f"partition.{column_name((self.bucket,))}" if is_taken else self.bucket

    @cached_property
    def partition_columns(self) -> Mapping[str, str]:
        """Names of the columns that hold partition values, by physical name."""
        bucket = {} if self.bucket is None or self.bucket_column is None else {self.bucket: self.bucket_column}
        return bucket | {name: f"partition.{column_name((name,))}" for name in self.partitions}

    def statistics_columns(self, path: ColumnPath) -> list[str]:
        """Names of the columns that hold the statistics of one column."""
        return [found.name for found in _fields(path, self.statistics[path])]

    @cached_property
    def schema_hash(self) -> str:
        """A digest of the format's version and of the names and types of all columns, in any order.

        It is the XXH3 digest of 128 bits of this text in UTF-8: the line `delta-sidecar 1`, then for every column, in
        the order of their names' code points, a line with its name, a tab and its type by `type_name`. Every
        line ends with a line feed.
        """
        columns = sorted((found.name, type_name(found.type)) for found in [*self.index, *self.statistics_schema])
        lines = [f"delta-sidecar {FORMAT_VERSION}\n", *(f"{name}\t{kind}\n" for name, kind in columns)]
        return xxh3_128("".join(lines).encode())

    def _partition_fields(self) -> list[pa.Field]:
        return [pa.field(f"partition.{column_name((name,))}", pa.string()) for name in self.partitions]

    def _time_fields(self) -> tuple[pa.Field, ...]:
        return () if self.time is None else _fields(self.time, self.statistics[self.time])


def column_name(path: ColumnPath) -> str:
    """The name of a column of the table, from the physical names on the way to it.

    Raises:
        ValueError: The path is empty.
    """
    if not path:
        msg = "a column has at least one name"
        raise ValueError(msg)
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in path)


_PLAIN = re.compile(r"[^.`]+")


def stats_columns(
    physical: pa.Schema,
    properties: Mapping[str, str],
    partition_columns: Collection[str],
    *,
    logical: pa.Schema | None = None,
) -> dict[ColumnPath, pa.DataType | None]:
    """The columns that Delta collects statistics for, by the table's schema and properties alone.

    `delta.dataSkippingStatsColumns` names them, or else they are the first `delta.dataSkippingNumIndexedCols` leaves of
    the schema (32, or -1 for all). Partition columns, by physical names, have none. The first property names columns
    of the logical schema; without that the physical names are taken for them.

    Returns:
        The type of each column's bounds, by its physical path; None for a column without bounds.
    """
    shown = physical if logical is None else logical
    partitions = frozenset(partition_columns)
    leaves = [
        leaf
        for field_, seen in zip(physical, shown, strict=True)
        if field_.name not in partitions
        for leaf in _leaves(field_, seen, (), ())
    ]
    named = properties.get(STATS_COLUMNS)
    if named is not None:
        listed = {tuple(part.lower() for part in path) for path in _named(named)}
        chosen = [leaf for leaf in leaves if any(_folded(leaf[1], end) in listed for end in range(1, len(leaf[1]) + 1))]
    else:
        count = _indexed(properties.get(NUM_INDEXED_COLUMNS))
        chosen = leaves if count < 0 else leaves[:count]
    return {path: bounded_type(kind) for path, _, kind in chosen}


def default_time_column(physical: pa.Schema, stats: Mapping[ColumnPath, pa.DataType | None]) -> ColumnPath | None:
    """The first top-level timestamp of the schema that has statistics; None for none."""
    for field_ in physical:
        if pa.types.is_timestamp(field_.type) and stats.get((field_.name,)) is not None:
            return (field_.name,)
    return None


def is_time_partition(name: str, kind: pa.DataType) -> bool:
    """Guesses by the type or the name of a partition column that it is a time, which grows from partition to partition.

    It decides on nothing but the order in which files are emitted.
    """
    if pa.types.is_temporal(kind):
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and words[-1] in _TIMES and "of" not in words and not pa.types.is_boolean(kind)


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TIMES = frozenset({"date", "datetime", "day", "ds", "dt", "hour", "hr", "month", "time", "timestamp", "ts", "year"})


def bounded_type(kind: pa.DataType) -> pa.DataType | None:
    """The type under which bounds of a column are kept; None where a column of this type has no bounds."""
    return kind if _type_name(kind) is not None and not pa.types.is_binary(kind) else None


def sortable_type(kind: pa.DataType) -> pa.DataType:
    """The type under which partition values are sorted; bytes for one whose values have no order: all count as null."""
    bounded = bounded_type(kind)
    return pa.binary() if bounded is None else bounded


def type_name(kind: pa.DataType) -> str:
    """The name of a type, as Delta's schemas have it.

    Raises:
        ValueError: No column of a metadata sidecar has this type.
    """
    name = _type_name(kind)
    if name is None:
        msg = f"not a type of the format: {kind}"
        raise ValueError(msg)
    return name


def arrow_type(name: str) -> pa.DataType:
    """The type of a name.

    Raises:
        ValueError: It is the name of no type.
    """
    kind = NAMED_TYPES.get(name)
    match = None if kind is not None else _DECIMAL.fullmatch(name)
    if match is not None and 1 <= int(match[1]) <= MAX_PRECISION and int(match[2]) <= int(match[1]):
        kind = pa.decimal128(int(match[1]), int(match[2]))
    if kind is None:
        msg = f"not the name of a type: {name!r}"
        raise ValueError(msg)
    return kind


MAX_PRECISION = 38

_NAMES = {kind: name for name, kind in NAMED_TYPES.items()}
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),([0-9]{1,2})\)")
_VARIANT = [("metadata", pa.binary()), ("value", pa.binary())]


def _type_name(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})" if 0 <= kind.scale <= kind.precision else None
    return _NAMES.get(kind)


@lru_cache(maxsize=4096)
def _fields(path: ColumnPath, kind: pa.DataType | None) -> tuple[pa.Field, ...]:
    name = column_name(path)
    bounds = [] if kind is None else [pa.field(f"min.{name}", kind), pa.field(f"max.{name}", kind)]
    return (*bounds, pa.field(f"null_count.{name}", pa.int64()))


def _leaves(
    field_: pa.Field, seen: pa.Field, above: ColumnPath, seen_above: ColumnPath
) -> Iterator[tuple[ColumnPath, ColumnPath, pa.DataType]]:
    path, seen_path = (*above, field_.name), (*seen_above, seen.name)
    # A variant is one column for Delta. Here it has the Arrow type of its storage.
    if pa.types.is_struct(field_.type) and [(child.name, child.type) for child in field_.type] != _VARIANT:
        for child, seen_child in zip(field_.type, seen.type, strict=True):
            yield from _leaves(child, seen_child, path, seen_path)
    else:
        yield path, seen_path, field_.type


def _folded(path: ColumnPath, end: int) -> ColumnPath:
    return tuple(part.lower() for part in path[:end])


def _indexed(text: str | None) -> int:
    try:
        return DEFAULT_INDEXED_COLUMNS if text is None else int(text)
    except ValueError:
        return DEFAULT_INDEXED_COLUMNS


def _named(text: str) -> Iterator[ColumnPath]:
    """The columns of a comma-separated list, each in parts with dots between, a part in back-quotes or not."""
    for listed in _LISTED.finditer(text):
        yield tuple(
            match["plain"].strip() if match["quoted"] is None else match["quoted"].replace("``", "`")
            for match in _PART.finditer(listed[0].strip())
        )


_LISTED = re.compile(r"(?:`(?:[^`]|``)*`|[^,])+")
_PART = re.compile(r"\s*`(?P<quoted>(?:[^`]|``)*)`\s*(?:\.|$)|(?P<plain>[^.]+)(?:\.|$)")
