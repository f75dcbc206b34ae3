"""Leaves built the same way for every notation, nulls among the literals included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.predicate.expression import (
    FALSE,
    UNKNOWN,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
)
from delta_sidecar.predicate.like import checked
from delta_sidecar.predicate.literals import taken
from delta_sidecar.predicate.place import Place, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from delta_sidecar.predicate.literals import Value

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
_WORDS = ("in", "not in", "like", "not like")


def compared(op: Operator, column: Column, value: Value | None, place: Place | None) -> Predicate:
    """A comparison as SQL has it: with a null it is unknown."""
    return UNKNOWN if value is None else Comparison(op, column, value, place)


def among(column: Column, values: Iterable[Value | None], place: Place | None) -> Predicate:
    """A membership as SQL has it: a null in the list turns a miss into unknown; an empty list is false."""
    listed = tuple(values)
    known = tuple(value for value in listed if value is not None)
    if not listed:
        return FALSE
    if len(known) == len(listed):
        return In(column, known, place)
    return Or((In(column, known, place), UNKNOWN)) if known else UNKNOWN


def clause(column: Column, op: object, value: object, place: Place) -> Predicate:
    """A (column, operator, value) of a DNF filter or a JSON predicate, where None stands for null.

    Raises:
        PredicateError: If the operator is unknown or does not go with the value.
    """
    word = " ".join(op.lower().split()) if isinstance(op, str) else None
    if word in OPERATORS:
        operator = OPERATORS[word]
        literal = taken(value, place)
        if literal is not None:
            return Comparison(operator, column, literal, place)
        if operator in {"=", "!="}:
            return IsNull(column, negated=operator == "!=")
        msg = f"{column} {operator} null is never true; compare with a value, or with = or != to test for null"
        raise refusal(msg, place)
    if word in {"in", "not in"}:
        if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            msg = f"the operator {word!r} needs a list of values, not {value!r}"
            raise refusal(msg, place)
        found = among(column, [taken(item, place) for item in value], place)
    elif word in {"like", "not like"}:
        if not isinstance(value, str):
            msg = f"the operator {word!r} needs a pattern, not {value!r}"
            raise refusal(msg, place)
        found = Like(column, checked(value, place), place)
    else:
        known = ", ".join((*OPERATORS, *_WORDS))
        msg = f"unknown operator {op!r}; the operators are {known}"
        raise refusal(msg, place)
    return Not(found) if word.startswith("not") else found
