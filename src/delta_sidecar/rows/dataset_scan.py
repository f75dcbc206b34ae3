"""`DatasetScanner`: one question to a dataset or one of its fragments, with the methods of pyarrow's `Scanner`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import int64s
from delta_sidecar.errors import OptionError, described

if TYPE_CHECKING:
    from collections.abc import Generator

    from delta_sidecar.rows.columns import Projection
    from delta_sidecar.rows.query import RowQuery

_MANNER = {"batch_readahead", "fragment_readahead", "use_threads", "cache_metadata", "memory_pool"}


class Scanned(Protocol):
    """What a scanner asks for rows: a whole table, or one file."""

    @property
    def schema(self) -> pa.Schema:
        """All columns that there are."""

    def batches(self, query: RowQuery) -> Generator[pa.RecordBatch, None, None]:
        """Streams the rows of a query; nothing is read before the first is asked for."""

    def count(self, query: RowQuery) -> int:
        """How many rows a query has."""


class DatasetScanner:
    """Some columns and rows of a dataset, read as often as they are asked for.

    Making one reads nothing. Each stream stands by itself, may be taken in any thread, and stops its requests when it
    is closed or dropped.
    """

    def __init__(
        self, scanned: Scanned, query: RowQuery, projection: Projection, batch_size: int | None = None
    ) -> None:
        """Makes a scanner.

        Args:
            scanned: Where the rows are.
            query: Which rows; its columns are those of the projection.
            projection: Which columns.
            batch_size: Most rows of a batch; None for batches as they come.

        Raises:
            OptionError: The size is not valid.
        """
        if batch_size is not None and batch_size < 1:
            msg = f"batch_size must be a whole number from 1 on, not {described(batch_size)}"
            raise OptionError(msg)
        self._scanned = scanned
        self._query = replace(query, columns=projection.names)
        self._projection = projection
        self._batch_size = batch_size

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._projection.schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._scanned.schema

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Streams the rows."""
        return self._batches(self._query)

    def to_reader(self) -> pa.RecordBatchReader:
        """Streams the rows as a reader of Arrow. Dropping it stops the requests; its `close` does not reach them."""
        return pa.RecordBatchReader.from_batches(self._projection.schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """All rows, in memory."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows; those of the newest commits come first.

        Args:
            num_rows: At most so many.
        """
        limit = num_rows if self._query.limit is None else min(num_rows, self._query.limit)
        batches = self._batches(replace(self._query, limit=limit))
        return pa.RecordBatchReader.from_batches(self._projection.schema, batches).read_all()

    def take(self, indices: Any) -> pa.Table:  # noqa: ANN401 - whatever is a list of numbers
        """The rows at some places of the stream, in the order of the places; it is read no further than to the last.

        Args:
            indices: Places, counted from 0.

        Raises:
            IndexError: There is no such row.
        """
        given = np.asarray(indices)
        if given.size and given.dtype.kind not in "iu":
            msg = f"rows are taken by their numbers, which are whole, not by {given.dtype} values"
            raise OptionError(msg)
        places = given.astype(np.int64)
        _check_places(places, None)
        order = np.argsort(places, kind="stable")
        wanted = places[order]
        pieces, taken, start = [], 0, 0
        with closing(self._batches(self._query)) as batches:
            for batch in batches if len(wanted) else ():
                end = int(np.searchsorted(wanted, start + batch.num_rows))
                pieces.append(batch.take(int64s(wanted[taken:end] - start)))
                taken, start = end, start + batch.num_rows
                if taken == len(wanted):
                    break
        _check_places(wanted[taken:], start)
        found = pa.Table.from_batches(pieces, self._projection.schema)
        return found.take(int64s(np.argsort(order, kind="stable")))

    def count_rows(self) -> int:
        """How many rows there are; where the log tells, no file is opened."""
        return self._scanned.count(self._query)

    def _batches(self, query: RowQuery) -> Generator[pa.RecordBatch, None, None]:
        with closing(self._scanned.batches(query)) as batches:
            for found in batches:
                batch = self._projection.of(found)
                # Without columns, rows are no more than a number.
                size = (batch.num_columns and self._batch_size) or batch.num_rows or 1
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


def narrowed(query: RowQuery, condition: pc.Expression | None) -> RowQuery:
    """The same query for the rows that match another condition too.

    Raises:
        OptionError: The condition is no expression of pyarrow.
    """
    if condition is None:
        return query
    if not isinstance(condition, pc.Expression):
        msg = f"a filter is an expression of pyarrow, such as pc.field('x') > 1, not {condition!r}"
        raise OptionError(msg)
    own = query.expression
    return replace(query, expression=condition if own is None else own & condition)


def refuse_scan_options(manner: dict[str, Any]) -> None:
    """Refuses arguments of pyarrow's scanners that would change rows; those on how to read change nothing here.

    Raises:
        OptionError: One of them is given.
        TypeError: One is unknown.
    """
    if manner.get("fragment_scan_options") is not None:
        msg = "fragment_scan_options is not supported: leave it out"
        raise OptionError(msg)
    unknown = manner.keys() - _MANNER - {"fragment_scan_options"}
    if unknown:
        msg = f"a scanner has no argument {', '.join(sorted(unknown))}"
        raise TypeError(msg)


def _check_places(places: np.ndarray[Any, np.dtype[np.int64]], rows: int | None) -> None:
    """Refuses places below zero, or any at all where the rows have ended."""
    wrong = places if rows is not None else places[places < 0]
    if len(wrong):
        there = "" if rows is None else f": there are {rows}"
        msg = f"there is no row {int(wrong[0])}{there}"
        raise IndexError(msg)
