"""The columns and literals of a SQL condition, and where they stand in its text."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from delta_sidecar.predicate.expression import Column
from delta_sidecar.predicate.literals import Value, moment, number
from delta_sidecar.predicate.place import Place, refusal

if TYPE_CHECKING:
    from delta_sidecar.errors import PredicateError

    # sqlglot's nodes give their parts by name, without types.
    Node = Any

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
