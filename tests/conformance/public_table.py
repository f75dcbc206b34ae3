"""A public table, opened once for all checks of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tests.conformance.engines import ENGINES
from tests.conformance.tables import ERRORS, REFUSALS, Expected, versions

from delta_sidecar import (
    DeletionVectorError,
    DeltaFile,
    DeltaSidecarError,
    DeltaTable,
    InvalidMetadataError,
    LazyDeltaScanner,
    LazyScanConfig,
    MissingDataFileError,
    UnreadableFileError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.store import Store

ROW_FAILURES: dict[str, type[DeltaSidecarError]] = {
    "missing_data_file": MissingDataFileError,
    "corrupt_data_file": UnreadableFileError,
    "missing_dv_file": DeletionVectorError,
    "no_columns": InvalidMetadataError,
}


@dataclass
class PublicTable:
    """The versions of a table; of the newest one, files and rows are read once."""

    name: str
    _opened: dict[int | None, DeltaTable] = field(default_factory=dict, init=False)

    @cached_property
    def versions(self) -> list[Expected]:
        return versions(self.name)

    @property
    def newest(self) -> Expected:
        return self.versions[-1]

    @property
    def oldest_and_newest(self) -> list[Expected]:
        return [*self.versions[:-1][:1], self.newest]

    @cached_property
    def files(self) -> list[DeltaFile] | None:
        return files_of(self.newest)

    @cached_property
    def rows(self) -> pa.Table | None:
        return rows_of(self.newest, "table")

    def opened(self, expected: Expected) -> DeltaTable:
        if expected.version not in self._opened:
            self._opened[expected.version] = DeltaTable(expected.root, expected.version)
        return self._opened[expected.version]


def scanner(expected: Expected, strategy: str = "reverse", store: Store | None = None) -> LazyDeltaScanner:
    config = LazyScanConfig(version=expected.version, strategy=strategy)
    return LazyDeltaScanner(expected.root, config, store=store)


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
        assert_refused(expected, fails, refusal)
        return None
    if refusal is not None and not (expected.facts.get("may_refuse") and isinstance(refusal, REFUSALS)):
        raise refusal
    return found if refusal is None else None


def assert_refused(expected: Expected, fails: str, refusal: DeltaSidecarError | None) -> None:
    kind, _, feature = fails.partition(":")
    assert type(refusal) is ERRORS[kind], f"version {expected.label}: {refusal}"
    if isinstance(refusal, UnsupportedFeatureError):
        feature = feature or "catalogManaged"
        assert feature in refusal.features
        assert feature in str(refusal)


def rows_of(expected: Expected, engine: str) -> pa.Table | None:
    """Gives the rows; None where they are refused as they must or may be."""
    facts = expected.facts
    try:
        found, failure = ENGINES[engine](expected.root, expected.version), None
    except DeltaSidecarError as error:
        found, failure = None, error
    if failure is None:
        assert not facts.get("fails"), f"version {expected.label} must not open"
        assert not facts.get("rows_fail"), f"version {expected.label} has no rows to give: {facts['rows_fail']}"
        return found
    wanted = ROW_FAILURES.get(facts.get("rows_fail", "")) or ERRORS.get(facts.get("fails", "").partition(":")[0])
    # A file elsewhere is not looked for, whether it is there or not.
    is_allowed = type(failure) is wanted or (wanted is MissingDataFileError and type(failure) is UnreadableFileError)
    if not is_allowed and not (facts.get("may_refuse") and isinstance(failure, REFUSALS)):
        raise failure
    return None
