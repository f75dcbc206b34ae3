"""Random predicates over random tables: no file too few, and the same answer in every notation."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from tests.builder.columns import PRIMITIVES, literals, sql_literal
from tests.builder.predicates import written_name
from tests.builder.strategies import (
    Condition,
    History,
    column_histories,
    histories,
    normal_forms,
    predicates,
    true_conditions,
)
from tests.builder.values import arrow_type, typed
from tests.scan.effort import examples
from tests.scan.expected import built
from tests.scan.reading import STRATEGIES, key_of, keys_of, scan
from tests.scan.sizes import SIZES

from delta_sidecar.predicate import parse

if TYPE_CHECKING:
    from tests.builder import Key, ModelColumn, TableBuilder
    from tests.builder.actions import Row

STEPPED = {"byte", "short", "integer", "long", "date", "decimal(10,2)"}
"""Types whose bounds are the values themselves: what lies outside of them is nowhere in the file."""
DECEPTIVE = {"float", "double", "string"}
"""Types whose bounds say less than they seem to: NaN hides behind them, rounding and cutting move them."""


def notations(condition: Condition) -> list[Any]:
    """A predicate as SQL, as a tree, as the tree's own SQL, as a mapping and, where JSON has its values, as that."""
    tree, text = parse(condition.sql), condition.json()
    return [condition.sql, tree, str(tree), condition.mapping, *([] if text is None else [text])]


def answer(table: TableBuilder, written: list[Any], version: int, data: st.DataObject) -> list[Key]:
    """Gives the one answer that every notation of a predicate gets, however it is read."""
    answers = []
    for predicate in written:
        strategy = data.draw(st.sampled_from(STRATEGIES))
        with data.draw(st.sampled_from(SIZES))():
            answers.append(keys_of(scan(table, strategy=strategy, version=version, predicate=predicate)))
    assert all(found == answers[0] for found in answers), answers
    assert len(set(answers[0])) == len(answers[0])
    return answers[0]


def misses_nothing(table: TableBuilder, version: int, condition: Condition, found: list[Key]) -> None:
    live = table.model_files(version)
    assert set(found) <= live.keys()
    for key in live.keys() - set(found):
        for row in live[key].rows:
            assert not condition.matches(row), (key, row)
    event("some pruned" if len(found) < len(live) else "none pruned")


def rows_of(table: TableBuilder, version: int) -> list[Row]:
    return [row for action in table.model_files(version).values() for row in action.rows]


@pytest.mark.full
@pytest.mark.parametrize("role", ["column", "field", "partition"])
@pytest.mark.parametrize("kind", PRIMITIVES)
@examples(5)
@given(data=st.data())
def test_a_file_is_found_by_what_is_true_of_a_row_of_it(kind: str, role: str, data: st.DataObject) -> None:
    with built(data.draw(column_histories(kind, role))) as table:
        about = [column for column in table.model_columns() if column.path[-1] == "c"]
        for key, action in table.model_files().items():
            for row in action.rows[: 4 if kind in DECEPTIVE else 1]:
                condition = data.draw(true_conditions(about * 4, row))
                predicate = data.draw(st.sampled_from(notations(condition)))
                found = keys_of(scan(table, predicate=predicate))
                assert key in found, condition
                misses_nothing(table, table.version, condition, found)


@examples(20)
@given(history=histories(max_steps=4), data=st.data())
def test_a_file_is_found_by_what_is_true_of_all_columns_of_a_row(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        columns = table.model_columns(version)
        for key, action in table.model_files(version).items():
            for row in action.rows[:1]:
                condition = data.draw(true_conditions(columns, row))
                found = answer(table, [data.draw(st.sampled_from(notations(condition)))], version, data)
                assert key in found, condition
                misses_nothing(table, version, condition, found)


@pytest.mark.full
@examples(20)
@given(history=histories(), data=st.data())
def test_no_pruned_file_holds_a_matching_row(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        for _ in range(2):
            condition = data.draw(predicates(table.model_columns(version), rows_of(table, version)))
            misses_nothing(table, version, condition, answer(table, notations(condition), version, data))


@examples(20)
@given(history=histories(), data=st.data())
def test_filters_in_normal_form_give_the_answer_of_their_sql(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        for _ in range(2):
            condition = data.draw(normal_forms(table.model_columns(version), rows_of(table, version)))
            both = [condition.filters, data.draw(st.sampled_from(notations(condition)))]
            misses_nothing(table, version, condition, answer(table, both, version, data))


@examples(20)
@given(history=histories(), data=st.data())
def test_a_file_whose_bounds_leave_a_value_out_is_dropped(history: History, data: st.DataObject) -> None:
    """The power of pruning: every file that is left says of itself that it may hold the value."""
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        columns = [column for column in table.model_columns(version) if column.kind in STEPPED]
        assume(columns)
        for column in columns:
            value = data.draw(literals(column.kind))
            predicate = f"{written_name(column.path)} = {sql_literal(value)}"
            live = table.model_files(version)
            found = scan(table, version=version, strategy=data.draw(st.sampled_from(STRATEGIES)), predicate=predicate)
            for file in found:
                low, high = bounds(column, file.stats, live[key_of(file)]["partitionValues"])
                assert low is None or low <= value, (column, file)
                assert high is None or value <= high, (column, file)
            event("some pruned" if len(found) < len(live) else "none pruned")


def bounds(column: ModelColumn, stats: str | None, partition: dict[str, str | None]) -> tuple[Any, Any]:
    """What a file says of a column, in the statistics that a scan gave of it or by its partition value."""
    kind = arrow_type(column.kind)
    if column.is_partition:
        value = typed(partition[column.physical[0]] or None, kind)
        return value, value
    read = json.loads(stats or "{}", parse_float=Decimal)
    low, high = (typed(column.value(read.get(side) or {}), kind) for side in ("minValues", "maxValues"))
    return low, high
