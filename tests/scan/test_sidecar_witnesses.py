"""What proves a metadata sidecar once its commit has been cleaned up, and histories that only share the table's id."""

from __future__ import annotations

import json
import shutil
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import event, given
from hypothesis import strategies as st
from tests.builder import TableBuilder, add, remove
from tests.scan.effort import examples
from tests.scan.reading import keys_of
from tests.scan.sidecar_tables import (
    BASE,
    heard,
    hour_file,
    hourly,
    is_same,
    manifest_of,
    manifest_path,
    resealed,
    with_sidecar,
    without_sidecars,
)

from delta_sidecar import BuildError
from delta_sidecar.build import build_sidecar
from delta_sidecar.health import inspect_table
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from tests.scan.sidecar_tables import Heard

    from delta_sidecar.build import BuildProgress

KINDS = ["v1", "v1-multipart", "v2-json", "v2-parquet", "v2-classic"]
NEXT = BASE + 1


def answer(table: TableBuilder) -> Heard:
    """Asserts that both orders give what they give without sidecars; gives one of them."""
    for query in ({"strategy": "forward"}, {"order": "recent"}):
        one = heard(table, **query)
        is_same(one.files, without_sidecars(table, **query))
        assert keys_of(one.files) == sorted(table.model_files(), key=repr)
    return one


def cleaned(table: TableBuilder) -> TableBuilder:
    """Deletes the commits up to that of the metadata sidecar."""
    for version in range(BASE + 1):
        table.delete_commit(version)
    return table


def another_history(root: Path, kind: str | None) -> TableBuilder:
    """A table with the id of `hourly`, the same names and sizes of everything, and another file in version 3."""
    table = hourly(root, kind=None)
    other = TableBuilder(root / "other", create=False)
    for number, actions in enumerate(table.commits[:NEXT]):
        other.commit([_renamed(action) for action in actions] if number == BASE else actions)
    if kind is not None:
        other.checkpoint(kind, row_group_rows=3)
    other.commit([hour_file(20)])
    return other


def _renamed(action: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(action).replace("f015", "f915")
    return json.loads(text) if '"add"' not in text else add(**_fields(json.loads(text)["add"]))


def _fields(content: dict[str, Any]) -> dict[str, Any]:
    return {"path": content["path"], "partition_values": content["partitionValues"], "stats": content.get("stats")}


@pytest.mark.parametrize("kind", KINDS)
def test_the_checkpoint_of_its_version_proves_it(tmp_path: Path, kind: str) -> None:
    one = answer(cleaned(with_sidecar(hourly(tmp_path, kind=kind), BASE)))
    assert (one.bases, one.told) == ([(BASE, 1)], (1, None))


@pytest.mark.full
@pytest.mark.parametrize("by_footer", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, None])
def test_another_history_with_the_same_id_does_not_take_it(
    tmp_path: Path, kind: str | None, *, by_footer: bool
) -> None:
    lost = with_sidecar(hourly(tmp_path / "lost", kind=kind), BASE)
    if by_footer:
        manifest_path(lost, BASE).unlink()
    table = another_history(tmp_path / "now", kind)
    for file in (lost.log / "_sidecars").glob("v*"):
        (table.log / "_sidecars").mkdir(exist_ok=True)
        shutil.copy(file, table.log / "_sidecars")
    if kind is None:
        table.checkpoint()
    code = "other_commit"
    for _ in range(2):
        one = answer(table)
        assert (one.told, {found for _, found in one.passed_over}) == ((3, code), {code})
        code = "unproven"
        if table.commit_path(BASE).exists():
            cleaned(table)


def test_a_checkpoint_made_after_the_build_proves_it_after_another_build(tmp_path: Path) -> None:
    table = hourly(tmp_path, kind=None)
    late = table.copy(tmp_path / "late")
    for number in range(NEXT, table.version + 1):
        late.delete_commit(number)
    late.commits = late.commits[:NEXT]
    with_sidecar(late, BASE)
    assert manifest_of(late, BASE).witness == ()
    late.checkpoint()
    late.commit([hour_file(30)])
    unproven = cleaned(late.copy(tmp_path / "unproven"))
    assert answer(unproven).told == (3, "unproven")
    again = build_sidecar(late.root, version=BASE, rows_per_group=2)
    assert again.already_there
    assert [witness.name for witness in manifest_of(late, BASE).witness] == [f"{BASE:020}.checkpoint.parquet"]
    assert answer(cleaned(late)).told == (1, None)


