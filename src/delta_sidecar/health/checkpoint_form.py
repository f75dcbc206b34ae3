"""What the newest checkpoint is made of, by the footers of some of its files; no row of it is read.

(phases that trust the checkpoint, where it is small) -> CheckpointFormPhase -> CheckpointForm
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_sidecar.health.report import BaseReport
from delta_sidecar.plan import Consume, ConsumePhase, ReadFooters, StateMachinePhase, Terminus
from delta_sidecar.replay.bases import Base, TrustContinuation
from delta_sidecar.replay.checkpoint import CheckpointBase, is_torn
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.footer_facts import PATH, SIDECAR, FooterFacts, read_footer_facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.health.report import CheckpointKind

MOST_FOOTERS = 8
"""Footers that are looked at."""

_MOST_SIDECARS = 16
_FEWEST_GROUPS = 4
_JSON = "add.stats"
_STRUCT = "add.stats_parsed.numRecords"
_PARTITIONS = "add.partitionValues.key_value.value"


@dataclass(frozen=True, slots=True)
class CheckpointForm:
    """What became of looking at a checkpoint.

    Attributes:
        report: What it is made of.
        torn: Why it cannot be used; None where it seems whole.
    """

    report: BaseReport
    torn: str | None = None


def checkpoint_form(
    base: CheckpointBase, bucket: str | None, partition_columns: tuple[str, ...]
) -> StateMachinePhase[CheckpointForm]:
    """The start of the chain that looks at a checkpoint.

    Args:
        base: The checkpoint.
        bucket: Physical name of the time bucket; None where there is none.
        partition_columns: Physical names of the partition columns.
    """
    looking = _Looking(bucket, is_only_one=partition_columns == (bucket,))
    is_small = len(base.files) <= MOST_FOOTERS and len(base.sidecars) <= _MOST_SIDECARS
    return base.trust(looking, with_table=False) if is_small else looking.trusted(base)


@dataclass(frozen=True, slots=True)
class _Looking(TrustContinuation[CheckpointForm]):
    """Looks at the footers, once the files are known."""

    bucket: str | None
    is_only_one: bool

    def trusted(self, base: Base) -> StateMachinePhase[CheckpointForm]:
        if not isinstance(base, CheckpointBase):
            msg = f"{base.name} is no checkpoint"
            raise TypeError(msg)
        return Consume(CheckpointFormPhase(base, self.bucket_columns()))

    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[CheckpointForm]:
        if not isinstance(base, CheckpointBase):
            raise error
        return Terminus(CheckpointForm(_by_listing(base), str(error)))

    def bucket_columns(self) -> tuple[str, ...]:
        """The columns that may hold the time bucket."""
        if self.bucket is None:
            return ()
        # In a map with values of several columns there is no telling which is whose.
        return (f"add.partitionValues_parsed.{self.bucket}", *((_PARTITIONS,) if self.is_only_one else ()))


@dataclass(frozen=True, slots=True)
class CheckpointFormPhase(ConsumePhase[CheckpointForm]):
    """Reads footers of a checkpoint."""

    base: CheckpointBase
    buckets: tuple[str, ...]

    def plan(self) -> ReadFooters:
        """Those of the first files."""
        leaves = self.base.files if self.base.leaves is None else self.base.leaves
        tables = [leaf for leaf in leaves if not leaf.path.endswith(".json")]
        columns = (PATH, SIDECAR, _JSON, _STRUCT, *self.buckets)
        return ReadFooters(tuple(tables[:MOST_FOOTERS]), columns)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[CheckpointForm]:
        """Sums them up."""
        footers = list(read_footer_facts(data).values())
        report = _by_listing(self.base)
        if any(group[SIDECAR].count.upper != 0 for footer in footers for group in footer.groups if SIDECAR in group):
            report = replace(report, kind="V2")
        sizes = [rows for footer in footers for rows in _group_rows(footer)]
        has_files = any(_has(footers, PATH))
        return Terminus(
            CheckpointForm(
                replace(
                    report,
                    footers=len(footers),
                    row_groups=sum(len(footer.groups) for footer in footers),
                    rows=sum(footer.rows for footer in footers),
                    largest_row_group=max(sizes, default=0),
                    json_stats=any(_has(footers, _JSON)) if has_files else None,
                    struct_stats=any(_has(footers, _STRUCT)) if has_files else None,
                    in_time_order=self._in_time_order(footers),
                )
            )
        )

    def recover(self, error: Exception) -> StateMachinePhase[CheckpointForm] | None:
        """A file that is torn is worth to know; a store out of reach is another matter."""
        if is_torn(error):
            return Terminus(CheckpointForm(_by_listing(self.base), str(error)))
        raise_unreachable("the checkpoint", error)
        return None

    def _in_time_order(self, footers: list[FooterFacts]) -> bool | None:
        """Whether few row groups reach up to the newest bucket; None where there are not enough to tell."""
        for column in self.buckets:
            uppers = [group[column].upper for footer in footers for group in footer.groups if column in group]
            told = [upper for upper in uppers if upper is not None]
            if len(told) >= _FEWEST_GROUPS:
                return told.count(max(told)) * 2 <= len(told)
        return None


def _by_listing(base: CheckpointBase) -> BaseReport:
    leaves = base.files if base.leaves is None else base.leaves
    kind: CheckpointKind = "multi-part" if len(base.files) > 1 else "classic"
    if base.name.count(".") > _CLASSIC_DOTS and len(base.files) == 1:
        kind = "V2"
    kind = "V2" if len(leaves) > len(base.files) else kind
    return BaseReport(base.name, base.version, kind, len(leaves), sum(leaf.size or 0 for leaf in leaves))


# `{version}.checkpoint.parquet`; other names have a part number or a UUID in them.
_CLASSIC_DOTS = 2


def _group_rows(footer: FooterFacts) -> list[int]:
    return [max((facts.rows for facts in group.values()), default=0) for group in footer.groups]


def _has(footers: list[FooterFacts], column: str) -> Iterator[bool]:
    return (group[column].count.upper != 0 for footer in footers for group in footer.groups if column in group)
