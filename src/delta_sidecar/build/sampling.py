"""The layout of a table's statistics texts, told from the first files."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.build.rows import read_statistics
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT, choose_stats_format
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.replay.files import OPTIONAL_COLUMNS, FileColumns
from delta_sidecar.replay.scan import Manner, forward_scan

if TYPE_CHECKING:
    from delta_sidecar.build.layout import SidecarLayout
    from delta_sidecar.plan.machine import Executor
    from delta_sidecar.replay.snapshot import Snapshot

_SAMPLED = 1_000
_MOST_BATCHES = 32


def sampled_format(snapshot: Snapshot, layout: SidecarLayout, executor: Executor) -> str:
    """Looks at the first files that have statistics, which are the same whenever the same log is read.

    Returns:
        Name of the layout that gives most of their texts back.
    """
    without = OPTIONAL_COLUMNS - {"stats"}
    columns = FileColumns((), snapshot.columns.instants(), without)
    statistics = layout.schema.statistics
    rows = max(1, min(_SAMPLED, _MOST_CELLS // (3 * len(statistics) + 1)))
    chain = forward_scan(snapshot, None, manner=Manner(columns=columns))
    found = [pa.nulls(0, pa.string())]
    with closing(StateMachineIterator(chain, executor)) as machine:
        for batch in islice(machine, _MOST_BATCHES):
            found.append(batch.column("stats").drop_null())
            if sum(map(len, found)) >= rows:
                break
    texts = pa.concat_arrays(found).slice(0, rows)
    return choose_stats_format(texts, read_statistics(texts, statistics)) if len(texts) else DEFAULT_STATS_FORMAT


_MOST_CELLS = 1 << 20
