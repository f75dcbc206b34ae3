"""What a scan is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import OptionError
from delta_sidecar.predicate import Predicate, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ScanStrategy(Enum):
    """In which order a log is replayed. Both give the same files."""

    REVERSE = "reverse"
    """Newest commits first, then the base: the first files come at once, and a limit is soon reached."""

    FORWARD = "forward"
    """The base first, then the commits after it, once their keys are known."""


@dataclass(frozen=True, slots=True)
class LazyScanConfig:
    """What a scan is asked for.

    Attributes:
        predicate: Only files that may hold a matching row: SQL text, DNF tuples or a mapping; None for all files.
        limit: At most this many files; None for all.
        strategy: The order of replay, as `ScanStrategy` or its name.
        version: The version to read; None for the newest.
        batch_size: Most rows in a batch of `scan_batches`.
        commit_read_parallelism: How many commits are fetched at once.
        checkpoint_row_groups_per_batch: At most so many row groups of a checkpoint are fetched ahead or decoded at
            once, within a byte budget.

    Raises:
        OptionError: A value is out of range.
        PredicateError: The predicate's syntax is wrong.
    """

    predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None
    limit: int | None = None
    strategy: ScanStrategy | str = ScanStrategy.REVERSE
    version: int | None = None
    batch_size: int = 8192
    commit_read_parallelism: int = 10
    checkpoint_row_groups_per_batch: int = 10

    def __post_init__(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if value is None and name in ("limit", "version"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
                msg = f"{name} must be a whole number from {lowest} on, not {value!r}"
                raise OptionError(msg)
        object.__setattr__(self, "strategy", _strategy(self.strategy))
        if self.predicate is not None:
            object.__setattr__(self, "predicate", parse(self.predicate))

    @property
    def parsed_predicate(self) -> Predicate | None:
        """The predicate as a tree, not yet bound to a table's columns."""
        return None if self.predicate is None else parse(self.predicate)


_LOWEST = {
    "limit": 0,
    "version": 0,
    "batch_size": 1,
    "commit_read_parallelism": 1,
    "checkpoint_row_groups_per_batch": 1,
}


def _strategy(value: ScanStrategy | str) -> ScanStrategy:
    try:
        return value if isinstance(value, ScanStrategy) else ScanStrategy(value.lower())
    except (ValueError, AttributeError):
        known = ", ".join(strategy.value for strategy in ScanStrategy)
        msg = f"strategy {value!r} is unknown; known are {known}"
        raise OptionError(msg) from None
