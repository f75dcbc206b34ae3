"""Predicates as SQL text: a recursive-descent parser of what stands after WHERE.

    condition  = term {AND term} {OR ...}
    term       = {NOT} comparison
    comparison = operand [(= | != | < | <= | > | >= | <=>) operand | IS [NOT] ... | [NOT] (IN | BETWEEN | LIKE) ...]
    operand    = {+ | -} (name {. name} | literal | CAST(string AS type) | "(" condition ")") {:: type}

The dialect is what Spark, DuckDB and DataFusion have in common, with these decisions:

- Back-quotes hold a name. Single quotes hold a string, in which only a doubled quote is special: a backslash
  is a backslash.
- Double quotes hold a string in Spark and a name elsewhere. Every comparison here is of one column with
  literals, so the other side decides: `"a" = 5` and `"a" IN (1)` name the column a, `a = "x"` compares it
  with the string x, and `"a" = "x"` is an error.
- LIKE takes a backslash as its escape character unless ESCAPE names another.
- A timestamp without a zone is in UTC.

Anything else than a comparison of a column with literals (functions, arithmetic, a column beside a column,
subqueries) is refused by name, with a caret at its place.

sqlglot reads the same language, and is what the tests compare with. Importing it takes longer than the rest of a
small scan, for a grammar that fits on this page.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from delta_sidecar.predicate.literals import SourcePlace, Value, moment, number, refusal
from delta_sidecar.predicate.match import checked
from delta_sidecar.predicate.tree import (
    FALSE,
    MIRRORED,
    OPERATORS,
    TRUE,
    UNKNOWN,
    And,
    Column,
    Comparison,
    Constant,
    IsNull,
    Like,
    Not,
    Predicate,
    all_of,
    among,
    any_of,
    compared,
    is_reserved,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def read(text: str) -> Predicate:
    """Reads a SQL condition, what stands after WHERE.

    Raises:
        PredicateError: If it is not SQL, or uses what cannot be answered; with a caret at the place.
    """
    if not text.strip():
        raise refusal(None, "the predicate is empty; leave it out to select everything")
    return _Parser(text).read()


# Parentheses, casts and NOTs inside of each other; each level takes a few frames of Python's stack.
_MOST_LEVELS = 100
_MOST_SHOWN = 60

_TIMESTAMPS = {"timestamp", "timestamp_ntz", "timestampntz", "timestamp_ltz", "timestampltz", "timestamptz", "datetime"}
_DOUBLES = {"double", "float8", "float", "float4", "real"}
_CONSTANTS = {"null": None, "true": True, "false": False}
# With a parenthesis behind, these are no function calls.
_CONDITION_WORDS = {"and", "between", "in", "is", "like", "not", "or"}
_OPERATORS_ELSEWHERE = (
    "+ - * / % || && & | ^ ~ << >> -> ->> at collate div glob ilike overlaps regexp rlike similar xor"
)
_UNSUPPORTED = {
    **{operator: f"the operator {operator.upper()}" for operator in _OPERATORS_ELSEWHERE.split()},
    **dict.fromkeys("?:@", "a placeholder"),
    **dict.fromkeys(("select", "with"), "a subquery"),
    "case": "CASE",
    "[": "an element or a list in brackets",
    "{": "a struct in braces",
}
_ONLY_LITERALS = "in a predicate: a column can be compared with literals only"

_HEXADECIMAL = re.compile(r"(?:[0-9A-Fa-f]{2})*")
_COMMENT_MARK = re.compile(r"/\*|\*/")
# A number with letters behind it is one token, so that the error is about the whole.
_TOKEN = re.compile(
    r"""
      (?P<blank>   \s+ | --[^\r\n]* )
    | (?P<comment> /\* )
    | (?P<bytes>   [xX]'[^']*' )
    | (?P<string>  '(?:[^']++|'')*+' )
    | (?P<double>  "(?:[^"]++|"")*+" )
    | (?P<back>    `(?:[^`]++|``)*+` )
    | (?P<number>  (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+) (?:[eE][+-]?[0-9]+)? [\w$]* )
    | (?P<word>    (?:[A-Za-z_$]|[^\s\x00-\x7f]) (?:[\w$]|[^\s\x00-\x7f])* )
    | (?P<sign>    <=>|->>|[<>!=]=|<>|<<|>>|\|\||&&|::|->|. )
    """,
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    key: str  # a word in lower case, or a sign; empty for the others
    place: SourcePlace


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while found := _TOKEN.match(text, at):
        kind, start, at = str(found.lastgroup), found.start(), found.end()
        if kind == "comment":
            at = _comment_end(text, start)
        elif kind == "sign" and found[0] in "'\"`":
            raise refusal(SourcePlace(text, start, len(text)), "syntax error: a quoted string or name has no end")
        elif kind != "blank":
            key = found[0].lower() if kind in {"word", "sign"} else ""
            yield _Token(kind, found[0], key, SourcePlace(text, start, at))


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    raise refusal(SourcePlace(text, start, len(text)), "syntax error: a comment has no end")


