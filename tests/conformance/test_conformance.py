"""Every public table, at every version that is listed for it: the right files, or the right refusal."""

from __future__ import annotations

import json
import uuid
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from tests.conformance.tables import ERRORS, FOLDER, REFUSALS, Expected, comparable, facts_of, names, versions

from delta_sidecar import DeltaFile, DeltaSidecarError, LazyDeltaScanner, LazyScanConfig, UnsupportedFeatureError
from delta_sidecar.scan.files import delta_files
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from tests.azurite import Azurite

    from delta_sidecar.store import Store

pytestmark = pytest.mark.skipif(
    not names(), reason=f"no expected.json in {FOLDER}; set DELTA_CONFORMANCE_DIR to the folder with the tables"
)
TABLES = names() or ("absent",)


def scanner(expected: Expected, strategy: str = "reverse", store: Store | None = None) -> LazyDeltaScanner:
    config = LazyScanConfig(version=expected.version, strategy=strategy)
    return LazyDeltaScanner(expected.root, config, store=store)


@cache
def newest_files(name: str) -> list[DeltaFile] | None:
    """Gives the files of the newest version."""
    return files_of(versions(name)[-1])


def files_of(expected: Expected, strategy: str = "reverse", store: Store | None = None) -> list[DeltaFile] | None:
    """Gives the files; None where the table is refused as it must or may be."""
    refusal: DeltaSidecarError | None = None
    found: list[DeltaFile] = []
    try:
        found = list(scanner(expected, strategy, store).scan_files())
    except DeltaSidecarError as error:
        refusal = error
    fails = expected.facts.get("fails")
    if fails is not None:
        check_refusal(expected, fails, refusal)
        return None
    if refusal is not None and not (expected.facts.get("may_refuse") and isinstance(refusal, REFUSALS)):
        raise refusal
    return found if refusal is None else None


def check_refusal(expected: Expected, fails: str, refusal: DeltaSidecarError | None) -> None:
    kind, _, feature = fails.partition(":")
    assert type(refusal) is ERRORS[kind], f"version {expected.label}: {refusal}"
    if isinstance(refusal, UnsupportedFeatureError):
        feature = feature or "catalogManaged"
        assert feature in refusal.features
        assert feature in str(refusal)


def check_facts(expected: Expected, found: list[DeltaFile]) -> None:
    facts = {name: value for name, value in facts_of(found).items() if expected.facts.get(name) is not None}
    assert facts == {name: expected.facts[name] for name in facts}, f"version {expected.label}"
    assert facts.keys() >= {"files", "dvs", "digest"}


@pytest.mark.parametrize("name", TABLES)
def test_files_statistics_and_refusals(name: str) -> None:
    *older, newest = versions(name)
    for expected in (*older, newest):
        reverse = newest_files(name) if expected is newest else files_of(expected)
        forward = files_of(expected, "forward")
        assert (reverse is None) == (forward is None)
        if reverse is None or forward is None:
            continue
        check_facts(expected, reverse)
        check_facts(expected, forward)
        assert sorted(map(comparable, reverse)) == sorted(map(comparable, forward)), f"version {expected.label}"


@pytest.mark.full
@pytest.mark.parametrize("name", TABLES)
def test_batches_hold_the_same_files(name: str) -> None:
    newest = versions(name)[-1]
    found = newest_files(name)
    if found is None:
        with pytest.raises(DeltaSidecarError):
            scanner(newest).scan_batches().read_all()
        return
    reader = scanner(newest).scan_batches()
    assert [file for batch in reader for file in delta_files(batch)] == found
    snapshot = scanner(newest).snapshot()
    assert newest.version in (None, snapshot.version)
    for file in found:
        assert file.partition_values.keys() == set(snapshot.partition_columns)
        assert file.stats is None or isinstance(json.loads(file.stats), dict)


@pytest.mark.parametrize("name", TABLES)
def test_decoded_paths_name_the_files_on_disk(name: str) -> None:
    """A relative path, once decoded, is a path of the folder: some tables lack their data files, none may differ."""
    newest = versions(name)[-1]
    for file in newest_files(name) or []:
        assert file.path == unquote(file.raw_path)
        if not file.raw_path.startswith("/") and ":" not in file.raw_path and "%" in file.raw_path:
            exists = (newest.root / file.path).exists()
            assert exists or not (newest.root / file.raw_path).exists()


# --- other stores ----------------------------------------------------------------------------------------------


def odd_tables() -> list[str]:
    """Names of tables whose log or data files have names that a careless store would garble."""
    found = []
    for name in names():
        root = versions(name)[0].root
        listed = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        if any(letter in path for path in [*listed, root.name] for letter in "% +&#ä") or "sidecars" in name:
            found.append(name)
    return found[:: max(1, len(found) // 12)] or ["absent"]


def copy_into(store: Store, expected: Expected) -> Store:
    for path in sorted((expected.root / "_delta_log").rglob("*")):
        if path.is_file():
            store.put(path.relative_to(expected.root).as_posix(), path.read_bytes())
    return store


@pytest.mark.parametrize("name", odd_tables())
def test_a_store_in_memory_answers_alike(name: str) -> None:
    newest = versions(name)[-1]
    store = copy_into(open_store(f"memory://{uuid.uuid4().hex}/a b%20c/ü+&"), newest)
    for strategy in ("reverse", "forward"):
        found = files_of(newest, strategy, store)
        if found is not None:
            check_facts(newest, found)


@pytest.mark.azurite
@pytest.mark.parametrize("name", odd_tables()[::3])
def test_azure_answers_alike(name: str, azurite: Azurite) -> None:
    newest = versions(name)[-1]
    address = f"az://{azurite.create_container()}/some folder/{uuid.uuid4().hex}+&%20"
    copy_into(open_store(address, azurite.options), newest)
    if newest.facts.get("may_refuse") or newest.facts.get("fails"):
        pytest.skip(f"{name} may be refused, so it says nothing of the store")
    for strategy in ("reverse", "forward"):
        config = LazyScanConfig(version=newest.version, strategy=strategy)
        check_facts(newest, list(LazyDeltaScanner(address, config, storage_options=azurite.options).scan_files()))
