"""The log of a telemetry table: a checkpoint, a tail of small commits, and the truth about both."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from delta_sidecar.errors import OptionError
from delta_sidecar.synth.file_series import FileSeries, hour_name
from delta_sidecar.synth.randomness import shuffled
from delta_sidecar.synth.schemas import table_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


CheckpointKind = Literal["v1", "v1-multipart", "v2-json", "v2-parquet"]

_BLOCK_ROWS = 65_536
_CHECKPOINT_INTERVAL = 10
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class LogSpec:
    """The log of a telemetry table partitioned by `_event_hour`, and the live files that it has.

    Without a checkpoint, version 0 adds all `files` at once.

    Raises:
        OptionError: An argument is out of its range.
    """

    files: int = 1_000_000  # live files in the checkpoint; the tail adds to them
    files_per_hour: int = 1_250  # Files that each hour gets. The newest hour is full, the oldest holds the rest.
    start: dt.datetime = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)  # the oldest hour
    tail_commits: int = 20  # commits after the checkpoint
    adds_per_commit: int = 50  # files that each of them adds
    deletes_per_commit: int = 0  # files that each of them removes from the checkpoint, half of them recent ones
    checkpoint: CheckpointKind | None = "v1"  # the kind of checkpoint, or None
    parts: int = 1  # part files of `v1-multipart`, or V2-checkpoint sidecars
    # Rows in a row group; None for what Spark comes to, 0 or "single" for one row group.
    row_group_rows: int | Literal["single"] | None = None
    order: Literal["hash", "time"] = "hash"  # "hash" for the order of Spark's checkpoints, which is none, or "time"
    stats_columns: int = 6  # columns with statistics
    json_stats: bool = True  # whether the checkpoint has statistics as JSON
    struct_stats: bool = False  # whether the checkpoint has statistics, and partition values, as native columns too
    deletion_vectors: float = 0  # the share of files with a deletion vector
    tombstones: int = 0  # removed files that the checkpoint still remembers
    checksum: bool = True  # whether the checkpoint's version and the tail have checksum files
    last_checkpoint: bool = True  # whether there is a `_last_checkpoint`
    codec: Literal["snappy", "zstd"] = "snappy"  # the compression of the checkpoint, and in the data files' names
    seed: int = 7  # the same seed and arguments write the same bytes

    def __post_init__(self) -> None:
        rules = {
            "checkpoint must be one of 'v1', 'v1-multipart', 'v2-json', 'v2-parquet' and None": (
                self.checkpoint in {*get_args(CheckpointKind), None}
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

    def expected_hour(self, hour: str) -> int:
        """Counts the live files of an hour, as `yyyyMMddHH`, at the newest version, the tail included."""
        numbers = self.series.hour_range(_hour_number(hour))
        deleted = np.count_nonzero((self.deleted >= numbers.start) & (self.deleted < numbers.stop))
        return len(numbers) - int(deleted)

    def live_paths(self, hour: str | None = None) -> Iterator[str]:
        """Streams the paths of the live files of one hour or all, at the newest version, in the order of arrival."""
        numbers = range(self.series.count) if hour is None else self.series.hour_range(_hour_number(hour))
        for at in range(numbers.start, numbers.stop, _BLOCK_ROWS):
            block = np.arange(at, min(numbers.stop, at + _BLOCK_ROWS), dtype=np.int64)
            yield from self.series.block(np.setdiff1d(block, self.deleted)).paths.to_pylist()

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
        """The number of files that are live at the newest version."""
        return self.files + self.tail_commits * (self.adds_per_commit - self.deletes_per_commit)

    @property
    def oldest_hour(self) -> str:
        """The oldest hour that ever had files, as `yyyyMMddHH`."""
        return hour_name(self.series.start_hour)

    @property
    def newest_hour(self) -> str:
        """The newest hour, as `yyyyMMddHH`."""
        return hour_name(self.series.start_hour + self.series.hours - 1)

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
        late = old + shuffled(0, recent, window, self.seed + 1) if recent else _NONE
        early = shuffled(0, total - recent, old, self.seed + 2) if total > recent else _NONE
        return np.concatenate([late, early])


def _hour_number(hour: str) -> int:
    return int(dt.datetime.strptime(hour, "%Y%m%d%H").replace(tzinfo=dt.UTC).timestamp()) // 3600
