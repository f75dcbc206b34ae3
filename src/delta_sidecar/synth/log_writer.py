"""Writing a whole log: checkpoint, commits, checksum files and `_last_checkpoint`."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.errors import OptionError
from delta_sidecar.log.names import LAST_CHECKPOINT, LOG_FOLDER, SIDECAR_FOLDER, checksum_path, commit_path
from delta_sidecar.synth.file_series import HOUR_MS, stats_struct
from delta_sidecar.synth.fixed_text import as_strings
from delta_sidecar.synth.log_spec import LogSpec
from delta_sidecar.synth.randomness import random_uuid, shuffled
from delta_sidecar.synth.schemas import (
    BUCKET_COLUMN,
    REMOVE_TYPE,
    add_type,
    checkpoint_schema,
    metadata_action,
    protocol_action,
    table_columns,
    v2_sidecar_schema,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from delta_sidecar.synth.file_series import FileBlock

_BLOCK_ROWS = 65_536
_MAX_BLOCK_ROWS = 262_144
_MAX_ROW_GROUP = 64 * 1024 * 1024
# Of Spark's row groups of 128 MB with the default columns.
_SPARK_ROW_GROUP_ROWS = 75_000
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
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SynthSummary:
    """The log that `TelemetryLog.write` wrote."""

    path: str  # the table's directory
    version: int  # the newest version
    checkpoint_version: int | None  # the version of the checkpoint; None without one
    files: int  # how many files are live at the newest version
    oldest_hour: str  # the oldest hour with files, as `yyyyMMddHH`
    newest_hour: str  # the newest hour with files, as `yyyyMMddHH`
    bytes: int  # the size of the whole log
    checkpoint_bytes: int  # the size of the checkpoint, V2-checkpoint sidecars included
    table_bytes: int  # the size that the live data files would have


class TelemetryLog(LogSpec):
    """The log of a telemetry table, to be written."""

    def write(self, path: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> SynthSummary:
        """Writes the log below a local directory.

        Args:
            path: The table's directory, made if it is not there.
            progress: Called now and then with the files written and the files in all.

        Raises:
            OptionError: The directory has a Delta log.
        """
        folder = Path(path) / LOG_FOLDER
        if folder.exists():
            msg = f"{path} has a Delta log already: choose another directory, or remove that one first"
            raise OptionError(msg)
        folder.mkdir(parents=True)
        return LogWriter(self, Path(path), progress).write()


class LogWriter:
    """Writes a log below a table's directory, whose `_delta_log` is there and empty."""

    def __init__(self, log: LogSpec, table: Path, progress: Callable[[int, int], None] | None) -> None:
        self._log = log
        self._series = log.series
        self._table = table
        self._progress = progress
        self._done = 0
        self._files = 0
        self._table_bytes = 0
        features = [
            *(["deletionVectors"] if log.deletion_vectors else []),
            *(["v2Checkpoint"] if (log.checkpoint or "").startswith("v2") else []),
        ]
        self._protocol = protocol_action(tuple(features))
        self._metadata = metadata_action(
            table_columns(log.stats_columns),
            log.stats_columns,
            random_uuid(log.seed, 512),
            log.series.start_hour * HOUR_MS,
        )

    def write(self) -> SynthSummary:
        """Writes everything."""
        log, base = self._log, self._log.checkpoint_version
        checkpoint_bytes = 0
        if base is None:
            self._append(0, range(log.files), first=[{"protocol": self._protocol}, {"metaData": self._metadata}])
        else:
            checkpoint_bytes = self._write_base(base)
        for number in range(log.tail_commits):
            start = log.files + number * log.adds_per_commit
            added = range(start, start + log.adds_per_commit)
            self._append((base or 0) + 1 + number, added, removed=log.deleted[number :: log.tail_commits])
        return SynthSummary(
            path=str(self._table),
            version=log.version,
            checkpoint_version=base,
            files=self._files,
            oldest_hour=log.oldest_hour,
            newest_hour=log.newest_hour,
            bytes=sum(file.stat().st_size for file in (self._table / LOG_FOLDER).rglob("*") if file.is_file()),
            checkpoint_bytes=checkpoint_bytes,
            table_bytes=self._table_bytes,
        )

    def _write_base(self, version: int) -> int:
        log = self._log
        # The checkpoint's own commit is there as well, as in a log that has just been cleaned up.
        timestamp = self._timestamp(version, range(log.files))
        added = range(max(0, log.files - log.adds_per_commit), log.files)
        transaction = {"txn": self._transaction(version, timestamp)}
        self._write_commit(version, timestamp, [transaction], added, _NONE, lambda _: None)
        top = [{"protocol": self._protocol}, {"metaData": self._metadata}, transaction]
        checkpoint = _CheckpointWriter(self._table, log, version, top, timestamp, self._report)
        hint = checkpoint.write_v2() if str(log.checkpoint).startswith("v2") else checkpoint.write_v1()
        self._table_bytes = checkpoint.table_bytes
        if log.last_checkpoint:
            (self._table / LAST_CHECKPOINT).write_bytes(_json(hint))
        self._files = log.files
        self._write_checksum(version, timestamp)
        size: int = hint["sizeInBytes"]
        return size

    def _append(
        self, version: int, added: range, *, first: Sequence[dict[str, Any]] = (), removed: NDArray[np.int64] = _NONE
    ) -> None:
        timestamp = self._timestamp(version, added)
        actions = [*first, {"txn": self._transaction(version, timestamp)}]
        self._table_bytes += self._write_commit(version, timestamp, actions, added, removed, self._report)
        self._files += len(added) - len(removed)
        self._write_checksum(version, timestamp)

    def _write_commit(
        self,
        version: int,
        timestamp: int,
        first: Sequence[dict[str, Any]],
        added: range,
        removed: NDArray[np.int64],
        report: Callable[[int], None],
    ) -> int:
        """Writes a commit and returns by how many bytes the table grows."""
        grown = 0
        with (self._table / commit_path(version)).open("wb") as file:
            for action in (self._commit_info(version, len(added), len(removed), timestamp), *first):
                file.write(_json(action) + b"\n")
            for at in range(added.start, added.stop, _BLOCK_ROWS):
                block = self._series.block(np.arange(at, min(added.stop, at + _BLOCK_ROWS), dtype=np.int64))
                for lines in block.add_lines():
                    file.write(np.ascontiguousarray(lines).data.cast("B"))
                grown += int(block.sizes.sum())
                report(len(block))
            if len(removed):
                block = self._series.block(removed)
                for action in block.remove_actions(timestamp):
                    file.write(_json(action) + b"\n")
                grown -= int(block.sizes.sum())
        return grown

    def _commit_info(self, version: int, added: int, removed: int, timestamp: int) -> dict[str, Any]:
        return {
            "commitInfo": {
                "timestamp": timestamp,
                "operation": "STREAMING UPDATE",
                "operationParameters": {
                    "outputMode": "Append",
                    "queryId": random_uuid(self._series.seed, 510),
                    "epochId": str(version),
                },
                "readVersion": version - 1,
                "isolationLevel": "Serializable",
                "isBlindAppend": removed == 0,
                "operationMetrics": {"numAddedFiles": str(added), "numRemovedFiles": str(removed)},
                "engineInfo": "delta-sidecar synth",
                "txnId": random_uuid(self._series.seed, 511, version),
            }
        }

    def _transaction(self, version: int, timestamp: int) -> dict[str, Any]:
        """The content of the txn action by which a stream remembers how far it came."""
        return {"appId": random_uuid(self._series.seed, 510), "version": version, "lastUpdated": timestamp}

    def _write_checksum(self, version: int, timestamp: int) -> None:
        if not self._log.checksum:
            return
        checksum = {
            "txnId": random_uuid(self._series.seed, 511, version),
            "tableSizeBytes": self._table_bytes,
            "numFiles": self._files,
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": [self._transaction(version, timestamp)],
            "domainMetadata": [],
            "metadata": self._metadata,
            "protocol": self._protocol,
        }
        (self._table / checksum_path(version)).write_bytes(_json(checksum) + b"\n")

    def _timestamp(self, version: int, added: range) -> int:
        if not added:
            return self._series.start_hour * HOUR_MS + version
        newest = self._series.block(np.array([added.stop - 1], dtype=np.int64))
        return int(newest.modified[0]) + 1_000

    def _report(self, files: int) -> None:
        self._done += files
        if self._progress is not None:
            self._progress(self._done, self._series.count)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# Checkpoints.


