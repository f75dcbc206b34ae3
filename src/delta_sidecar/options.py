"""Every option once: its name in a call, its table property, its environment variable, its default and its meaning.

A value of the call counts most, then the table's own property, then the environment, then the default.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from delta_sidecar.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


class Option(Struct, frozen=True):
    """One option."""

    name: str  # in a call
    key: str  # its dotted name, which the other names are made of
    default: Any
    read: Callable[[Any], Any]  # checks a value or parses a text; raises ValueError with what is expected
    meaning: str  # for the documentation
    shown: str = ""  # the default, in words; empty where the value speaks for itself

    @property
    def table_property(self) -> str:
        """Name of the property of a table that sets it. Delta refuses properties of others that begin with `delta.`."""
        return f"deltaSidecar.{self.key.removeprefix('delta.').removeprefix('sidecar.')}"

    @property
    def environment_variable(self) -> str:
        """Name of the environment variable that sets it."""
        return self.key.upper().replace(".", "_")

    def value(self, value: object, source: str = "") -> Any:  # noqa: ANN401 - each option has a type of its own
        """Checks a value or parses a text.

        Args:
            value: A value or a text.
            source: The place that it is from, other than a call. It is not shown then: it may be anything.

        Raises:
            OptionError: It is not valid; the message names the source.
        """
        if not source:
            return checked(self.name, value, self.read)
        try:
            return self.read(value)
        except ValueError as error:
            msg = f"{source} must be {error}"
            raise OptionError(msg) from None


def checked(name: str, value: object, read: Callable[[Any], T]) -> T:
    """Checks a value of a call, or parses a text.

    Raises:
        OptionError: It is not valid; the message names it and says what is expected.
    """
    try:
        return read(value)
    except ValueError as error:
        msg = f"{name} must be {error}, not {value!r}"
        raise OptionError(msg) from None


def resolve(
    options: tuple[Option, ...],
    call: Mapping[str, object],
    properties: Mapping[str, str | None],
    ignored: Callable[[str, str], None],
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The value of each option.

    Args:
        options: The options.
        call: The values of the call, by name; None where it sets none.
        properties: The table's properties.
        ignored: Called with a property whose value is not valid, and why. It does not count: a table stays readable.
        environment: The environment; None for that of the process.

    Raises:
        OptionError: A value of the call or the environment is not valid.
    """
    environment = os.environ if environment is None else environment
    values = {}
    for option in options:
        values[option.name] = option.default
        if (text := environment.get(option.environment_variable)) is not None:
            values[option.name] = option.value(text, f"environment variable {option.environment_variable}")
        if (text := properties.get(option.table_property)) is not None:
            try:
                values[option.name] = option.value(text, f"table property {option.table_property}")
            except OptionError as error:
                ignored(option.table_property, str(error))
        if (value := call.get(option.name)) is not None:
            values[option.name] = option.value(value)
    return values


def whole_number(lowest: int, highest: int) -> Callable[[object], int]:
    """Reads whole numbers of a range."""

    def read(value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value.strip()) else value
        if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
            msg = f"a whole number from {lowest} to {highest}"
            raise ValueError(msg)
        return number

    return read


def size(highest: int) -> Callable[[object], int]:
    """Reads sizes in bytes: a number, or a text such as `64MB`."""

    def read(value: object) -> int:
        found = (
            re.fullmatch(r"(\d{1,15})\s*(|[kMG]i?B?|B)", value.strip(), re.IGNORECASE)
            if isinstance(value, str)
            else None
        )
        number = int(found[1]) * _UNITS[found[2][:1].lower()] if found else value
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= highest:
            msg = f"a size up to {highest} bytes, such as 67108864 or '64MB'"
            raise ValueError(msg)
        return number

    return read


