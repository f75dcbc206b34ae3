"""What may happen to the files of a log, drawn at random."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from hypothesis import event
from hypothesis import strategies as st

from delta_sidecar import ObjectNotFoundError
from delta_sidecar.log.names import commit_path
from delta_sidecar.store.testing import Fail, Truncate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builder import TableBuilder

NOT_FOUND = ObjectNotFoundError("injected: not found")


def checkpoint_files(table: TableBuilder, version: int | None = None) -> list[Path]:
    """The files of the checkpoints, or of one of them; V2-checkpoint sidecars by the names in it."""
    pattern = "*.checkpoint.*" if version is None else f"{version:020}.checkpoint.*"
    tops = sorted(table.log.glob(pattern))
    names = [name for top in tops for name in sidecar_names(top)]
    return tops + [table.log / "_sidecars" / name for name in names]


def sidecar_names(top: Path) -> list[str]:
    if top.suffix == ".json":
        lines = map(json.loads, top.read_text(encoding="utf-8").splitlines())
        return [line["sidecar"]["path"] for line in lines if "sidecar" in line]
    rows = pq.read_table(top)
    if "sidecar" not in rows.column_names:
        return []
    return [row["path"] for row in rows["sidecar"].to_pylist() if row is not None and row["path"]]


def damage(path: Path, data: st.DataObject) -> None:
    """Takes a file away, cuts it off or spoils its footer, so that nobody can take it for whole."""
    size = path.stat().st_size
    kinds = ["gone", "cut", "empty"] + ([] if path.suffix == ".json" else ["footer", "magic"])
    kind = data.draw(st.sampled_from(kinds))
    event(kind)
    if kind == "gone":
        path.unlink()
    elif kind == "cut":
        cut(path, data.draw(st.integers(1, size - 1)))
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        with path.open("r+b") as file:
            file.seek(-4 if kind == "magic" else -8, os.SEEK_END)
            file.write(b"NOPE" if kind == "magic" else b"\xff\xff\xff\x7f")


def cut(path: Path, at: int) -> None:
    """Cuts a file off; a text never at the end of a line, where it would be a whole one."""
    data = path.read_bytes()
    if path.suffix == ".json":
        while at > 0 and (data[at - 1 : at] == b"\n" or data[at : at + 1] == b"\n"):
            at -= 1
    path.write_bytes(data[:at])


@st.composite
def lasting_faults(draw: st.DrawFn, table: TableBuilder, version: int) -> Fail | Truncate:
    path = commit_path(version)
    whole = table.commit_path(version).read_bytes()
    kind = draw(st.sampled_from(["server", "gone", *(["cut"] if whole else [])]))
    if kind == "server":
        return Fail(path, "get")
    if kind == "gone":
        return Fail(path, "get", NOT_FOUND)
    keep = draw(st.integers(1, len(whole) - 2))
    while b"\n" in whole[keep - 1 : keep + 1]:
        keep -= 1
    return Truncate(path, keep)
