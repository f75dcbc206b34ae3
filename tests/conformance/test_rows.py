"""Every public table, at every version that is listed for it: the right rows, or the right refusal, by every engine."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance.engines import ENGINES
from tests.conformance.tables import ERRORS, FOLDER, REFUSALS, Expected, names, versions

from delta_sidecar import (
    DeletionVectorError,
    DeltaSidecarError,
    DeltaTable,
    InvalidMetadataError,
    MissingDataFileError,
    UnreadableFileError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Engine = Callable[[Path, int | None], pa.Table]

pytestmark = pytest.mark.skipif(
    not names(), reason=f"no expected.json in {FOLDER}; set DELTA_CONFORMANCE_DIR to the folder with the tables"
)
TABLES = names() or ("absent",)

# Partition values that were written without a zone, and the zone of the session that the expected rows are from.
WITHOUT_A_ZONE = {"delta/data-reader-partition-values": "America/Los_Angeles"}

PREFIX = "test%dv%prefix-"

ROW_FAILURES: dict[str, type[DeltaSidecarError]] = {
    "missing_data_file": MissingDataFileError,
    "corrupt_data_file": UnreadableFileError,
    "missing_dv_file": DeletionVectorError,
    "no_columns": InvalidMetadataError,
}


def rows_of(expected: Expected, read: Engine) -> pa.Table | None:
    """Gives the rows; None where they are refused as they must or may be."""
    facts = expected.facts
    try:
        found, failure = read(expected.root, expected.version), None
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


def expected_folder(name: str) -> Path:
    return FOLDER / "expected-data" / name.split("/", 1)[1]


def with_content() -> list[str]:
    return [name for name in names() if any(expected_folder(name).glob("*.parquet"))] or ["absent"]


def having(fact: str) -> list[str]:
    """Names of tables of which something is said, and that have rows."""
    return [name for name in names() if fact in (facts := versions(name)[-1].facts) and _has_rows(facts)] or ["absent"]


def _has_rows(facts: Mapping[str, Any]) -> bool:
    return facts.get("rows") is not None or "rows_if_dv_prefix_stripped" in facts


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", TABLES)
def test_as_many_rows_as_there_are(name: str, engine: str) -> None:
    listed = versions(name)
    # Engines take what the table gives; for them the oldest and the newest version will do.
    for expected in listed if engine == "table" else [*listed[:1], *listed[1:][-1:]]:
        found = rows_of(expected, ENGINES[engine])
        if found is not None:
            found.validate(full=True)
            assert found.num_rows == expected.facts["rows"], f"version {expected.label}"


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", with_content())
def test_the_rows_that_are_expected(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in WITHOUT_A_ZONE:
        monkeypatch.setenv("DELTA_ROWS_TIME_ZONE", WITHOUT_A_ZONE[name])
    newest = versions(name)[-1]
    found = rows_of(newest, ENGINES[engine])
    if found is None:
        pytest.skip(f"{name} has no rows to give")
    wanted = pa.concat_tables(
        pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
        for path in sorted(expected_folder(name).glob("*.parquet"))
    )
    assert found.schema.names == wanted.schema.names
    assert as_multiset(found) == as_multiset(wanted)


@pytest.mark.full
@pytest.mark.parametrize("name", TABLES)
def test_one_column_has_the_values_that_it_has_among_all(name: str) -> None:
    newest = versions(name)[-1]
    found = rows_of(newest, ENGINES["table"])
    if found is None:
        pytest.skip(f"{name} has no rows to give")
    for column in found.schema.names:
        alone = DeltaTable(newest.root, newest.version).scan([column]).reader().read_all()
        assert alone.schema == pa.schema([found.schema.field(column)])
        assert as_multiset(alone) == as_multiset(found.select([column])), column
    assert DeltaTable(newest.root, newest.version).scan([]).reader().read_all().num_rows == found.num_rows


@pytest.mark.parametrize("name", having("rows_if_dv_prefix_stripped"))
def test_rows_once_the_deletion_vectors_have_their_names(name: str, tmp_path: Path) -> None:
    for expected in versions(name):
        if not (tmp_path / "_delta_log").exists():
            shutil.copytree(expected.root, tmp_path, dirs_exist_ok=True)
            for path in tmp_path.glob(f"{PREFIX}*"):
                path.rename(path.with_name(path.name.removeprefix(PREFIX)))
        found = DeltaTable(tmp_path, expected.version).scan().reader().read_all()
        assert found.num_rows == expected.facts.get("rows_if_dv_prefix_stripped", expected.facts["rows"])


@pytest.mark.parametrize("name", having("may_refuse"))
def test_what_is_refused_for_one_column_is_read_without_it(name: str) -> None:
    newest = versions(name)[-1]
    try:
        table = DeltaTable(newest.root, newest.version)
        fields = table.snapshot().schema
    except InvalidMetadataError:
        pytest.skip(f"{name} does not open")
    refused = set()
    for field in fields:
        try:
            found = table.scan([field.name]).reader().read_all()
        except UnsupportedFeatureError as refusal:
            refused.add((refusal.features, field.name in str(refusal)))
        else:
            assert found.num_rows == newest.facts["rows"]
    assert refused <= {(("variantShredding",), True)}
    assert table.scan([]).reader().read_all().num_rows == newest.facts["rows"]


def as_multiset(table: pa.Table) -> Counter[str]:
    """Gives rows as texts to be compared, whatever order they come in and however their types are laid out."""
    columns = [
        [repr(as_value(value)) for value in column.cast(comparable_type(column.type)).to_pylist()]
        for column in table.columns
    ]
    return Counter(map("|".join, zip(*columns, strict=True)))


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """Gives the type that values are compared in: moments as numbers, of which Python knows only some years."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.int64() if pa.types.is_timestamp(kind) else pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, comparable_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(comparable_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(comparable_type(kind.key_type), comparable_type(kind.item_type))
    return kind


def as_value(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {name: as_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        # The entries of a map are pairs, in no particular order.
        if value and all(isinstance(inner, tuple) for inner in value):
            return sorted((as_value(inner) for inner in value), key=repr)
        return [as_value(inner) for inner in value]
    return tuple(map(as_value, value)) if isinstance(value, tuple) else value
