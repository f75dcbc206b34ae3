"""What rows look like on stdout as JSON lines and as CSV.

Rows are made into text a few thousand at a time, however large a batch is.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.cli.values import json_objects, json_string, json_texts, plain_texts
from delta_sidecar.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS_AT_ONCE = 4_096


class RowJsonLines:
    """A JSON object per row, under the names of the columns.

    Raises:
        OptionError: Two columns have the same name, so that readers would lose one.
    """

    def start(self, schema: pa.Schema) -> bytes:
        """Nothing: every line is a row."""
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice:
            msg = f"two columns are called {twice[0]!r}, and a JSON object has each name once: name them by AS"
            raise OptionError(msg)
        self._names = [json_string(name) for name in schema.names]
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        return b"".join(map(self._lines, parts_of(batch)))

    def end(self) -> bytes:
        """Nothing."""
        return b""

    broken_off = end

    def _lines(self, part: pa.RecordBatch) -> bytes:
        if not self._names:
            return b"{}\n" * int(part.num_rows)
        rows = json_objects(self._names, [json_texts(column) for column in part.columns])
        return "".join(f"{row}\n" for row in rows).encode()


class Csv:
    """Comma-separated values as RFC 4180 has them, with a head.

    Null is an empty field, an empty text is `""`. The only column of a row is never left empty, since readers pass over
    empty lines. Nested values are JSON.
    """

    def start(self, schema: pa.Schema) -> bytes:
        """The names of the columns."""
        self._columns = len(schema)
        return _line(_field(name) for name in schema.names).encode()

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        return b"".join(map(self._lines, parts_of(batch)))

    def end(self) -> bytes:
        """Nothing."""
        return b""

    broken_off = end

    def _lines(self, part: pa.RecordBatch) -> bytes:
        null = '""' if self._columns == 1 else ""
        columns = [_fields(column, null) for column in part.columns]
        return "".join(map(_line, zip(*columns, strict=True))).encode()


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces that are small as text."""
    return (batch.slice(start, _ROWS_AT_ONCE) for start in range(0, batch.num_rows, _ROWS_AT_ONCE))


def _fields(column: pa.Array, null: str) -> list[str]:
    texts = plain_texts(column)
    if _is_plain(column.type):
        return [null if text is None else text for text in texts]
    return [null if text is None else _field(text) for text in texts]


def _is_plain(kind: pa.DataType) -> bool:
    """Whether no value has anything to be quoted."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


_SPECIAL = re.compile(r'[",\r\n]|^$')


def _field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _line(fields: Iterator[str] | tuple[str, ...]) -> str:
    return ",".join(fields) + "\r\n"
