"""The configuration of a scan."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from delta_sidecar.errors import OptionError, OptionTypeError, described
from delta_sidecar.options import SCAN_OPTIONS, resolve
from delta_sidecar.predicate import Predicate, parse
from delta_sidecar.scan.levels import LEVELS, Level
from delta_sidecar.scan.pages import PageToken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from delta_sidecar.scan.retention import RetentionGuard


class ScanStrategy(Enum):
    """In which order a log is replayed. All give the same files."""

    AUTO = "auto"
    """Whichever suits the query and the log."""

    REVERSE = "reverse"
    """Newest commits first, then the base: the first files come at once, and a limit is soon reached."""

    FORWARD = "forward"
    """The base first, then the commits after it, once their keys are known."""


@dataclass(frozen=True, slots=True)
class LazyScanConfig:
    """The configuration of a scan.

    What is None here is decided by the table's properties, the environment and the defaults, in this order; the page
    "Options" has them all.

    Attributes:
        predicate: Only files that may hold a matching row: SQL text, DNF tuples or a mapping; None for all files.
        limit: At most this many files; None for all.
        strategy: The order of replay, as `ScanStrategy` or its name.
        version: The version to read; None for the newest.
        timestamp: The version to read, as the newest one that was committed up to this time: a datetime with a zone, or
            ISO 8601 text, which is in UTC where it names no zone. After the newest commit, it is the newest version's;
            before the earliest that can be read it is refused.
        order: `recent` for newest commits first and then a metadata sidecar from its newest end, which is what a limit
            stands for; `any` for what is cheapest.
        page_token: Goes on after the last file of another scan of the same query; see `LazyDeltaScanner.page_token`.
        bucket_column: The partition column that holds the time bucket.
        batch_size: Most rows in a batch of `scan_batches`.
        commit_read_parallelism: How many commits are fetched at once.
        checkpoint_row_groups_per_batch: At most so many row groups of a checkpoint are fetched ahead or decoded at
            once, within a byte budget.
        sidecar_enabled: Whether metadata sidecars are used.
        sidecar_row_groups_per_batch: How many row groups of a metadata sidecar are fetched together.
        remove_set_memory_limit: Most bytes for the keys of the tail in memory, as a number or a text such as `64MB`;
            above it they go to a temporary file.
        strict: Whether a commit with anything but add, remove and commitInfo trips.
        enable_fallback: Whether a scan that tripped goes on in the standard chain, rather than fail.
        retention_guard: True refuses a version whose data files may be vacuumed already, however it was asked for: by
            number, time or page token. A function is given a `RetentionCheck` and gives the reason to refuse, or None.
            With False nothing is refused, and an event tells.
        level: For measurements: how much of the design is used, from 0 (everything is collected before the first file
            is given) to 7 (all of it); see `LEVELS`. None for all.

    Raises:
        OptionError: A value is out of range.
        PageTokenError: The page token is damaged.
        PredicateError: The predicate's syntax is wrong.
    """

    predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None
    limit: int | None = None
    strategy: ScanStrategy | str | None = None
    version: int | None = None
    timestamp: dt.datetime | str | None = None
    order: Literal["recent", "any"] | None = None
    page_token: str | None = None
    bucket_column: str | None = None
    batch_size: int | None = None
    commit_read_parallelism: int | None = None
    checkpoint_row_groups_per_batch: int | None = None
    sidecar_enabled: bool | None = None
    sidecar_row_groups_per_batch: int | None = None
    remove_set_memory_limit: int | str | None = None
    strict: bool | None = None
    enable_fallback: bool | None = None
    retention_guard: bool | RetentionGuard | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        for name in ("limit", "version", "level"):
            value = getattr(self, name)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and (not is_number or value < 0):
                msg = f"{name} must be a whole number from 0 on, not {described(value)}"
                raise OptionError(msg) if is_number else OptionTypeError(msg)
        if self.strategy is not None:
            object.__setattr__(self, "strategy", _strategy(self.strategy))
        if self.timestamp is not None:
            object.__setattr__(self, "timestamp", _moment(self.timestamp))
        if self.predicate is not None:
            object.__setattr__(self, "predicate", parse(self.predicate))
        for option in SCAN_OPTIONS:
            value = getattr(self, option.name)
            if value is not None:
                option.value(value.value if isinstance(value, ScanStrategy) else value)
        self._check_together()

    @property
    def parsed_predicate(self) -> Predicate | None:
        """The predicate as a tree, not yet bound to a table's columns."""
        return None if self.predicate is None else parse(self.predicate)

    @property
    def steps(self) -> Level:
        """What its level stands for."""
        return LEVELS[-1 if self.level is None else self.level]

    @property
    def early_end(self) -> int | None:
        """The number of files at which the scan ends without looking further; None for none."""
        return self.limit if self.steps.early_end else None

    @property
    def token(self) -> PageToken | None:
        """The page token, taken apart."""
        return None if self.page_token is None else PageToken.decode(self.page_token)

    def options(
        self, properties: Mapping[str, str | None] | None = None, ignored: Callable[[str, str], None] | None = None
    ) -> ScanOptions:
        """The options in force, out of this, the table's properties, the environment and the defaults.

        Args:
            properties: The table's properties; None before they are known.
            ignored: Is called with a property whose value is not valid, and why.

        Raises:
            OptionError: A value in the environment is not valid.
        """
        given = {option.name: getattr(self, option.name) for option in SCAN_OPTIONS}
        if isinstance(self.strategy, ScanStrategy):
            given["strategy"] = self.strategy.value
        values = resolve(SCAN_OPTIONS, given, properties or {}, ignored or (lambda *_: None))
        values["strategy"] = ScanStrategy(values["strategy"])
        values["commit_read_parallelism"] = self.steps.commits_at_once or values["commit_read_parallelism"]
        values["sidecar_enabled"] = values["sidecar_enabled"] and self.steps.sidecars
        return ScanOptions(**values)

    def _check_together(self) -> None:
        if self.version is not None and self.timestamp is not None:
            msg = "a version and a timestamp are given: one of them says what to read"
            raise OptionError(msg)
        if self.order == "recent" and self.strategy is ScanStrategy.FORWARD:
            msg = "order 'recent' begins with the newest commits, strategy 'forward' ends with them: leave one out"
            raise OptionError(msg)
        if self.level is not None and self.level >= len(LEVELS):
            msg = f"level must be from 0 to {len(LEVELS) - 1}, not {self.level}"
            raise OptionError(msg)
        token = self.token
        if token is None:
            return
        if self.level is not None:
            msg = "a scan of one level has no pages: leave level or page_token out"
            raise OptionError(msg)
        if self.timestamp is not None or self.version not in (None, token.version):
            msg = f"the page token is for version {token.version}: leave version and timestamp out"
            raise OptionError(msg)
        for name, value in (("strategy", self.strategy), ("order", self.order)):
            text = value.value if isinstance(value, ScanStrategy) else value
            if text not in (None, "auto", getattr(token, name)):
                msg = f"the page token is for {name} {getattr(token, name)!r}, not {text!r}: leave it out"
                raise OptionError(msg)


