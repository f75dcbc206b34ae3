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
