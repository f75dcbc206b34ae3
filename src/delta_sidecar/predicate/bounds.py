"""What is known of the values of columns without reading them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of one column, one row for each file (or row group, or whatever may be dropped).

    Bounds are as they were written; `may_match` widens them where their writers round or cut.

    Attributes:
        lower: The lowest values, typed as the column; null where unknown.
        upper: The highest values, likewise.
        null_count: How many rows are null, int64; null where unknown.
        num_records: How many rows there are, int64; null where unknown.
        tight: Whether the bounds are of the rows that are there, or wider; absent or null is true.
        whole: Whether the bounds are values that are there, neither rounded nor cut.
        exact: Whether this is a partition value: `lower` is the value of every row, and null there *is* null.
        zoneless: Which exact timestamps were written without a zone, and so may lie 16 hours either way.
    """

    lower: pa.Array | None
    upper: pa.Array | None
    null_count: pa.Array | None
    num_records: pa.Array | None
    tight: pa.Array | None = None
    whole: bool = False
    exact: bool = False
    zoneless: pa.Array | None = None


class Bounds(Protocol):
    """What is known of the columns of some files."""

    @property
    def num_rows(self) -> int:
        """The number of files."""

    def column(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """Gives what is known of a column; None: nothing."""
