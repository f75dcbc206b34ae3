"""Writing a whole log: checkpoint, commits, checksum files and `_last_checkpoint`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from delta_sidecar.synth.checkpoint import CheckpointContent, CheckpointLayout, write_checkpoint
from delta_sidecar.synth.commits import transaction_action, transaction_id, write_checksum, write_commit
from delta_sidecar.synth.files import HOUR_MS
from delta_sidecar.synth.randomness import random_uuid
from delta_sidecar.synth.schema import metadata_action, protocol_action, table_columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from delta_sidecar.synth.telemetry import TelemetryLog

# What Spark's row groups of 128 MB come to with the default columns.
_SPARK_ROW_GROUP_ROWS = 75_000


@dataclass(frozen=True, slots=True)
class SynthSummary:
    """What `TelemetryLog.write` wrote.

    Attributes:
        path: The table's directory.
        version: The newest version.
        checkpoint_version: The version of the checkpoint; None without one.
        files: How many files are live at the newest version.
        oldest_hour: The oldest hour with files, as `yyyyMMddHH`.
        newest_hour: The newest hour with files, as `yyyyMMddHH`.
        bytes: The size of the whole log.
        checkpoint_bytes: The size of the checkpoint, V2-checkpoint sidecars included.
        table_bytes: The size that the live data files would have.
    """

    path: str
    version: int
    checkpoint_version: int | None
    files: int
    oldest_hour: str
    newest_hour: str
    bytes: int
    checkpoint_bytes: int
    table_bytes: int


def write_log(log: TelemetryLog, folder: Path, progress: Callable[[int, int], None] | None = None) -> SynthSummary:
    """Writes a log into an empty `_delta_log` directory.

    Args:
        log: What to write.
        folder: The directory.
        progress: Called now and then with the files written and the files in all.
    """
    return _LogWriter(log, folder, progress).write()


class _LogWriter:
    def __init__(self, log: TelemetryLog, folder: Path, progress: Callable[[int, int], None] | None) -> None:
        self._log = log
        self._folder = folder
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
        log, base = self._log, self._log.checkpoint_version
        checkpoint_bytes = 0
        if base is None:
            first = [{"protocol": self._protocol}, {"metaData": self._metadata}]
            self._write_commit(0, range(log.files), first=first)
        else:
            checkpoint_bytes = self._write_base(base)
        for number in range(log.tail_commits):
            start = log.files + number * log.adds_per_commit
            added = range(start, start + log.adds_per_commit)
            self._write_commit((base or 0) + 1 + number, added, removed=log.deleted[number :: log.tail_commits])
        return SynthSummary(
            path=str(self._folder.parent),
            version=log.version,
            checkpoint_version=base,
            files=self._files,
            oldest_hour=log.oldest_hour,
            newest_hour=log.newest_hour,
            bytes=sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file()),
            checkpoint_bytes=checkpoint_bytes,
            table_bytes=self._table_bytes,
        )

    def _write_base(self, version: int) -> int:
        log = self._log
        # The checkpoint's own commit is there as well, as in a log that has just been cleaned up.
        timestamp = self._timestamp(version, range(log.files))
        added = range(max(0, log.files - log.adds_per_commit), log.files)
        transaction = transaction_action(log.series, version, timestamp)
        write_commit(
            self._folder,
            version,
            log.series,
            added=added,
            removed=np.zeros(0, dtype=np.int64),
            first=[{"txn": transaction}],
            timestamp=timestamp,
            report=lambda _: None,
        )
        rows = _SPARK_ROW_GROUP_ROWS if log.row_group_rows is None else log.row_group_rows
        layout = CheckpointLayout(
            kind=str(log.checkpoint),
            parts=log.parts,
            row_group_rows=0 if rows == "single" else rows,
            by_time=log.order == "time",
            json_stats=log.json_stats,
            struct_stats=log.struct_stats,
            codec=log.codec,
        )
        content = CheckpointContent(
            version=version,
            series=log.series,
            files=log.files,
            tombstones=log.tombstones,
            top=[{"protocol": self._protocol}, {"metaData": self._metadata}, {"txn": transaction}],
            modified=timestamp,
        )
        written = write_checkpoint(self._folder, content, layout, self._report)
        if log.last_checkpoint:
            text = json.dumps(written.last_checkpoint, separators=(",", ":"))
            (self._folder / "_last_checkpoint").write_text(text, encoding="utf-8")
        self._files, self._table_bytes = log.files, written.table_bytes
        self._write_checksum(version, timestamp)
        return written.size_in_bytes

    def _write_commit(
        self,
        version: int,
        added: range,
        *,
        first: list[dict[str, Any]] | None = None,
        removed: np.ndarray[Any, np.dtype[np.int64]] | None = None,
    ) -> None:
        timestamp = self._timestamp(version, added)
        gone = np.zeros(0, dtype=np.int64) if removed is None else removed
        self._table_bytes += write_commit(
            self._folder,
            version,
            self._log.series,
            added=added,
            removed=gone,
            first=[*(first or []), {"txn": transaction_action(self._log.series, version, timestamp)}],
            timestamp=timestamp,
            report=self._report,
        )
        self._files += len(added) - len(gone)
        self._write_checksum(version, timestamp)

    def _write_checksum(self, version: int, timestamp: int) -> None:
        if not self._log.checksum:
            return
        write_checksum(
            self._folder,
            version,
            files=self._files,
            table_bytes=self._table_bytes,
            metadata=self._metadata,
            protocol=self._protocol,
            transaction=transaction_action(self._log.series, version, timestamp),
            txn_id=transaction_id(self._log.series, version),
        )

    def _timestamp(self, version: int, added: range) -> int:
        if not added:
            return self._log.series.start_hour * HOUR_MS + version
        newest = self._log.series.block(np.array([added.stop - 1], dtype=np.int64))
        return int(newest.modified[0]) + 1_000

    def _report(self, files: int) -> None:
        self._done += files
        if self._progress is not None:
            self._progress(self._done, self._log.series.count)
