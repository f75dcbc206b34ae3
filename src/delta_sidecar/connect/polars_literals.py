"""Literals of a Polars expression, from its JSON: one value, or the list of an `is_in`.

A node of the JSON has one key, its kind, and what belongs to it: `{"Literal": {"Scalar": {"Int64": 3}}}`. What Polars
would compute from literals alone, such as `pl.datetime(2026, 2, 10)`, is computed by Polars.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from delta_sidecar.predicate.arrow_literals import kind_of_literal, value_of
from delta_sidecar.predicate.domain import Kind
from delta_sidecar.predicate.literals import taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from delta_sidecar.predicate.literals import Value

Node = dict[str, Any]

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PER_MICRO: Final = {"Milliseconds": Decimal(1) / 1000, "Microseconds": Decimal(1), "Nanoseconds": Decimal(1000)}


@dataclass(frozen=True, slots=True)
class Literals:
    """Some values of one type.

    Attributes:
        values: Those that are not null.
        kind: What they are.
        has_null: Whether there is a null among them.
        zone: The zone of timestamps; None if they have none.
    """

    values: tuple[Value, ...]
    kind: Kind
    has_null: bool = False
    zone: str | None = None


def kind_and_body(node: Node) -> tuple[str, Any]:
    """Takes a node apart; raises ValueError if it is none."""
    ((kind, body),) = node.items()
    return kind, body


def literal(node: Node) -> Literals | None:
    """Reads a node that stands for one value.

    Returns:
        One value or a null; None if there is a column in it, or anything that has no literal in a predicate.

    Raises:
        ValueError, LookupError, TypeError, ArithmeticError, PredicateError, PolarsError: It is not as expected.
    """
    kind, body = kind_and_body(node)
    if kind == "Alias":
        return literal(body[0])
    if kind == "Literal":
        return _scalar(body)
    if not _is_computable(node):
        return None
    found = _of_array(_computed(node))
    return found if len(found.values) + found.has_null == 1 else None


def listed(node: Node) -> Literals | None:
    """Reads a node that stands for a list of values; raises as `literal`."""
    kind, body = kind_and_body(node)
    if kind == "Alias":
        return listed(body[0])
    if kind != "Literal":
        return None
    form, content = kind_and_body(body)
    if form == "Scalar":
        form, content = kind_and_body(content)
    if form not in {"List", "Series"}:
        return None
    with pa.ipc.open_stream(bytes(content)) as reader:
        (column,) = reader.read_all().columns
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        # A list inside of a series stands for itself, if it is the only one.
        column = column.combine_chunks().flatten() if len(column) == 1 else pa.chunked_array([], column.type)
    return _of_array(column)


def _scalar(body: Node) -> Literals | None:
    form, content = kind_and_body(body)
    if form not in {"Scalar", "Dyn"}:
        return None
    name, content = kind_and_body(content)
    if name == "Null":
        return Literals((), Kind.VOID, has_null=True)
    read = _READERS.get(name)
    if read is None:
        return None
    kind, value = read(content)
    return Literals((value,), kind, zone=content[2] and content[2]["inner"] if kind is Kind.TIMESTAMP else None)


def _floating(number: float | None) -> tuple[Kind, Any]:
    if number is None:
        # JSON has neither NaN nor the infinities: it is one of them.
        msg = "not a finite number"
        raise ValueError(msg)
    return Kind.FLOATING, taken(float(number), None)


def _moment(content: tuple[int, str, Node | None]) -> tuple[Kind, Any]:
    count, unit, zone = content
    micros = Decimal(count) / _PER_MICRO[unit]
    if micros != int(micros):
        msg = f"{count} {unit} is finer than a microsecond"
        raise ValueError(msg)
    moment = _EPOCH + dt.timedelta(microseconds=int(micros))
    return Kind.TIMESTAMP, moment if zone is not None else moment.replace(tzinfo=None)


def _decimal(content: tuple[int, int, int]) -> tuple[Kind, Any]:
    count, _, scale = content
    digits = tuple(int(digit) for digit in str(abs(count)))
    return Kind.DECIMAL, Decimal((int(count < 0), digits, -scale))


_INTEGERS = ("Int", *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128)))
_READERS: dict[str, Callable[[Any], tuple[Kind, Any]]] = {
    "Boolean": lambda content: (Kind.BOOLEAN, content),
    "String": lambda content: (Kind.STRING, content),
    "Str": lambda content: (Kind.STRING, content),
    "Binary": lambda content: (Kind.BINARY, bytes(content)),
    **dict.fromkeys(_INTEGERS, lambda content: (Kind.INTEGER, int(content))),
    "Float32": lambda content: _floating(None if content is None else float(np.float32(content))),
    "Float64": _floating,
    "Float": _floating,
    "Date": lambda content: (Kind.DATE, dt.date.fromordinal(content + _EPOCH_DAY)),
    "Datetime": _moment,
    "Decimal": _decimal,
}


def _is_computable(node: Node) -> bool:
    """Whether a node is made of literals alone, by functions that always give the same."""
    kind, body = kind_and_body(node)
    if kind == "Literal":
        # Polars reads the numbers of its JSON less exactly than it writes them.
        return not {"Float", "Float32", "Float64"} & {*_keys(body)}
    if kind == "Function":
        function = body["function"]
        return isinstance(function, dict) and {*function} <= _FUNCTIONS and all(map(_is_computable, body["input"]))
    if kind == "Alias":
        return _is_computable(body[0])
    if kind == "Cast":
        return _is_computable(body["expr"])
    return kind == "BinaryExpr" and _is_computable(body["left"]) and _is_computable(body["right"])


_FUNCTIONS: Final = {"StringExpr", "TemporalExpr"}


def _keys(body: object) -> Iterator[str]:
    while isinstance(body, dict):
        yield from body
        body = next(iter(body.values()), None)


def _computed(node: Node) -> pa.Array:
    expression = pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
    return pl.select(expression).to_series().to_arrow()


def _of_array(array: pa.Array | pa.ChunkedArray) -> Literals:
    values = [value_of(scalar) for scalar in array]
    known = tuple(value for value in values if value is not None)
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    return Literals(known, kind_of_literal(array.type), len(known) < len(values), zone)
