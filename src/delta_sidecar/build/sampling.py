"""What the first files of a table tell of all of them: how their statistics are written, how large a row is."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.build.reading import partition_columns
from delta_sidecar.build.rows import AddActions, RowMaker
from delta_sidecar.build.statistics import read_statistics
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT, choose_stats_format
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.replay.scan import Manner, forward_scan

if TYPE_CHECKING:
    from delta_sidecar.build.layout import PlannedLayout
    from delta_sidecar.plan.machine import Executor
    from delta_sidecar.replay.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Sample:
    """What the first files tell of all of them.

    Attributes:
        stats_format: Name of the layout that gives most of their texts back.
        row_bytes: About how large a row is.
    """

    stats_format: str
    row_bytes: float


def sampled(snapshot: Snapshot, layout: PlannedLayout, executor: Executor) -> Sample:
    """Looks at the first files, which are the same whenever the same log is read."""
    actions = _first_actions(snapshot, layout, executor)
    return Sample(DEFAULT_STATS_FORMAT, 0) if actions is None else _sample_of(actions, snapshot, layout)


def _sample_of(actions: pa.RecordBatch, snapshot: Snapshot, layout: PlannedLayout) -> Sample:
    """Looks at some files, at least one, in the form that `RowMaker` takes."""
    instants, statistics = snapshot.columns.instants(), layout.schema.statistics
    _, texts = RowMaker(layout, instants, DEFAULT_STATS_FORMAT).without_statistics(actions)
    texts = texts.drop_null()
    stats_format = DEFAULT_STATS_FORMAT
    if len(texts):
        stats_format = choose_stats_format(texts, read_statistics(texts, statistics), statistics)
    rows = RowMaker(layout, instants, stats_format).rows(actions)
    # In a row of DuckDB's a text takes 16 bytes besides its own, and so do offsets and nulls here.
    overhead = 16 * sum(pa.types.is_string(field.type) for field in rows.schema)
    return Sample(stats_format, rows.nbytes / rows.num_rows + overhead)


def _sample_rows(layout: PlannedLayout) -> int:
    """How many files are looked at."""
    return max(1, min(_SAMPLED, _MOST_CELLS // (3 * len(layout.schema.statistics) + 1)))


def _first_actions(snapshot: Snapshot, layout: PlannedLayout, executor: Executor) -> pa.RecordBatch | None:
    columns = AddActions(partition_columns(snapshot))
    most = _sample_rows(layout)
    chain = forward_scan(snapshot, None, manner=Manner(columns=columns))
    found: list[pa.RecordBatch] = []
    with closing(StateMachineIterator(chain, executor)) as machine:
        for batch in islice(machine, _MOST_BATCHES):
            # A checkpoint and commits have other fields: what comes first counts.
            if found and found[0].schema != batch.schema:
                break
            found.append(batch)
            if sum(each.num_rows for each in found) >= most:
                break
    if not found:
        return None
    return pa.Table.from_batches(found).combine_chunks().to_batches()[0].slice(0, most)


_SAMPLED = 1_000
_MOST_BATCHES = 32
_MOST_CELLS = 1 << 20
