"""Spans of time in table properties."""

from __future__ import annotations

from datetime import timedelta

import pytest

from delta_sidecar.log.commit_times import read_interval


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("interval 1 week", timedelta(weeks=1)),
        ("interval 7 days 12 hours", timedelta(days=7, hours=12)),
        ("interval 168 hours", timedelta(weeks=1)),
        ("INTERVAL 30 Days", timedelta(days=30)),
        ("2 weeks", timedelta(weeks=2)),
        ("  interval   1 day   1 hour  1 minute 1 second 1 millisecond 1 microsecond ", timedelta(1, 3661, 1, 1)),
        ("interval 1.5 seconds", timedelta(seconds=1.5)),
        ("interval 2 days -12 hours", timedelta(days=1, hours=12)),
        ("interval 0 days", timedelta()),
    ],
)
def test_spans_are_read(text: str, span: timedelta) -> None:
    assert read_interval(text) == span


@pytest.mark.parametrize(
    "text",
    [
        "",
        "interval",
        "interval 7",
        "interval days",
        "interval 1 month",
        "interval 1 year",
        "interval 1.5 days",
        "interval -1 days",
        "interval 7days",
        "interval 7 days!",
        "interval7 days",
        "7 fortnights",
        "interval 999999999999999999 weeks",
    ],
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 'interval 7 days'"):
        read_interval(text)
