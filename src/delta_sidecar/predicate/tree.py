"""The one tree that every notation is read into and everything else works on.

    Predicate
      Comparison(op, column, value)     a >= 5
      In(column, values)                a IN (1, 2)
      IsNull(column, negated)           a IS NULL, a IS NOT NULL
      Like(column, pattern)             a LIKE 'x%', with a backslash as the escape character
      And(terms), Or(terms), Not(term)
      Constant(value)                   TRUE, FALSE and NULL (UNKNOWN)

Truth has three values, as in SQL: a comparison with a null is neither true nor false, and a row passes only
where the whole is true. Nodes are values: frozen, hashable, picklable, equal when they say the same. `str()`
gives SQL that reads back as the same tree.

A tree from a parser is *unbound*: its columns have no type and its values are as they were written. `bind`
gives the *bound* tree, with typed columns and each value in the type of its column.

Two functions walk a tree, so that others only have to know its leaves: `fold` computes a value from those of the
leaves, `replace_leaves` gives a tree of the same shape. A new kind of leaf is a class here, a case in `bind`, `match`
and `bounds`, and a notation in `read`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate.literals import Value, sql_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from delta_sidecar.predicate.literals import SourcePlace


Operator = Literal["=", "!=", "<", "<=", ">", ">="]

NEGATED: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# As they are written.
OPERATORS: dict[str, Operator] = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}

T = TypeVar("T")


class _Placed(Struct, frozen=True):
    """A node that remembers, for errors, the place where it was written. The place makes no other node of it."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _said(self) == _said(other)

    def __hash__(self) -> int:
        return hash((type(self), _said(self)))

    def __repr__(self) -> str:
        shown = zip(self.__struct_fields__, _said(self), strict=False)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown)})"


def _said(node: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a node with a place, which is its last field
    return tuple(getattr(node, name) for name in node.__struct_fields__[:-1])


class Column(_Placed, frozen=True):
    """A column, or a field inside of structs."""

    path: tuple[str, ...]  # names from the top level down
    type: pa.DataType | None = None  # None while unbound
    place: SourcePlace | None = None  # for errors

    def __str__(self) -> str:
        return written(self.path)


class Predicate(Struct, frozen=True):
    """A condition on the rows of a table."""


class Constant(Predicate, frozen=True):
    """True, false, or None for SQL's NULL: unknown."""

    value: bool | None

    def __str__(self) -> str:
        return "NULL" if self.value is None else str(self.value).upper()


TRUE = Constant(value=True)
FALSE = Constant(value=False)
UNKNOWN = Constant(value=None)


class Comparison(_Placed, Predicate, frozen=True):
    """A column compared with a value that is not null."""

    op: Operator
    column: Column
    value: Value
    place: SourcePlace | None = None

    def __str__(self) -> str:
        return f"{self.column} {self.op} {sql_text(self.value)}"


class In(_Placed, Predicate, frozen=True):
    """A column equal to one of some values, none of them null; bound values are sorted and unique."""

    column: Column
    values: tuple[Value, ...]
    place: SourcePlace | None = None

    def __str__(self) -> str:
        return f"{self.column} IN ({', '.join(map(sql_text, self.values))})"


class IsNull(Predicate, frozen=True):
    """A column that is null, or, negated, is not."""

    column: Column
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.column} IS {'NOT ' if self.negated else ''}NULL"


class Like(_Placed, Predicate, frozen=True):
    r"""A text that fits a pattern: % for any text, _ for one character, \% \_ and \\ for themselves."""

    column: Column
    pattern: str
    place: SourcePlace | None = None

    def __str__(self) -> str:
        return f"{self.column} LIKE {sql_text(self.pattern)}"


Leaf = Comparison | In | IsNull | Like


class _Joined(Predicate, frozen=True):
    terms: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        inside = ((term.terms if isinstance(term, type(self)) else (term,)) for term in self.terms)
        force_setattr(self, "terms", tuple(term for terms in inside for term in terms))


class And(_Joined, frozen=True):
    """All of two or more terms; an And inside is taken apart into its terms."""

    def __str__(self) -> str:
        return " AND ".join(f"({term})" if isinstance(term, Or) else str(term) for term in self.terms)


class Or(_Joined, frozen=True):
    """Any of two or more terms; an Or inside is taken apart into its terms."""

    def __str__(self) -> str:
        return " OR ".join(f"({term})" if isinstance(term, And) else str(term) for term in self.terms)


class Not(Predicate, frozen=True):
    """The opposite of a term; unknown stays unknown."""

    term: Predicate

    def __str__(self) -> str:
        if isinstance(self.term, In | Like):
            column = str(self.term.column)
            return f"{column} NOT{str(self.term).removeprefix(column)}"
        return f"NOT ({self.term})"


def compared(op: Operator, column: Column, value: Value | None, place: SourcePlace | None) -> Predicate:
    """Compares as SQL does: with a null, the comparison is unknown."""
    return UNKNOWN if value is None else Comparison(op, column, value, place)


