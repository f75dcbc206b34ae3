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

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from delta_sidecar.predicate.literals import Place, Value, moment, number, refusal, sql_text
from delta_sidecar.predicate.match import checked
from delta_sidecar.predicate.read.filters import among, compared
from delta_sidecar.predicate.tree import (
    FALSE,
    MIRRORED,
    TRUE,
    UNKNOWN,
    And,
    Column,
    Comparison,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
    is_reserved,
)

if TYPE_CHECKING:
    from delta_sidecar.errors import PredicateError

    Node = Any


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


# The columns and literals of a SQL condition, and where they stand in its text.


# sqlglot's nodes give their parts by name, without types.

_MOMENTS = {"DATE", "TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPLTZ", "TIMESTAMPTZ", "DATETIME"}
_NAME_PARTS = ("this", "table", "db", "catalog")


@dataclass(frozen=True, slots=True)
class SqlLiteral:
    """A literal and its place; None is NULL."""

    value: Value | None
    place: Place | None


@dataclass(frozen=True, slots=True)
class Operands:
    """Reads the operands in the syntax tree of one text.

    Attributes:
        text: The SQL text that the nodes were made from.
    """

    text: str

    def column(self, node: Node) -> Column:
        """Reads a name."""
        node = node.unnest()
        parts = name_parts(node)
        if parts is None:
            raise self.unsupported(node, "where a column is expected")
        return Column(tuple(part.name for part in parts), place=self.place(node))

    def literal(self, node: Node) -> SqlLiteral:
        """Reads a literal; what is in double quotes is a string here."""
        node = node.unnest()
        if isinstance(node, exp.Null):
            return SqlLiteral(None, None)
        place = self.place(node)
        value = self._value(node, place)
        if value is None:
            raise self.unsupported(node, "in a predicate: a column can be compared with literals only")
        return SqlLiteral(value, place)

    def string(self, node: Node) -> str:
        """Reads a string."""
        value = self.literal(node).value
        if not isinstance(value, str):
            raise self.unsupported(node, "where a string is expected")
        return value

    def in_double_quotes(self, node: Node) -> bool:
        """Whether a node is one name in double quotes, which may as well be a string."""
        parts = name_parts(node)
        if parts is None or len(parts) != 1:
            return False
        start = parts[0].meta.get("start")
        return start is not None and self.text[start] == '"'

    def unsupported(self, node: Node, where: str = "in a predicate") -> PredicateError:
        """Makes the error that names what was found."""
        return refusal(f"{_construct(node)} is not supported {where}", self.place(node))

    def place(self, node: Node) -> Place | None:
        """Gives the text from the first to the last character that sqlglot remembers of a node."""
        metas = [found.meta for found in node.walk() if "start" in found.meta]
        if not metas:
            # A word such as CURRENT_DATE: its text is found, or else what it stands in.
            word = re.search(rf"(?<!\w){re.escape(node.sql())}(?!\w)", self.text, re.IGNORECASE)
            if word:
                return Place(self.text, *word.span())
            return self.place(node.parent) if node.parent is not None else None
        start = min(meta["start"] for meta in metas)
        if isinstance(node, exp.Neg):
            start = max(self.text.rfind("-", 0, start), 0)
        return Place(self.text, start, max(meta["end"] for meta in metas) + 1)

    def _value(self, node: Node, place: Place | None) -> Value | None:
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else number(str(node.this), place)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Neg):
            return _negative(self.literal(node.this).value)
        if isinstance(node, exp.HexString):
            return self._bytes(node, place)
        if isinstance(node, exp.Cast):
            return self._cast(node, place)
        return str(node.name) if self.in_double_quotes(node) else None

    def _bytes(self, node: Node, place: Place | None) -> bytes:
        # A number in hexadecimal digits, 0x1F, comes as the same node.
        if place is None or place.start is None or self.text[place.start] not in "xX":
            raise self.unsupported(node)
        try:
            return bytes.fromhex(str(node.this))
        except ValueError:
            msg = "a binary literal needs two hexadecimal digits for each byte"
            raise refusal(msg, place) from None

    def _cast(self, node: Node, place: Place | None) -> Value:
        """DATE '...', TIMESTAMP '...', and both written as CAST."""
        target = node.args["to"].this
        type_name = str(getattr(target, "value", target)).upper()
        inner = node.this.unnest()
        if not (isinstance(inner, exp.Literal) and inner.is_string) and not self.in_double_quotes(inner):
            raise self.unsupported(node)
        text = self.string(inner)
        if type_name in _MOMENTS:
            value = moment(text, place)
            if value is None:
                kind = "date" if type_name == "DATE" else "timestamp"
                msg = f"{text!r} is not a {kind}; write '2026-02-08' or '2026-02-08 10:00:00'"
                raise refusal(msg, place)
            return _day(value) if type_name == "DATE" else _timestamp(value)
        read = number(text, place) if type_name in {"DOUBLE", "FLOAT"} else None
        if read is None:
            raise self.unsupported(node)
        return read


