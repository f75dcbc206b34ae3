"""Predicates as JSON objects.

`{"date": "2026-02-08"}` is an equality, `{"n": {">=": 1, "<": 5}}` a range, `{"n": [1, 2]}` an IN,
`{"n": null}` an IS NULL; several columns are joined by AND. `{"$or": [...]}`, `{"$and": [...]}` and
`{"$not": {...}}` join and negate whole objects; back-quotes keep a column that begins with a dollar sign
apart from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from delta_sidecar.predicate import dnf, names
from delta_sidecar.predicate.building import clause
from delta_sidecar.predicate.expression import Column, Not, Predicate, all_of, any_of
from delta_sidecar.predicate.place import Place, refusal


def read(source: Mapping[str, object]) -> Predicate:
    """Reads a mapping; an empty one is TRUE.

    Raises:
        PredicateError: If it is not in this form.
    """
    return _object(source, "$")


def read_text(text: str) -> Predicate:
    """Reads the text of a JSON object, or of DNF filters as JSON lists; numbers are kept exact.

    Raises:
        PredicateError: If the text is not JSON, or the JSON not in one of these forms.
    """
    try:
        source = json.loads(text, parse_float=Decimal, object_pairs_hook=_without_repetition)
    except json.JSONDecodeError as error:
        msg = f"a predicate that begins with {text.lstrip()[0]} has to be JSON: {error.msg}"
        raise refusal(msg, Place(text, error.pos, error.pos + 1)) from None
    except ValueError as error:
        msg = f"this JSON cannot be a predicate: {error}"
        raise refusal(msg, Place(text, 0, 1)) from None
    return dnf.read(source) if isinstance(source, list) else read(source)


def _object(source: object, where: str) -> Predicate:
    if not isinstance(source, Mapping):
        msg = f"an object such as {{'column': value}} is expected, not {source!r}"
        raise refusal(msg, Place(where))
    return all_of(_entry(key, value, f"{where}.{key}") for key, value in source.items())


def _entry(key: object, value: object, where: str) -> Predicate:
    place = Place(where)
    if not isinstance(key, str):
        msg = f"a column name or one of $and, $or, $not is expected, not {key!r}"
        raise refusal(msg, place)
    if key == "$not":
        return Not(_object(value, where))
    if key in {"$and", "$or"}:
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            msg = f"{key} needs a list of objects, not {value!r}"
            raise refusal(msg, place)
        join = all_of if key == "$and" else any_of
        return join([_object(item, f"{where}[{position}]") for position, item in enumerate(value)])
    if key.startswith("$"):
        msg = f"unknown operator {key}; the operators are $and, $or, $not (write a column of this name `{key}`)"
        raise refusal(msg, place)
    return _column(Column(names.read(key), place=place), value, where)


def _column(column: Column, value: object, where: str) -> Predicate:
    if isinstance(value, Mapping):
        if not value:
            msg = f'no condition on {column}; write one, such as {{">=": 1}}'
            raise refusal(msg, Place(where))
        return all_of([clause(column, op, item, Place(f"{where}['{op}']")) for op, item in value.items()])
    is_list = isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes | bytearray)
    return clause(column, "in" if is_list else "=", value, Place(where))


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for key in found if sum(key == other for other, _ in pairs) > 1)
        msg = f"the key {repeated!r} stands twice in one object"
        raise ValueError(msg)
    return found
