from __future__ import annotations

import pyarrow as pa
import pytest
from tests.predicate.evaluator import fits as fits_in_python

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import match

TEXTS = ["", "a", "ab", "abc", "a.c", "a%c", "a_c", "a\\c", "aéc", "a\U0001f600c", "a\nc", "\0", "A", "[a]", "$^", None]
PATTERNS = [
    "",
    "%",
    "_",
    "a%",
    "%c",
    "a_c",
    "a%c",
    "%b%",
    "a.c",
    "a\\%c",
    "a\\_c",
    "a\\\\c",
    "\0",
    "[a]",
    "$^",
    "_%_",
    "é%",
    "a%%",
    "%_",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_fits(pattern: str) -> None:
    expected = [None if text is None else fits_in_python(text, pattern) for text in TEXTS]
    assert match.fits(pa.array(TEXTS), pattern).to_pylist() == expected


def test_prefix_and_plain_text() -> None:
    assert match.prefix("ab%c") == "ab"
    assert match.prefix("a\\%b_") == "a%b"
    assert match.prefix("%x") == ""
    assert match.plain_text("a\\_b\\\\") == "a_b\\"
    assert match.plain_text("a_") is None


def test_another_escape_character_is_rewritten() -> None:
    assert match.checked("a!%b!!c\\_", None, "!") == "a\\%b!c\\\\_"


@pytest.mark.full
def test_a_pattern_too_long_is_refused() -> None:
    with pytest.raises(PredicateError, match="too long"):
        match.fits(pa.array(["x"]), "%" + "ab_" * 1_000_000)
