"""Tables that several tests read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.scan.large_tables import append, large_table
from tests.scan.reading import store_of

from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from tests.builder import TableBuilder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    """A large checkpoint at version 0 and 30 commits of ten files after it, without a checksum file."""
    table = large_table(tmp_path_factory.mktemp("large"))
    append(table, 30, 10)
    return table


@pytest.fixture
def recording(large: TableBuilder) -> RecordingStore:
    return RecordingStore(store_of(large))