_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def flag(value: object) -> bool:
    """Reads true and false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _FLAGS:
        return _FLAGS[value.strip().lower()]
    msg = "true or false"
    raise ValueError(msg)


_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def time_zone(value: object) -> str:
    """Reads names of time zones."""
    if isinstance(value, str) and value == "UTC":
        return value
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(str(value)).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        msg = "UTC, or the name of a time zone that this machine knows, such as 'Europe/Berlin'"
        raise ValueError(msg) from None


def one_of(*names: str) -> Callable[[object], str]:
    """Reads one of some words."""

    def read(value: object) -> str:
        if isinstance(value, str) and value.strip().lower() in names:
            return value.strip().lower()
        msg = f"one of {', '.join(names)}"
        raise ValueError(msg)

    return read


def column_name(value: object) -> str:
    """Reads the name of a column."""
    if isinstance(value, str) and value:
        return value
    msg = "the name of a column"
    raise ValueError(msg)


def flag_or_callable(value: object) -> bool | Callable[..., Any]:
    """Reads true, false or a function."""
    return value if callable(value) else flag(value)


SCAN_OPTIONS = (
    Option(
        name="strategy",
        key="delta.scan.strategy",
        default="auto",
        read=one_of("auto", "reverse", "forward"),
        meaning="Which end of the log is replayed first: `reverse` begins with the newest commit, `forward` with the "
        "base; `auto` decides.",
    ),
    Option(
        name="order",
        key="delta.scan.order",
        default=None,
        read=one_of("recent", "any"),
        meaning="`recent`: newest commits first, then a metadata sidecar from its newest end. `any`: as is cheapest.",
        shown="`recent` with a limit, else `any`",
    ),
    Option(
        name="bucket_column",
        key="delta.bucket.column",
        default="_event_hour",
        read=column_name,
        meaning="The partition column that holds the time bucket; a table need not have it.",
    ),
    Option(
        name="batch_size",
        key="delta.scan.batch_size",
        default=8192,
        read=whole_number(1, 1 << 30),
        meaning="Most rows in a batch of files.",
    ),
    Option(
        name="commit_read_parallelism",
        key="delta.commit.parallelism",
        default=10,
        read=whole_number(1, 1000),
        meaning="How many commits are fetched at once.",
    ),
    Option(
        name="checkpoint_row_groups_per_batch",
        key="delta.checkpoint.row_groups_per_batch",
        default=10,
        read=whole_number(1, 1000),
        meaning="Most row groups of a checkpoint that are fetched ahead or decoded at once, within a byte budget.",
    ),
    Option(
        name="sidecar_enabled",
        key="delta.sidecar.enabled",
        default=True,
        read=flag,
        meaning="Whether metadata sidecars are used; without them a scan ends on a checkpoint.",
    ),
    Option(
        name="sidecar_row_groups_per_batch",
        key="delta.sidecar.row_groups_per_batch",
        default=5,
        read=whole_number(1, 1000),
        meaning="How many row groups of a metadata sidecar are fetched together; they are let go before the next but "
        "one.",
    ),
    Option(
        name="remove_set_memory_limit",
        key="delta.remove_set.memory_limit",
        default=16 << 20,
        read=size(1 << 34),
        meaning="Most bytes of memory for the keys of the tail; above it they go to temporary files.",
        shown="16MB",
    ),
    Option(
        name="strict",
        key="delta.strict.enabled",
        default=False,
        read=flag,
        meaning="Strict mode: a commit with anything but add, remove and commitInfo trips.",
    ),
    Option(
        name="enable_fallback",
        key="delta.strict.fallback",
        default=True,
        read=flag,
        meaning="Where strict mode trips: go on in the standard chain (true), or fail by name (false).",
    ),
    Option(
        name="retention_guard",
        key="delta.retention.guard",
        default=False,
        read=flag_or_callable,
        meaning="Refuse a version whose data files may be vacuumed already. In a call also a function that decides.",
    ),
)
"""The options of a scan."""

ROW_OPTIONS = (
    Option(
        name="file_parallelism",
        key="delta.rows.file_parallelism",
        default=8,
        read=whole_number(1, 1000),
        meaning="How many data files are fetched, and large ones decoded, at once; fewer while few rows are taken.",
    ),
    Option(
        name="rows_per_batch",
        key="delta.rows.batch_size",
        default=65_536,
        read=whole_number(1, 1 << 30),
        meaning="Most rows in a batch of rows; wide rows come in smaller ones.",
    ),
    Option(
        name="rows_memory_limit",
        key="delta.rows.memory_limit",
        default=64 << 20,
        read=size(1 << 40),
        meaning="Most bytes of decoded rows that wait to be taken.",
        shown="64MB",
    ),
    Option(
        name="allow_external_paths",
        key="delta.rows.external_paths",
        default=False,
        read=flag,
        meaning="Whether data files outside of the table's own folder are opened, as those of a shallow clone.",
    ),
    Option(
        name="time_zone",
        key="delta.rows.time_zone",
        default="UTC",
        read=time_zone,
        meaning="Time zone of partition values, and of the oldest files of Spark, that do not tell theirs.",
    ),
)
"""The options of reading rows. They are about the reader, so that no table property sets them."""

INGEST_OPTIONS = (
    Option(
        name="checksum_transactions",
        key="delta.ingest.checksum_transactions",
        default=True,
        read=flag,
        meaning="Whether a checksum file is asked if a batch was written before, where it can be relied on; without it "
        "Delta replays the log for each batch with an id.",
    ),
)
"""The options of ingestion that a table may set."""
