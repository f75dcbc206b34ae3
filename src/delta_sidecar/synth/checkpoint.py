"""Writing checkpoints of every kind, row group by row group."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.synth.files import stats_struct
from delta_sidecar.synth.fixed_text import as_strings
from delta_sidecar.synth.randomness import random_uuid, shuffled
from delta_sidecar.synth.schema import BUCKET_COLUMN, add_type, checkpoint_schema, remove_type, v2_sidecar_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from delta_sidecar.synth.files import FileBlock, FileSeries


_BLOCK_ROWS = 65_536
_MAX_BLOCK_ROWS = 262_144
_MAX_ROW_GROUP = 64 * 1024 * 1024
_DICTIONARY_COLUMNS = [
    f"{action}.{column}"
    for action in ("add", "remove")
    for column in (
        "partitionValues.key_value.key",
        "partitionValues.key_value.value",
        "deletionVector.storageType",
        "deletionVector.offset",
        f"partitionValues_parsed.{BUCKET_COLUMN}",
    )
]


@dataclass(frozen=True)
class CheckpointLayout:
    """How a checkpoint is laid out.

    Attributes:
        kind: `v1`, `v1-multipart`, `v2-json` or `v2-parquet`.
        parts: How many parts, or V2-checkpoint sidecars, the file actions are spread over.
        row_group_rows: Rows in a row group; 0 for one row group per file.
        by_time: Whether files are in the order of their arrival instead of the order of their paths' hashes.
        json_stats: Whether `add.stats` is written.
        struct_stats: Whether `add.stats_parsed` and `add.partitionValues_parsed` are written.
        codec: The compression of the pages.
    """

    kind: str
    parts: int
    row_group_rows: int
    by_time: bool
    json_stats: bool
    struct_stats: bool
    codec: str


@dataclass(frozen=True)
class CheckpointContent:
    """What a checkpoint holds.

    Attributes:
        version: The table version.
        series: Where the files come from.
        files: How many of them, from the first on, are live.
        tombstones: How many removed files it remembers.
        top: The actions that are no file actions.
        modified: The modification time that sidecar actions state, in milliseconds.
    """

    version: int
    series: FileSeries
    files: int
    tombstones: int
    top: list[dict[str, Any]]
    modified: int


@dataclass(frozen=True)
class CheckpointWritten:
    """What was written: names relative to the log, bytes, and the size of all live files."""

    last_checkpoint: dict[str, Any]
    size_in_bytes: int
    table_bytes: int


def write_checkpoint(
    log: Path, content: CheckpointContent, layout: CheckpointLayout, report: Callable[[int], None]
) -> CheckpointWritten:
    """Writes a checkpoint into a log directory.

    Args:
        log: The `_delta_log` directory.
        content: What to write.
        layout: How to write it.
        report: Called with the number of files written since the last call.
    """
    writer = _CheckpointWriter(log, content, layout, report)
    return writer.write_v2() if layout.kind.startswith("v2") else writer.write_v1()


class _CheckpointWriter:
    def __init__(
        self, log: Path, content: CheckpointContent, layout: CheckpointLayout, report: Callable[[int], None]
    ) -> None:
        self._log = log
        self._content = content
        self._layout = layout
        self._report = report
        self._table_bytes = 0
        series = content.series
        self._add = add_type(
            series.columns,
            json_stats=layout.json_stats,
            struct_stats=layout.struct_stats,
            dv=bool(series.dv_share),
        )

    def write_v1(self) -> CheckpointWritten:
        parts = self._layout.parts if self._layout.kind == "v1-multipart" else 1
        stem = f"{self._content.version:020}.checkpoint"
        schema = checkpoint_schema(self._add, v2=False)
        total = 0
        for part in range(parts):
            name = f"{stem}.{part + 1:010}.{parts:010}.parquet" if parts > 1 else f"{stem}.parquet"
            top = self._content.top if part == 0 else []
            total += self._write_file(self._log / name, schema, top, part, parts)
        extra = {"parts": parts} if parts > 1 else {}
        return self._written(total, extra)

    def write_v2(self) -> CheckpointWritten:
        content, parts = self._content, self._layout.parts
        folder = self._log / "_sidecars"
        folder.mkdir()
        sidecars = []
        total = 0
        for part in range(parts):
            unique = random_uuid(content.series.seed, 500, part)
            name = f"{content.version:020}.checkpoint.{part + 1:010}.{parts:010}.{unique}.parquet"
            size = self._write_file(folder / name, v2_sidecar_schema(self._add), [], part, parts)
            sidecars.append({"path": name, "sizeInBytes": size, "modificationTime": content.modified})
            total += size
        actions: list[dict[str, Any]] = [
            {"checkpointMetadata": {"version": content.version}},
            *({"sidecar": sidecar} for sidecar in sidecars),
            *content.top,
        ]
        form = self._layout.kind.removeprefix("v2-")
        name = f"{content.version:020}.checkpoint.{random_uuid(content.series.seed, 501)}.{form}"
        top_file = self._log / name
        if form == "json":
            lines = [json.dumps(action, separators=(",", ":")) + "\n" for action in actions]
            top_file.write_text("".join(lines), encoding="utf-8")
        else:
            schema = checkpoint_schema(self._add, v2=True)
            pq.write_table(top_table(actions, schema), top_file, compression=self._layout.codec)
        size = top_file.stat().st_size
        v2 = {
            "path": name,
            "sizeInBytes": size,
            "modificationTime": content.modified,
            "nonFileActions": [action for action in actions if "sidecar" not in action],
            "sidecarFiles": sidecars,
        }
        return self._written(total + size, {"v2Checkpoint": v2})

    def _written(self, total: int, extra: dict[str, Any]) -> CheckpointWritten:
        content = self._content
        actions = content.files + content.tombstones + len(content.top)
        if "v2Checkpoint" in extra:
            actions += 1 + len(extra["v2Checkpoint"]["sidecarFiles"])
        last = {
            "version": content.version,
            "size": actions,
            "sizeInBytes": total,
            "numOfAddFiles": content.files,
            **extra,
        }
        return CheckpointWritten(last, total, self._table_bytes)

    def _write_file(self, path: Path, schema: pa.Schema, top: list[dict[str, Any]], part: int, parts: int) -> int:
        options = {
            "compression": self._layout.codec,
            "use_dictionary": [name for name in _DICTIONARY_COLUMNS if name.split(".")[0] in schema.names],
            "write_page_index": True,
            "store_schema": False,
        }
        with pq.ParquetWriter(path, schema, **options) as writer:
            rows = self._layout.row_group_rows or _MAX_ROW_GROUP
            if rows <= _MAX_BLOCK_ROWS:
                for table in self._tables(schema, top, part, parts, rows):
                    writer.write_table(table, row_group_size=rows)
            else:
                tables = self._tables(schema, top, part, parts, _BLOCK_ROWS)
                self._write_large_row_groups(writer, tables, rows, path)
        return path.stat().st_size

    @staticmethod
    def _write_large_row_groups(writer: pq.ParquetWriter, tables: Iterator[pa.Table], rows: int, path: Path) -> None:
        # A row group is written column by column, so all of its rows must be there at once: they are, but in
        # a mapped file, whose pages the system can drop again.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".rows-", suffix=".arrow") as spill:
            with pa.ipc.new_file(spill.name, writer.schema) as stream:
                for table in tables:
                    stream.write_table(table)
            with pa.memory_map(spill.name) as source:
                table = pa.ipc.open_file(source).read_all()
                writer.write_table(table, row_group_size=rows)
                del table

    def _tables(
        self, schema: pa.Schema, top: list[dict[str, Any]], part: int, parts: int, rows: int
    ) -> Iterator[pa.Table]:
        content = self._content
        start, stop = (content.files * side // parts for side in (part, part + 1))
        head = top_table(top, schema) if top else None
        at = start
        while at < stop or head is not None:
            until = min(stop, at + max(0, rows - len(top)) if head is not None else at + rows)
            block = content.series.block(self._numbers(at, until))
            self._table_bytes += int(block.sizes.sum())
            table = file_table(schema, "add", add_column(block, self._add))
            yield table if head is None else pa.concat_tables([head, table]).combine_chunks()
            self._report(until - at)
            head, at = None, until
        first, last = (content.series.count + content.tombstones * side // parts for side in (part, part + 1))
        for at in range(first, last, rows):
            block = content.series.block(np.arange(at, min(last, at + rows), dtype=np.int64))
            yield file_table(schema, "remove", remove_column(block, content.modified))

    def _numbers(self, start: int, stop: int) -> NDArray[np.int64]:
        if self._layout.by_time:
            return np.arange(start, stop, dtype=np.int64)
        return shuffled(start, stop, self._content.files, self._content.series.seed)


# The rows of a checkpoint: actions as Arrow columns, all but one of them null in each row.


def add_column(block: FileBlock, kind: pa.StructType) -> pa.StructArray:
    """Returns files as add actions, with the fields that the type has."""
    rows = len(block)
    values = {
        "path": block.paths,
        "partitionValues": _partition_values(block),
        "size": pa.array(block.sizes),
        "modificationTime": pa.array(block.modified),
        "dataChange": pa.array(np.zeros(rows, dtype=np.bool_)),
        "deletionVector": block.deletion_vectors(),
    }
    if kind.get_field_index("stats") >= 0:
        values["stats"] = block.stats()
    if kind.get_field_index("stats_parsed") >= 0:
        hours = as_strings(block.hour_text)
        values["partitionValues_parsed"] = pa.StructArray.from_arrays([hours], names=[BUCKET_COLUMN])
        values["stats_parsed"] = stats_struct(block)
    return _struct(kind, values, rows)


def remove_column(block: FileBlock, deleted_at: int) -> pa.StructArray:
    """Returns files as the tombstones that a checkpoint keeps."""
    rows = len(block)
    values = {
        "path": block.paths,
        "deletionTimestamp": pa.array(np.full(rows, deleted_at, dtype=np.int64)),
        "dataChange": pa.array(np.ones(rows, dtype=np.bool_)),
        "extendedFileMetadata": pa.array(np.ones(rows, dtype=np.bool_)),
        "partitionValues": _partition_values(block),
        "size": pa.array(block.sizes),
        "deletionVector": block.deletion_vectors(),
    }
    return _struct(remove_type(), values, rows)


def file_table(schema: pa.Schema, action: str, column: pa.StructArray) -> pa.Table:
    """Makes checkpoint rows of one action column; the others are null."""
    columns = [column if field.name == action else pa.nulls(len(column), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def top_table(actions: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Makes checkpoint rows of a few actions of any kind."""
    return pa.Table.from_pylist(actions, schema=schema)


def _struct(kind: pa.StructType, values: dict[str, pa.Array], rows: int) -> pa.StructArray:
    children = [values[field.name] if field.name in values else pa.nulls(rows, field.type) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind))


def _partition_values(block: FileBlock) -> pa.MapArray:
    offsets = pa.array(np.arange(len(block) + 1, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, pa.repeat(BUCKET_COLUMN, len(block)), as_strings(block.hour_text))
