"""Tables for the tests of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.cli.tables import TELEMETRY, write_small

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builder import TableBuilder


@pytest.fixture(scope="session")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a checkpoint and a tail."""
    path = tmp_path_factory.mktemp("cli") / "telemetry"
    TELEMETRY.write(path)
    return path


@pytest.fixture
def small(tmp_path: Path) -> TableBuilder:
    """A table of three files."""
    return write_small(tmp_path / "small")
