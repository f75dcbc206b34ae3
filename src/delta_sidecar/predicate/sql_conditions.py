"""The conditions of a SQL text, from sqlglot's tree to ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from delta_sidecar.predicate.building import among, compared
from delta_sidecar.predicate.expression import (
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
)
from delta_sidecar.predicate.like import checked
from delta_sidecar.predicate.literals import sql_text
from delta_sidecar.predicate.place import refusal
from delta_sidecar.predicate.sql_operands import Operands, SqlLiteral, name_parts

if TYPE_CHECKING:
    from delta_sidecar.predicate.sql_operands import Node

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
