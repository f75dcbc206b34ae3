# ruff: noqa: ANN401 - literals and bounds of every type
from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.predicate.evaluator import truth
from tests.predicate.files import (
    SCHEMA,
    TYPES,
    VALUES,
    Known,
    Row,
    column_statistics,
    partition_values,
    rows,
    statistics,
)
from tests.predicate.trees import as_json, filters, literals_for, mappings, trees

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import (
    Column,
    ColumnBounds,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Predicate,
    bind,
    matches,
    may_match,
    parse,
)

relaxed = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def check(predicate: Predicate, files: list[list[Row]], known: Known, schema: pa.Schema = SCHEMA) -> None:
    bound = bind(predicate, schema)
    note(f"{predicate} -> {bound}")
    keep = may_match(bound, known).to_pylist()
    assert len(keep) == len(files)
    for file, kept in zip(files, keep, strict=True):
        expected = [truth(predicate, row, TYPES) is True for row in file]
        assert matches(bound, pa.Table.from_pylist(file, schema)).to_pylist() == expected
        assert kept or not any(expected)


@relaxed
@given(st.data())
def test_no_file_with_a_matching_row_is_dropped_for_sql(data: st.DataObject) -> None:
    files = data.draw(rows())
    tree = data.draw(trees)
    read = parse(str(tree))
    assert read == tree
    check(read, files, data.draw(statistics(files)))


@relaxed
@given(st.data())
def test_no_file_with_a_matching_row_is_dropped_for_filters(data: st.DataObject) -> None:
    files = data.draw(rows())
    check(parse(data.draw(filters)), files, data.draw(statistics(files)))


@relaxed
@given(st.data())
def test_no_file_with_a_matching_row_is_dropped_for_mappings(data: st.DataObject) -> None:
    files = data.draw(rows())
    mapping = data.draw(mappings)
    text = as_json(mapping)
    check(parse(mapping), files, data.draw(statistics(files)))
    if text is not None:
        assert parse(text) == parse(mapping)


OPERATORS: list[Any] = ["=", "!=", "<", "<=", ">", ">="]


def leaves_about(data: st.DataObject, path: tuple[str, ...], values: list[Any]) -> list[Predicate]:
    """Every operator with literals at and around the values that are there."""
    column = Column(path)
    literals = data.draw(st.lists(st.sampled_from(values) if values else VALUES[path], max_size=2))
    literals.append(data.draw(literals_for(path)))
    found: list[Predicate] = [Comparison(op, column, literal) for op in OPERATORS for literal in literals]
    found += [In(column, tuple(literals)), In(column, (*literals, *data.draw(st.lists(VALUES[path], max_size=4))))]
    found += [IsNull(column), IsNull(column, negated=True)]
    if TYPES[path] == pa.string():
        begins = [literal[: data.draw(st.integers(0, 3))] for literal in literals]
        escaped = [text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for text in begins]
        found += [Like(column, text + end) for text in escaped for end in ("", "%", "_%", "%a")]
    return [*found, *map(Not, found)]


def row_of(path: tuple[str, ...], value: Any) -> Row:
    return {path[0]: value} if len(path) == 1 else {"st": {"x": None, "y": None, path[1]: value}}


@pytest.mark.full
@pytest.mark.parametrize("path", sorted(TYPES), ids=".".join)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_file_is_dropped_for_values_at_its_bounds(path: tuple[str, ...], data: st.DataObject) -> None:
    columns = data.draw(st.lists(st.lists(st.none() | VALUES[path], max_size=4), min_size=1, max_size=4))
    files = [[row_of(path, value) for value in column] for column in columns]
    known = Known(len(files), {path: column_statistics(data.draw, files, path)})
    for leaf in leaves_about(data, path, [value for column in columns for value in column if value is not None]):
        check(leaf, files, known, pa.schema([SCHEMA.field(path[0])]))


@pytest.mark.full
@pytest.mark.parametrize("path", sorted(TYPES), ids=".".join)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_partition_is_dropped_for_values_at_its_own(path: tuple[str, ...], data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[path], min_size=1, max_size=4))
    files = [[row_of(path, value)] for value in values]
    known = Known(len(files), {path: partition_values(data.draw, files, path)})
    for leaf in leaves_about(data, path, [value for value in values if value is not None]):
        check(leaf, files, known, pa.schema([SCHEMA.field(path[0])]))


@relaxed
@given(st.data())
def test_no_partition_with_a_matching_row_is_dropped(data: st.DataObject) -> None:
    """Every file has one value per column, given as a partition value."""
    files = [[row] for file in data.draw(rows()) for row in file] or [[]]
    exact = {path: partition_values(data.draw, files, path) for path in TYPES}
    check(data.draw(trees), files, Known(len(files), exact))


@relaxed
@given(trees)
def test_bound_predicates_bind_and_pickle_to_themselves(tree: Predicate) -> None:
    bound = bind(tree, SCHEMA)
    # NaN is not equal to itself, so the texts are compared.
    assert str(bind(bound, SCHEMA)) == str(bound)
    assert str(bind(parse(str(bound)), SCHEMA)) == str(bound)
    assert str(pickle.loads(pickle.dumps(bound))) == str(bound)  # noqa: S301
    assert hash(tree) == hash(parse(str(tree)))


@relaxed
@given(st.data())
def test_equality_with_a_value_beside_the_bounds_drops_the_file(data: st.DataObject) -> None:
    """The power of pruning: whatever lies outside of known bounds is dropped.

    Decimals of many digits are not among them: their bounds may have gone through a double and are widened.
    """
    path = data.draw(st.sampled_from([("i",), ("l",), ("d",), ("dec",), ("st", "x")]))
    values = sorted(data.draw(st.lists(VALUES[path], min_size=3, max_size=8, unique=True)))
    type_ = TYPES[path]
    below, *inside, above = values
    one = ColumnBounds(pa.array(inside[:1], type_), pa.array(inside[-1:], type_), None, None)
    known = Known(1, {path: one})

    def kept(op: Any, value: Any) -> bool:
        return bool(may_match(bind(Comparison(op, Column(path), value), SCHEMA), known)[0].as_py())

    assert not kept("=", below)
    assert not kept("=", above)
    assert not kept("<", inside[0])
    assert not kept(">", inside[-1])
    assert kept("=", inside[0])
    assert kept(">=", inside[-1])


_pieces = st.sampled_from(
    [
        *"ab1 =<>!'\"`().,%-+*/\\;:{}[]$@?#&|~^\n\0é",
        " AND ",
        " IN (",
        " NULL ",
        " LIKE ",
        " NOT ",
        " IS ",
        " BETWEEN ",
        " DATE ",
        " CASE ",
        " CAST(",
    ]
)


@settings(max_examples=250, deadline=None)
@given(st.lists(_pieces, max_size=12).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = parse(text)
    except PredicateError as error:
        message = str(error)
    else:
        message = str(read)
        assert isinstance(read, Predicate)
    assert message
    assert "\x1b" not in message


def test_the_evaluator_itself_can_tell() -> None:
    predicate = parse("i > 1 OR s LIKE 'a%_'")
    assert truth(predicate, {"i": 2, "s": None}, TYPES) is True
    assert truth(predicate, {"i": 1, "s": None}, TYPES) is None
    assert truth(predicate, {"i": 1, "s": "a"}, TYPES) is False
    with pytest.raises(KeyError):
        truth(parse("nothing = 1"), {"i": 1}, TYPES)
