"""The log of a telemetry table: a checkpoint, a tail of small commits, and the truth about both."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from delta_sidecar.errors import OptionError
from delta_sidecar.synth.checkpoint import CheckpointContent, CheckpointLayout, write_checkpoint
from delta_sidecar.synth.commits import transaction_action, transaction_id, write_checksum, write_commit
from delta_sidecar.synth.files import HOUR_MS, FileSeries, hour_name
from delta_sidecar.synth.randomness import random_uuid, shuffled
from delta_sidecar.synth.schema import metadata_action, protocol_action, table_columns

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


CheckpointKind = Literal["v1", "v1-multipart", "v2-json", "v2-parquet"]

_KINDS = ("v1", "v1-multipart", "v2-json", "v2-parquet", None)
_CHECKPOINT_INTERVAL = 10
_BLOCK_ROWS = 65_536
_UNSPREAD = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class TelemetryLog:
    """A telemetry table partitioned by `_event_hour`, as its log shows it.

    Without a checkpoint, version 0 adds all `files` at once.

    Attributes:
        files: Live files in the checkpoint; the tail adds to them.
        files_per_hour: Files that each hour gets. The newest hour is full, the oldest holds the rest.
        start: The oldest hour.
        tail_commits: Commits after the checkpoint.
        adds_per_commit: Files that each of them adds.
        deletes_per_commit: Files that each of them removes from the checkpoint, half of them recent ones.
        checkpoint: The kind of checkpoint, or None.
        parts: Part files of `v1-multipart`, or V2-checkpoint sidecars.
        row_group_rows: Rows in a row group; None for what Spark comes to, 0 or "single" for one row group.
        order: "hash" for the order of Spark's checkpoints, which is none, or "time".
        stats_columns: Columns with statistics.
        json_stats: Whether the checkpoint has statistics as JSON.
        struct_stats: Whether the checkpoint has statistics, and partition values, as native columns too.
        deletion_vectors: The share of files with a deletion vector.
        tombstones: Removed files that the checkpoint still remembers.
        checksum: Whether the checkpoint's version and the tail have checksum files.
        last_checkpoint: Whether there is a `_last_checkpoint`.
        codec: The compression of the checkpoint, and in the data files' names.
        seed: The same seed and arguments write the same bytes.

    Raises:
        OptionError: An argument is out of its range.
    """

    files: int = 1_000_000
    files_per_hour: int = 1_250
    start: dt.datetime = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
    tail_commits: int = 20
    adds_per_commit: int = 50
    deletes_per_commit: int = 0
    checkpoint: CheckpointKind | None = "v1"
    parts: int = 1
    row_group_rows: int | Literal["single"] | None = None
    order: Literal["hash", "time"] = "hash"
    stats_columns: int = 6
    json_stats: bool = True
    struct_stats: bool = False
    deletion_vectors: float = 0
    tombstones: int = 0
    checksum: bool = True
    last_checkpoint: bool = True
    codec: Literal["snappy", "zstd"] = "snappy"
    seed: int = 7

    def __post_init__(self) -> None:
        """Checks the arguments."""
        rules = {
            "checkpoint must be one of 'v1', 'v1-multipart', 'v2-json', 'v2-parquet' and None": (
                self.checkpoint in _KINDS
            ),
            "files, tail_commits, adds_per_commit, tombstones and stats_columns must not be negative": (
                min(self.files, self.tail_commits, self.adds_per_commit, self.tombstones, self.stats_columns) >= 0
            ),
            "the table must have a file": self.files + self.tail_commits * self.adds_per_commit > 0,
            "files_per_hour must be at least 1": self.files_per_hour >= 1,
            "the tail must not delete more files than the checkpoint has": (
                0 <= self.deletes_per_commit * self.tail_commits <= self.files
            ),
            "parts must be at least 1, and at least 2 for 'v1-multipart'": (
                self.parts >= (2 if self.checkpoint == "v1-multipart" else 1)
            ),
            "parts must be 1 for 'v1'": self.parts == 1 or self.checkpoint != "v1",
            "deletion_vectors is a share between 0 and 1": 0 <= self.deletion_vectors <= 1,
            "row_group_rows must be None, 'single' or not negative": (
                self.row_group_rows in {None, "single"} or int(self.row_group_rows or 0) >= 0
            ),
        }
        for rule, holds in rules.items():
            if not holds:
                msg = f"no such telemetry log: {rule}"
                raise OptionError(msg)

    @property
    def checkpoint_version(self) -> int | None:
        """The version of the checkpoint: as if its files had come in commits like the tail's."""
        if self.checkpoint is None:
            return None
        commits = -(-self.files // max(1, self.adds_per_commit))
        return max(1, -(-commits // _CHECKPOINT_INTERVAL)) * _CHECKPOINT_INTERVAL

    @property
    def version(self) -> int:
        """The newest version."""
        return (self.checkpoint_version or 0) + self.tail_commits

    @property
    def live_files(self) -> int:
        """How many files are live at the newest version."""
        return self.files + self.tail_commits * (self.adds_per_commit - self.deletes_per_commit)

    @property
    def oldest_hour(self) -> str:
        """The oldest hour that ever had files, as `yyyyMMddHH`."""
        return hour_name(self.series.start_hour)

    @property
    def newest_hour(self) -> str:
        """The newest hour, as `yyyyMMddHH`."""
        return hour_name(self.series.start_hour + self.series.hours - 1)

    def expected_hour(self, hour: str) -> int:
        """Counts the live files of an hour at the newest version, the tail included.

        Args:
            hour: The hour as `yyyyMMddHH`.
        """
        numbers = self.series.hour_range(_hour_number(hour))
        deleted = np.count_nonzero((self.deleted >= numbers.start) & (self.deleted < numbers.stop))
        return len(numbers) - int(deleted)

    def live_paths(self, hour: str | None = None) -> Iterator[str]:
        """Streams the paths of the live files at the newest version, in the order of their arrival.

        Args:
            hour: One hour as `yyyyMMddHH`; None for all.
        """
        numbers = range(self.series.count) if hour is None else self.series.hour_range(_hour_number(hour))
        for at in range(numbers.start, numbers.stop, _BLOCK_ROWS):
            block = np.arange(at, min(numbers.stop, at + _BLOCK_ROWS), dtype=np.int64)
            yield from self.series.block(np.setdiff1d(block, self.deleted)).paths.to_pylist()

    def write(self, path: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> SynthSummary:
        """Writes the log below a local directory.

        Args:
            path: The table's directory, made if it is not there.
            progress: Called now and then with the files written and the files in all.

        Raises:
            OptionError: The directory has a Delta log.
        """
        log = Path(path) / "_delta_log"
        if log.exists():
            msg = f"{path} has a Delta log already: choose another directory, or remove that one first"
            raise OptionError(msg)
        log.mkdir(parents=True)
        return write_log(self, log, progress)

    @cached_property
    def series(self) -> FileSeries:
        """Every file that the log ever adds, by number."""
        start = self.start if self.start.tzinfo else self.start.replace(tzinfo=dt.UTC)
        return FileSeries(
            count=self.files + self.tail_commits * self.adds_per_commit,
            files_per_hour=self.files_per_hour,
            start_hour=int(start.timestamp()) // 3600,
            columns=table_columns(self.stats_columns)[: self.stats_columns],
            dv_share=self.deletion_vectors,
            codec=self.codec,
            seed=self.seed,
        )

    @cached_property
    def deleted(self) -> NDArray[np.int64]:
        """The numbers of the files that the tail removes."""
        # Half of what a tail deletes is recent, so that a query for the newest hour meets it.
        total = self.deletes_per_commit * self.tail_commits
        window = min(self.files_per_hour, self.files)
        recent = min(total // 2, window)
        if total - recent > self.files - window:
            recent = total - (self.files - window)
        old = self.files - window
        late = old + shuffled(0, recent, window, self.seed + 1) if recent else _UNSPREAD
        early = shuffled(0, total - recent, old, self.seed + 2) if total > recent else _UNSPREAD
        return np.concatenate([late, early])


def _hour_number(hour: str) -> int:
    return int(dt.datetime.strptime(hour, "%Y%m%d%H").replace(tzinfo=dt.UTC).timestamp()) // 3600


# Writing a whole log: checkpoint, commits, checksum files and `_last_checkpoint`.


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
