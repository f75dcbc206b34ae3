"""In-commit timestamps, and the intervals of table properties.

A writer feature and a property enable in-commit timestamps. Each commit from then on begins with a `commitInfo` that
holds its time, and times grow with the version.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from delta_sidecar.errors import InvalidMetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.log.actions import Metadata, Protocol


COMMIT_INFO_SCHEMA = pa.schema([pa.field("commitInfo", pa.struct([pa.field("inCommitTimestamp", pa.int64())]))])
"""The field of a commit with its in-commit timestamp."""

_FEATURE = "inCommitTimestamp"
_ENABLED = "delta.enableInCommitTimestamps"
_VERSION = "delta.inCommitTimestampEnablementVersion"
_TIME = "delta.inCommitTimestampEnablementTimestamp"


class Enablement(Struct, frozen=True):
    """The first commit of a table with an in-commit timestamp."""

    version: int = 0
    time: int | None = None  # in milliseconds since the epoch; None if all commits have one


def enablement(protocol: Protocol, metadata: Metadata, table: str) -> Enablement | None:
    """The first commit with an in-commit timestamp, by the protocol and metadata in force; None if there are none.

    Raises:
        InvalidMetadataError: One of the two properties for it is missing, or not a whole number.
    """
    properties = metadata.configuration
    is_set = str(properties.get(_ENABLED, "")).strip().lower() == "true"
    if not is_set or _FEATURE not in (protocol.writer_features or ()):
        return None
    version, time = (_whole_number(properties, name, table) for name in (_VERSION, _TIME))
    if version is None and time is None:
        return Enablement()
    if version is None or time is None:
        there, absent = (_TIME, _VERSION) if version is None else (_VERSION, _TIME)
        msg = f"the properties of {table} have {there} and no {absent}: which commits have timestamps is not known"
        raise InvalidMetadataError(msg)
    return Enablement(version, time)


def timestamp_in(beginning: bytes, *, is_whole: bool) -> int | None:
    """The timestamp of the first `commitInfo` in the beginning of a commit; None if there is none.

    Args:
        beginning: The first bytes of the commit.
        is_whole: The commit ends here: the last line is not cut off.
    """
    *lines, last = beginning.split(b"\n")
    for line in [*lines, last] if is_whole else lines:
        if b'"commitInfo"' not in line:
            continue
        try:
            info = json.loads(line).get("commitInfo")
        except (ValueError, AttributeError, RecursionError):
            return None
        if isinstance(info, dict):
            time = info.get("inCommitTimestamp")
            return time if isinstance(time, int) and not isinstance(time, bool) else None
    return None


def _whole_number(properties: Mapping[str, str], name: str, table: str) -> int | None:
    text = properties.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", str(text).strip()):
        msg = f"property {name} of {table} is no whole number from 0 on: {text!r}"
        raise InvalidMetadataError(msg)
    return int(text)


# Intervals of Delta's table properties, such as `interval 1 week` or `interval 7 days 12 hours`.


_PIECE = re.compile(r"\s*([+-]?)\s*(\d{1,18})(?:\.(\d{1,9}))?\s+([a-z]+?)s?(?=\s|$)")
_MICROSECONDS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def read_interval(text: str) -> timedelta:
    """Parses an interval in any case, with or without the word `interval`.

    Raises:
        ValueError: It is none, or negative. Months and years have no fixed length and are refused.
    """
    left = re.sub(r"^interval(?=\s)", "", text.strip().lower())
    total, position = Decimal(0), 0
    while position < len(left):
        found = _PIECE.match(left, position)
        # As in Spark, only seconds have a fraction.
        if found is None or found[4] not in _MICROSECONDS or (found[3] and found[4] != "second"):
            raise ValueError(_EXPECTED)
        total += Decimal(f"{found[1]}{found[2]}.{found[3] or 0}") * _MICROSECONDS[found[4]]
        position = found.end()
    if position == 0 or total < 0:
        raise ValueError(_EXPECTED)
    try:
        return timedelta(microseconds=int(total))
    except OverflowError:
        raise ValueError(_EXPECTED) from None


_EXPECTED = "a span of time in weeks, days, hours, minutes or seconds, such as 'interval 7 days'"
