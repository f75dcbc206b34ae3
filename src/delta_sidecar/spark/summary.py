"""What a pipeline tells of a batch that it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from delta_sidecar.spark.trigger import TriggerOutcome


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What came of a batch.

    Attributes:
        table: The table's address, without secrets.
        batch_id: The batch's id; None where it has none.
        version: The version of the table that the batch made; None where it made none, since it had no rows or was
            written before.
        rows: Rows written.
        files: Data files written.
        bytes: Their size.
        buckets: Time buckets that the rows are in; rows without one count as one more.
        null_bucket_rows: Rows that are in no time bucket.
        skipped: Whether nothing was written, for the batch id was written before.
        sidecar: What the checkpoint trigger did after the commit; None where nothing was due.
        seconds: How long it took, the checkpoint trigger included.
    """

    table: str
    batch_id: int | None
    version: int | None
    rows: int
    files: int
    bytes: int
    buckets: int
    null_bucket_rows: int
    skipped: bool
    sidecar: TriggerOutcome | None
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for JSON."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"sidecar": None if self.sidecar is None else self.sidecar.as_dict()}