class _Expression(NamedTuple):
    """A column, a literal or a condition; in double quotes, either a column or a string."""

    place: SourcePlace
    column: Column | None = None
    is_literal: bool = False
    value: Value | None = None  # of a literal; None is NULL
    condition: Predicate | None = None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        tokens = list(_tokens(text))
        while tokens and tokens[-1].key == ";":
            tokens.pop()
        self._tokens = [*tokens, _Token("end", "", "", SourcePlace(text, len(text)))]
        self._at = 0
        self._levels = 0

    def read(self) -> Predicate:
        """Reads the whole text; semicolons around the condition are passed over."""
        while self._took(";"):
            pass
        if self._peek().kind == "end":
            raise refusal(SourcePlace(self._text, 0), "one condition is expected")
        found = _condition_of(self._condition())
        if self._peek().kind != "end":
            self._fail_here()
        return found

    def _peek(self, ahead: int = 0) -> _Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _took(self, *keys: str) -> bool:
        """Takes some words or signs, if they are next."""
        found = all(self._peek(ahead).key == key for ahead, key in enumerate(keys))
        self._at += len(keys) if found else 0
        return found

    def _expect(self, key: str) -> None:
        if not self._took(key):
            self._fail_here(key.upper())

    def _since(self, first: _Token) -> SourcePlace:
        return SourcePlace(self._text, first.place.start, self._tokens[self._at - 1].place.end)

    def _deepen(self, levels: int) -> None:
        self._levels += levels
        if self._levels > _MOST_LEVELS:
            raise refusal(self._peek().place, "the predicate is nested too deeply")

    # Conditions.

    def _condition(self) -> _Expression:
        first = self._peek()
        terms = [self._term()]
        alternatives: list[Predicate] = []
        while self._peek().key in {"and", "or"}:
            if self._take().key == "or":
                alternatives.append(all_of(map(_condition_of, terms)))
                terms = []
            terms.append(self._term())
        if len(terms) == 1 and not alternatives:
            return terms[0]
        alternatives.append(all_of(map(_condition_of, terms)))
        return _Expression(self._since(first), condition=any_of(alternatives))

    def _term(self) -> _Expression:
        first = self._peek()
        negations = 0
        while self._took("not") or self._took("!"):
            negations += 1
        self._deepen(negations)
        found = self._comparison()
        self._levels -= negations
        for _ in range(negations):
            found = _Expression(self._since(first), condition=Not(_condition_of(found)))
        return found

    def _comparison(self) -> _Expression:
        first = self._peek()
        found = self._operand()
        while (condition := self._operated(found, first)) is not None:
            found = _Expression(self._since(first), condition=condition)
        return found

    def _operated(self, left: _Expression, first: _Token) -> Predicate | None:
        """Reads an operator and its right side; None if there is no operator."""
        if self._peek().key in OPERATORS or self._peek().key == "<=>":
            return self._compared(self._take().key, left, self._operand())
        if self._took("is"):
            return self._is(left, first)
        if self._peek().key in {"isnull", "notnull"}:
            return IsNull(_column_of(left), negated=self._take().key == "notnull")
        negated = self._took("not")
        if negated and self._took("null"):
            return IsNull(_column_of(left), negated=True)
        if self._took("in"):
            found = self._in(left, first)
        elif self._took("between"):
            found = self._between(left)
        elif self._took("like"):
            found = self._like(left)
        else:
            self._at -= negated
            return None
        return Not(found) if negated else found

    def _compared(self, sign: str, left: _Expression, right: _Expression) -> Predicate:
        place = SourcePlace(self._text, left.place.start, right.place.end)
        if left.column is not None and right.column is not None:
            if left.is_literal and right.is_literal:
                raise refusal(place, "both sides are in double quotes; to tell them apart, write `column` = 'string'")
            if not left.is_literal and not right.is_literal:
                raise refusal(
                    place, f"{_shown(place)} compares two columns; a column can be compared with literals only"
                )
        # A side in double quotes is what the other one is not.
        mirrored = left.column is None or (left.is_literal and right.column is not None)
        column, literal = (right.column, _literal_of(left)) if mirrored else (left.column, _literal_of(right))
        if column is None:
            return _constant(sign, left, _literal_of(right), place)
        if sign != "<=>":
            op = OPERATORS[sign]
            return compared(MIRRORED[op] if mirrored else op, column, literal.value, literal.place)
        if literal.value is None:
            return IsNull(column)
        return And((IsNull(column, negated=True), Comparison("=", column, literal.value, literal.place)))

    def _is(self, left: _Expression, first: _Token) -> Predicate:
        negated = self._took("not")
        if self._took("distinct", "from"):
            found = self._compared("<=>", left, self._operand())
            return found if negated else Not(found)
        column = _column_of(left)
        if self._took("null") or self._took("unknown"):
            return IsNull(column, negated=negated)
        if self._peek().key not in {"true", "false"}:
            self._fail_here("NULL, TRUE, FALSE or DISTINCT FROM")
        value = self._take().key == "true"
        found = And((IsNull(column, negated=True), Comparison("=", column, value, self._since(first))))
        return Not(found) if negated else found

    def _in(self, left: _Expression, first: _Token) -> Predicate:
        self._expect("(")
        values: list[Value | None] = []
        while self._peek().key != ")":
            values.append(_literal_of(self._operand()).value)
            if not self._took(","):
                break
        self._expect(")")
        return among(_column_of(left), values, self._since(first))

    def _between(self, left: _Expression) -> Predicate:
        column, low = _column_of(left), _literal_of(self._operand())
        self._expect("and")
        high = _literal_of(self._operand())
        return And((compared(">=", column, low.value, low.place), compared("<=", column, high.value, high.place)))

    def _like(self, left: _Expression) -> Predicate:
        column, pattern, escape = _column_of(left), self._operand(), "\\"
        text = _string_of(pattern)
        if self._took("escape"):
            operand = self._operand()
            escape = _string_of(operand)
            if len(escape) != 1:
                raise refusal(operand.place, f"ESCAPE takes one character, not {escape!r}")
        return Like(column, checked(text, pattern.place, escape), pattern.place)

    # Operands.

    def _operand(self) -> _Expression:
        first = self._peek()
        minuses = 0
        while self._peek().key in {"+", "-"}:
            minuses += self._take().key == "-"
        found = self._primary()
        while self._took("::"):
            found = self._cast(found, self._type(), first)
        if not minuses:
            return found
        value = found.value
        if not isinstance(value, int | Decimal | float) or isinstance(value, bool):
            _fail_as(found, "behind a minus sign")
        if minuses % 2:
            # Unlike the minus sign, this does not round to the precision of the decimal context.
            value = value.copy_negate() if isinstance(value, Decimal) else -value
        return _Expression(self._since(first), is_literal=True, value=value)

    def _primary(self) -> _Expression:
        token = self._peek()
        if self._took("("):
            self._deepen(1)
            found = self._condition()
            self._levels -= 1
            self._expect(")")
            return found
        if token.kind in {"string", "bytes", "number"}:
            return _Expression(self._take().place, is_literal=True, value=_value(token))
        if token.kind == "word" and self._peek(1).key != ".":
            return self._word()
        return self._name()

    def _word(self) -> _Expression:
        first, start = self._peek(), self._at
        if first.key in _CONSTANTS:
            return _Expression(self._take().place, is_literal=True, value=_CONSTANTS[first.key])
        if self._took("cast", "(") or self._took("try_cast", "("):
            self._deepen(1)
            inner = self._operand()
            self._levels -= 1
            self._expect("as")
            kind = self._type()
            self._expect(")")
            return self._cast(inner, kind, first)
        if self._peek(1).key == "(" and first.key not in _CONDITION_WORDS:
            raise refusal(
                first.place, f"the function call {_shown(first.place)}(...) is not supported {_ONLY_LITERALS}"
            )
        if is_reserved(first.key):
            self._fail_here(for_operand=True)
        kind = self._type()
        if self._peek().kind == "string":
            return self._cast(self._primary(), kind, first)
        self._at = start
        return self._name()

    def _name(self) -> _Expression:
        first = self._peek()
        path: list[str] = []
        while not path or self._took("."):
            if self._peek().kind not in {"word", "double", "back"}:
                self._fail_here(for_operand=True)
            token = self._take()
            quote = token.text[0]
            path.append(token.text if token.key else token.text[1:-1].replace(quote * 2, quote))
        place = self._since(first)
        is_string = first.kind == "double" and len(path) == 1
        return _Expression(place, Column(tuple(path), place=place), is_string, path[0] if is_string else None)

    def _type(self) -> str:
        """Reads the name of a type, passing over precision and zone."""
        if self._peek().kind != "word":
            self._fail_here(for_operand=True)
        name = self._take().key
        if self._peek().key == "(" and self._peek(1).kind == "number" and self._peek(2).key == ")":
            self._at += 3
        if name == "double":
            self._took("precision")
        elif name == "timestamp" and not self._took("with", "time", "zone"):
            self._took("without", "time", "zone")
        return name

    def _cast(self, inner: _Expression, kind: str, first: _Token) -> _Expression:
        place = self._since(first)
        value = _converted(inner.value, kind, place) if isinstance(inner.value, str) else None
        if value is None:
            raise refusal(place, f"a cast to {kind.upper()} is not supported in a predicate")
        return _Expression(place, is_literal=True, value=value)

    def _fail_here(self, expected: str | None = None, *, for_operand: bool = False) -> NoReturn:
        """Raises the error for a text that ends here, or goes on as it cannot."""
        token, before = self._peek(), self._tokens[self._at - 1]
        if token.key == "not" and self._peek(1).key in _UNSUPPORTED:
            token = self._peek(1)
        if token.kind == "end":
            problem = f"{expected} is expected" if expected else "something is missing"
            raise refusal(before.place, f"syntax error: {problem} after {_shown(before.place)!r}")
        if token.key in _UNSUPPORTED:
            raise refusal(token.place, f"{_UNSUPPORTED[token.key]} is not supported {_ONLY_LITERALS}")
        if token.key == ";":
            raise refusal(token.place, "one condition is expected")
        if for_operand and token.kind == "sign":
            raise refusal(token.place, f"syntax error: something is missing before {token.text!r}")
        is_name = for_operand and token.kind == "word"
        hint = "; a name that is a word of SQL too goes into back-quotes" if is_name else ""
        raise refusal(token.place, f"syntax error: {_shown(token.place)!r} is not expected here{hint}")


