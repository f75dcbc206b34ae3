"""Random predicates in every notation, each with its own meaning in Python, in SQL's three-valued logic."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.builder.actions import dump
from tests.builder.columns import json_value, literals, sql_literal
from tests.builder.model import STRUCT
from tests.builder.values import nearest_float32, short_float32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.builder.actions import Row
    from tests.builder.model import ModelColumn

    Verdict = bool | None

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PATTERNS = ["%", "a%", "x%", "x" * 31 + "%", "x" * 32 + "%", "é%", "O'%", "5%", "a_", "%b", "_b%", "x%😀", "b", "%é%"]
_PLAIN_NAME = re.compile(r"(?!select\Z)[a-z_]+\Z")


@dataclass(frozen=True)
class Reading:
    """What engines disagree about: a file must stay if a row of it matches in any reading.

    Attributes:
        nan_is_greatest: Whether NaN is equal to itself and above all numbers, as in Spark, or like nothing at all.
        floats_round: Whether a number beside a 32-bit float is rounded to one first.
    """

    nan_is_greatest: bool = False
    floats_round: bool = False


READINGS = tuple(Reading(*both) for both in product([False, True], repeat=2))


@dataclass(frozen=True)
class Condition:
    """A predicate in its notations, and what it says of a row. None is SQL's unknown.

    Attributes:
        sql: As SQL.
        mapping: As a mapping.
        filters: As DNF tuples; None where it is not in that form.
        verdict: What it means.
    """

    sql: str
    mapping: dict[str, Any]
    verdict: Callable[[Row, Reading], Verdict] = field(repr=False)
    filters: list[Any] | None = None

    def matches(self, row: Row) -> bool:
        """Tells whether a row is in the answer, to whatever engine: unknown is not."""
        return any(self.verdict(row, reading) is True for reading in READINGS)

    def json(self) -> str | None:
        """Gives the mapping as JSON text; None where JSON has nothing for a value in it."""
        try:
            return dump(_as_json(self.mapping))
        except TypeError:
            return None


@st.composite
def predicates(
    draw: st.DrawFn, columns: Sequence[ModelColumn], rows: Sequence[Row] = (), *, depth: int = 3
) -> Condition:
    """Gives predicates over columns.

    Args:
        draw: Hypothesis's own.
        columns: The columns; of structs, only whether they are null is asked.
        rows: Rows whose values are among the literals.
        depth: How deep AND, OR and NOT may be nested; the leaves are comparisons.
    """
    shape = draw(st.sampled_from(["leaf", "and", "or", "not"])) if depth else "leaf"
    if shape == "leaf":
        return _leaf(draw, draw(st.sampled_from(columns)), rows)
    inner = predicates(columns, rows, depth=depth - 1)
    if shape == "not":
        return _negated(draw(inner))
    return _joined([draw(inner), draw(inner)], is_and=shape == "and")


@st.composite
def normal_forms(draw: st.DrawFn, columns: Sequence[ModelColumn], rows: Sequence[Row] = ()) -> Condition:
    """Gives predicates that are an OR of ANDs, with their DNF tuples."""
    leaves = [
        [_leaf(draw, draw(st.sampled_from(columns)), rows) for _ in range(draw(st.integers(1, 3)))]
        for _ in range(draw(st.integers(1, 2)))
    ]
    joined = _joined([_joined(each, is_and=True) for each in leaves], is_and=False)
    filters = [[clause for leaf in each for clause in leaf.filters or ()] for each in leaves]
    flat = len(filters) == 1 and draw(st.booleans())
    return Condition(joined.sql, joined.mapping, joined.verdict, filters[0] if flat else filters)


@st.composite
def true_conditions(draw: st.DrawFn, columns: Sequence[ModelColumn], row: Row) -> Condition:
    """Gives predicates about every column at once that a row satisfies, to one engine or another."""
    reading = draw(st.sampled_from(READINGS))
    terms = []
    for column in columns:
        leaf = _leaf(draw, column, [row])
        verdict = leaf.verdict(row, reading)
        if verdict is None:
            leaf = _Leaf(column, column.path).null_test(negated=column.value(row) is not None)
        terms.append(_negated(leaf) if verdict is False else leaf)
    return _joined(terms, is_and=True)


def written_name(path: tuple[str, ...]) -> str:
    """Writes the names of a column, in back-quotes where a name is no plain word."""
    return ".".join(name if _PLAIN_NAME.match(name) else "`" + name.replace("`", "``") + "`" for name in path)


def compared(sign: str, value: Any, literal: Any, kind: str, reading: Reading) -> bool:  # noqa: ANN401
    """Compares a value of a column, which is not null, with a literal."""
    if kind == "float" and reading.floats_round:
        literal = nearest_float32(literal)
    if kind in {"float", "double"} and reading.nan_is_greatest:
        value, literal = ((math.isnan(number), 0 if math.isnan(number) else number) for number in (value, literal))
    return bool(_COMPARISONS[sign](value, literal))


def fits(text: str, pattern: str) -> bool:
    """Fits a text to a pattern without escapes, character by character."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(fits(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in {"_", text[0]} and fits(text[1:], pattern[1:])


