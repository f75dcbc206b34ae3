"""Every test that is written is found."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

TESTS = Path(__file__).parent


def test_no_folder_of_tests_is_passed_over(pytestconfig: pytest.Config) -> None:
    folders = {path.parent for path in TESTS.rglob("test_*.py")} - {TESTS}
    assert {"build", "scan"} <= {folder.name for folder in folders}
    passed_over = pytestconfig.getini("norecursedirs")
    assert [folder for folder in folders if any(fnmatch(folder.name, pattern) for pattern in passed_over)] == []
