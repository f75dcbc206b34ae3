"""The way of the usual question through the code, so that a module or a room that is new on it is seen in review."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import delta_sidecar
from delta_sidecar import LazyDeltaScanner, LazyScanConfig, build_sidecar
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from types import FrameType

PACKAGE = str(Path(delta_sidecar.__file__).parent)
# Reading from the local disk is part of it, and row groups are decoded by other threads while the tail is parsed.
MOST_MODULES, MOST_ENTRIES = 52, 81


def test_the_newest_hour_takes_a_short_way(tmp_path: Path) -> None:
    log = TelemetryLog(files=20_000, tail_commits=20)
    log.write(tmp_path)
    build_sidecar(tmp_path, version=log.checkpoint_version)
    # What is imported and made on first use comes first.
    hour, files = log.newest_hour, log.expected_hour(log.newest_hour)
    assert files_of(tmp_path, hour) == files
    walk = Walk()
    sys.setprofile(walk.follow)
    try:
        files_of(tmp_path, hour)
    finally:
        sys.setprofile(None)
    assert len(walk.modules) <= MOST_MODULES, " ".join(sorted(walk.modules))
    assert len(walk.rooms) <= MOST_ENTRIES, " ".join(walk.rooms)


def files_of(table: Path, hour: str) -> int:
    scanner = LazyDeltaScanner(table, LazyScanConfig(predicate=f"_event_hour = '{hour}'"))
    return sum(batch.num_rows for batch in scanner.scan_batches())


class Walk:
    """The modules that the main thread goes through, and the rooms as it enters them: by the first call of each
    function, so that loops do not count."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.rooms: list[str] = []
        self._seen: set[tuple[str, str]] = set()

    def follow(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        place = code.co_filename, code.co_qualname
        is_ours = code.co_filename.startswith(PACKAGE) and threading.current_thread() is threading.main_thread()
        if event != "call" or not is_ours or place in self._seen:
            return
        self._seen.add(place)
        module = code.co_filename.removeprefix(PACKAGE).strip("/\\").removesuffix(".py")
        self.modules.add(module)
        room = module.split("/")[0]
        if not self.rooms or self.rooms[-1] != room:
            self.rooms.append(room)
