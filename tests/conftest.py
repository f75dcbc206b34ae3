"""Fixtures that are made once for all tests."""

from __future__ import annotations

import gc
import os
from concurrent.futures import wait
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tests import azurite as emulator
from tests import moto_server, tiers
from tests.distribution import FilesTogether, long_ones_first
from tests.own_threads import leave_out_running_threads

from delta_sidecar.execute import LocalExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from xdist.remote import Producer

    from delta_sidecar.plan import Ahead, ListFiles

TESTS = Path(__file__).parent

# Not test files themselves, yet what they assert is the test.
pytest.register_assert_rewrite("tests.conformance", "tests.table.comparing")

# No test asserts seconds: the first example of a property may well take longer than the others.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the choice of a tier; whoever names files gets all that is in them."""
    parser.addoption("--tier", choices=tiers.TIERS, default="full", help="how much to run (tests/tiers.py)")


def pytest_configure() -> None:
    """Decides on the day before other processes are started."""
    tiers.today()


def pytest_report_header(config: pytest.Config) -> str:
    """Tells what is run, and how to run the same again."""
    return f"tier: {config.option.tier}, {tiers.DAY}={tiers.today()}"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite runs in two processes, anything else in this one."""
    return 2 if config.args == config.getini("testpaths") else 0


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesTogether:
    """Tells who runs what, where there are several processes."""
    return FilesTogether(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the first tier, looks only where its tests are: to import the others would take longer than to run it."""
    if config.option.tier != "check" or not collection_path.is_relative_to(TESTS):
        return None
    return None if tiers.has_checks(collection_path) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the tests of the tier, those that take long first, so that no process has one left at the end."""
    tiers.mark(items)
    left_out = [item for item in items if not tiers.runs(item, config.option.tier, tiers.today())]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        out = set(left_out)
        items[:] = [item for item in items if item not in out]
    long_ones_first(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Tells whose threads are still running, before the first fixture is made."""
    leave_out_running_threads()


def pytest_collection_finish() -> None:
    """Spares the garbage collector what is there before the first test: it is a lot, and stays until the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Gives it back, so that libraries find nothing left over when the process ends."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def azurite() -> Iterator[emulator.Azurite]:
    """A running Azure Blob emulator."""
    with emulator.running() as running:
        yield running


@pytest.fixture(scope="session")
def secure_azurite() -> Iterator[emulator.Azurite]:
    """A running Azure Blob emulator that is reached by https, and takes tokens."""
    with emulator.running(secure=True) as running:
        yield running


@pytest.fixture(scope="session")
def moto() -> Iterator[moto_server.Moto]:
    """A running S3 service."""
    with moto_server.running() as running:
        yield running


@pytest.fixture(scope="module")
def answered_ahead() -> Iterator[None]:
    """Has every listing end after what was asked for beside it, so that all of that is counted.

    What nobody takes would otherwise be dropped if it has not begun, and be counted late if it has.
    """
    list_files = LocalExecutor._list_files

    def list_patiently(executor: LocalExecutor, plan: ListFiles, ahead: Ahead) -> Iterator[pa.RecordBatch]:
        for page in list_files(executor, plan, ahead):
            asked = [pending.asked for pending in executor._fetcher._ahead.values() if pending.asked]
            # What is near is read when it is taken.
            wait([each.future for each in asked if each.future])
            yield page

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalExecutor, "_list_files", list_patiently)
        yield


@pytest.fixture(autouse=True)
def _no_cloud_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees credentials or options of the machine it runs on, nor asks it for its identity."""
    for name in set(os.environ) - {"DELTA_CONFORMANCE_DIR"}:
        if name.startswith(("AZURE_", "AWS_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_", "DELTA_")):
            monkeypatch.delenv(name)
    # Nobody listens on the discard port.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"):
        monkeypatch.setenv(name, "127.0.0.1:9")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees how wide the terminal is that it was started from."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LINES", raising=False)
