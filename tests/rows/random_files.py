"""Random tables with real data files: of several row groups and layouts, some with deleted rows, some from before a
column was there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.builder import TableBuilder
from tests.builder.columns import DATA_COLUMNS, PARTITION_COLUMNS, partition_value, value
from tests.builder.statistics import stats_of
from tests.builder.values import arrow_type, partition_text
from tests.rows.tables import WITH_VECTORS, inline_vector, parquet, put, struct_type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.builder.actions import Row
    from tests.builder.columns import Kind

ROW = "row"
"""The column that tells rows apart."""


@dataclass(frozen=True)
class RandomFiles:
    """What a random table is made of.

    Attributes:
        columns: Its data columns.
        partitions: Its partition columns.
        seed: What its values come from.
        files: How many rows each file has.
        row_group: How many of them a row group has.
        layout: How files are written.
        with_stats: Whether the log has statistics.
        is_sorted: Whether the values of a file are in order, so that row groups differ.
    """

    columns: tuple[str, ...]
    partitions: tuple[str, ...]
    seed: int
    files: tuple[int, ...]
    row_group: int
    layout: Mapping[str, Any]
    with_stats: bool
    is_sorted: bool

    def write(self, root: Path) -> tuple[TableBuilder, list[Row]]:
        """Writes the table, and gives the rows that are in it."""
        dice = random.Random(self.seed)  # noqa: S311 - not for secrets
        kinds = {name: DATA_COLUMNS[name] for name in self.columns}
        parts = {name: PARTITION_COLUMNS[name] for name in self.partitions}
        schema = {name: _delta(kind) for name, kind in ({ROW: "long"} | kinds | parts).items()}
        table = TableBuilder(root, schema=schema, partition_columns=self.partitions, protocol=WITH_VECTORS)
        live: list[Row] = []
        number = 0
        for at, count in enumerate(self.files):
            values = {name: partition_value(kind, dice) for name, kind in parts.items()}
            held = {name: kind for name, kind in kinds.items() if dice.random() > _MISSING}
            thrown = [{name: value(kind, dice) for name, kind in held.items()} for _ in range(count)]
            if self.is_sorted:
                thrown.sort(key=lambda row: [_order(row[name]) for name in held])
            rows = [{ROW: number + place, **row} for place, row in enumerate(thrown)]
            number += count
            deleted = [place for place in range(count) if dice.random() < _DELETED] if dice.random() < _DELETED else []
            content = parquet(_table({ROW: "long"} | held, rows), row_group_size=self.row_group, **self.layout)
            stats = stats_of(rows, columns={ROW: "long"} | kinds) if self.with_stats and rows else None
            table.commit(
                [
                    put(
                        table,
                        f"{at}.parquet",
                        content,
                        partition_values={name: partition_text(found) for name, found in values.items()},
                        dv=inline_vector(deleted) if deleted else None,
                        stats=stats,
                    )
                ]
            )
            live += [row | values for place, row in enumerate(rows) if place not in deleted]
        return table, live


_MISSING, _DELETED = 0.1, 0.4
_LAYOUTS: list[dict[str, Any]] = [
    {},
    {"use_dictionary": False, "data_page_version": "2.0"},
    {"store_decimal_as_integer": True, "store_schema": False},
    {"use_deprecated_int96_timestamps": True, "store_schema": False},
    {"write_statistics": False},
    {"coerce_timestamps": "us", "write_page_index": True},
]


@st.composite
def random_files(draw: st.DrawFn) -> RandomFiles:
    """Gives tables of a few small files."""
    names, parts = sorted(DATA_COLUMNS), sorted(set(PARTITION_COLUMNS) - {"p_raw"})
    return RandomFiles(
        columns=tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=5, unique=True))),
        partitions=tuple(draw(st.lists(st.sampled_from(parts), max_size=2, unique=True))),
        seed=draw(st.integers(0, 2**32)),
        files=tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))),
        row_group=draw(st.integers(1, 5)),
        layout=draw(st.sampled_from(_LAYOUTS)),
        with_stats=draw(st.booleans()),
        is_sorted=draw(st.booleans()),
    )


def _delta(kind: Kind) -> Any:  # noqa: ANN401 - a name or a struct
    return kind if isinstance(kind, str) else struct_type(*((name, _delta(inner)) for name, inner in kind.items()))


def _table(kinds: Mapping[str, Kind], rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([(name, arrow_type(_delta(kind))) for name, kind in kinds.items()]))


def _order(found: Any) -> Any:  # noqa: ANN401 - a value of any type
    """What values are sorted by: null first, NaN and whatever has no order last."""
    if found is None:
        return (0, 0)
    if isinstance(found, dict):
        return (1, [_order(inner) for inner in found.values()])
    return (2, 0) if found != found else (1, found)  # noqa: PLR0124 - NaN is not itself
