"""Figures in words, for people."""

from __future__ import annotations

from subprocess import CalledProcessError


def duration(seconds: float) -> str:
    """A time: `6 ms`, `9.7 s`, `12 min`."""
    if seconds < 0.9995:  # noqa: PLR2004 - from there on it is rounded to a second
        return f"{short(seconds * 1000)} ms"
    return f"{short(seconds)} s" if seconds < 600 else f"{short(seconds / 60)} min"  # noqa: PLR2004 - ten minutes


def size(count: float) -> str:
    """An amount of bytes: `726 kB`, `7.5 GB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * factor:
            return f"{short(count / factor)} {unit}"
    return f"{short(count)} bytes"


def count(number: float) -> str:
    """A number of things: `100,000`, `10 million`."""
    for word, factor in (("billion", 1e9), ("million", 1e6)):
        if number >= 0.9995 * factor:
            return f"{number / factor:.3g} {word}"
    return short(number)


def times(ratio: float) -> str:
    """How many times something is something else: `1,060x`, `1.4x`, `1/12`."""
    return f"{short(ratio)}x" if ratio >= 0.95 else f"1/{short(1 / ratio)}"  # noqa: PLR2004 - 1/1.1 and below


def short(number: float) -> str:
    """Two digits where there are no more before the point."""
    return f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:,.0f}"  # noqa: PLR2004 - of 10 and more


def precise(number: float) -> str:
    """Three digits, for what is held against a limit."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"  # noqa: PLR2004 - from there on it has four


def why(error: Exception) -> str:
    """A failure for people: no path of a machine, as a command has it."""
    if isinstance(error, CalledProcessError):
        return f"its process ended with {error.returncode}"
    return f"{type(error).__name__}: {error}"
