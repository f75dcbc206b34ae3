"""The files of a telemetry table: each a function of its number, made in blocks.

Files are numbered in the order in which they arrive. The newest hour is always full; the oldest holds what is
left. Numbers are kept in ranges where their text has one width, so that a block is a byte matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from delta_sidecar.synth.fixed_text import as_strings, decimals, digits, fill, hour_digits, timestamps, uuids, z85
from delta_sidecar.synth.randomness import hashed
from delta_sidecar.synth.schemas import BUCKET_COLUMN, DV_TYPE, STAT_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from delta_sidecar.synth.fixed_text import Text
    from delta_sidecar.synth.schemas import StatColumn

    Numbers = NDArray[np.int64]


HOUR_MS = 3_600_000
_DV_OFFSET = 1
_PATH = f"{BUCKET_COLUMN}=«hour»/part-«task»-«uuid»-c000.«codec».parquet"


@dataclass(frozen=True)
class FileSeries:
    """The files of one table, by number."""

    count: int  # deleted ones included
    files_per_hour: int
    start_hour: int  # the oldest, in hours since the epoch
    columns: tuple[StatColumn, ...]  # with statistics
    dv_share: float  # the share of files with a deletion vector
    codec: str  # in the data files' names
    seed: int

    @property
    def hours(self) -> int:
        """The number of hours that have files."""
        return max(1, -(-self.count // self.files_per_hour))

    def slots(self, numbers: Numbers) -> Numbers:
        """Returns the place of each file in time: hour times files per hour, plus the place inside the hour."""
        first = self.hours * self.files_per_hour - self.count
        return first + np.mod(numbers, max(1, self.count))

    def hour_range(self, hour: int) -> range:
        """Returns the numbers of the files of an hour since the epoch; empty where there are none."""
        first = self.hours * self.files_per_hour - self.count
        start = (hour - self.start_hour) * self.files_per_hour - first
        return range(max(0, start), max(0, min(start + self.files_per_hour, self.count)))

    def block(self, numbers: Numbers) -> FileBlock:
        """Makes the files of these numbers."""
        return FileBlock(self, numbers)


class FileBlock:
    """Some files of a series, column by column; each column is made when it is first asked for."""

    def __init__(self, series: FileSeries, numbers: Numbers) -> None:
        self.series = series
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def word(self, stream: int) -> NDArray[np.uint64]:
        """Returns a random word for each file."""
        return hashed(self.numbers, self.series.seed, stream)

    def below(self, stream: int, limit: int) -> Numbers:
        """Returns a random number below a limit for each file."""
        numbers: Numbers = np.mod(self.word(stream) >> np.uint64(16), np.uint64(limit)).astype(np.int64)
        return numbers

    @cached_property
    def hours(self) -> Numbers:
        """Hours since the epoch."""
        return self.series.start_hour + self.series.slots(self.numbers) // self.series.files_per_hour

    @cached_property
    def latest(self) -> Numbers:
        """Milliseconds into the hour of the newest event: the files of an hour come one after the other."""
        place = np.mod(self.series.slots(self.numbers), self.series.files_per_hour)
        return np.asarray((place + 1) * HOUR_MS // self.series.files_per_hour - 1).clip(0)

    @cached_property
    def sizes(self) -> Numbers:
        """Sizes of the data files in bytes."""
        return self.below(1, 32_000_000) + 10_000_000

    @cached_property
    def modified(self) -> Numbers:
        """Modification times in milliseconds since the epoch."""
        return self.hours * HOUR_MS + self.latest + 2_000 + self.below(2, 30_000)

    @cached_property
    def rows(self) -> Numbers:
        """Records in each data file."""
        return self.below(3, 90_000) + 10_000

    @cached_property
    def has_dv(self) -> NDArray[np.bool_]:
        """Marks files carry a deletion vector."""
        return (self.word(4) >> np.uint64(11)).astype(np.float64) < self.series.dv_share * 2.0**53

    @cached_property
    def hour_text(self) -> Text:
        """The partition values, as `yyyyMMddHH`."""
        return hour_digits(self.hours)

    @cached_property
    def slots(self) -> dict[str, Text]:
        """Every value as text, by the name that patterns use."""
        codec = np.frombuffer(self.series.codec.encode(), dtype=np.uint8)
        slots = {
            "hour": self.hour_text,
            "task": digits(np.mod(self.numbers, 200), 5),
            "uuid": uuids(self.word(5), self.word(6)),
            "codec": np.broadcast_to(codec, (len(self), len(codec))),
            "size": digits(self.sizes, 8),
            "modified": digits(self.modified, 13),
            "rows": digits(self.rows, 5),
        }
        slots |= stat_slots(self)
        if self.series.dv_share:
            slots["dv"] = z85(self.word(7), self.word(8))
            slots["dv_size"] = digits(self._dv_sizes, 2)
            slots["dv_rows"] = digits(self._dv_rows, 2)
        return slots

    @cached_property
    def paths(self) -> pa.StringArray:
        """Raw paths, as a log holds them."""
        return as_strings(fill(_PATH, self.slots))

    def stats(self) -> pa.StringArray:
        """Statistics as JSON text."""
        tight = as_strings(fill(stats_pattern(self.series, tight=True), self.slots))
        if not self.has_dv.any():
            return tight
        wide = as_strings(fill(stats_pattern(self.series, tight=False), self.slots))
        return pa.compute.if_else(pa.array(self.has_dv), wide, tight)

    def add_lines(self) -> list[Text]:
        """Writes the add actions of a commit, one line per file; files of equal width are together."""
        parts = [np.flatnonzero(~self.has_dv), np.flatnonzero(self.has_dv)]
        return [
            fill(self._add_pattern(dv=dv), {name: slot[part] for name, slot in self.slots.items()})
            for dv, part in zip((False, True), parts, strict=True)
            if len(part)
        ]

    def remove_actions(self, deleted_at: int) -> list[dict[str, Any]]:
        """Returns remove actions for these files."""
        removes = []
        dvs = self.deletion_vectors().to_pylist()
        for row, (path, dv) in enumerate(zip(self.paths.to_pylist(), dvs, strict=True)):
            remove: dict[str, Any] = {
                "path": path,
                "deletionTimestamp": deleted_at,
                "dataChange": True,
                "extendedFileMetadata": True,
                "partitionValues": {BUCKET_COLUMN: self.hour_text[row].tobytes().decode()},
                "size": int(self.sizes[row]),
            }
            if dv:
                remove["deletionVector"] = {key: value for key, value in dv.items() if value is not None}
            removes.append({"remove": remove})
        return removes

    def deletion_vectors(self) -> pa.StructArray:
        """Returns the deletion-vector descriptors, null where a file has none."""
        rows, kind = len(self), DV_TYPE
        if not self.has_dv.any():
            return pa.nulls(rows, kind)
        children = [
            pa.repeat("u", rows),
            as_strings(self.slots["dv"]),
            pa.array(np.full(rows, _DV_OFFSET, dtype=np.int32)),
            pa.array(self._dv_sizes.astype(np.int32)),
            pa.array(self._dv_rows),
            pa.nulls(rows, pa.int64()),
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(~self.has_dv))

    @cached_property
    def _dv_sizes(self) -> Numbers:
        return 34 + 2 * self._dv_rows % 60

    @cached_property
    def _dv_rows(self) -> Numbers:
        return self.below(9, 90) + 10

    def _add_pattern(self, *, dv: bool) -> str:
        pattern = (
            f'{{"add":{{"path":"{_PATH}","partitionValues":{{"{BUCKET_COLUMN}":"«hour»"}},'
            '"size":«size»,"modificationTime":«modified»,"dataChange":true'
        )
        escaped = stats_pattern(self.series, tight=not dv).replace('"', '\\"')
        pattern += f',"stats":"{escaped}"'
        if dv:
            pattern += (
                f',"deletionVector":{{"storageType":"u","pathOrInlineDv":"«dv»","offset":{_DV_OFFSET},'
                '"sizeInBytes":«dv_size»,"cardinality":«dv_rows»}'
            )
        return pattern + "}}\n"


def hour_name(hour: int) -> str:
    """Writes an hour since the epoch as `yyyyMMddHH`."""
    return hour_digits(np.array([hour], dtype=np.int64)).tobytes().decode()


# The statistics of files: bounds and null counts, as JSON text and as native columns.


def bounds(block: FileBlock, column: StatColumn) -> tuple[Numbers, Numbers]:
    """Returns the least and greatest value of a column in each file, as whole numbers.

    Timestamps are milliseconds since the epoch, doubles hundredths, strings the number in a device's name.
    """
    low, high = block.below(column.stream, column.spread), block.below(column.stream + 1, column.spread)
    match column.delta_type:
        case "timestamp":
            hour = block.hours * HOUR_MS
            return hour + np.maximum(0, block.latest - 1_000 - low), hour + block.latest
        case "long":
            first = 100_000_000_000_000 + np.mod(block.numbers, 1 << 32) * 100_000
            return first, first + block.rows - 1
        case "double":
            # A JSON writer leaves out a last digit of 0, and the text must keep its width.
            return column.low + low // 10 * 10 + low % 9 + 1, column.high + high // 10 * 10 + high % 9 + 1
        case _:
            return column.low + low, column.high + high


def null_counts(block: FileBlock, column: StatColumn) -> Numbers:
    """Returns how many values of a column are null in each file: at most 9."""
    if column.delta_type != "double":
        return np.zeros(len(block), dtype=np.int64)
    return block.below(column.stream + 2, 10)


def stat_slots(block: FileBlock) -> dict[str, Text]:
    """Writes every bound and null count as text, by the name that `stats_pattern` uses."""
    slots = {}
    for column in block.series.columns:
        for side, values in zip(("min", "max"), bounds(block, column), strict=True):
            slots[f"{side}.{column.name}"] = _text(column, values)
        slots[f"nulls.{column.name}"] = digits(null_counts(block, column), 1)
    return slots


def stats_pattern(series: FileSeries, *, tight: bool) -> str:
    """Returns the pattern of one file's statistics; with deletion vectors they say whether bounds are tight."""
    low, high, nulls = (
        ",".join(f'"{column.name}":{_slot(column, side)}' for column in series.columns)
        for side in ("min", "max", "nulls")
    )
    flag = f',"tightBounds":{"true" if tight else "false"}' if series.dv_share else ""
    return f'{{"numRecords":«rows»,"minValues":{{{low}}},"maxValues":{{{high}}},"nullCount":{{{nulls}}}{flag}}}'


