"""Filter tuples on rows: the same rows as deltalake gives, nulls among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar import DeltaTable, PredicateError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": range(5), "x": [1, 2, None, 3, None], "s": ["a", None, "b", "", "a"]})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("filters")
    deltalake.write_deltalake(made, ROWS)
    return made


@pytest.mark.parametrize(
    "filters",
    [
        [("x", "in", [1, 3])],
        [("x", "not in", [1])],
        [("x", "in", [1, None])],
        [("x", "not in", [1, None])],
        [("x", "in", [None])],
        [("x", "not in", [None])],
        [("x", "in", [])],
        [("x", "not in", [])],
        [("x", "in", {1, 2})],
        [("s", "not in", ("a", "b")), ("x", ">", 0)],
        [[("x", "not in", [1, 2]), ("s", "=", "b")], [("id", "==", 0)]],
        [("x", "!=", 1)],
        [],
    ],
)
def test_the_same_rows(root: Path, filters: Any) -> None:  # noqa: ANN401
    expected = deltalake.DeltaTable(root).to_pyarrow_table(filters=filters or None).sort_by("id")
    ours = DeltaTable(root)
    assert ours.to_pyarrow_table(filters=filters).sort_by("id").to_pylist() == expected.to_pylist()
    assert sorted(ours.to_pandas(filters=filters)["id"]) == expected["id"].to_pylist()


@pytest.mark.parametrize("filters", [[("x", "in", "abc")], [("x", "in")], ["x"], [("x", "within", [1])], [[]]])
def test_what_is_no_filter_is_refused(root: Path, filters: Any) -> None:  # noqa: ANN401
    with pytest.raises(PredicateError):
        DeltaTable(root).to_pyarrow_table(filters=filters)


@pytest.mark.parametrize("condition", ["0.1", 0.1, 0.5, "0.5"])
@pytest.mark.parametrize("operator", ["=", "!=", "<", ">="])
def test_a_partition_of_32_bits_is_named_by_its_value(tmp_path: Path, operator: str, condition: object) -> None:
    rows = pa.table({"p": pa.array([0.1, 0.5, 0.75], pa.float32()), "id": [1, 2, 3]})
    deltalake.write_deltalake(tmp_path, rows, partition_by=["p"])
    filters = [("p", operator, condition)]
    with pytest.warns(DeprecationWarning, match="partitions"):
        expected = deltalake.DeltaTable(tmp_path).to_pyarrow_table(partitions=filters)
    ours = DeltaTable(tmp_path)
    assert sorted(ours.to_pyarrow_table(partitions=filters)["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    assert sum("p=" in each for each in ours.file_uris(filters)) == expected.num_rows


@pytest.mark.parametrize("number", [10**400, "1" + "0" * 400])
def test_a_number_beyond_every_float_names_no_partition_of_32_bits(tmp_path: Path, number: object) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"p": pa.array([0.5], pa.float32()), "id": [1]}), partition_by=["p"])
    assert DeltaTable(tmp_path).file_uris([("p", "=", number)]) == []
