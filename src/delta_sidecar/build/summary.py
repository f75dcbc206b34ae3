"""The progress of a build, and its summary in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Stage: TypeAlias = Literal["opening", "checking", "reading", "sorting", "writing", "publishing"]


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """The progress of a build.

    Attributes:
        stage: What it is doing: `opening` the table, `checking` a sidecar that is there already, `reading` the live
            files, `sorting` them, `writing` the data file, `publishing` it.
        files: Files that this stage is through with; bytes while `checking`.
        total: How many there are; None where that is not known.
    """

    stage: Stage
    files: int = 0
    total: int | None = None


ProgressListener: TypeAlias = Callable[[BuildProgress], None]


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """The sidecar that a build made, or found to be there already.

    Attributes:
        table: The table's address, without secrets.
        version: The version of the table.
        file: Name of the data file in `_delta_log/_sidecars/`; of several the first.
        manifest: Name of the manifest.
        bytes: Size of the data file, or of all of them.
        index_bytes: Bytes of the index pieces.
        stats_bytes: Bytes of the statistics pieces.
        manifest_bytes: Size of the manifest.
        files: Live files of the table: the rows.
        row_groups: Row groups.
        sorted_by: The order, in words.
        time_column: Logical name of the time column; None for none.
        stats_columns: How many columns have statistics.
        stats_format: The layout that texts of statistics are rebuilt in.
        kept_texts: Files whose statistics had to be kept as text; None where that was not counted.
        seconds: How long it took.
        already_there: Whether a good sidecar was there, so that nothing was built.
    """

    table: str
    version: int
    file: str
    manifest: str
    bytes: int
    index_bytes: int
    stats_bytes: int
    manifest_bytes: int
    files: int
    row_groups: int
    sorted_by: str
    time_column: str | None
    stats_columns: int
    stats_format: str
    kept_texts: int | None
    seconds: float
    already_there: bool = False

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for JSON."""
        return asdict(self)
