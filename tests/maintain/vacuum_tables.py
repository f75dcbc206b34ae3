"""Tables with metadata sidecars of any age, and what else may lie beside them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from msgspec.structs import replace
from tests.builder import TableBuilder, add, protocol

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build import build_sidecar
from delta_sidecar.sidecar.groups import Segment
from delta_sidecar.sidecar.manifest import (
    SidecarFile,
    decode_manifest,
    encode_groups,
    encode_manifest,
    with_row_groups,
)

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.sidecar.manifest import Manifest

DAY = 86_400
BUILT = (1, 3, 5, 7)
"""Versions with a metadata sidecar."""


class SidecarTable:
    """A table of ten versions, and the files of its `_delta_log/_sidecars/`.

    Args:
        table: The table.
    """

    def __init__(self, table: TableBuilder) -> None:
        self.table = table
        self.root = table.root
        self.folder = table.log / "_sidecars"

    @classmethod
    def make(cls, root: Path, checkpoint: int | None = None) -> SidecarTable:
        """Makes one, its metadata sidecars built and 30 days old; with a checkpoint of a version."""
        table = TableBuilder(root, protocol=protocol(features=["v2Checkpoint"]))
        for number in range(10):
            table.commit([add(f"f{number}.parquet", rows=[{"id": number}])])
            if number == checkpoint:
                table.checkpoint()
        made = cls(table)
        for version in BUILT:
            build_sidecar(root, version=version)
        for file in made.folder.iterdir():
            age(file, 30)
        age(table.commit_path(9), 0)
        return made

    def copy(self, root: Path) -> SidecarTable:
        """Gives a copy that can be changed; ages stay."""
        return SidecarTable(self.table.copy(root))

    def names(self) -> set[str]:
        """Gives the names of all files in the folder."""
        return {path.name for path in self.folder.iterdir()}

    def put(self, name: str, content: bytes = b"whatever", days: float = 30) -> Path:
        """Puts a file into the folder."""
        path = self.folder / name
        path.write_bytes(content)
        return age(path, days)

    def put_data(self, name: str, days: float = 30, *, ours: bool = True) -> Path:
        """Puts a data file into the folder, one of ours or one that says nothing of whose it is."""
        content = (self.folder / "v7.parquet").read_bytes()
        path = self.put(name, content)
        if not ours:
            pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
        return age(path, days)

    def manifest(self, version: int) -> Manifest:
        """Reads a manifest."""
        return decode_manifest((self.folder / f"v{version}.manifest.json").read_bytes())

    def change_manifest(self, version: int, days: float = 30, **changes: Any) -> Path:  # noqa: ANN401 - any field
        """Writes a manifest anew, with other values."""
        manifest = replace(self.manifest(version), **changes)
        return self.put(f"v{version}.manifest.json", encode_manifest(manifest), days)

    def into_parts(self, version: int, build: str, days: float = 30) -> str:
        """Turns a metadata sidecar into one that a build of a name made, and gives the name of its data file."""
        name = f"v{version}.{build}.00000-0.parquet"
        path = (self.folder / f"v{version}.parquet").rename(self.folder / name)
        self.change_manifest(version, days, sidecar_file=name, sidecar_size_bytes=path.stat().st_size)
        age(path, days)
        return name

    def into_segments(self, version: int, build: str) -> str:
        """Gives a manifest a second level, and tells the name of that file."""
        groups = self.manifest(version).row_groups
        data = encode_groups(groups)
        segment = Segment(
            file=1,
            byte_offset=0,
            byte_length=len(data),
            digest=xxh3_128(data),
            first_index=0,
            num_row_groups=len(groups),
            num_rows=sum(group.num_rows for group in groups),
            first_key=groups[0].first_key,
            last_key=groups[-1].last_key,
        )
        name = f"v{version}.{build}.segments.json"
        self.put(name, data)
        named = replace(self.manifest(version), other_files=(SidecarFile(name, len(data)),))
        text = encode_manifest(with_row_groups(named, (), (segment,)))
        self.put(f"v{version}.manifest.json", text)
        return name

    def v2_checkpoint(self, kind: str, *names: str, last: bool = True) -> Path:
        """Writes a V2 checkpoint whose sidecars have given names, and gives its top file."""
        *leaves, top = self.table.checkpoint(kind, sidecars=len(names), last_checkpoint=last)
        renamed = {leaf.name: name for leaf, name in zip(leaves, names, strict=True)}
        for leaf in leaves:
            age(leaf.rename(leaf.with_name(renamed[leaf.name])), 30)
        if top.suffix == ".json":
            text = top.read_text()
            for old, new in renamed.items():
                text = text.replace(old, new)
            top.write_text(text)
        else:
            rows = pq.read_table(top)
            actions = rows.to_pylist()
            for action in actions:
                if action["sidecar"] is not None:
                    action["sidecar"]["path"] = renamed[action["sidecar"]["path"]]
            pq.write_table(type(rows).from_pylist(actions, schema=rows.schema), top, store_schema=False)
        return top


def age(path: Path, days: float) -> Path:
    """Makes a file so many days old."""
    then = time.time() - days * DAY
    os.utime(path, (then, then))
    return path
