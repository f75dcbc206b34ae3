"""The log of a telemetry table: a checkpoint, a tail of small commits, and the truth about both."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar.errors import OptionError
from delta_sidecar.log.names import LOG_FOLDER
from delta_sidecar.synth.log_spec import LogSpec
from delta_sidecar.synth.log_writer import LogWriter

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from delta_sidecar.synth.log_writer import SynthSummary

_BLOCK_ROWS = 65_536


@dataclass(frozen=True)
class TelemetryLog(LogSpec):
    """A telemetry table's log, to be written, and the live files that it has; arguments as for `LogSpec`."""

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


def _hour_number(hour: str) -> int:
    return int(dt.datetime.strptime(hour, "%Y%m%d%H").replace(tzinfo=dt.UTC).timestamp()) // 3600
