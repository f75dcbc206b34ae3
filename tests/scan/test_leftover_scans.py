"""A scan that nobody ends must not keep its process from ending."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 60

START = (
    "import sys\n"
    "from delta_sidecar import LazyDeltaScanner, LazyScanConfig\n"
    "scanner = LazyDeltaScanner(sys.argv[1], LazyScanConfig(strategy='forward'))\n"
)
WAYS = {
    "an iterator left at module level": "files = scanner.scan_files()\nnext(files)\n",
    "a reader left at module level": "reader = scanner.scan_batches()\nreader.read_next_batch()\n",
    "a reader that was closed": "reader = scanner.scan_batches()\nreader.read_next_batch()\nreader.close()\n",
    "a reader in a with block": "with scanner.scan_batches() as reader:\n    for batch in reader:\n        break\n",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("leftover")
    TelemetryLog(files=100_000, row_group_rows=5_000).write(path)
    return path


@pytest.mark.full
@pytest.mark.parametrize("way", list(WAYS))
def test_a_process_ends_with_a_scan_left_over(table: Path, way: str) -> None:
    program = START + WAYS[way] + "print('end')\n"
    done = subprocess.run(
        [sys.executable, "-c", program, table], check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
