"""Checks of a public table beside deltalake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
from tests.table.comparing import same_facts, same_files, same_schema

from delta_sidecar import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.public_table import PublicTable

# deltalake takes /path and file:/path for two files, and puts the table's folder before both.
ABSOLUTE_PATHS = {f"delta-kernel-rs/golden__canonicalized-paths-{kind}" for kind in ("normal-a", "special-b")}
# There is a gap in the versions of these. deltalake numbers what is there from the newest one downwards.
WITH_GAPS = {"delta-rs/err_logs__table_b", "delta-rs/err_logs__table_g"}
# Whether the parts of a variant may be null is told otherwise.
VARIANTS = "variant"


def parity(table: PublicTable) -> None:
    """deltalake says the same of a table, where it opens it."""
    # Of a long history, the first version and the last.
    for expected in table.oldest_and_newest:
        theirs = opened_by_deltalake(expected.root, expected.version)
        if theirs is None:
            continue
        ours = table.opened(expected)
        same_facts(ours, theirs)
        if VARIANTS not in ours.schema().to_json():
            same_schema(ours, theirs)
        if table.name not in ABSOLUTE_PATHS:
            same_files(ours, theirs, flattened=expected is table.newest)


def history(table: PublicTable) -> None:
    """The newest version has the history that deltalake gives it."""
    root = table.newest.root
    theirs = None if table.name in WITH_GAPS else opened_by_deltalake(root, None)
    if theirs is not None:
        ours = DeltaTable(root)
        assert ours.history() == theirs.history()
        assert ours.history(2) == theirs.history(2)


def absolute_paths(table: PublicTable) -> None:
    """Absolute paths are given as they are."""
    if table.name not in ABSOLUTE_PATHS:
        return
    first, second = map(table.opened, table.versions)
    (path,) = first.file_uris()
    assert path.startswith("/some/unqualified/")
    assert second.file_uris() == []


def opened_by_deltalake(root: Path, version: int | None) -> deltalake.DeltaTable | None:
    try:
        return deltalake.DeltaTable(root, version)
    except (deltalake.exceptions.DeltaError, deltalake.exceptions.TableNotFoundError):
        return None