def _condition_of(found: _Expression) -> Predicate:
    if found.condition is not None:
        return found.condition
    if found.column is not None:
        # A boolean column is a condition by itself.
        return Comparison("=", found.column, value=True, place=found.place)
    if found.value is not None and not isinstance(found.value, bool):
        _fail_as(found, "in a predicate")
    return Constant(found.value)


def _column_of(found: _Expression) -> Column:
    if found.column is None:
        _fail_as(found, "where a column is expected")
    return found.column


def _literal_of(found: _Expression) -> _Expression:
    if not found.is_literal:
        _fail_as(found, _ONLY_LITERALS)
    return found


def _string_of(found: _Expression) -> str:
    value = _literal_of(found).value
    if not isinstance(value, str):
        _fail_as(found, "where a string is expected")
    return value


def _constant(sign: str, left: _Expression, right: _Expression, place: SourcePlace) -> Predicate:
    """`1 = 1` and the like, which generated SQL begins with."""
    op = OPERATORS.get(sign)
    if op is not None and (left.value is None or right.value is None):
        return UNKNOWN
    if op not in {"=", "!="} or type(left.value) is not type(right.value):
        raise refusal(place, f"{_shown(place)} compares two literals; name a column")
    return TRUE if (left.value == right.value) == (op == "=") else FALSE


