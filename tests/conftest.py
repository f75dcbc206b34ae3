"""Fixtures that are made once for all tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests import azurite as emulator

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def azurite() -> Iterator[emulator.Azurite]:
    """A running Azure Blob emulator."""
    with emulator.running() as running:
        yield running


@pytest.fixture(autouse=True)
def _no_cloud_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees credentials or options of the machine it runs on."""
    for name in list(os.environ):
        if name.startswith(("AZURE_", "AWS_", "GOOGLE_", "DELTA_SIDECAR_")):
            monkeypatch.delenv(name)