@dataclass
class _CheckpointWriter:
    """Writes checkpoints of every kind, row group by row group.

    `top` are the actions that are no file actions; `report` is called with the number of files
    written since the last call.
    """

    table: Path
    log: LogSpec
    version: int
    top: list[dict[str, Any]]
    modified: int
    report: Callable[[int], None]
    table_bytes: int = 0

    @cached_property
    def _add(self) -> pa.StructType:
        log = self.log
        vectors = bool(log.deletion_vectors)
        return add_type(log.series.columns, json_stats=log.json_stats, struct_stats=log.struct_stats, dv=vectors)

    @property
    def _stem(self) -> str:
        return f"{self.version:020}.checkpoint"

    def write_v1(self) -> dict[str, Any]:
        parts = self.log.parts
        schema = checkpoint_schema(self._add, v2=False)
        total = 0
        for part in range(parts):
            name = f"{self._stem}.{part + 1:010}.{parts:010}.parquet" if parts > 1 else f"{self._stem}.parquet"
            top = self.top if part == 0 else []
            total += self._write_file(self.table / LOG_FOLDER / name, schema, top, part, parts)
        return self._hint(0, total) | ({"parts": parts} if parts > 1 else {})

    def write_v2(self) -> dict[str, Any]:
        log, seed, parts = self.table / LOG_FOLDER, self.log.series.seed, self.log.parts
        folder = self.table / SIDECAR_FOLDER
        folder.mkdir()
        sidecars = []
        total = 0
        for part in range(parts):
            unique = random_uuid(seed, 500, part)
            name = f"{self._stem}.{part + 1:010}.{parts:010}.{unique}.parquet"
            size = self._write_file(folder / name, v2_sidecar_schema(self._add), [], part, parts)
            sidecars.append({"path": name, "sizeInBytes": size, "modificationTime": self.modified})
            total += size
        actions: list[dict[str, Any]] = [
            {"checkpointMetadata": {"version": self.version}},
            *({"sidecar": sidecar} for sidecar in sidecars),
            *self.top,
        ]
        form = str(self.log.checkpoint).removeprefix("v2-")
        name = f"{self._stem}.{random_uuid(seed, 501)}.{form}"
        if form == "json":
            (log / name).write_bytes(b"".join(_json(action) + b"\n" for action in actions))
        else:
            rows = pa.Table.from_pylist(actions, schema=checkpoint_schema(self._add, v2=True))
            pq.write_table(rows, log / name, compression=self.log.codec)
        size = (log / name).stat().st_size
        v2 = {
            "path": name,
            "sizeInBytes": size,
            "modificationTime": self.modified,
            "nonFileActions": [action for action in actions if "sidecar" not in action],
            "sidecarFiles": sidecars,
        }
        return self._hint(1 + len(sidecars), total + size) | {"v2Checkpoint": v2}

    def _hint(self, more_actions: int, total: int) -> dict[str, Any]:
        """The content of `_last_checkpoint`."""
        log = self.log
        return {
            "version": self.version,
            "size": log.files + log.tombstones + len(self.top) + more_actions,
            "sizeInBytes": total,
            "numOfAddFiles": log.files,
        }

    def _write_file(self, path: Path, schema: pa.Schema, top: list[dict[str, Any]], part: int, parts: int) -> int:
        options = {
            "compression": self.log.codec,
            "use_dictionary": [name for name in _DICTIONARY_COLUMNS if name.split(".")[0] in schema.names],
            "write_page_index": True,
            "store_schema": False,
        }
        with pq.ParquetWriter(path, schema, **options) as writer:
            rows = self._row_group_rows()
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
        log, series = self.log, self.log.series
        start, stop = (log.files * side // parts for side in (part, part + 1))
        head = pa.Table.from_pylist(top, schema=schema) if top else None
        at = start
        while at < stop or head is not None:
            until = min(stop, at + max(0, rows - len(top)) if head is not None else at + rows)
            block = series.block(self._numbers(at, until))
            self.table_bytes += int(block.sizes.sum())
            table = _file_table(schema, "add", _add_column(block, self._add))
            yield table if head is None else pa.concat_tables([head, table]).combine_chunks()
            self.report(until - at)
            head, at = None, until
        first, last = (series.count + log.tombstones * side // parts for side in (part, part + 1))
        for at in range(first, last, rows):
            block = series.block(np.arange(at, min(last, at + rows), dtype=np.int64))
            yield _file_table(schema, "remove", _remove_column(block, self.modified))

    def _numbers(self, start: int, stop: int) -> NDArray[np.int64]:
        if self.log.order == "time":
            return np.arange(start, stop, dtype=np.int64)
        return shuffled(start, stop, self.log.files, self.log.series.seed)

    def _row_group_rows(self) -> int:
        rows = self.log.row_group_rows
        if rows is None:
            return _SPARK_ROW_GROUP_ROWS
        return _MAX_ROW_GROUP if rows == "single" else rows or _MAX_ROW_GROUP


# The rows of a checkpoint: actions as Arrow columns, all but one of them null in each row.


def _add_column(block: FileBlock, kind: pa.StructType) -> pa.StructArray:
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


def _remove_column(block: FileBlock, deleted_at: int) -> pa.StructArray:
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
    return _struct(REMOVE_TYPE, values, rows)


def _file_table(schema: pa.Schema, action: str, column: pa.StructArray) -> pa.Table:
    """Makes checkpoint rows of one action column; the others are null."""
    columns = [column if field.name == action else pa.nulls(len(column), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _struct(kind: pa.StructType, values: dict[str, pa.Array], rows: int) -> pa.StructArray:
    children = [values[field.name] if field.name in values else pa.nulls(rows, field.type) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind))


def _partition_values(block: FileBlock) -> pa.MapArray:
    offsets = pa.array(np.arange(len(block) + 1, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, pa.repeat(BUCKET_COLUMN, len(block)), as_strings(block.hour_text))
