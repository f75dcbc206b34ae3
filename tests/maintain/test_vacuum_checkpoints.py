"""Clean-ups of folders that sidecars of V2 checkpoints are in as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add
from tests.maintain.cleaning import clean, deleted, pair

from delta_sidecar.maintain.vacuum import vacuum_sidecars
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import Attempt, RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.maintain.vacuum_tables import SidecarTable

KINDS = ["v2-json", "v2-parquet", "v2-classic"]


@pytest.mark.parametrize("kind", KINDS)
def test_sidecars_of_v2_checkpoints_stay_whatever_their_names(made: SidecarTable, kind: str) -> None:
    names = ["v9.parquet", "v2.b.00000-0.parquet", "v4.parquet.tmp-ab"]
    made.v2_checkpoint(kind, *names)
    summary = clean(made)
    assert deleted(summary) == pair(1, 3)
    assert summary.referred == 3
    assert summary.unknown == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["{}", "_delta_log/_sidecars/{}", "file:///elsewhere/%76{}", "a%20b/{}"])
def test_a_file_that_a_checkpoint_refers_to_stays_even_if_it_is_ours(made: SidecarTable, kind: str, form: str) -> None:
    top = made.v2_checkpoint(kind, "v1.parquet.new", last=False)
    text = form.format("v1.parquet").replace("%76v", "%76")
    rewrite(top, "v1.parquet.new", text)
    (made.folder / "v1.parquet.new").unlink()
    made.table.checkpoints.clear()
    summary = vacuum_sidecars(made.root, keep=1)
    assert deleted(summary) == {"v1.manifest.json", *pair(3, 5)}
    assert summary.referred == 1


def rewrite(top: Path, old: str, new: str) -> None:
    if top.suffix == ".json":
        top.write_text(top.read_text().replace(old, new))
        return
    rows = pq.read_table(top)
    actions = rows.to_pylist()
    for action in actions:
        if action["sidecar"] is not None:
            action["sidecar"]["path"] = action["sidecar"]["path"].replace(old, new)
    pq.write_table(type(rows).from_pylist(actions, schema=rows.schema), top, store_schema=False)


def test_every_checkpoint_counts_and_not_only_the_newest(made: SidecarTable) -> None:
    made.v2_checkpoint("v2-json", "v1.b.00000-0.parquet")
    made.table.commit([add("later")])
    made.table.checkpoint("v1-multipart")
    made.table.commit([add("latest")])
    made.table.checkpoint("v1")
    assert "v1.b.00000-0.parquet" not in deleted(clean(made))


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_cannot_be_read_keeps_all_data_files(made: SidecarTable, kind: str) -> None:
    top = made.v2_checkpoint(kind, "v2.parquet")
    TableBuilder.tear(top, 60 if kind == "v2-json" else -4)
    made.put_data("v6.b.00000-0.parquet")
    made.put("v6.b.segments.json", b"[]")
    made.put("v4.manifest.json", b"{}")
    made.put("v8.parquet.tmp-ab")
    made.table.checkpoints.clear()
    summary = clean(made)
    assert deleted(summary) == {"v6.b.segments.json", "v4.manifest.json"}
    (note,) = summary.notes
    assert f"{top.name} cannot be read" in note
    assert [kept.version for kept in summary.kept] == [7, 5, 3, 1], "who proves whose a file is stays as well"
    top.unlink()
    assert deleted(clean(made)) == {"v6.b.00000-0.parquet", "v8.parquet.tmp-ab", *pair(1, 3)}


def test_a_v2_checkpoint_without_its_beginning_cannot_be_read(made: SidecarTable) -> None:
    top = made.v2_checkpoint("v2-json", "v2.parquet")
    lines = top.read_text().splitlines(keepends=True)
    top.write_text("".join(line for line in lines if "metaData" not in line))
    made.table.checkpoints.clear()
    summary = clean(made)
    assert summary.deleted == ()
    assert "it has no metaData" in summary.notes[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_goes_meanwhile_refers_to_nothing(made: SidecarTable, kind: str) -> None:
    top = made.v2_checkpoint(kind, "v2.parquet")
    made.table.commit([add("later")])
    made.table.checkpoint("v1")

    def vanish(attempt: Attempt) -> None:
        if attempt.path.endswith("v7.manifest.json"):
            top.unlink(missing_ok=True)

    store = RecordingStore(open_store(made.root), vanish)
    summary = vacuum_sidecars(made.root, store=store)
    assert (deleted(summary), summary.notes) == (pair(1, 3), ())
    assert any(attempt.path.endswith(top.name) for attempt in store.attempts)


def test_sidecar_actions_whose_paths_are_no_texts_cannot_be_read(made: SidecarTable) -> None:
    top = made.v2_checkpoint("v2-parquet", "v2.parquet")
    made.table.checkpoints.clear()
    rows = pq.read_table(top)
    numbers = pa.StructArray.from_arrays([pa.array([1] * len(rows))], ["path"])
    place = rows.schema.get_field_index("sidecar")
    pq.write_table(rows.set_column(place, "sidecar", numbers), top)
    made.table.commit([add("later")])
    made.table.checkpoint("v1")
    summary = clean(made)
    assert summary.deleted == ()
    assert f"{top.name} cannot be read" in summary.notes[0]
