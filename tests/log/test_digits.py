"""Numbers out of the middle of texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delta_sidecar.log.digits import TextRanges
from delta_sidecar.log.values import JAVA, RUST, value_text

PADDING = b'{"numRecords":'


def ranges(texts: list[str]) -> TextRanges:
    """Ranges that hold texts, with something like numbers around them."""
    data, starts, ends = PADDING, [], []
    for text in texts:
        starts.append(len(data))
        ends.append(len(data) + len(text))
        data += text.encode() + b",77.7,"
    return TextRanges(np.frombuffer(data, dtype=np.uint8), np.array(starts), np.array(ends))


@given(st.lists(st.integers(-(10**16) + 1, 10**16 - 1), min_size=1))
@example([0, 7, 99_999_999, 100_000_000, 9_999_999_999_999_999, -1])
def test_whole_numbers_are_read(numbers: list[int]) -> None:
    found = ranges([str(number) for number in numbers]).whole_numbers()
    assert found is not None
    assert found.tolist() == numbers


@pytest.mark.parametrize("text", ["", "-", "-0", "00", "01", "1.0", "1e5", "+1", " 1", "1 ", "/", ":", "1_0", "1" * 17])
def test_other_texts_are_no_whole_numbers(text: str) -> None:
    assert ranges(["12", text, "345"]).whole_numbers() is None


@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(1, 7), st.booleans()), min_size=1, max_size=20))
@example([(0, 1, False), (0, 1, True), (1, 3, False), (99_999_999_999_999, 7, True)])
@example([(50, 2, False)])
@example([(9, 4, False)])
@example([(100_000_000, 1, False)])
def test_decimals_are_read_where_they_are_written_like_that_again(parts: list[tuple[int, int, bool]]) -> None:
    for number, fraction, negative in parts:
        digits = f"{number:0{fraction + 1}}"
        text = f"{'-' * negative}{digits[:-fraction]}.{digits[-fraction:]}"
        found, expected = ranges([text]).decimals(), float(text)
        written = [value_text(pa.array([expected]), style)[0].as_py() for style in (JAVA, RUST)]
        if found is not None:
            assert (found[0].hex(), written) == (expected.hex(), [text, text])
        else:
            is_long = len(digits) > 15 or not 1e-3 <= abs(expected) < 1e7
            assert is_long or written[0] != text


@given(st.lists(st.decimals(-9_999_999, 9_999_999, places=2), min_size=1))
def test_decimals_of_any_lengths_are_read_together(numbers: list[object]) -> None:
    texts = [repr(float(str(number))) for number in numbers]
    found = ranges(texts).decimals()
    assert found is not None
    assert found.tolist() == [float(text) for text in texts]


@pytest.mark.parametrize(
    "text",
    ["", "-", ".", "1", "1.", ".5", "1.50", "01.5", "1.5.1", "1.5e3", "1..5", "1./", "NaN", "0.00001", "12345678.5",
     "1.123456789", "1234567890.1234567", "90000000000000001.5"],
)  # fmt: skip
def test_other_texts_are_no_decimals(text: str) -> None:
    assert ranges(["12.5", text, "0.25"]).decimals() is None


def test_ranges_are_compared_with_a_text() -> None:
    found = ranges(["abcdefghijk", "abcdefghijk"])
    assert found.all_are(b"abcdefghijk")
    assert not found.all_are(b"abcdefghijx")
    assert not ranges(["abc", "abd"]).all_are(b"abc")