def stats_struct(block: FileBlock) -> pa.StructArray:
    """Returns the statistics in the columns' own types, as `stats_parsed` holds them."""
    columns = block.series.columns
    children = {"numRecords": pa.array(block.rows)}
    if columns:
        names = [column.name for column in columns]
        for side, name in enumerate(("minValues", "maxValues")):
            values = [_typed(column, bounds(block, column)[side]) for column in columns]
            children[name] = pa.StructArray.from_arrays(values, names=names)
        nulls = [pa.array(null_counts(block, column)) for column in columns]
        children["nullCount"] = pa.StructArray.from_arrays(nulls, names=names)
    if block.series.dv_share:
        children["tightBounds"] = pa.array(~block.has_dv)
    return pa.StructArray.from_arrays(list(children.values()), names=list(children))


def _slot(column: StatColumn, side: str) -> str:
    slot = f"«{side}.{column.name}»"
    return f'"{slot}"' if side != "nulls" and column.delta_type in {"timestamp", "string"} else slot


def _text(column: StatColumn, values: Numbers) -> Text:
    match column.delta_type:
        case "timestamp":
            return timestamps(values)
        case "string":
            return fill("dev-«number»", {"number": digits(values, column.width)})
        case "double":
            return decimals(values, column.width)
        case _:
            return digits(values, column.width)


def _typed(column: StatColumn, values: Numbers) -> pa.Array:
    match column.delta_type:
        case "timestamp":
            return pa.array(values * 1_000).view(STAT_TYPES["timestamp"])
        case "string":
            return as_strings(_text(column, values))
        case "double":
            return pa.array(values / 100)
        case _:
            return pa.array(values)
