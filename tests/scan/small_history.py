"""A small table with everything in it, for tests of what can go wrong with a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add, deletion_vector, protocol, remove
from tests.scan.reading import STRATEGIES, keys_of, scanner

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar import DeltaFile, DeltaSidecarError
    from delta_sidecar.store import Store

V2 = protocol(features=["v2Checkpoint", "deletionVectors"])
KINDS = ["v1", "v1-multipart", "v2-json", "v2-parquet", "v2-classic"]
FIRST, LAST = 4, 7


def history(root: Path, kind: str = "v1", *, checksum: bool = False, **checkpoint: object) -> TableBuilder:
    """Gives a table with a checkpoint at version 3 and commits 4..7 after it."""
    table = TableBuilder(root, protocol=V2)
    for number in range(4):
        rows = [{"id": number * 10 + place, "value": f"v{number}"} for place in range(3)]
        table.commit([add(f"base-{number}.parquet", rows=rows), add(f"more%20{number}.parquet", rows=rows)])
    table.checkpoint(kind, **checkpoint)
    if checksum:
        table.checksum()
    for number in range(FIRST, LAST + 1):
        rows = [{"id": number * 10, "value": f"v{number}"}]
        vector = deletion_vector(f"dv-{number}")
        table.commit(
            [
                remove(f"base-{number - FIRST}.parquet"),
                add(f"tail-{number}.parquet", rows=rows),
                add(f"base-{number - FIRST}.parquet", rows=rows, dv=vector),
            ]
        )
    return table


def fails_without_seeming_complete(
    table: TableBuilder, error: type[DeltaSidecarError], store: Store | None = None, **config: object
) -> list[str]:
    """Asserts that every way to read a table fails; gives the messages."""
    messages = []
    for strategy in STRATEGIES:
        reader = scanner(table, store, strategy=strategy, **config)
        found: list[DeltaFile] = []
        with pytest.raises(error) as failure:
            found.extend(reader.scan_files())
        messages.append(str(failure.value))
        assert set(keys_of(found)) <= set(table.model_files())
        assert not reader.metrics.is_complete
        with pytest.raises(error):
            scanner(table, store, strategy=strategy, **config).scan_batches().read_all()
    return messages
