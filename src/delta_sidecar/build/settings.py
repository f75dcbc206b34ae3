"""How a metadata sidecar is built: what a call may say, checked before anything is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta_sidecar.build.publishing import Levels
from delta_sidecar.build.sorting import DEFAULT_MEMORY, LEAST_MEMORY
from delta_sidecar.errors import OptionError
from delta_sidecar.options import size, whole_number

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from delta_sidecar.build.layout import PlannedLayout

ROWS_PER_GROUP = 10_000
_MOST_CELLS = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """How a sidecar is built.

    Attributes:
        version: The version of the table; None for the newest.
        sort: Logical name of the time column; None for the first timestamp with statistics.
        summaries: Logical names of other columns whose bounds every row group tells.
        rows_per_group: Rows in a row group; None for 10,000, or fewer where the table has thousands of columns.
        bucket_column: The partition column that holds the time bucket; None for what the table or the environment say.
        memory_limit: Most bytes of rows that are sorted in memory, as a number or a text such as `1GB`.
        temp_directory: Where the rest goes; None for the machine's own folder.
        threads: How many threads sort and encode.
        levels: When the manifest gets a second level.

    Raises:
        OptionError: A value is out of range.
    """

    version: int | None = None
    sort: str | None = None
    summaries: Sequence[str] = ()
    rows_per_group: int | None = None
    bucket_column: str | None = None
    memory_limit: int | str = DEFAULT_MEMORY
    temp_directory: str | os.PathLike[str] | None = None
    threads: int = 2
    levels: Levels = field(default_factory=Levels)

    def __post_init__(self) -> None:
        checks = {
            "version": whole_number(0, 2**63 - 1),
            "rows_per_group": whole_number(1, 1 << 20),
            "threads": whole_number(1, 256),
        }
        for name, read in checks.items():
            value = getattr(self, name)
            try:
                if value is not None:
                    read(value)
            except ValueError as error:
                msg = f"{name} must be {error}, not {value!r}"
                raise OptionError(msg) from None
        if isinstance(self.summaries, str):
            msg = f"summaries must be a list of names, not {self.summaries!r}"
            raise OptionError(msg)
        if self.memory < LEAST_MEMORY:
            msg = f"memory_limit must be at least {LEAST_MEMORY} bytes, not {self.memory_limit!r}"
            raise OptionError(msg)

    def group_rows(self, layout: PlannedLayout) -> int:
        """Rows in a row group of a sidecar."""
        columns = len(layout.schema.index) + len(layout.schema.statistics_schema)
        return self.rows_per_group or max(1, min(ROWS_PER_GROUP, _MOST_CELLS // columns))

    @property
    def memory(self) -> int:
        """The memory limit in bytes."""
        try:
            return size(1 << 44)(self.memory_limit)
        except ValueError as error:
            msg = f"memory_limit must be {error}, not {self.memory_limit!r}"
            raise OptionError(msg) from None
