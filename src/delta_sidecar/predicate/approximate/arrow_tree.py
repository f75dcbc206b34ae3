"""A pyarrow expression as a tree of Python values.

pyarrow shows an expression only as text, but pickles it losslessly: as an Arrow IPC file whose schema metadata
spells the tree, one token per entry, and whose columns hold the literals and the options of the calls.

    call greater, field_ref x, literal 0, end greater        # x > column 0

The keys of that metadata repeat, so it is read through the Arrow C data interface: `schema.metadata` is a dict
and would keep one entry per key.
"""

from __future__ import annotations

import ctypes
import sys
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.compute as pc


class Literal(Struct, frozen=True):
    """A value, null included."""

    value: pa.Scalar


class Field(Struct, frozen=True):
    """A column, or a field inside of structs, by its names from the top level down."""

    path: tuple[str, ...]


class Call(Struct, frozen=True):
    """A function of `pyarrow.compute`, applied to some arguments."""

    function: str
    arguments: tuple[Node, ...]
    options: pa.StructScalar | None = None

    def option(self, name: str) -> pa.Scalar:
        """Gives an option; raises KeyError if there is no such option."""
        if self.options is None:
            raise KeyError(name)
        return self.options[name]


Node = Literal | Field | Call

# Errors of a form that is not as expected.
_UNEXPECTED = (pa.ArrowException, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def read(expression: pc.Expression) -> Node | None:
    """Reads an expression; None if it cannot be pickled (a field by its position) or is pickled in another form."""
    try:
        _, (buffer, *_) = expression.__reduce__()
        with pa.ipc.open_file(pa.BufferReader(buffer)) as file:
            return _tree(_entries(file.schema), file.get_batch(0))
    except _UNEXPECTED:
        return None


def _tree(tokens: Iterator[tuple[bytes, bytes]], values: pa.RecordBatch) -> Node:
    opened: list[tuple[str, list[Node], list[pa.StructScalar]]] = [("", [], [])]
    for kind, content in tokens:
        name, nodes, options = opened[-1]
        if kind == b"call":
            opened.append((content.decode(), [], []))
        elif kind == b"literal":
            nodes.append(Literal(values.column(int(content))[0]))
        elif kind == b"field_ref":
            nodes.append(Field((content.decode(),)))
        elif kind == b"nested_field_ref":
            nodes.append(_nested(list(islice(tokens, int(content))), int(content)))
        elif kind == b"options":
            options.append(values.column(int(content))[0])
        elif kind == b"end" and len(opened) > 1 and content.decode() == name:
            opened.pop()
            opened[-1][1].append(Call(name, tuple(nodes), *options))
        else:
            msg = f"not a token of an expression: {kind!r} {content!r}"
            raise ValueError(msg)
    ((_, (root,), _),) = opened
    return root


def _nested(names: list[tuple[bytes, bytes]], length: int) -> Field:
    if len(names) != length or {kind for kind, _ in names} != {b"field_ref"}:
        msg = f"not {length} names: {names!r}"
        raise ValueError(msg)
    return Field(tuple(content.decode() for _, content in names))


class _CSchema(ctypes.Structure):
    """The beginning of the struct ArrowSchema."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _entries(schema: pa.Schema) -> Iterator[tuple[bytes, bytes]]:
    """Gives the metadata of a schema, every entry in its order."""
    capsule = schema.__arrow_c_schema__()
    position = _CSchema.from_address(_pointer_in(capsule, b"arrow_schema")).metadata
    if position is None:
        return

    def content(length: int) -> bytes:
        nonlocal position
        position += length
        return ctypes.string_at(position - length, length)

    def count() -> int:
        return int.from_bytes(content(4), sys.byteorder)

    for _ in range(count()):
        yield content(count()), content(count())
    # The memory that is read belongs to the capsule.
    del capsule