def _fail_as(found: _Expression, role: str) -> NoReturn:
    kind = "condition" if found.condition is not None else "column" if found.column is not None else "literal"
    raise refusal(found.place, f"the {kind} {_shown(found.place)} is not supported {role}")


def _shown(place: SourcePlace) -> str:
    return place.source[place.start : place.end][:_MOST_SHOWN]


def _value(token: _Token) -> Value:
    if token.kind == "string":
        return token.text[1:-1].replace("''", "'")
    if token.kind == "bytes":
        digits = token.text[2:-1]
        if not _HEXADECIMAL.fullmatch(digits):
            raise refusal(token.place, "a binary literal needs two hexadecimal digits for each byte")
        return bytes.fromhex(digits)
    value = number(token.text, token.place)
    if value is None:
        raise refusal(
            token.place, f"{_shown(token.place)} is not a number; write it in decimal digits, such as 5, 2.5 or 1e3"
        )
    return value


def _converted(text: str, kind: str, place: SourcePlace) -> Value | None:
    """Gives a string as a value of a type; None if there are no such literals."""
    if kind in _DOUBLES:
        return number(text, place)
    if kind != "date" and kind not in _TIMESTAMPS:
        return None
    found = moment(text, place)
    if found is None:
        name = "date" if kind == "date" else "timestamp"
        raise refusal(place, f"{text!r} is not a {name}; write '2026-02-08' or '2026-02-08 10:00:00'")
    if kind == "date":
        return found.date() if isinstance(found, dt.datetime) else found
    return found if isinstance(found, dt.datetime) else dt.datetime.combine(found, dt.time())
