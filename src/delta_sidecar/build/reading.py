"""The live files of a table as rows of its sidecar, in batches that are worth the work.

A scan lets files through as it decodes them, a page of a checkpoint at a time. Rows are made of many of those together,
in a few threads; a few batches are under way at once.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.build.rows import AddActions
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.replay.scan import Manner, forward_scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from delta_sidecar.build.packed_rows import PackedRows
    from delta_sidecar.build.rows import RowMaker
    from delta_sidecar.events import Events
    from delta_sidecar.plan import Batches
    from delta_sidecar.plan.machine import Executor
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
    actions_as_they_are = AddActions(partition_columns(snapshot))
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
