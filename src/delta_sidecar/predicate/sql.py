"""Predicates as SQL text, read by sqlglot.

The dialect is what Spark, DuckDB and DataFusion have in common, with these decisions:

- Back-quotes hold a name. Single quotes hold a string, in which only a doubled quote is special: a backslash
  is a backslash.
- Double quotes hold a string in Spark and a name elsewhere. Every comparison here is of one column with
  literals, so the other side decides: `"a" = 5` and `"a" IN (1)` name the column a, `a = "x"` compares it
  with the string x, and `"a" = "x"` is an error.
- LIKE takes a backslash as its escape character unless ESCAPE names another.
- A timestamp without a zone is in UTC.

What is no comparison of a column with literals (functions, arithmetic, a column beside a column, subqueries)
is refused by name.

This module and the two that it is made of (`sql_conditions`, `sql_operands`) are the only ones that import
sqlglot.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from delta_sidecar.predicate.names import is_reserved
from delta_sidecar.predicate.place import Place, refusal
from delta_sidecar.predicate.sql_conditions import Conditions

if TYPE_CHECKING:
    from delta_sidecar.errors import PredicateError
    from delta_sidecar.predicate.expression import Predicate


def read(text: str) -> Predicate:
    """Reads a SQL condition, what stands after WHERE.

    Raises:
        PredicateError: If it is not SQL, or uses what cannot be answered; with a caret at the place.
    """
    if not text.strip():
        msg = "the predicate is empty; leave it out to select everything"
        raise refusal(msg, None)
    try:
        found = [node for node in _dialect().parse_into(exp.Condition, text) if node is not None]
    except SqlglotError as error:
        raise _syntax_error(text, error) from None
    if len(found) != 1:
        msg = "one condition is expected"
        raise refusal(msg, Place(text, max(text.find(";"), 0)))
    return Conditions(text).predicate(found[0])


def _syntax_error(text: str, error: SqlglotError) -> PredicateError:
    """Turns sqlglot's error into one of ours; its own text has terminal codes and class names in it."""
    if not isinstance(error, ParseError) or not error.errors:
        msg = "syntax error: a quoted string or name has no end"
        return refusal(msg, Place(text, max(text.rfind(quote) for quote in "'\"`"), len(text)))
    first = error.errors[0]
    problem = str(first.get("description") or "")
    highlight = str(first.get("highlight") or "")
    if problem.startswith("Expecting "):
        problem = f"{problem.removeprefix('Expecting ')} is expected after {highlight!r}"
    elif problem.startswith("Required keyword"):
        problem = f"something is missing at {highlight!r}"
    else:
        problem = f"{highlight!r} is not expected here"
    if is_reserved(highlight):
        problem += "; a name that is a word of SQL too goes into back-quotes"
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    start = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - len(highlight)
    return refusal(f"syntax error: {problem}", Place(text, start, start + len(highlight)))


@cache
def _dialect() -> Dialect:
    class DeltaSidecarPredicate(Dialect):
        class Tokenizer(tokens.Tokenizer):
            IDENTIFIERS: ClassVar = ["`", '"']
            HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]

    return DeltaSidecarPredicate()