@pytest.mark.parametrize("txn", ["b7f1", None, ""])
def test_a_checksum_file_proves_it_by_the_id_of_its_transaction(tmp_path: Path, txn: str | None) -> None:
    table = hourly(tmp_path, kind=None)
    checksum = table.log / f"{BASE:020}.crc"
    told = {} if txn is None else {"txnId": txn}
    totals = {"tableSizeBytes": 16_000, "numFiles": 16, "numMetadata": 1, "numProtocol": 1}
    told |= totals | {"metadata": table.model_action("metaData"), "protocol": table.model_action("protocol")}
    checksum.write_text(json.dumps(told), encoding="utf-8")
    with_sidecar(table, BASE)
    table.checkpoint()
    cleaned(table)
    assert answer(table).told == ((1, None) if txn else (3, "unproven"))
    checksum.write_text(json.dumps(told | {"txnId": "c7f1"}), encoding="utf-8")
    assert answer(table).told == (3, "unproven")


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_with_other_bytes_proves_nothing(tmp_path: Path, kind: str) -> None:
    table = cleaned(with_sidecar(hourly(tmp_path, kind=kind), BASE))
    (path,) = [table.log / witness.name for witness in manifest_of(table, BASE).witness]
    if path.suffix == ".json":
        path.write_bytes(path.read_bytes().replace(b'"one"', b'"two"'))
    else:
        # What wrote it is in its footer, and makes it no worse a checkpoint.
        path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-cpp-other"))
    one = answer(table)
    assert (one.bases[-1], one.told) == ((BASE, 3), (3, "unproven"))


def test_a_manifest_without_a_witness_is_proven_by_its_commit_alone(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    resealed(table, BASE, lambda document: document.pop("witness"))
    assert answer(table).told == (1, None)
    manifest, cleaned_table = manifest_path(table, BASE), cleaned(table)
    one = answer(cleaned_table)
    assert (manifest.name, "unproven") in one.passed_over
    assert one.told == (2, "unproven"), "its footer still has one"


@pytest.mark.parametrize("hint", [False, True])
def test_a_witness_is_read_with_the_manifest_and_only_where_the_commit_is_gone(tmp_path: Path, *, hint: bool) -> None:
    table = with_sidecar(hourly(tmp_path, last_checkpoint=hint), BASE)
    checkpoint = f"_delta_log/{BASE:020}.checkpoint.parquet"
    trips = []
    for expected in ([], [("get", 0, (tmp_path / checkpoint).stat().st_size)]):
        store = RecordingStore(open_store(table.root))
        one = heard(table, store)
        assert one.told == (1, None)
        assert [(each.kind, each.start, each.end) for each in store.attempts if each.path == checkpoint] == expected
        trips.append(one.end.trips)
        if not expected:
            cleaned(table)
    # With a hint the manifest is asked for along with the listing, which is what tells that the commit is gone.
    assert trips[1] <= trips[0] + hint


def test_an_inspection_says_what_is_not_proven(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path, kind=None), BASE)
    table.checkpoint()
    report = inspect_table(cleaned(table).root)
    (finding,) = [found for found in report.findings if found.code == "sidecar-unusable"]
    assert "(unproven)" in finding.message
    assert "vacuum" in finding.advice


def test_a_build_goes_by_the_same_rule(tmp_path: Path) -> None:
    lost = with_sidecar(hourly(tmp_path / "lost"), BASE)
    table = another_history(tmp_path / "now", "v1")
    shutil.copytree(lost.log / "_sidecars", table.log / "_sidecars")
    cleaned(table)
    assert answer(table).told == (3, "unproven")
    assert not build_sidecar(table.root, version=BASE, rows_per_group=2).already_there
    assert answer(table).told == (1, None)
    assert build_sidecar(table.root, version=BASE, rows_per_group=2).already_there


