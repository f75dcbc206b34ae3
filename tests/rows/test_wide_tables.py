"""Twice the columns are twice the work: tables and structs of many columns, on every way through them.

What is counted is the steps of Python's own machine, in all threads: the same on every computer.
"""

from __future__ import annotations

import functools
import itertools
import json
import operator
import sys
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builder import TableBuilder
from tests.rows.tables import MAPPED, field, parquet, put, struct_type, with_id

from delta_sidecar import DeltaTable, build_sidecar
from delta_sidecar.table.statistics import fold_stats

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

COUNT = 80


def steps(work: Callable[[], object]) -> int:
    """Counts the instructions that Python carries out, also in the threads that are started meanwhile."""
    counter = itertools.count()

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - itself
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            next(counter)
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type] - None takes it away
    return next(counter)


def names(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def columns(count: int) -> list[pa.Array]:
    return [pa.array([1, None], pa.int64())] * count


def flat(root: Path, count: int) -> Path:
    rows = pa.table(columns(count), names=names(count))
    return table(root, dict.fromkeys(names(count), "long"), rows, dict.fromkeys(names(count), 1))


def in_another_case(root: Path, count: int) -> Path:
    upper = [name.upper() for name in names(count)]
    rows = pa.table(columns(count), names=names(count))
    return table(root, dict.fromkeys(upper, "long"), rows, dict.fromkeys(upper, 1))


def by_id(root: Path, count: int) -> Path:
    schema = struct_type(*(field(name, "long", number) for number, name in enumerate(names(count), 1)))
    physical = [with_id(pa.field(f"col-{number}", pa.int64()), number) for number in range(1, count + 1)]
    rows = pa.table(columns(count), schema=pa.schema(physical))
    mapped = {"configuration": {"delta.columnMapping.mode": "id"}, "protocol": MAPPED}
    return table(root, schema, rows, {each.name: 1 for each in physical}, **mapped)


def in_structs(root: Path, count: int) -> Path:
    kind: Any = struct_type(*((name, "long") for name in names(count)))
    array = pa.StructArray.from_arrays(columns(count), names=names(count), mask=pa.array([False, True]))
    bounds: dict[str, Any] = dict.fromkeys(names(count), 1)
    for _ in range(2):
        kind, bounds, array = struct_type(("s", kind)), {"s": bounds}, pa.StructArray.from_arrays([array], names=["s"])
    return table(root, {"s": kind}, pa.table({"s": array}), {"s": bounds})


def of_structs(root: Path, count: int) -> Path:
    each = pa.StructArray.from_arrays(columns(1), names=["x"])
    rows = pa.table([each] * count, names=names(count))
    kinds = dict.fromkeys(names(count), struct_type(("x", "long")))
    return table(root, kinds, rows, {name: {"x": 1} for name in names(count)})


def partitioned(root: Path, count: int) -> Path:
    values = dict.fromkeys(names(count), "1")
    kinds = dict.fromkeys([*names(count), "x"], "long")
    return table(root, kinds, pa.table(columns(1), names=["x"]), {"x": 1}, values)


def table(
    root: Path,
    schema: dict[str, Any],
    rows: pa.Table,
    bounds: dict[str, Any],
    partition_values: dict[str, str | None] | None = None,
    **how: Any,  # noqa: ANN401 - what the builder takes
) -> Path:
    """Makes a table with statistics of all columns, of one file: no two are looked at at once."""
    how["configuration"] = {**how.get("configuration", {}), "delta.dataSkippingNumIndexedCols": "-1"}
    built = TableBuilder(root, schema=schema, partition_columns=list(partition_values or ()), **how)
    stats = json.dumps({"numRecords": 2, "minValues": bounds, "maxValues": bounds, "nullCount": bounds})
    content = parquet(rows, row_group_size=1)
    built.commit([put(built, "a.parquet", content, partition_values=partition_values, stats=stats)])
    return root


def paths(make: Any, count: int) -> list[str]:  # noqa: ANN401 - one of the functions above
    """The columns as a predicate names them."""
    form = {in_structs: "s.s.s.{}", of_structs: "{}.x"}.get(make, "{}")
    return [form.format(name) for name in names(count)]


def rows(root: Path, _: list[str]) -> object:
    return DeltaTable(root).to_pyarrow_table()


def all_named(root: Path, named: list[str]) -> object:
    return DeltaTable(root).to_pyarrow_table(columns=[name.upper() for name in named])


def matching(root: Path, named: list[str]) -> object:
    return list(DeltaTable(root).scan(predicate=[(name, "=", 1) for name in named]))


def matching_any(root: Path, named: list[str]) -> object:
    return list(DeltaTable(root).scan(predicate=" OR ".join(f"{name} = 2" for name in named)))


def expression(root: Path, named: list[str]) -> object:
    terms = [pc.field(name) == 1 for name in named[::5]]
    while len(terms) > 1:
        # In pairs: a chain is as deep as it is long.
        terms = [functools.reduce(operator.and_, terms[at : at + 2]) for at in range(0, len(terms), 2)]
    return DeltaTable(root).to_pyarrow_dataset().to_table(filter=terms[0])


def files(root: Path, named: list[str]) -> object:
    return list(DeltaTable(root).file_infos([(name, "=", 1) for name in named]))


def actions(root: Path, _: list[str]) -> object:
    return [pa.table(DeltaTable(root).get_add_actions(flatten=flatten)) for flatten in (False, True)]


def fields(root: Path, _: list[str]) -> object:
    return DeltaTable(root).schema().fields


def summaries(root: Path, named: list[str]) -> object:
    table = DeltaTable(root)
    return list(table.get_stats_for_files(columns=named)), fold_stats(table.snapshot().handle, named)


def sidecar(root: Path, named: list[str]) -> object:
    build_sidecar(root)
    return files(root, named), actions(root, named)


ALL = (rows, matching, matching_any, files, actions, fields, summaries, sidecar)


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "work"),
    [
        *((flat, work) for work in (*ALL, all_named, expression)),
        *((in_another_case, work) for work in (rows, matching, all_named)),
        *((by_id, work) for work in (rows, matching)),
        *((in_structs, work) for work in ALL[:-1]),
        *((of_structs, work) for work in (rows, matching)),
        *((partitioned, work) for work in ALL),
    ],
)
def test_twice_the_columns(tmp_path: Path, make: Any, work: Any) -> None:  # noqa: ANN401
    work(make(tmp_path / "warm", 2), paths(make, 2))
    few, many = (
        steps(functools.partial(work, make(tmp_path / str(count), count), paths(make, count)))
        for count in (COUNT, 2 * COUNT)
    )
    assert many < 2.5 * few
