"""The public tables and what a correct reader finds in them."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta_sidecar import (
    DeltaSidecarError,
    InvalidMetadataError,
    MissingCommitError,
    MissingMetadataError,
    MissingProtocolError,
    TableNotFoundError,
    UnsupportedFeatureError,
    UnsupportedProtocolVersionError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from delta_sidecar import DeltaFile

# Resolved, since deltalake follows links and shows where they lead.
FOLDER = Path(
    os.environ.get("DELTA_CONFORMANCE_DIR") or Path(__file__).parents[2].parent / "shared" / "conformance"
).resolve()

ERRORS: dict[str, type[DeltaSidecarError]] = {
    "not_a_table": TableNotFoundError,
    "missing_metadata": MissingMetadataError,
    "missing_protocol": MissingProtocolError,
    "missing_commit": MissingCommitError,
    "version_not_available": VersionNotFoundError,
    "unsupported_protocol_version": UnsupportedProtocolVersionError,
    "catalog_managed": UnsupportedFeatureError,
    "unsupported_feature": UnsupportedFeatureError,
}
REFUSALS = (InvalidMetadataError, UnsupportedFeatureError)


@dataclass(frozen=True)
class Expected:
    """What is expected of one version of a table; `version` is None for the newest."""

    name: str
    root: Path
    version: int | None
    facts: Mapping[str, Any]

    @property
    def label(self) -> str:
        return "latest" if self.version is None else str(self.version)


@cache
def names() -> tuple[str, ...]:
    return tuple(_tables()) if (FOLDER / "expected.json").exists() else ()


def versions(name: str) -> list[Expected]:
    table = _tables()[name]
    return [
        Expected(name, FOLDER / table["dir"], None if label == "latest" else int(label), facts)
        for label, facts in table["versions"].items()
    ]


@cache
def odd_tables() -> tuple[str, ...]:
    """Names of tables whose log or data files have names that a careless store would garble."""
    found = []
    for name in names():
        root = versions(name)[0].root
        listed = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        if any(letter in path for path in [*listed, root.name] for letter in "% +&#ä") or "sidecars" in name:
            found.append(name)
    return tuple(found[:: max(1, len(found) // 12)])


@cache
def covering() -> frozenset[str]:
    """Names of tables that have among them every feature, checkpoint and failure that any table has."""
    facets = {name: _facets(table) for name, table in _tables().items()}
    missing, found = set().union(*facets.values()), set()
    while missing:
        # The smallest of those with the most.
        best = min(facets, key=lambda name: (-len(missing & facets[name]), _tables()[name]["bytes"]))
        found.add(best)
        missing -= facets[best]
    return frozenset(found)


def _facets(table: dict[str, Any]) -> set[str]:
    newest = list(table["versions"].values())[-1]
    found = {f"{kind}: {newest[kind]}" for kind in ("fails", "rows_fail", "may_refuse") if kind in newest}
    for kind in ("features", "checkpoints", "readerFeatures", "writerFeatures"):
        found.update(table.get(kind) or ())
    return found


def facts_of(files: Iterable[DeltaFile]) -> dict[str, Any]:
    """Gives what `expected.json` says of a list of files."""
    listed = list(files)
    vectors = [file.deletion_vector for file in listed]
    ids = ["" if vector is None else vector.unique_id for vector in vectors]
    lines = sorted(f"{file.raw_path}\t{name}\n" for file, name in zip(listed, ids, strict=True))
    counts = [file.num_records for file in listed if file.num_records is not None]
    return {
        "files": len(listed),
        "dvs": sum(vector is not None for vector in vectors),
        "digest": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "stats_files": len(counts),
        "stats_num_records": sum(counts),
    }


def comparable(file: DeltaFile) -> tuple[Any, ...]:
    """Gives all of a file as a value that sorts and hashes."""
    tags = None if file.tags is None else tuple(sorted(file.tags.items(), key=repr))
    stats = None if file.stats is None else json.dumps(json.loads(file.stats), sort_keys=True)
    return (
        file.raw_path,
        repr(file.deletion_vector),
        file.path,
        file.size,
        file.modification_time,
        repr(sorted(file.partition_values.items())),
        stats,
        tags,
        file.base_row_id,
        file.default_row_commit_version,
        file.clustering_provider,
    )


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))["tables"]
    return tables