def name_parts(node: Node) -> list[Node] | None:
    """Gives the names of a dotted name, from the top level down; None if a node is none."""
    parts: list[Node] = []
    while isinstance(node, exp.Dot):
        parts.append(node.expression)
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    parts += [part for part in map(node.args.get, _NAME_PARTS) if part is not None]
    return parts[::-1] if all(isinstance(part, exp.Identifier) for part in parts) else None


def _negative(value: Value | None) -> Value | None:
    if isinstance(value, Decimal):
        # Unlike the minus sign, this does not round to the precision of the decimal context.
        return value.copy_negate()
    return -value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _day(value: dt.date) -> dt.date:
    return value.date() if isinstance(value, dt.datetime) else value


def _timestamp(value: dt.date) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _construct(node: Node) -> str:
    if isinstance(node, exp.Cast):
        return f"a cast to {node.args['to'].sql()}"
    if isinstance(node, exp.Anonymous):
        return f"the function call {node.name}(...)"
    if isinstance(node, exp.Func) and not isinstance(node, exp.Case | exp.And | exp.Or):
        return f"the function call {node.sql_name().lower()}(...)"
    if isinstance(node, exp.Query | exp.Subquery) or node.args.get("query"):
        return "a subquery"
    if isinstance(node, exp.Column | exp.Dot):
        return f"the column {node.sql()}"
    if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
        return f"the literal {node.sql()}"
    return f"{node.key.upper()} ({node.sql()[:60]})"


# The conditions of a SQL text, from sqlglot's tree to ours.


