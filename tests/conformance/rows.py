"""Checks of the rows of a public table."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance.public_table import rows_of
from tests.conformance.tables import FOLDER

from delta_sidecar import DeltaTable, InvalidMetadataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from tests.conformance.public_table import PublicTable
    from tests.conformance.tables import Expected

# Partition values that were written without a zone, and the zone of the session that the expected rows are from.
WITHOUT_A_ZONE = {"delta/data-reader-partition-values": "America/Los_Angeles"}

PREFIX = "test%dv%prefix-"


def rows_by(engine: str, table: PublicTable) -> None:
    """As many rows as there are, and those that are expected where their values are known."""
    # Engines take what the table gives; for them the oldest and the newest version will do.
    for expected in table.versions if engine == "table" else table.oldest_and_newest:
        is_read = engine == "table" and expected is table.newest
        found = table.rows if is_read else rows_of(expected, engine)
        if found is None:
            continue
        found.validate(full=True)
        assert found.num_rows == expected.facts["rows"], f"version {expected.label}"
        if expected is table.newest:
            assert_expected_rows(table.name, expected, engine, found)


def assert_expected_rows(name: str, newest: Expected, engine: str, found: pa.Table) -> None:
    shipped = sorted((FOLDER / "expected-data" / name.split("/", 1)[1]).glob("*.parquet"))
    if not shipped:
        return
    if name in WITHOUT_A_ZONE:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DELTA_ROWS_TIME_ZONE", WITHOUT_A_ZONE[name])
            in_zone = rows_of(newest, engine)
        assert in_zone is not None
        found = in_zone
    wanted = pa.concat_tables(pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read() for path in shipped)
    assert found.schema.names == wanted.schema.names
    assert as_multiset(found) == as_multiset(wanted)


def columns_one_at_a_time(table: PublicTable) -> None:
    """One column has the values that it has among all."""
    if table.rows is None:
        return
    opened = table.opened(table.newest)
    for column in table.rows.schema.names:
        alone = opened.scan([column]).reader().read_all()
        assert alone.schema == pa.schema([table.rows.schema.field(column)])
        assert as_multiset(alone) == as_multiset(table.rows.select([column])), column
    assert opened.scan([]).reader().read_all().num_rows == table.rows.num_rows


def columns_without_the_refused(table: PublicTable) -> None:
    """What is refused for one column is read without it."""
    facts = table.newest.facts
    if "may_refuse" not in facts or facts.get("rows") is None:
        return
    try:
        opened = table.opened(table.newest)
        fields = opened.snapshot().schema
    except InvalidMetadataError:
        return
    refused = set()
    for field in fields:
        try:
            found = opened.scan([field.name]).reader().read_all()
        except UnsupportedFeatureError as refusal:
            refused.add((refusal.features, field.name in str(refusal)))
        else:
            assert found.num_rows == facts["rows"]
    assert refused <= {(("variantShredding",), True)}
    assert opened.scan([]).reader().read_all().num_rows == facts["rows"]


def deletion_vectors_by_their_names(table: PublicTable) -> None:
    """There are rows once the deletion vectors have the names that the log says."""
    if "rows_if_dv_prefix_stripped" not in table.newest.facts:
        return
    with TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(table.newest.root, root, dirs_exist_ok=True)
        for path in root.glob(f"{PREFIX}*"):
            path.rename(path.with_name(path.name.removeprefix(PREFIX)))
        for expected in table.versions:
            found = DeltaTable(root, expected.version).scan().reader().read_all()
            assert found.num_rows == expected.facts.get("rows_if_dv_prefix_stripped", expected.facts["rows"])


def counting(table: PublicTable) -> None:
    """Rows are counted without being read."""
    # Of a long history, the first version and the last.
    for expected in table.oldest_and_newest:
        rows = expected.facts.get("rows", expected.facts.get("rows_if_dv_prefix_stripped"))
        if rows is not None and "may_refuse" not in expected.facts:
            assert table.opened(expected).count() == rows, expected.label


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
