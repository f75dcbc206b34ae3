"""Metadata sidecars of tables with odd names, types, texts and histories: they are used, and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add, metadata
from tests.scan.paged import HOUR, hours, pages
from tests.scan.reading import keys_of, scanner
from tests.scan.sidecar_layouts import LAYOUTS, laid_out
from tests.scan.sidecar_tables import heard, is_same, manifest_of, spoil_piece, with_sidecar, without_sidecars
from tests.scan.test_forged_tokens import forged

from delta_sidecar import LazyScanConfig, PageTokenError
from delta_sidecar.build.publish import Levels

if TYPE_CHECKING:
    from pathlib import Path


def partitioned(root: Path, column: str, kind: str = "string", listed: str | None = None) -> TableBuilder:
    """Gives a table with one partition column, which metaData may list under another name."""
    table = TableBuilder(root)
    name = listed or column
    values = [None if kind == "void" else f"d{number % 3}" for number in range(8)]
    files = [add(f"f{at}", rows=[{"id": at}], partition_values={name: value}) for at, value in enumerate(values)]
    table.commit([metadata({"id": "long", column: kind}, [name]), *files])
    return table


@pytest.mark.full
@pytest.mark.parametrize(
    ("column", "kind", "listed"),
    [
        ("date", "string", "Date"),
        ("p", "void", None),
        ("p", "binary", None),
        *[
            (name, "string", None)
            for name in ("path", "PATH", "size", "dv.offset", "min.id", "untold", "a.b", "a`b", "Ünï")
        ],
        *[(name, "string", None) for name in ("#0", "#complete", "#vector", "#place")],
    ],
)
@pytest.mark.parametrize("is_bucket", [True, False])
def test_partition_columns_of_any_name(
    tmp_path: Path, column: str, kind: str, listed: str | None, *, is_bucket: bool
) -> None:
    table = partitioned(tmp_path, column, kind, listed)
    option = {"bucket_column": column} if is_bucket else {}
    with_sidecar(table, **option)
    quoted = column.replace("`", "``")
    predicates = [None, f"`{quoted}` IS NULL", f"`{quoted}` = 'd1'"] if kind == "string" else [None]
    for predicate in predicates:
        found = heard(table, predicate=predicate, **option)
        assert found.told == (1, None)
        is_same(found.files, without_sidecars(table, predicate=predicate, **option))


def test_a_bound_that_was_cut_in_the_middle_of_a_character(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"s": "string"})
    cut = '{"numRecords":1,"minValues":{"s":"a"},"maxValues":{"s":"a\\ud83d"},"nullCount":{"s":0}}'
    whole = cut.replace("a\\ud83d", "b")
    table.commit([add("cut", stats=cut), add("whole", stats=whole), add("other", stats=whole)])
    with_sidecar(table)
    for predicate in (None, "s = 'a'", "s > 'zz'"):
        found = heard(table, predicate=predicate)
        assert found.told == (1, None)
        is_same(found.files, without_sidecars(table, predicate=predicate))
    assert "cut" in [file.path for file in heard(table, predicate="s > 'zz'").files]


def test_pages_over_a_break_where_a_checkpoint_vouches_for_the_sidecar(tmp_path: Path) -> None:
    table = laid_out(tmp_path, LAYOUTS["bucket"], "newer")
    for version in range(5):
        table.delete_commit(version)
    spoil_piece(table, 4, manifest_of(table, 4).row_groups[3], "index")
    expected = keys_of(without_sidecars(table))
    for way in ({"strategy": "forward"}, {"strategy": "reverse", "order": "any"}):
        assert keys_of([file for page in pages(table, 1, **way) for file in page]) == expected


def test_segments_that_are_damaged_again_and_again(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long"})
    table.commit([add(f"f{number}", rows=[{"id": number}]) for number in range(12)])
    for _ in range(4):
        with_sidecar(table, levels=Levels(3, 2, 2))
        found = heard(table)
        assert found.told == (1, None)
        is_same(found.files, without_sidecars(table))
        _, file = manifest_of(table, 0).files
        path = table.log / "_sidecars" / file.name
        path.write_bytes(path.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    "decided",
    [
        [],
        [7],
        [[6, []]],
        [["6", {"up_to": None}]],
        [[6, {}]],
        [[6, {"up_to": [1, 2, 3]}]],
        [[6, {"up_to": "abc"}]],
        [[6, {"up_to": ["x", "\ud800", "y"]}]],
        [[6, {"base": "v6.manifest.json", "version": 2**63}]],
        [[6, {"base": "../v6", "version": 2**63, "identity": "", "index": 0, "of_segment": False, "forward": True}]],
        [[6, {"base": "v6.manifest.json", "version": 6, "identity": 1, "index": 0, "of_segment": 0, "forward": 1}]],
        [[6, {"sort": [["bucket", ["_event_hour"], "string"]], "near": [1, 2, 3, 4], "far": [], "above": True}]],
        [
            [
                6,
                {
                    "sort": [["bucket", ["gone"], "string"]],
                    "near": [1, "a", "b", ""],
                    "far": [1, "a", "b", ""],
                    "above": 1,
                },
            ]
        ],
        [[6, {"sort": [["lower_bound", ["id"], "long"]], "near": [1, 2, "b", ""], "far": [1, 2, "b", ""], "above": 1}]],
    ],
)
@pytest.mark.parametrize("way", [{"order": "recent"}, {"strategy": "forward"}])
def test_forged_breaks_are_refused(tmp_path: Path, decided: Any, way: dict[str, Any]) -> None:  # noqa: ANN401
    table = hours(TableBuilder(tmp_path, schema=HOUR, partition_columns=["_event_hour"]))
    reader = scanner(table, limit=3, **way)
    list(reader.scan_files())
    token = forged(reader.page_token or "", d=decided)
    if decided == []:
        assert list(scanner(table, page_token=token).scan_files())
        return
    with pytest.raises(PageTokenError):
        list(scanner(table, page_token=LazyScanConfig(page_token=token).page_token).scan_files())
