"""A row group that cannot be read in the middle of a scan: no file comes twice, and none is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.scan.paged import pages
from tests.scan.reading import keys_of, scanner
from tests.scan.sidecar_layouts import LAYOUTS, SIDECAR, laid_out
from tests.scan.sidecar_tables import heard, manifest_of, sidecar_path, spoil_piece, with_sidecar, without_sidecars

from delta_sidecar import PageTokenExpiredError
from delta_sidecar.build.publish import Levels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.builder import TableBuilder

WAYS: dict[str, dict[str, Any]] = {
    "reverse": {"strategy": "reverse", "order": "any"},
    "forward": {"strategy": "forward"},
    "recent": {"order": "recent"},
}
PLACES = [("same", name) for name in LAYOUTS] + [
    ("older", "bucket"),
    ("older", "time"),
    ("newer", "bucket"),
    ("none", "time"),
]


def breaks(table: TableBuilder, version: int = SIDECAR, pieces: str = "alternately") -> Iterator[tuple[int, str]]:
    """Damages one row group after the other, each alone."""
    path = sidecar_path(table, version)
    whole = path.read_bytes()
    for group in manifest_of(table, version).row_groups:
        kinds = ["index", "statistics"] if pieces == "both" else [["index", "statistics"][group.index // 2 % 2]]
        for kind in kinds:
            path.write_bytes(whole)
            spoil_piece(table, version, group, kind)
            yield group.index, kind
    path.write_bytes(whole)


@pytest.mark.full
@pytest.mark.parametrize(("checkpoint", "layout"), PLACES)
def test_every_file_comes_once(tmp_path: Path, layout: str, checkpoint: str) -> None:
    table = laid_out(tmp_path, LAYOUTS[layout], checkpoint, rows_per_group=5)
    # A bucket that is not told is null in commits, which this sidecar is built from, and unknown in a checkpoint.
    predicates = [None, "id > 3" if checkpoint == "newer" else LAYOUTS[layout].predicates[0]]
    for turn, (way, given) in enumerate(WAYS.items()):
        configs = [{"predicate": predicate, **given} for predicate in predicates]
        expected = [keys_of(without_sidecars(table, **config)) for config in configs]
        whole = [heard(table, **config) for config in configs]
        assert [keys_of(one.files) for one in whole] == expected, way
        for place in breaks(table):
            number = (place[0] + turn) % 2
            one = heard(table, **configs[number])
            assert keys_of(one.files) == expected[number], (way, place)
            if one.bases != whole[number].bases:
                assert one.told == (3, "damaged"), (way, place)
                assert [tier for _, tier in one.bases] == [1, 3], "the footer of a damaged file is no better"


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_either_piece_and_columns_without_statistics(tmp_path: Path, way: str) -> None:
    table = laid_out(tmp_path, LAYOUTS["bucket"], rows_per_group=4)
    columns = ["raw_path", "deletion_vector"]
    for predicate in (None, "at > timestamp '2026-02-10 10:00:00'"):
        config = {"predicate": predicate, **WAYS[way]}
        expected = rows_of(table, columns, **config, sidecar_enabled=False)
        for place in breaks(table, pieces="both"):
            assert rows_of(table, columns, **config) == expected, (place, predicate)


def rows_of(table: TableBuilder, columns: list[str], **config: Any) -> list[str]:  # noqa: ANN401 - any option
    rows = scanner(table, **config).scan_batches(columns).read_all().to_pylist()
    return sorted(map(repr, rows))


@pytest.mark.full
@pytest.mark.parametrize("layout", ["bucket", "time", "path"])
def test_the_next_base_may_have_no_statistics(tmp_path: Path, layout: str) -> None:
    """What is complete in the sidecar looks incomplete in such a checkpoint."""
    table = laid_out(tmp_path, LAYOUTS[layout], "bare", rows_per_group=4)
    expected = sorted(table.model_files(), key=repr)
    for place in breaks(table):
        for way, config in WAYS.items():
            assert keys_of(heard(table, **config).files) == expected, (way, place)


@pytest.mark.full
@pytest.mark.parametrize("layout", ["bucket", "other partitions"])
def test_the_next_base_may_be_an_older_sidecar_that_breaks_too(tmp_path: Path, layout: str) -> None:
    table = with_sidecar(laid_out(tmp_path, LAYOUTS[layout], rows_per_group=3), SIDECAR + 1, rows_per_group=3)
    expected = sorted(table.model_files(), key=repr)
    for newer in breaks(table, SIDECAR + 1):
        if newer[0] % 2 == 0:
            for older in breaks(table):
                way = list(WAYS)[older[0] % 3]
                one = heard(table, **WAYS[way])
                assert keys_of(one.files) == expected, (way, newer, older)


@pytest.mark.parametrize("way", WAYS)
def test_segments_of_a_large_manifest_break_like_row_groups(tmp_path: Path, way: str) -> None:
    table = laid_out(tmp_path, LAYOUTS["bucket"], levels=Levels(3, 2, 2))
    expected = sorted(table.model_files(), key=repr)
    manifest = manifest_of(table, SIDECAR)
    assert len(manifest.segments) > 2
    assert keys_of(heard(table, **WAYS[way]).files) == expected
    path = table.log / "_sidecars" / manifest.files[1].name
    whole = path.read_bytes()
    for segment in manifest.segments:
        damaged = bytearray(whole)
        damaged[segment.byte_offset + 7] ^= 1
        path.write_bytes(damaged)
        one = heard(table, **WAYS[way])
        assert keys_of(one.files) == expected, segment.first_index
        assert one.told == (3, "damaged")


# --- pages -------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("checkpoint", "layout"), [("newer", "time"), ("older", "bucket")])
def test_pages_over_a_break(tmp_path: Path, layout: str, checkpoint: str, way: str) -> None:
    table = laid_out(tmp_path, LAYOUTS[layout], checkpoint, rows_per_group=5)
    expected = sorted(table.model_files(), key=repr)
    for place in breaks(table):
        found = [file for page in pages(table, 2 + place[0] % 3, **WAYS[way]) for file in page]
        assert keys_of(found) == expected, place


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_a_page_after_every_file_of_a_broken_scan(tmp_path: Path, way: str) -> None:
    table = laid_out(tmp_path, LAYOUTS["bucket"], rows_per_group=3)
    expected = sorted(table.model_files(), key=repr)
    for place in breaks(table):
        if place[0] == 2:
            for first in range(2, len(expected) - 1):
                assert keys_of(in_two_pages(table, first, WAYS[way])) == expected, first


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", ["bucket", "time"])
def test_a_break_between_two_pages(tmp_path: Path, layout: str, way: str) -> None:
    """What the first page found whole is damaged for the second one: that one goes on, or says that it cannot."""
    table = laid_out(tmp_path, LAYOUTS[layout], rows_per_group=5)
    expected = sorted(table.model_files(), key=repr)
    path = sidecar_path(table, SIDECAR)
    whole = path.read_bytes()
    for place in breaks(table):
        damaged = path.read_bytes()
        for first in range(1 + place[0] % 5, len(expected), 5):
            path.write_bytes(whole)
            try:
                found = in_two_pages(table, first, WAYS[way], lambda: path.write_bytes(damaged))  # noqa: B023
            except PageTokenExpiredError:
                continue
            assert keys_of(found) == expected, (place, first)


def in_two_pages(
    table: TableBuilder, first: int, way: dict[str, Any], between: Callable[[], object] = lambda: None
) -> list[Any]:
    """So many files, and then, in a scanner that knows nothing but the token, the rest."""
    order = {"order": "any"} if "strategy" in way else {}
    reader = scanner(table, limit=first, **(way | order))
    found = list(reader.scan_files())
    between()
    if reader.page_token is not None:
        found += scanner(table, page_token=reader.page_token, **way).scan_files()
    return found