def among(column: Column, values: Iterable[Value | None], place: SourcePlace | None) -> Predicate:
    """Looks up as SQL does: a null in the list turns a miss into unknown; an empty list is false."""
    listed = tuple(values)
    known = tuple(value for value in listed if value is not None)
    if not listed:
        return FALSE
    if len(known) == len(listed):
        return In(column, known, place)
    return Or((In(column, known, place), UNKNOWN)) if known else UNKNOWN


def all_of(terms: Iterable[Predicate]) -> Predicate:
    """Joins terms by AND; no terms are TRUE."""
    kept = tuple(terms)
    return And(kept) if len(kept) > 1 else kept[0] if kept else TRUE


def any_of(terms: Iterable[Predicate]) -> Predicate:
    """Joins terms by OR; no terms are FALSE."""
    kept = tuple(terms)
    return Or(kept) if len(kept) > 1 else kept[0] if kept else FALSE


def fold(
    predicate: Predicate,
    leaf: Callable[[Leaf | Constant, bool], T],
    join: Callable[[bool, Iterator[T]], T],
    *,
    negated: bool = False,
) -> T:
    """Computes a value from those of the leaves. NOT is carried down to them, so AND and OR change places below it.

    Args:
        predicate: Bound or unbound.
        leaf: Gives the value of a leaf, or of its opposite if the second argument is true.
        join: Joins values by AND if the first argument is true, else by OR; it may stop before it has them all.
        negated: Whether the value of the opposite is computed.
    """
    match predicate:
        case Not(term):
            return fold(term, leaf, join, negated=not negated)
        case And(terms) | Or(terms):
            values = (fold(term, leaf, join, negated=negated) for term in terms)
            return join(isinstance(predicate, And) != negated, values)
        case Comparison() | In() | IsNull() | Like() | Constant():
            return leaf(predicate, negated)
    msg = f"not a predicate: {predicate!r}"
    raise PredicateError(msg)


def replace_leaves(predicate: Predicate, replaced: Callable[[Leaf], Predicate]) -> Predicate:
    """Gives the same predicate with other leaves; constants stay."""
    match predicate:
        case And(terms) | Or(terms):
            return type(predicate)(tuple(replace_leaves(term, replaced) for term in terms))
        case Not(term):
            return Not(replace_leaves(term, replaced))
        case Comparison() | In() | IsNull() | Like():
            return replaced(predicate)
    return predicate


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Gives every node that names a column."""
    waiting = [predicate]
    while waiting:
        match waiting.pop():
            case And(terms) | Or(terms):
                waiting.extend(terms)
            case Not(term):
                waiting.append(term)
            case Comparison() | In() | IsNull() | Like() as leaf:
                yield leaf


def columns(predicate: Predicate) -> frozenset[tuple[str, ...]]:
    """Gives the paths of the columns in a predicate."""
    return frozenset(leaf.column.path for leaf in leaves(predicate))


def to_physical(predicate: Predicate, paths: Mapping[tuple[str, ...], tuple[str, ...]]) -> Predicate:
    """Renames columns from logical to physical paths; a path that is not among them keeps its name."""

    def renamed(leaf: Leaf) -> Predicate:
        path = leaf.column.path
        return replace(leaf, column=replace(leaf.column, path=tuple(paths.get(path, path))))

    return replace_leaves(predicate, renamed)


# Column names as they are written: `a.b` is field b of struct a, `` `a.b` `` is one name with a dot.


_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")

# Words that SQL has another use for: no names here, and names here that are none in other parsers of SQL.
_RESERVED = frozenset(
    (  # noqa: SIM905 - a page of words, not of quotes
        "alter and any as between case connect_by_root create cross current_catalog current_date current_time "
        "current_timestamp current_user distinct drop else except false fetch for from glob grant having ilike in "
        "inner insert intersect into is join lateral like localtime localtimestamp not notnull null on or outer "
        "partitioned_by qualify regexp returning revoke rlike rollback select session_user straight_join tablesample "
        "then true uncache union using when where with xor"
    ).split()
)
_RESERVED_ELSEWHERE = frozenset(
    (  # noqa: SIM905
        "array call describe execute explain if interval isnull list map nullable object optimize prepare range "
        "rename show struct table vacuum values"
    ).split()
)


def written(path: tuple[str, ...]) -> str:
    """Writes a path so that every notation reads it back as the same path."""
    return ".".join(_quoted(part) for part in path)


def read(name: str) -> tuple[str, ...]:
    """Reads a name of a DNF filter or a JSON predicate.

    Dots part the fields of a struct and back-quotes keep a name together. A text that does not read as that
    is one name, whole.
    """
    parts: list[str] = []
    position = 0
    while match := _PART.match(name, position):
        quoted, bare = match.groups()
        parts.append(quoted.replace("``", "`") if quoted is not None else bare)
        position = match.end()
        if position == len(name):
            return tuple(parts)
        if name[position] != ".":
            break
        position += 1
    return (name,)


def is_reserved(word: str) -> bool:
    """Tells whether a word has to be put in back-quotes to be a name in a predicate."""
    return word.lower() in _RESERVED


def _quoted(part: str) -> str:
    if _BARE.match(part) and not is_reserved(part) and part.lower() not in _RESERVED_ELSEWHERE:
        return part
    return "`" + part.replace("`", "``") + "`"
