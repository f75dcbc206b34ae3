"""Which base a scan takes when a metadata sidecar is whole, missing, stale or another table's; and what it tells."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from tests.builder import TableBuilder, add, metadata, remove
from tests.scan.reading import STRATEGIES, keys_of
from tests.scan.sidecar_tables import (
    BASE,
    NEWEST,
    SCHEMA,
    VECTORS,
    Heard,
    heard,
    hour_file,
    hourly,
    is_same,
    manifest_path,
    resealed,
    sidecar_path,
    with_sidecar,
    without_sidecars,
)

from delta_sidecar import (
    CorruptCheckpointError,
    DeltaSidecarError,
    LazyDeltaScanner,
    LazyScanConfig,
    MissingCommitError,
    PageTokenExpiredError,
)
from delta_sidecar.health import inspect_table
from delta_sidecar.log import segment as listed_sidecars
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUERIES: list[dict[str, Any]] = [
    {"strategy": "reverse"},
    {"strategy": "forward", "predicate": "id = 7 AND at < timestamp '2026-02-10 23:00:00'"},
    {"order": "recent", "predicate": "_event_hour >= '2026021010'"},
]


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return with_sidecar(hourly(tmp_path / "table"), BASE)


def answers(table: TableBuilder, **config: Any) -> Heard:  # noqa: ANN401 - any option
    """Asserts that every query gives what it gives without sidecars, by the same bases; gives one of them."""
    found = []
    for query in QUERIES:
        one = heard(table, **query, **config)
        is_same(one.files, without_sidecars(table, **query, **config))
        found.append(one)
    assert len({(tuple(one.bases), tuple(one.passed_over), one.told) for one in found}) == 1, [o.told for o in found]
    return found[0]


def passes_over(one: Heard, code: str, *, name: str = f"v{BASE}.manifest.json", tier: int = 3) -> None:
    assert (name, code) in one.passed_over
    assert one.told == (tier, code)
    assert one.bases[-1][1] == tier


# --- the six states ---------------------------------------------------------------------------------------------


def test_a_good_one_is_the_base(table: TableBuilder) -> None:
    one = answers(table)
    assert (one.bases, one.passed_over, one.told) == ([(BASE, 1)], [], (1, None))
    assert one.end.sidecar_row_groups_read > 0
    peer = DeltaTable(table.root).file_uris()
    assert sorted(uri.rpartition("/")[2] for uri in peer) == sorted(file.path for file in one.files)


def test_without_its_manifest_it_is_read_by_its_footer(table: TableBuilder) -> None:
    manifest_path(table, BASE).unlink()
    one = answers(table)
    assert (one.bases, one.passed_over, one.told) == ([(BASE, 2)], [], (2, "no_manifest"))


def test_without_both_the_checkpoint_is_the_base(table: TableBuilder) -> None:
    manifest_path(table, BASE).unlink()
    sidecar_path(table, BASE).unlink()
    one = answers(table)
    assert (one.bases, one.passed_over, one.told) == ([(BASE, 3)], [], (3, "none"))


def test_a_manifest_without_its_file_is_passed_over(table: TableBuilder) -> None:
    sidecar_path(table, BASE).unlink()
    passes_over(answers(table), "missing_file")


FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no objects": lambda d: d.update(row_groups=[1]),
    "one is missing": lambda d: d["row_groups"].pop(),
    "a key of another type": lambda d: d["row_groups"][-1].update(last_key=[1, 5, 5, 5]),
    "a range outside of the file": lambda d: d["row_groups"][0].update(byte_offset=10**9),
    "segments that are none": lambda d: d.update(segments=[{}]),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("checksum", [False, True])
def test_wrong_row_groups_are_found_before_the_first_file(tmp_path: Path, fault: str, *, checksum: bool) -> None:
    """They are looked at late, and all comes as where the manifest itself is damaged."""
    table = with_sidecar(hourly(tmp_path), BASE)
    if checksum:
        table.checksum()
    good = manifest_path(table, BASE).read_bytes()
    resealed(table, BASE, FAULTS[fault])
    late, lies = answers(table), manifest_path(table, BASE).read_bytes()
    assert (late.bases, late.end.sidecar_fallback_reason) == ([(BASE, 2)], "damaged")
    explained = LazyDeltaScanner(table.root).explain()
    report = inspect_table(table.root).metadata_sidecars
    manifest_path(table, BASE).write_bytes(good[:-1])
    early = answers(table)
    assert (late.bases, late.passed_over) == (early.bases, early.passed_over)
    assert late.end.sidecar_fallback_reason == early.end.sidecar_fallback_reason
    assert LazyDeltaScanner(table.root).explain().base == explained.base
    other = inspect_table(table.root).metadata_sidecars
    assert (report.base, report.reason) == (other.base, other.reason)
    assert [each.code for each in report.unusable] == [each.code for each in other.unusable] == ["damaged"]
    manifest_path(table, BASE).write_bytes(good)
    for way in ({"strategy": "forward"}, {"strategy": "reverse", "order": "any"}):
        first = LazyDeltaScanner(table.root, LazyScanConfig(**way, limit=6))
        assert len(list(first.scan_files())) == 6
        for bad in (lies, good[:-1]):
            manifest_path(table, BASE).write_bytes(bad)
            with pytest.raises(PageTokenExpiredError):
                list(LazyDeltaScanner(table.root, LazyScanConfig(**way, page_token=first.page_token)).scan_files())
        manifest_path(table, BASE).write_bytes(good)


def test_a_manifest_that_names_another_file_is_passed_over(table: TableBuilder) -> None:
    """The data file itself is whole, so that its footer serves."""

    def rename(document: dict[str, Any]) -> None:
        document["sidecar_file"] = f"v{BASE}.other.00000-0.parquet"

    resealed(table, BASE, rename)
    one = answers(table)
    passes_over(one, "missing_file", tier=2)
    assert one.bases == [(BASE, 2)]


def test_a_manifest_that_names_a_file_of_another_size_is_passed_over(table: TableBuilder) -> None:
    with sidecar_path(table, BASE).open("ab") as file:
        file.write(b"PAR1")
    passes_over(answers(table), "wrong_size")


@pytest.mark.parametrize("hint", [True, False])
def test_one_that_is_older_than_the_newest_checkpoint_is_still_the_base(tmp_path: Path, *, hint: bool) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    table.checkpoint(last_checkpoint=hint)
    table.commit([hour_file(30)])
    one = answers(table)
    assert (one.bases, one.told) == ([(BASE, 1)], (1, None))


# --- where it stands in the log ----------------------------------------------------------------------------------


def test_time_travel_below_it_does_not_see_it(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), NEWEST)
    for version in range(NEWEST):
        one = answers(table, version=version)
        assert (one.passed_over, one.told) == ([], (3, "none"))
    assert answers(table, version=NEWEST).bases == [(NEWEST, 1)]


def test_of_two_the_newer_one_is_the_base(table: TableBuilder) -> None:
    with_sidecar(table, 5)
    assert answers(table).bases == [(5, 1)]
    assert answers(table, version=4).bases == [(BASE, 1)]


def test_of_two_the_older_one_serves_where_the_newer_one_is_broken(table: TableBuilder) -> None:
    with_sidecar(table, 5)
    manifest_path(table, 5).write_bytes(b"{}")
    sidecar_path(table, 5).write_bytes(b"nothing")
    one = answers(table)
    assert one.bases == [(BASE, 1)]
    assert [name for name, _ in one.passed_over] == ["v5.manifest.json", "v5.parquet"]
    assert one.told == (1, "damaged")


@pytest.mark.parametrize("oldest_whole", [True, False])
def test_below_many_broken_ones_an_older_one_serves(tmp_path: Path, *, oldest_whole: bool) -> None:
    """Nothing else can serve, so all of them are tried; the log is listed once more at most."""
    table = hourly(tmp_path)
    while table.version < 14:
        table.commit([hour_file(40 + table.version)])
    expected = heard(table).files
    for version in range(2, 14):
        with_sidecar(table, version)
        if version > 2 or not oldest_whole:
            manifest_path(table, version).write_bytes(b"{}")
            sidecar_path(table, version).write_bytes(b"nothing")
    for path in (*table.log.glob("*.checkpoint.parquet"), table.log / "_last_checkpoint"):
        path.unlink(missing_ok=True)
    for version in (0, 1):
        (table.log / f"{version:020}.json").unlink()
    store = RecordingStore(open_store(table.root))
    if not oldest_whole:
        with pytest.raises(CorruptCheckpointError, match=r"v2\.parquet cannot be used"):
            list(LazyDeltaScanner(table.root, store=store).scan_files())
        assert len(store.paths("list")) == 2
        return
    is_same(list(LazyDeltaScanner(table.root, store=store).scan_files()), expected)
    assert len(store.paths("list")) == 1
    one = heard(table)
    assert one.bases == [(2, 1)]
    assert [name for name, _ in one.passed_over][-2:] == ["v3.manifest.json", "v3.parquet"]


@pytest.mark.parametrize("hint", [True, False])
def test_one_with_too_many_commits_after_it_is_no_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, hint: bool
) -> None:
    monkeypatch.setattr(listed_sidecars, "MOST_TAIL", 2)
    table = with_sidecar(hourly(tmp_path, last_checkpoint=hint), BASE)
    assert answers(table, version=BASE + 2).bases == [(BASE, 1)]
    one = answers(table)
    assert (one.bases, one.passed_over, one.told) == ([(BASE, 3)], [], (3, "too_old"))


@pytest.mark.full
def test_the_most_commits_after_it_are_a_thousand(tmp_path: Path) -> None:
    assert listed_sidecars.MOST_TAIL == 1_000
    table = with_sidecar(hourly(tmp_path), BASE)
    for number in range(table.version, BASE + 1_001):
        table.commit([hour_file(100 + number)])
    for version, tier in ((BASE + 1_000, 1), (BASE + 1_001, 3)):
        one = heard(table, version=version)
        assert one.bases == [(BASE, tier)]
        assert keys_of(one.files) == sorted(table.model_files(version), key=repr)


def test_a_gap_in_the_commits_after_it_leaves_the_newer_checkpoint(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    table.checkpoint()
    table.commit([hour_file(30)])
    table.delete_commit(5)
    one = answers(table)
    assert one.bases == [(NEWEST, 3)]
    assert one.told[0] == 3


def test_a_gap_after_every_base_is_an_error_with_and_without_it(table: TableBuilder) -> None:
    table.delete_commit(5)
    for enabled in (True, False):
        with pytest.raises(MissingCommitError, match="commit 5"):
            heard(table, sidecar_enabled=enabled)


# --- clean-up ----------------------------------------------------------------------------------------------------


def test_where_its_commit_is_gone_the_checkpoint_tells_that_it_is_the_same_table(table: TableBuilder) -> None:
    table.clean_up(inclusive=True)
    one = answers(table)
    assert (one.bases, one.told) == ([(BASE, 1)], (1, None))


def test_one_made_without_its_commit_serves_too(tmp_path: Path) -> None:
    table = hourly(tmp_path)
    table.clean_up(inclusive=True)
    assert answers(with_sidecar(table, BASE)).told == (1, None)


@pytest.mark.parametrize("cleaned", [False, True])
def test_without_a_checkpoint_its_commit_has_to_be_there(tmp_path: Path, *, cleaned: bool) -> None:
    table = with_sidecar(hourly(tmp_path, kind=None), BASE)
    if not cleaned:
        one = answers(table)
        assert (one.bases, one.told) == ([(BASE, 1)], (1, None))
    for version in range(BASE):
        table.delete_commit(version)
    for strategy in STRATEGIES:
        one = heard(table, strategy=strategy)
        assert (one.bases, one.told) == ([(BASE, 1)], (1, None))
        assert keys_of(one.files) == sorted(table.model_files(), key=repr)
    table.delete_commit(BASE)
    with pytest.raises(DeltaSidecarError):
        heard(table)


# --- a table made anew at the same place -------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [SCHEMA, SCHEMA | {"more": "long"}, {"_event_hour": "integer", "id": "string"}])
@pytest.mark.parametrize("checkpoint", ["v1", None])
def test_a_table_made_anew_does_not_take_the_old_ones(
    table: TableBuilder, schema: dict[str, str], checkpoint: str | None
) -> None:
    kept = table.root.parent / "kept"
    shutil.move(table.log / "_sidecars", kept)
    shutil.rmtree(table.root)
    anew = TableBuilder(table.root, schema=schema, partition_columns=["_event_hour"], protocol=VECTORS)
    for number in range(NEWEST + 1):
        anew.commit([add(f"f{number:03}.parquet", partition_values={"_event_hour": "7"}, rows=[{"id": number}])])
        if number == BASE and checkpoint is not None:
            anew.checkpoint(checkpoint)
    shutil.move(kept, anew.log / "_sidecars")
    for query in ({"strategy": "reverse"}, {"strategy": "forward"}, {"order": "recent"}):
        one = heard(anew, **query)
        is_same(one.files, without_sidecars(anew, **query))
        passes_over(one, "other_commit")
        assert [name for name, _ in one.passed_over] == [f"v{BASE}.manifest.json", f"v{BASE}.parquet"]


def test_a_replaced_table_takes_the_old_one_as_its_own_version(table: TableBuilder) -> None:
    """CREATE OR REPLACE is one more commit, with another schema and other partition columns."""
    removes = [remove(path, dv=add.get("deletionVector")) for (path, _), add in table.model_files().items()]
    table.commit([metadata({"id": "long", "p": "integer"}, ["p"]), *removes, add("new", partition_values={"p": "1"})])
    for strategy in STRATEGIES:
        one = heard(table, strategy=strategy)
        assert one.told == (1, None)
        is_same(one.files, without_sidecars(table, strategy=strategy))
        assert [file.path for file in one.files] == ["new"]


# --- switched off ------------------------------------------------------------------------------------------------


def test_switched_off_by_call(table: TableBuilder) -> None:
    one = heard(table, sidecar_enabled=False)
    assert (one.bases, one.passed_over, one.told) == ([(BASE, 3)], [], (3, "disabled"))


def test_switched_off_by_the_environment(table: TableBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTA_SIDECAR_ENABLED", "false")
    assert heard(table).told == (3, "disabled")
    assert heard(table, sidecar_enabled=True).told == (1, None)


def test_switched_off_by_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hourly(tmp_path, **{"deltaSidecar.enabled": "false"})
    with_sidecar(table, BASE)
    for strategy in STRATEGIES:
        assert heard(table, strategy=strategy).told == (3, "disabled")
    assert heard(table, sidecar_enabled=True).told == (1, None)
    monkeypatch.setenv("DELTA_SIDECAR_ENABLED", "true")
    assert heard(table).told == (3, "disabled")


def test_switched_on_by_the_table_against_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_sidecar(hourly(tmp_path, **{"deltaSidecar.enabled": "true"}), BASE)
    monkeypatch.setenv("DELTA_SIDECAR_ENABLED", "false")
    assert heard(table).told == (1, None)


def test_metrics_and_explanations_go_by_the_same_base(table: TableBuilder) -> None:
    reader = LazyDeltaScanner(table.root)
    assert reader.snapshot().choice.bases[0].tier == 1
    assert "v3.manifest.json" in str(reader.explain(analyze=True))
    plain = LazyDeltaScanner(table.root, LazyScanConfig(sidecar_enabled=False))
    assert reader.estimate().files == plain.estimate().files
