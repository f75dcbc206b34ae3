"""Tables that several tests of clean-ups start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.maintain.vacuum_tables import SidecarTable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> SidecarTable:
    """A table with metadata sidecars, to be copied."""
    return SidecarTable.make(tmp_path_factory.mktemp("vacuum") / "table")


@pytest.fixture
def made(template: SidecarTable, tmp_path: Path) -> SidecarTable:
    """A table with metadata sidecars, to be changed."""
    return template.copy(tmp_path / "table")