def _leaf(draw: st.DrawFn, column: ModelColumn, rows: Sequence[Row]) -> Condition:
    kind = column.kind
    leaf = _Leaf(column, _spelled(draw, column.path), keyword=draw(st.booleans()), as_tuple=draw(st.booleans()))
    if kind == STRUCT:
        return leaf.null_test(negated=draw(st.booleans()))
    present = [found for row in rows if (found := column.value(row)) is not None]
    if kind == "float":
        present += [short_float32(found) for found in present]
    value = st.sampled_from(present) | literals(kind) if present else literals(kind)
    shapes = ["compare", "compare", "in", "null"]
    shapes += [] if kind == "boolean" else ["between"]
    shapes += ["like"] if kind == "string" else []
    match draw(st.sampled_from(shapes)):
        case "compare":
            return leaf.comparison(
                draw(st.sampled_from(["=", "<>"] if kind == "boolean" else sorted(_COMPARISONS))), draw(value)
            )
        case "in":
            listed = draw(st.lists(value, min_size=1, max_size=3)) + draw(st.sampled_from([[], [], [], [None]]))
            return leaf.among(listed, negated=draw(st.booleans()))
        case "between":
            return leaf.between(draw(value), draw(value))
        case "like":
            texts = [text[:length] + "%" for text in present for length in (1, 31, 32, 33)]
            return leaf.like(draw(st.sampled_from(_PATTERNS + texts)), negated=draw(st.booleans()))
        case _:
            return leaf.null_test(negated=draw(st.booleans()))


def _spelled(draw: st.DrawFn, path: tuple[str, ...]) -> tuple[str, ...]:
    """Names are found whatever their case."""
    return tuple(map(str.upper, path)) if draw(st.integers(0, 4)) == 0 else path


@dataclass(frozen=True)
class _Leaf:
    """Writes conditions on one column."""

    column: ModelColumn
    path: tuple[str, ...]
    keyword: bool = True
    as_tuple: bool = False

    def comparison(self, sign: str, value: object) -> Condition:
        def verdict(found: Any, reading: Reading) -> Verdict:  # noqa: ANN401
            return compared(sign, found, value, self.column.kind, reading)

        return self._made(f"{sign} {self._sql(value)}", [(sign, value)], verdict)

    def among(self, values: list[Any], *, negated: bool) -> Condition:
        def verdict(found: Any, reading: Reading) -> Verdict:  # noqa: ANN401
            known = [value for value in values if value is not None]
            if any(compared("=", found, value, self.column.kind, reading) for value in known):
                return not negated
            return negated if len(known) == len(values) else None

        word = "NOT IN" if negated else "IN"
        return self._made(f"{word} ({', '.join(map(self._sql, values))})", [(word.lower(), values)], verdict)

    def between(self, low: object, high: object) -> Condition:
        def verdict(found: Any, reading: Reading) -> Verdict:  # noqa: ANN401
            kind = self.column.kind
            return compared(">=", found, low, kind, reading) and compared("<=", found, high, kind, reading)

        return self._made(f"BETWEEN {self._sql(low)} AND {self._sql(high)}", [(">=", low), ("<=", high)], verdict)

    def like(self, pattern: str, *, negated: bool) -> Condition:
        word = "NOT LIKE" if negated else "LIKE"
        return self._made(
            f"{word} {self._sql(pattern)}",
            [(word.lower(), pattern)],
            lambda found, _: fits(found, pattern) is not negated,
        )

    def null_test(self, *, negated: bool) -> Condition:
        made = self._made(
            f"IS {'NOT ' if negated else ''}NULL", [("!=" if negated else "=", None)], lambda _found, _: None
        )
        return Condition(
            made.sql, made.mapping, lambda row, _: (self.column.value(row) is None) is not negated, made.filters
        )

    def _made(self, test: str, clauses: list[tuple[str, Any]], verdict: Callable[[Any, Reading], Verdict]) -> Condition:
        def of_row(row: Row, reading: Reading) -> Verdict:
            found = self.column.value(row)
            return None if found is None else verdict(found, reading)

        name = written_name(self.path)
        subject = self.path if self.as_tuple else name
        return Condition(
            f"{name} {test}", {name: dict(clauses)}, of_row, [(subject, word, value) for word, value in clauses]
        )

    def _sql(self, value: object) -> str:
        return sql_literal(value, keyword=self.keyword)


def _joined(sides: list[Condition], *, is_and: bool) -> Condition:
    if len(sides) == 1:
        return sides[0]

    def verdict(row: Row, reading: Reading) -> Verdict:
        found = [side.verdict(row, reading) for side in sides]
        # One false side settles an AND, one true side an OR; else one unknown side makes the whole unknown.
        return not is_and if (not is_and) in found else None if None in found else is_and

    word = " AND " if is_and else " OR "
    mapping = {"$and" if is_and else "$or": [side.mapping for side in sides]}
    return Condition(f"({word.join(side.sql for side in sides)})", mapping, verdict)


def _negated(inner: Condition) -> Condition:
    def verdict(row: Row, reading: Reading) -> Verdict:
        found = inner.verdict(row, reading)
        return None if found is None else not found

    return Condition(f"NOT ({inner.sql})", {"$not": inner.mapping}, verdict)


def _as_json(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {name: _as_json(inner) for name, inner in value.items()}
    return [_as_json(inner) for inner in value] if isinstance(value, list) else json_value(value)