class ScanOptions(Struct, frozen=True):
    """The options of a scan, with the values that count."""

    strategy: ScanStrategy
    order: Literal["recent", "any"] | None
    bucket_column: str
    batch_size: int
    commit_read_parallelism: int
    checkpoint_row_groups_per_batch: int
    sidecar_enabled: bool
    sidecar_row_groups_per_batch: int
    remove_set_memory_limit: int
    strict: bool
    enable_fallback: bool
    retention_guard: bool | RetentionGuard


def _strategy(value: ScanStrategy | str) -> ScanStrategy:
    try:
        return value if isinstance(value, ScanStrategy) else ScanStrategy(value.lower())
    except (ValueError, AttributeError):
        known = ", ".join(strategy.value for strategy in ScanStrategy)
        msg = f"strategy {value!r} is unknown; known are {known}"
        raise OptionError(msg) from None


def _moment(value: object) -> dt.datetime:
    if isinstance(value, str):
        try:
            moment = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            msg = f"timestamp {value!r} is not ISO 8601, such as 2026-02-10T22:00:00Z"
            raise OptionError(msg) from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value
    msg = f"timestamp must be a datetime with a zone or ISO 8601 text, not {described(value)}"
    raise OptionError(msg) if isinstance(value, dt.datetime) else OptionTypeError(msg)
