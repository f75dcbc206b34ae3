"""The live files of a table as rows of its sidecar, in batches that are worth the work.

A scan lets files through as it decodes them, a page of a checkpoint at a time. Rows are made of many of those together,
in a few threads; a few batches are under way at once.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.build.rows import ActionColumns, RowMaker
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT, choose_stats_format
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.replay.scan import Manner, forward_scan
from delta_sidecar.sidecar.rows import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from delta_sidecar.build.layout import PlannedLayout
    from delta_sidecar.build.rows import PackedRows
    from delta_sidecar.events import Events
    from delta_sidecar.plan import Batches
    from delta_sidecar.plan.flow import Executor
    from delta_sidecar.replay.snapshot import Snapshot


MOST_ROWS = 65_536
MOST_BYTES = 32 << 20
"""Bytes of actions that rows are made of at once, about."""


def partition_columns(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """The partition columns of a table: logical and physical names."""
    columns = snapshot.columns
    return tuple(zip(columns.partition_columns, columns.physical_partition_columns, strict=True))


def live_rows(
    snapshot: Snapshot, maker: RowMaker | PackedRows, executor: Executor, events: Events, threads: int
) -> Batches:
    """Gives the live files of a table as rows of its sidecar, as they are sorted.

    Args:
        snapshot: The table.
        maker: Makes the rows.
        executor: Reads the log.
        events: Is told what happens.
        threads: How many threads make rows.
    """
    actions_as_they_are = ActionColumns(partition_columns(snapshot))
    chain = forward_scan(snapshot, None, manner=Manner(columns=actions_as_they_are, events=events))
    waiting: deque[Future[pa.RecordBatch]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="delta-sidecar-rows")
    try:
        with closing(StateMachineIterator(chain, executor)) as machine:
            for actions in gathered(machine, min(MOST_ROWS, maker.most_rows)):
                waiting.append(pool.submit(maker.rows, actions))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def gathered(
    batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int = MOST_BYTES
) -> Iterator[pa.RecordBatch]:
    """Joins neighbours of one schema while they are small together, and cuts what is large."""
    held: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        for start in range(0, batch.num_rows, most_rows):
            part = batch.slice(start, most_rows)
            is_full = rows + part.num_rows > most_rows or nbytes + part.nbytes > most_bytes
            if held and (is_full or held[0].schema != part.schema):
                yield _joined(held)
                held, rows, nbytes = [], 0, 0
            held.append(part)
            rows += part.num_rows
            nbytes += part.nbytes
    if held:
        yield _joined(held)


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return held[0] if len(held) == 1 else pa.Table.from_batches(held).combine_chunks().to_batches()[0]


# What the first files of a table tell of all of them: how their statistics are written, how large a row is.


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
    columns = ActionColumns(partition_columns(snapshot))
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
