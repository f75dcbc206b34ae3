"""A query for rows, and the options of reading them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import OptionError, described
from delta_sidecar.options import ROW_OPTIONS, resolve
from delta_sidecar.predicate import Predicate, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A query for rows.

    Attributes:
        columns: Names of top-level columns, in the order that they come in; None for all.
        predicate: Only rows that match: SQL text, DNF tuples, a mapping or a tree; None for all.
        expression: Only rows that match this too, by Arrow's own rules; None for all.
        prunes: Files and row groups that hold no row which matches this may be left out; the caller filters by itself.
        prunes_files: Files that hold no row which matches this may be left out; all rows of others are returned.
        limit: At most so many rows; None for all.

    Raises:
        OptionError: The limit is not valid.
        PredicateError: The predicate's syntax is wrong.
    """

    columns: tuple[str, ...] | None = None
    predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None
    expression: pc.Expression | None = None
    prunes: Predicate | None = None
    prunes_files: Predicate | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.predicate is not None:
            object.__setattr__(self, "predicate", parse(self.predicate))
        limit: object = self.limit
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            msg = f"limit must be a whole number from 0 on, not {described(limit)}"
            raise OptionError(msg)

    @property
    def parsed_predicate(self) -> Predicate | None:
        """The predicate as a tree, not yet bound to a table's columns."""
        return None if self.predicate is None else parse(self.predicate)


@dataclass(frozen=True, slots=True)
class RowOptions:
    """The options of reading rows; the page "Options" says what each means."""

    file_parallelism: int = 8
    rows_per_batch: int = 65_536
    rows_memory_limit: int = 64 << 20
    allow_external_paths: bool = False
    time_zone: str = "UTC"

    @classmethod
    def of(cls, options: Mapping[str, object]) -> RowOptions:
        """The options of a call, of the environment and the defaults, in this order.

        Raises:
            OptionError: A value is not valid.
        """
        known = {field.name for field in fields(cls)}
        return cls(**resolve(ROW_OPTIONS, {name: options.get(name) for name in known}, {}, lambda *_: None))
