"""Texts with a collation: they are read, and a predicate that would compare them byte by byte is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.rows.tables import one_file, struct_type, values

from delta_sidecar import DeltaTable, LazyDeltaScanner, LazyScanConfig, UnsupportedFeatureError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"a": "x", "b": "x", "s": {"c": "x"}, "p": "x"}, {"a": "X", "b": "X", "s": {"c": "X"}, "p": "x"}]


def text(name: str, collation: str | None = None, under: str | None = None) -> dict[str, Any]:
    """Makes a field of texts."""
    metadata = {} if collation is None else {"__COLLATIONS": {under or name: collation}}
    return {"name": name, "type": "string", "nullable": True, "metadata": metadata}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    fields = struct_type(
        text("a", "spark.UTF8_LCASE", "old name"),
        text("b", "spark.UTF8_BINARY"),
        ("s", struct_type(text("c", "icu.UNICODE"))),
        text("p", "spark.UTF8_LCASE"),
    )
    content = pa.Table.from_pylist([{name: value for name, value in row.items() if name != "p"} for row in ROWS])
    one_file(tmp_path, fields, content, partition_values={"p": "x"})
    return DeltaTable(tmp_path)


def test_texts_are_read_as_they_are(table: DeltaTable, tmp_path: Path) -> None:
    assert values(tmp_path) == ROWS
    assert table.count() == 2


@pytest.mark.parametrize(
    ("predicate", "column", "collation"),
    [
        ("a = 'x'", "a", "spark.UTF8_LCASE"),
        ("b = 'x' AND NOT (a < 'y' OR b IS NULL)", "a", "spark.UTF8_LCASE"),
        ("s.c IN ('x', 'y')", "s.c", "icu.UNICODE"),
        ("a LIKE 'x%'", "a", "spark.UTF8_LCASE"),
        ("p = 'X'", "p", "spark.UTF8_LCASE"),
    ],
)
def test_a_predicate_that_compares_them_is_refused_by_name(
    table: DeltaTable, predicate: str, column: str, collation: str
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"column {column} has the collation {collation}") as refusal:
        table.scan(predicate=predicate).read_all()
    assert refusal.value.features == ("collations",)


def test_what_compares_nothing_is_answered(table: DeltaTable) -> None:
    assert table.scan(predicate="a IS NOT NULL AND s.c IS NOT NULL AND p IS NOT NULL").read_all().num_rows == 2
    assert table.scan(predicate="b = 'x'").read_all().to_pylist() == ROWS[:1]


def test_the_expressions_of_arrow_mean_what_arrow_means(table: DeltaTable) -> None:
    assert table.to_pyarrow_dataset().to_table(filter=pc.field("a") == "x").to_pylist() == ROWS[:1]


def test_files_are_not_chosen_by_them_either(table: DeltaTable) -> None:
    for ask in (table.file_uris, table.partitions):
        with pytest.raises(UnsupportedFeatureError, match=r"column p has the collation spark\.UTF8_LCASE"):
            ask([("p", "=", "X")])
        assert len(ask()) == 1


def test_a_collation_in_the_name_of_a_type_counts_too(tmp_path: Path) -> None:
    one_file(tmp_path, {"a": "string collate UTF8_LCASE"}, pa.table({"a": ["x"]}))
    table = DeltaTable(tmp_path)
    assert table.scan().read_all().to_pylist() == [{"a": "x"}]
    assert len(list(table.file_infos("a = 'X'"))) == 1
    with pytest.raises(UnsupportedFeatureError, match="column a has the collation UTF8_LCASE"):
        table.scan(predicate="a = 'X'").read_all()


def test_no_file_is_left_out(tmp_path: Path, table: DeltaTable) -> None:
    assert table.count() == 2
    for predicate in ("a = 'zzz'", "p = 'X'", "s.c < 'a'"):
        assert len(list(LazyDeltaScanner(tmp_path, LazyScanConfig(predicate=predicate)).scan_files())) == 1
