"""What several tests of rows read, and what holds after each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.own_threads import await_threads, own_threads
from tests.rows.watching import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of some hundred small files, which nobody changes."""
    path: Path = tmp_path_factory.mktemp("small")
    write(path / "table")
    return path / "table"


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """Fails where a thread of this library goes on after the test."""
    before = own_threads()
    yield
    await_threads(before)
