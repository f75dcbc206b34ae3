"""The six cases that a replay of a log is most often wrong in, each by its name and over every checkpoint kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add, deletion_vector, metadata, protocol, remove
from tests.scan.reading import STRATEGIES, agrees_with_model, keys_of, scan, scanner

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, PredicateError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pathlib import Path

V2 = protocol(features=["v2Checkpoint", "deletionVectors"])
BASES = [None, "v1", "v1-multipart", "v2-json", "v2-parquet", "v2-classic"]

bases = pytest.mark.parametrize("base", BASES)


def checkpoint(table: TableBuilder, base: str | None, **options: bool) -> None:
    """Writes a checkpoint and takes the log before it away, so that it is the only base."""
    if base is not None:
        table.checkpoint(base, **options)
        table.clean_up(inclusive=True)


@bases
def test_append_only(tmp_path: Path, base: str | None) -> None:
    table = TableBuilder(tmp_path, protocol=V2)
    for number in range(5):
        table.commit([add(f"{number}-a.parquet", size=number), add(f"{number}-b.parquet")])
    checkpoint(table, base)
    for number in range(5, 8):
        table.commit([add(f"{number}-a.parquet"), add(f"{number}-b.parquet", size=number)])
    agrees_with_model(table)
    newest = [file.path for file in LazyDeltaScanner(tmp_path, LazyScanConfig(limit=4)).scan_files()]
    assert newest == ["7-a.parquet", "7-b.parquet", "6-a.parquet", "6-b.parquet"]


@bases
def test_remove_newer_than_add(tmp_path: Path, base: str | None) -> None:
    table = TableBuilder(tmp_path, protocol=V2)
    table.commit([add(name) for name in ("base-kept", "base-removed", "base%20odd", "/abs/olute")])
    checkpoint(table, base)
    table.commit([add("tail-kept"), add("tail-removed")])
    table.commit([remove("tail-removed"), remove("base-removed")])
    table.commit([remove("base%20odd"), remove("file:///abs/olute", extended=False)])
    agrees_with_model(table)
    assert {path for path, _ in keys_of(scan(table))} == {"base-kept", "tail-kept"}


@bases
def test_same_version_rewrite(tmp_path: Path, base: str | None) -> None:
    """A remove and an add of one path in one commit, whichever comes first, as a rewrite in place or a new vector."""
    one, two = deletion_vector("one"), deletion_vector("two")
    table = TableBuilder(tmp_path, protocol=V2)
    table.commit([add("a", size=1), add("b", size=1), add("c", size=1), add("d", size=1, dv=one)])
    checkpoint(table, base)
    table.commit([remove("a"), add("a", size=2)])
    table.commit([add("b", size=2), remove("b")])
    table.commit([remove("c"), add("c", size=2, dv=one)])
    table.commit([add("d", size=2, dv=two), remove("d", dv=one)])
    agrees_with_model(table)
    sizes = {
        (file.path, None if file.deletion_vector is None else file.deletion_vector.unique_id): file.size
        for file in scan(table)
    }
    ids = {name: f"u{vector['pathOrInlineDv']}@1" for name, vector in (("one", one), ("two", two))}
    assert sizes == {("a", None): 2, ("b", None): 2, ("c", ids["one"]): 2, ("d", ids["two"]): 2}


@pytest.mark.full
@bases
@pytest.mark.parametrize("struct", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_predicate_prune(tmp_path: Path, base: str | None, *, struct: bool, strategy: str) -> None:
    """What cannot match is left out, in the base and in the tail; a remove is never left out."""
    schema = {"id": "long", "value": "string", "day": "date"}
    table = TableBuilder(tmp_path, partition_columns=["day"], schema=schema, protocol=V2)

    def file(name: str, low: int, high: int, day: str | None) -> dict[str, object]:
        return add(name, rows=[{"id": low}, {"id": high}], partition_values={"day": day})

    table.commit([file("base-in", 1, 5, "2026-02-10"), file("base-removed", 1, 5, "2026-02-10")])
    table.commit([file("base-other-ids", 6, 9, "2026-02-10"), file("base-other-day", 1, 5, "2026-02-11")])
    table.commit([file("base-no-day", 1, 5, None), add("base-no-stats", partition_values={"day": "2026-02-10"})])
    checkpoint(table, base, struct_stats=struct, json_stats=not struct)
    table.commit([file("tail-in", 3, 3, "2026-02-10"), file("tail-other-ids", 4, 9, "2026-02-10")])
    table.commit([file("tail-other-day", 3, 3, "2026-02-09"), file("tail-removed", 3, 3, "2026-02-10")])
    table.commit([remove("base-removed", partition_values={"day": "2026-02-10"}), remove("tail-removed")])
    found = {f.path for f in scan(table, strategy=strategy, predicate="day = '2026-02-10' AND id <= 3")}
    assert found == {"base-in", "base-no-stats", "tail-in"}
    # A file that is added again with other statistics: the older add must not come back because the newer is pruned.
    table.commit([file("base-in", 8, 9, "2026-02-10")])
    found = {f.path for f in scan(table, strategy=strategy, predicate="day = '2026-02-10' AND id <= 3")}
    assert found == {"base-no-stats", "tail-in"}
    assert {f.path for f in scan(table, strategy=strategy, predicate=[("day", "=", "2026-02-11")])} == {
        "base-other-day"
    }
    assert {f.path for f in scan(table, strategy=strategy, predicate="day IS NULL")} == {"base-no-day"}


@bases
def test_vacuumed_tombstone_below_the_base(tmp_path: Path, base: str | None) -> None:
    """The checkpoint no longer remembers a removed file: it stays removed, and may come back in the tail."""
    table = TableBuilder(tmp_path, protocol=V2)
    table.commit([add("a"), add("b"), add("c")])
    table.commit([remove("a", deletion_timestamp=1), remove("b", deletion_timestamp=1)])
    checkpoint(table, base, tombstones=False)
    table.commit([add("d")])
    agrees_with_model(table)
    assert {path for path, _ in keys_of(scan(table))} == {"c", "d"}
    table.commit([add("a", size=9)])
    table.commit([remove("never-was-there"), remove("c")])
    agrees_with_model(table)
    assert {path for path, _ in keys_of(scan(table))} == {"a", "d"}


@pytest.mark.full
@bases
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("checksum", [False, True])
def test_protocol_or_metadata_change_in_the_tail(
    tmp_path: Path, base: str | None, strategy: str, *, checksum: bool
) -> None:
    """What is in force at the version decides, though the base and its checksum file say something older."""
    table = TableBuilder(tmp_path, schema={"id": "long"}, protocol=V2)
    table.commit([add("old", rows=[{"id": 1}])])
    checkpoint(table, base)
    if checksum:
        table.checksum()
    table.commit([add("plain")])
    table.commit([metadata({"id": "long", "extra": "string"}, table_id="new"), add("new", rows=[{"extra": "x"}])])
    table.commit([add("newest", rows=[{"id": 1, "extra": "z"}])])
    read = scanner(table, strategy=strategy)
    assert read.snapshot().schema.names == ["id", "extra"]
    assert read.snapshot().metadata.id == "new"
    found = {file.path for file in scan(table, strategy=strategy, predicate="extra = 'x'")}
    assert found == {"old", "plain", "new"}, "files from before the column may not be dropped"
    with pytest.raises(PredicateError, match="extra"):
        scan(table, strategy=strategy, predicate="extra = 'x'", version=1)
    table.commit([protocol(features=["v2Checkpoint", "deletionVectors", "adaptiveMetadata"])])
    table.commit([add("beyond")])
    with pytest.raises(UnsupportedFeatureError, match="adaptiveMetadata") as refused:
        scan(table, strategy=strategy)
    assert refused.value.features == ("adaptiveMetadata",)
    assert {path for path, _ in keys_of(scan(table, strategy=strategy, version=3))} == {"old", "plain", "new", "newest"}
    table.commit([protocol(features=["v2Checkpoint"], writer_features=["futureWriterFeature"])])
    agrees_with_model(table)
