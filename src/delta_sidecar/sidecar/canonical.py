"""JSON with one layout, sealed by a digest of itself.

Canonical JSON has no spaces, its keys in the order of their code points, and its text in UTF-8 without needless
escapes.
A sealed document is an object whose first member, `digest`, is the XXH3 digest of the canonical text without it.
Numbers with a fraction or an exponent are read as `Decimal`: no digit of a bound may be lost.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

from delta_sidecar._arrow import DIGEST_LENGTH, xxh3_128, xxh3_128_of
from delta_sidecar.errors import SidecarError

LARGEST_DOCUMENT = 32 * 1024 * 1024
"""Bytes of the largest document that is read."""

LONGEST_NUMBER = 400
"""Digits of the longest fraction that is read, and the largest exponent."""


def canonical(value: object) -> bytes:
    """Writes a JSON value in the canonical layout.

    Raises:
        ValueError: A text is no Unicode, or a number is not finite.
        TypeError: The value is no JSON.
    """
    try:
        return _QUICK.encode(value).encode()
    except _DecimalFoundError:
        return _text(value).encode()


def seal(body: dict[str, Any]) -> bytes:
    """Writes a document with its digest as the first member.

    Whether it is small enough to be read is for the caller to see.
    """
    text = canonical(body)
    return b"".join((_START, xxh3_128(text).encode(), _MIDDLE, text[1:]))


def unseal(data: bytes) -> dict[str, Any]:
    """Reads a sealed document, in whatever layout, and gives it without its digest.

    Raises:
        SidecarError: It is no document, or its digest does not hold.
    """
    held = _sealed_by_bytes(data)
    document = parse(data)
    if type(document) is not dict:
        refuse("is no JSON object")
    digest = document.pop("digest", None)
    if not held and (type(digest) is not str or digest != xxh3_128(_recoded(document))):
        refuse("does not have its digest")
    return document


def parse(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Reads JSON in which no object has a key twice, all numbers are finite and all texts are Unicode.

    Raises:
        SidecarError: It is not that, or too large.
    """
    if len(data) > LARGEST_DOCUMENT:
        refuse(f"has {len(data)} bytes, more than {LARGEST_DOCUMENT}")
    try:
        value = _STRICT.decode(data.decode())
        if any(part.startswith(b"u") for part in data.split(b"\\")):
            # An escape may be half of a surrogate pair, which is no text that could be written down again.
            canonical(value)
    except (ValueError, RecursionError, ArithmeticError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:120]
        msg = f"the manifest cannot be read: {reason}"
        raise SidecarError(msg) from error
    return value


def refuse(what: str, code: str = "damaged") -> NoReturn:
    """Says what is wrong with a manifest, and in which of a few words.

    Raises:
        SidecarError: Always.
    """
    msg = f"the manifest {what}"
    raise SidecarError(msg, code)


_START = b'{"digest":"'
_MIDDLE = b'",'


class _DecimalFoundError(Exception):
    """A document holds a `Decimal`, which the quick encoder cannot write."""


def _stop(value: object) -> NoReturn:
    if isinstance(value, Decimal):
        raise _DecimalFoundError
    msg = f"not JSON: {type(value).__name__}"
    raise TypeError(msg)


_QUICK = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), default=_stop, check_circular=False
)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_QUICK.encode(key)}:{_text(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, Decimal):
        if not value.is_finite():
            msg = f"not a number of JSON: {value}"
            raise ValueError(msg)
        return str(value)
    return _QUICK.encode(value)


def _sealed_by_bytes(data: bytes) -> bool:
    """Tells whether a document is in the layout that `seal` writes, and its digest holds."""
    rest = len(_START) + DIGEST_LENGTH + len(_MIDDLE)
    digest = data[len(_START) : len(_START) + DIGEST_LENGTH]
    if len(data) > LARGEST_DOCUMENT or not data.startswith(_START) or data[rest - len(_MIDDLE) : rest] != _MIDDLE:
        return False
    return xxh3_128_of((b"{", memoryview(data)[rest:])).encode() == digest


def _recoded(document: dict[str, Any]) -> bytes:
    try:
        return canonical(document)
    except (ValueError, TypeError, RecursionError) as error:
        msg = "the manifest cannot be put into the canonical layout"
        raise SidecarError(msg) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "an object has a key twice"
        raise ValueError(msg)
    return found


def _fraction(text: str) -> Decimal:
    number = Decimal(text)
    if len(text) > LONGEST_NUMBER or (number and abs(number.adjusted()) > LONGEST_NUMBER):
        msg = "a number is too long"
        raise ValueError(msg)
    return number


def _constant(text: str) -> NoReturn:
    msg = f"not a number: {text}"
    raise ValueError(msg)


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_float=_fraction, parse_constant=_constant)
