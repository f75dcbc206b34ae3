"""Reads the values of options, which are texts, as what they mean."""

from __future__ import annotations

import re
from datetime import timedelta

from delta_sidecar.errors import OptionError


def read_flag(key: str, value: str) -> bool:
    """Reads a yes or no.

    Raises:
        OptionError: It is neither.
    """
    word = value.strip().lower()
    if word in {"true", "1", "yes", "on", "t", "y"}:
        return True
    if word in {"false", "0", "no", "off", "f", "n", ""}:
        return False
    msg = f"the storage option {key!r} must be true or false"
    raise OptionError(msg)


def read_count(key: str, value: str, *, least: int = 0) -> int:
    """Reads a number of things.

    Raises:
        OptionError: It is not a whole number, or smaller than `least`.
    """
    if re.fullmatch(r"\d{1,9}", value.strip()) and int(value) >= least:
        return int(value)
    msg = f"the storage option {key!r} must be a whole number of at least {least}"
    raise OptionError(msg)


def read_duration(key: str, value: str) -> timedelta:
    """Reads a length of time such as `500ms`, `30s`, `2min` or `1h`; a bare number means seconds.

    Raises:
        OptionError: It is not one.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
    seconds = None if match is None else _SECONDS.get(match[2])
    if match is None or seconds is None:
        msg = f"the storage option {key!r} must be a length of time such as '500ms', '30s' or '2min'"
        raise OptionError(msg)
    return timedelta(seconds=float(match[1]) * seconds)


_SECONDS = {
    **dict.fromkeys(("ms", "msec", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
}
