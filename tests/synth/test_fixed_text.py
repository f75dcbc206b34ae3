"""Text of one width says what Python's own formatting says."""

from __future__ import annotations

import datetime as dt
import uuid

import numpy as np

from delta_sidecar.synth.fixed_text import (
    as_strings,
    decimals,
    digits,
    fill,
    hour_digits,
    timestamps,
    uuids,
    z85,
)

NUMBERS = np.array([0, 7, 9_999, 10_000, 12_345_678, 99_999_999], dtype=np.int64)


def test_digits() -> None:
    for width in (8, 9, 13):
        assert as_strings(digits(NUMBERS, width)).to_pylist() == [f"{number:0{width}}" for number in NUMBERS]


def test_decimals() -> None:
    assert as_strings(decimals(np.array([2150, 1]), 5)).to_pylist() == ["21.50", "00.01"]


def test_timestamps_and_hours() -> None:
    millis = np.array([0, 1_770_760_800_123, 951_782_399_999], dtype=np.int64)
    moments = [dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=int(ms)) for ms in millis]

    expected = [moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") for moment in moments]
    assert as_strings(timestamps(millis)).to_pylist() == expected
    hours = as_strings(hour_digits(millis // 3_600_000)).to_pylist()
    assert hours == [moment.strftime("%Y%m%d%H") for moment in moments]


def test_uuids_keep_their_random_bits() -> None:
    (text,) = as_strings(
        uuids(np.array([0xFFFF_FFFF_FFFF_FFFF], "u8"), np.array([0x0123_4567_89AB_CDEF], "u8"))
    ).to_pylist()

    assert text == "ffffffff-ffff-4fff-8123-456789abcdef"
    assert uuid.UUID(text).version == 4


def test_z85_is_that_of_the_specification() -> None:
    # The example of ZeroMQ's RFC 32, twice.
    word = np.array([0x864FD26FB559F75B], dtype=np.uint64)

    assert as_strings(z85(word, word)).to_pylist() == ["HelloWorldHelloWorld"]


def test_fill_puts_each_slot_into_each_row() -> None:
    numbers = digits(np.array([1, 2]), 1)

    assert as_strings(fill("a«n»b«n»", {"n": numbers})).to_pylist() == ["a1b1", "a2b2"]