_COMPARISONS: dict[type[Any], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


class Conditions(Operands):
    """Reads the conditions in the syntax tree of one text."""

    __slots__ = ()

    def predicate(self, node: Node) -> Predicate:
        """Reads a whole condition.

        Raises:
            PredicateError: If it holds what is not supported, by name and place.
        """
        if isinstance(node, exp.Paren):
            return self.predicate(node.this)
        if isinstance(node, exp.And | exp.Or):
            terms = tuple(self.predicate(term) for term in _chain(node))
            return And(terms) if isinstance(node, exp.And) else Or(terms)
        if isinstance(node, exp.Not):
            inner = node.this
            if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
                return IsNull(self.column(inner.this), negated=True)
            return Not(self.predicate(inner))
        if isinstance(node, exp.Boolean):
            return TRUE if node.this else FALSE
        if isinstance(node, exp.Null):
            return UNKNOWN
        if name_parts(node) is not None:
            # A boolean column is a condition by itself.
            return Comparison("=", self.column(node), value=True, place=self.place(node))
        return self._leaf(node)

    def _leaf(self, node: Node) -> Predicate:
        if type(node) in _COMPARISONS:
            return self._comparison(_COMPARISONS[type(node)], node)
        if isinstance(node, exp.Is):
            return self._identity(node)
        if isinstance(node, exp.NullSafeEQ):
            return self._same(node)
        if isinstance(node, exp.NullSafeNEQ):
            return Not(self._same(node))
        if isinstance(node, exp.In):
            return self._membership(node)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            column = self.column(node.this)
            low, high = self.literal(node.args["low"]), self.literal(node.args["high"])
            return And((compared(">=", column, low.value, low.place), compared("<=", column, high.value, high.place)))
        if isinstance(node, exp.Escape) and isinstance(node.this, exp.Like):
            return self._like(node.this, self.string(node.expression))
        if isinstance(node, exp.Like):
            return self._like(node, "\\")
        raise self.unsupported(node)

    def _comparison(self, op: Operator, node: Node) -> Predicate:
        left, right = self._sides(node)
        if isinstance(left, SqlLiteral) and isinstance(right, SqlLiteral):
            return self._constant(op, left, right, node)
        if isinstance(left, Column) and isinstance(right, SqlLiteral):
            return compared(op, left, right.value, right.place)
        if isinstance(left, SqlLiteral) and isinstance(right, Column):
            return compared(MIRRORED[op], right, left.value, left.place)
        msg = f"{left} {op} {right} compares two columns; a column can be compared with literals only"
        raise refusal(msg, self.place(node))

    def _constant(self, op: Operator, left: SqlLiteral, right: SqlLiteral, node: Node) -> Predicate:
        """`1 = 1` and the like, which generated SQL begins with."""
        if left.value is None or right.value is None:
            return UNKNOWN
        if op not in {"=", "!="} or type(left.value) is not type(right.value):
            msg = f"{sql_text(left.value)} {op} {sql_text(right.value)} compares two literals; name a column"
            raise refusal(msg, self.place(node))
        return TRUE if (left.value == right.value) == (op == "=") else FALSE

    def _same(self, node: Node) -> Predicate:
        """`a <=> 5`, which is never unknown."""
        left, right = self._sides(node)
        if isinstance(left, SqlLiteral):
            left, right = right, left
        if not isinstance(left, Column) or not isinstance(right, SqlLiteral):
            raise self.unsupported(node)
        if right.value is None:
            return IsNull(left)
        return And((IsNull(left, negated=True), Comparison("=", left, right.value, right.place)))

    def _identity(self, node: Node) -> Predicate:
        column = self.column(node.this)
        if isinstance(node.expression, exp.Null):
            return IsNull(column)
        if isinstance(node.expression, exp.Boolean):
            wanted = Comparison("=", column, bool(node.expression.this), self.place(node))
            return And((IsNull(column, negated=True), wanted))
        raise self.unsupported(node)

    def _membership(self, node: Node) -> Predicate:
        if any(value for key, value in node.args.items() if key not in {"this", "expressions", "negate"}):
            raise self.unsupported(node)
        values = [self.literal(item).value for item in node.expressions]
        found = among(self.column(node.this), values, self.place(node))
        return Not(found) if node.args.get("negate") else found

    def _like(self, node: Node, escape: str) -> Predicate:
        if len(escape) != 1:
            msg = f"ESCAPE takes one character, not {escape!r}"
            raise refusal(msg, self.place(node))
        place = self.place(node.expression)
        found = Like(self.column(node.this), checked(self.string(node.expression), place, escape), place)
        # Depending on its version, sqlglot negates with a flag or with a node around.
        return Not(found) if node.args.get("negate") else found

    def _sides(self, node: Node) -> tuple[Column | SqlLiteral, Column | SqlLiteral]:
        """Both sides of a comparison; a side in double quotes is what the other one is not."""
        left, right = node.this.unnest(), node.expression.unnest()
        quoted = self.in_double_quotes(left), self.in_double_quotes(right)
        if all(quoted):
            msg = "both sides are in double quotes; to tell them apart, write `column` = 'string'"
            raise refusal(msg, self.place(node))
        named = name_parts(left) is not None, name_parts(right) is not None
        return (
            self.column(left) if named[0] and not (quoted[0] and named[1]) else self.literal(left),
            self.column(right) if named[1] and not (quoted[1] and named[0]) else self.literal(right),
        )


def _chain(node: Node) -> list[Node]:
    """The terms of `a AND b AND c`, which sqlglot nests to the left, without recursion."""
    terms: list[Node] = []
    kind = type(node)
    while type(node) is kind:
        terms.append(node.expression)
        node = node.this
    return [node, *reversed(terms)]
