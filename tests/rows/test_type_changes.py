"""Types that were changed: what the protocol knows is read, and anything else refused by name before the first row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.builder import protocol
from tests.rows.tables import array_type, one_file, read, struct_type, values

from delta_sidecar import DeltaTable, UnsupportedFeatureError

if TYPE_CHECKING:
    from pathlib import Path

WIDENING = protocol(features=["typeWidening"])


def changed(kind: str, *changes: tuple[str, str]) -> dict[str, Any]:
    """Makes a field of a schema whose type was changed."""
    told = [{"fromType": before, "toType": after} for before, after in changes]
    return {"name": "a", "type": kind, "nullable": True, "metadata": {"delta.typeChanges": told}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("byte", "short"),
        ("byte", "long"),
        ("integer", "long"),
        ("float", "double"),
        ("byte", "double"),
        ("integer", "double"),
        ("date", "timestamp_ntz"),
        ("decimal(6,2)", "decimal(10, 4)"),
        ("decimal(6,2)", "decimal(7,3)"),
        ("integer", "decimal(10,0)"),
        ("byte", "decimal(4,1)"),
        ("short", "decimal(6,1)"),
        ("short", "decimal(12,2)"),
        ("long", "decimal(20,0)"),
    ],
)
def test_a_change_that_is_known_is_read(tmp_path: Path, before: str, after: str) -> None:
    fields = struct_type(changed(after, (before, after)), ("id", "long"))
    table = one_file(tmp_path, fields, pa.table({"id": [1]}), protocol=WIDENING)
    assert values(table) == [{"a": None, "id": 1}]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("long", "integer"),
        ("long", "double"),
        ("double", "float"),
        ("integer", "string"),
        ("date", "timestamp"),
        ("timestamp_ntz", "date"),
        ("decimal(6,2)", "decimal(7,4)"),
        ("decimal(6,2)", "decimal(8,1)"),
        ("byte", "decimal(3,1)"),
        ("short", "decimal(4,0)"),
        ("integer", "decimal(9,0)"),
        ("long", "decimal(19,0)"),
        ("integer", "interval"),
    ],
)
def test_a_change_that_is_not_known_is_refused_by_name(tmp_path: Path, before: str, after: str) -> None:
    inner = struct_type(changed("long", ("byte", "short"), (before, after)))
    for fields, name in (
        (inner, "a"),
        (struct_type(("s", inner)), "s.a"),
        (struct_type(("l", array_type(inner))), "a"),
    ):
        table = one_file(tmp_path / name / str(len(fields)), fields, pa.table({"id": [1]}), protocol=WIDENING)
        with pytest.raises(UnsupportedFeatureError) as refusal:
            read(table)
        assert f"(typeWidening): {name} from {before} to {after}. Upgrade" in str(refusal.value)
        assert refusal.value.features == ("typeWidening",)
        assert len(list(DeltaTable(table.root).file_infos())) == 1
