"""What a text of statistics says, read apart from the library, to compare texts by."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)?")


def meaning(text: str | None) -> Any:  # noqa: ANN401 - any JSON
    """The members with their values, whatever their order; what says nothing is left out.

    A text that is no object stands for itself. Numbers are the same with the same value as 64 bits of floating point or
    as whole ones, and texts of timestamps where they are the same moment, with a zone or without one.
    """
    try:
        found = json.loads(text or "", parse_float=Decimal, parse_int=Decimal)
    except (ValueError, RecursionError):
        return text
    return _said(found) if isinstance(found, dict) else text


def _said(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        members = {name: _said(each) for name, each in value.items()}
        return {name: each for name, each in members.items() if each not in (None, {})}
    if isinstance(value, Decimal):
        return int(value) if value == int(value) and value != 0 else str(float(value))
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        moment = dt.datetime.fromisoformat(value)
        return moment if moment.tzinfo is None else moment.astimezone(dt.UTC)
    return value
