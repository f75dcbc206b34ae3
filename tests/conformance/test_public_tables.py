"""Every public table, opened once, at the versions that are listed for it: all checks of what a reader finds in it."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests import tiers
from tests.conformance import deletion_vectors, files, parity, rows
from tests.conformance.engines import ENGINES
from tests.conformance.public_table import PublicTable
from tests.conformance.sidecars import sidecars
from tests.conformance.tables import FOLDER, covering, names, odd_tables, versions

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.azurite import Azurite

pytestmark = pytest.mark.skipif(
    not names(), reason=f"no expected.json in {FOLDER}; set DELTA_CONFORMANCE_DIR to the folder with the tables"
)

CHECKS: dict[str, Callable[[PublicTable], None]] = {
    "newest files": files.newest_files,
    "older files": files.older_files,
    "batches": files.batches,
    "paths": files.paths,
    "store in memory": files.store_in_memory,
    "rows counted": rows.counting,
    **{f"rows by {engine}": partial(rows.rows_by, engine) for engine in ENGINES},
    "columns one at a time": rows.columns_one_at_a_time,
    "columns without the refused": rows.columns_without_the_refused,
    "deletion vectors by their names": rows.deletion_vectors_by_their_names,
    "deletion vectors in the log": deletion_vectors.vectors_in_the_log,
    "rows that deletion vectors leave": deletion_vectors.rows_left,
    "statistics": files.statistics,
    "sidecars": sidecars,
    "parity with deltalake": parity.parity,
    "history": parity.history,
    "absolute paths": parity.absolute_paths,
}
QUICK = ("newest files", "paths")
# In `make test` these run on tables that have every feature between them, and on an eighth of the others each day.
SAMPLED = (
    "sidecars",
    "columns one at a time",
    "parity with deltalake",
    *(f"rows by {engine}" for engine in ENGINES if engine != "table"),
)


def checks(name: str, tier: str) -> list[str]:
    """The checks of a table that run in a tier."""
    if tier == "check":
        return list(QUICK)
    if tier == "full" or name in covering():
        return list(CHECKS)
    return [check for check in CHECKS if check not in SAMPLED or tiers.has_its_day(f"{name} {check}", tiers.today())]


@pytest.mark.parametrize("name", names() or ("absent",))
def test_a_public_table(name: str, pytestconfig: pytest.Config, subtests: pytest.Subtests) -> None:
    table = PublicTable(name)
    for check in checks(name, pytestconfig.option.tier):
        with subtests.test(check):
            CHECKS[check](table)


@pytest.mark.azurite
@pytest.mark.parametrize("name", odd_tables()[::3] or ("absent",))
def test_azure_gives_the_same_files(name: str, azurite: Azurite) -> None:
    newest = versions(name)[-1]
    address = f"az://{azurite.create_container()}/some folder/{uuid.uuid4().hex}+&%20"
    files.copy_into(open_store(address, azurite.options), newest)
    if newest.facts.get("may_refuse") or newest.facts.get("fails"):
        pytest.skip(f"{name} may be refused, so it says nothing of the store")
    for strategy in ("reverse", "forward"):
        config = LazyScanConfig(version=newest.version, strategy=strategy)
        scanner = LazyDeltaScanner(address, config, storage_options=azurite.options)
        files.assert_facts(newest, list(scanner.scan_files()))
