"""What can be told of a table from its list of files."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from delta_sidecar.log.paths import is_absolute

if TYPE_CHECKING:
    from delta_sidecar.scan.scanner import LazyDeltaScanner


def file_uri(path: str, table: str) -> str:
    """The address of a file.

    Args:
        path: As `DeltaFile.path` names it.
        table: The table's address.
    """
    if is_absolute(path):
        return path
    return f"{table}/{quote(path, safe='/=:@!$,;+()*~-._') if '://' in table else path}"


def partitions(scanner: LazyDeltaScanner) -> list[dict[str, str | None]]:
    """The combinations of partition values among some files, each once."""
    found: dict[tuple[tuple[str, str | None], ...], None] = {}
    for batch in scanner.scan_batches(columns=["partition_values"]):
        for values in batch.column(0).to_pylist():
            if values:
                found[tuple(values)] = None
    return [dict(values) for values in found]