def test_nothing_is_published_for_a_table_that_is_restored_during_the_build(tmp_path: Path) -> None:
    table = hourly(tmp_path, kind=None)
    commit = table.commit_path(table.version)

    def restored(progress: BuildProgress) -> None:
        if progress.stage == "publishing":
            commit.write_text(commit.read_text(encoding="utf-8").replace("f021", "f921"), encoding="utf-8")

    with pytest.raises(BuildError, match="made anew, or restored"):
        build_sidecar(table.root, progress=restored)
    assert not (table.log / "_sidecars").exists()


# --- random histories ---------------------------------------------------------------------------------------------


class Forked:
    """A table with backups, to which a restore goes back while `_sidecars` stays."""

    def __init__(self, root: Path) -> None:
        self.table = TableBuilder(root / "now")
        self.backups: list[TableBuilder] = []
        self._root = root
        self._number = count()

    def append(self) -> None:
        self._commit([])

    def delete(self) -> None:
        live = sorted(path for path, _ in self.table.model_files())
        self._commit([remove(live[0])] if live else [])

    def checkpoint(self) -> None:
        self.table.checkpoint()

    def build(self) -> None:
        build_sidecar(self.table.root, threads=1)

    def back_up(self) -> None:
        self.backups.append(self.table.copy(self._root / f"backup-{next(self._number)}"))

    def restore(self) -> None:
        if not self.backups:
            return
        backup, kept = self.backups[-1], self._root / f"kept-{next(self._number)}"
        now = self.table.log / "_sidecars"
        if now.exists():
            shutil.move(now, kept)
        shutil.rmtree(self.table.root)
        self.table = backup.copy(self.table.root)
        if kept.exists():
            shutil.copytree(kept, now, dirs_exist_ok=True)

    def lose(self) -> None:
        """Builds a metadata sidecar of a version that a restore replaces by another one."""
        self.back_up()
        self.append()
        self.build()
        self.restore()
        self.append()

    def clean_up(self) -> None:
        if self.table.checkpoints:
            self.table.clean_up(inclusive=True)

    def clean_up_before(self) -> None:
        if self.table.checkpoints:
            self.table.clean_up()

    def go_on_and_clean_up(self) -> None:
        """As log retention does: the newest checkpoint and its commit stay."""
        self.append()
        self.checkpoint()
        self.clean_up_before()

    def _commit(self, actions: list[dict[str, Any]]) -> None:
        number = next(self._number)
        file = add(f"part-{number:04}.parquet", rows=[{"id": number}])
        self.table.commit([{"commitInfo": {"timestamp": number}}, file, *actions])


STEPS = ["append"] * 4 + ["delete", "build", "build", "checkpoint", "back_up", "restore", "clean_up", "clean_up_before"]
STEPS += ["lose"] * 2 + ["go_on_and_clean_up"] * 2


@pytest.mark.full
@examples(60)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=6, max_size=24))
def test_restored_and_forked_histories(steps: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    forked = Forked(tmp_path_factory.mktemp("forked"))
    forked.append()
    for step in [*steps, "append"]:
        getattr(forked, step)()
        table = forked.table
        one = heard(table)
        is_same(one.files, without_sidecars(table))
        assert keys_of(one.files) == sorted(table.model_files(), key=repr)
        event(f"tier {one.told[0]}, {one.told[1]}")
    peer = DeltaTable(table.root).file_uris()
    assert sorted(Path(uri).name for uri in peer) == sorted(file.path for file in one.files)


def test_the_restore_that_brought_lost_rows_back(tmp_path: Path) -> None:
    forked = Forked(tmp_path)
    for step in ("append", "append", "back_up", "append", "build", "restore", "append", "append", "checkpoint"):
        getattr(forked, step)()
    for version in range(3):
        forked.table.delete_commit(version)
    one = heard(forked.table)
    assert keys_of(one.files) == sorted(forked.table.model_files(), key=repr)
    assert one.passed_over == [("v2.manifest.json", "unproven"), ("v2.parquet", "unproven")]
