"""Random predicates as SQL text, each with its own meaning in Python, in SQL's three-valued logic."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.builder.columns import literals, sql_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.builder.actions import Row

    Verdict = bool | None

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PREFIXES = ["", "a", "x", "x" * 31, "x" * 32, "é", "O'", "5"]


@dataclass(frozen=True)
class Condition:
    """A predicate: its SQL, and what it says of a row. None is SQL's unknown."""

    sql: str
    verdict: Callable[[Row], Verdict]

    def matches(self, row: Row) -> bool:
        """Tells whether a row is in the answer: unknown is not."""
        return self.verdict(row) is True

    def __repr__(self) -> str:
        """Shows the SQL alone."""
        return f"Condition({self.sql!r})"


@st.composite
def predicates(draw: st.DrawFn, columns: Mapping[str, str], *, depth: int = 3) -> Condition:
    """Gives predicates over columns.

    Args:
        draw: Hypothesis's own.
        columns: Names to Delta types.
        depth: How deep AND, OR and NOT may be nested; the leaves are comparisons.
    """
    shape = draw(st.sampled_from(["leaf", "and", "or", "not"])) if depth else "leaf"
    if shape == "leaf":
        name = draw(st.sampled_from(sorted(columns)))
        return _leaf(draw, name, columns[name])
    inner = predicates(columns, depth=depth - 1)
    if shape == "not":
        return _negated(draw(inner))
    return (_both if shape == "and" else _either)(draw(inner), draw(inner))


def _leaf(draw: st.DrawFn, name: str, kind: str) -> Condition:
    value = literals(kind)
    keyword = draw(st.booleans())
    shapes = ["compare", "compare", "in", "null"]
    shapes += [] if kind == "boolean" else ["between"]
    shapes += ["like"] if kind == "string" else []
    match draw(st.sampled_from(shapes)):
        case "compare":
            sign = draw(st.sampled_from(["=", "<>"] if kind == "boolean" else sorted(_COMPARISONS)))
            return _comparison(name, sign, draw(value), keyword)
        case "in":
            return _among(name, draw(st.lists(value, min_size=1, max_size=3)), draw(st.booleans()), keyword)
        case "between":
            return _between(name, draw(value), draw(value), keyword)
        case "like":
            return _like(name, draw(st.sampled_from(_PREFIXES)))
        case _:
            return _null_test(name, draw(st.booleans()))


def _comparison(name: str, sign: str, value: object, keyword: bool) -> Condition:  # noqa: FBT001
    compare = _COMPARISONS[sign]

    def verdict(row: Row) -> Verdict:
        return None if row.get(name) is None else compare(row[name], value)

    return Condition(f"{name} {sign} {sql_literal(value, keyword=keyword)}", verdict)


def _among(name: str, values: list[Any], negated: bool, keyword: bool) -> Condition:  # noqa: FBT001
    def verdict(row: Row) -> Verdict:
        return None if row.get(name) is None else (row[name] in values) is not negated

    listed = ", ".join(sql_literal(value, keyword=keyword) for value in values)
    return Condition(f"{name} {'NOT IN' if negated else 'IN'} ({listed})", verdict)


def _between(name: str, low: Any, high: Any, keyword: bool) -> Condition:  # noqa: ANN401, FBT001
    def verdict(row: Row) -> Verdict:
        return None if row.get(name) is None else bool(low <= row[name] <= high)

    sides = " AND ".join(sql_literal(value, keyword=keyword) for value in (low, high))
    return Condition(f"{name} BETWEEN {sides}", verdict)


def _null_test(name: str, negated: bool) -> Condition:  # noqa: FBT001
    text = f"{name} IS {'NOT ' if negated else ''}NULL"
    return Condition(text, lambda row: (row.get(name) is None) is not negated)


def _like(name: str, prefix: str) -> Condition:
    def verdict(row: Row) -> Verdict:
        return None if row.get(name) is None else row[name].startswith(prefix)

    return Condition(f"{name} LIKE {sql_literal(prefix + '%')}", verdict)


def _both(left: Condition, right: Condition) -> Condition:
    def verdict(row: Row) -> Verdict:
        sides = (left.verdict(row), right.verdict(row))
        return False if False in sides else None if None in sides else True

    return Condition(f"({left.sql} AND {right.sql})", verdict)


def _either(left: Condition, right: Condition) -> Condition:
    def verdict(row: Row) -> Verdict:
        sides = (left.verdict(row), right.verdict(row))
        return True if True in sides else None if None in sides else False

    return Condition(f"({left.sql} OR {right.sql})", verdict)


def _negated(inner: Condition) -> Condition:
    def verdict(row: Row) -> Verdict:
        found = inner.verdict(row)
        return None if found is None else not found

    return Condition(f"NOT ({inner.sql})", verdict)
