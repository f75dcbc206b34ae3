"""Reads the values of options, which are texts, as what they mean."""

from __future__ import annotations

import contextlib
import re
from datetime import timedelta
from pathlib import Path

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


def read_certificate(key: str, value: str) -> str:
    """Reads certificates as PEM text, which is the value itself or in the file that it names.

    Raises:
        OptionError: It is no PEM text, and no file that can be read.
    """
    text = value
    if _PEM not in value:
        with contextlib.suppress(OSError, ValueError):
            text = Path(value).read_text(encoding="utf-8")
    if _PEM in text:
        return text
    msg = f"the storage option {key!r} must be a certificate as PEM text, or the path of a PEM file"
    raise OptionError(msg)


_PEM = "-----BEGIN CERTIFICATE-----"

_SECONDS = {
    **dict.fromkeys(("ms", "msec", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
}
