"""What the original design promised, to be put beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass

DESIGN_FILES = 10_000_000
"""What its figures are for, but where a claim says otherwise."""


@dataclass(frozen=True, slots=True)
class Target:
    """A level's figures, for the last hour: an amount, and the text where that says more."""

    peak_bytes: float
    first_seconds: float
    seconds: float
    peak_words: str = ""
    first_words: str = ""
    words: str = ""


TARGETS = (
    Target(10e9, 60, 60, "10 to 50 GB", "60 s and more", "60 s and more"),
    Target(150e6, 5, 60),
    Target(150e6, 1, 55),
    Target(50e6, 0.5, 30),
    Target(50e6, 0.2, 30),
    Target(20e6, 0.2, 20),
    Target(5e6, 0.2, 1),
    Target(5e6, 0.2, 0.2),
)
"""By level. The last is for a limit of 100 files."""

ONE_THING = (
    ("You cannot change how data is written", 1),
    ("You want the most for the least work", 3),
    ("You want all of it", 7),
)
"""What to do if it can be one thing only, and the level that this reaches."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise of the design: at most `limit` of a figure of a question."""

    words: str
    question: str
    field: str  # of a median, or of `extra`
    limit: float
    unit: str
    files: int = DESIGN_FILES


CLAIMS = (
    Claim("the first 100 files", "first 100", "seconds", 0.1, "seconds"),
    Claim("the first 1,000 files", "first 1,000", "seconds", 0.5, "seconds"),
    Claim("bytes read for a limit of 100", "first 100", "bytes", 100e3, "bytes"),
    Claim("bytes read for one day", "one day", "bytes", 1e6, "bytes"),
    Claim("memory for all files", "all files", "peak_bytes", 50e6, "bytes"),
    Claim("memory for all files", "all files", "peak_bytes", 50e6, "bytes", 100_000_000),
    Claim("memory for the last hour", "last hour", "peak_bytes", 5e6, "bytes"),
    Claim("memory for the paths of the last hour", "last hour, paths", "peak_bytes", 5e6, "bytes"),
    Claim("memory for the last hour", "last hour", "peak_bytes", 50e6, "bytes", 100_000_000),
    Claim("memory for the last hour", "last hour", "peak_bytes", 50e6, "bytes", 1_000_000_000),
    Claim("the manifest", "last hour", "manifest_bytes", 10e3, "bytes"),
)
