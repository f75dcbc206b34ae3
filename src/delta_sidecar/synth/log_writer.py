"""Writing a whole log: checkpoint, commits, checksum files and `_last_checkpoint`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from delta_sidecar.log.names import LAST_CHECKPOINT, LOG_FOLDER, checksum_path, commit_path
from delta_sidecar.synth.checkpoints import write_checkpoint
from delta_sidecar.synth.file_series import HOUR_MS
from delta_sidecar.synth.randomness import random_uuid
from delta_sidecar.synth.schemas import metadata_action, protocol_action, table_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from delta_sidecar.synth.log_spec import LogSpec

_BLOCK_ROWS = 65_536
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
        hint, self._table_bytes = write_checkpoint(self._table, log, version, top, timestamp, self._report)
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
