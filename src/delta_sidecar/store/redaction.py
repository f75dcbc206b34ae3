"""Keeps secrets out of everything a person or a log file gets to see."""

from __future__ import annotations

import contextlib
import json
import re
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

HIDDEN = "***"


class Scrubber:
    """Replaces secrets in texts: known values, in any encoding, and anything that looks like a secret."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first, so that no secret is left half visible by another one inside it.
        forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(form) for form in forms)) if forms else None

    def scrub(self, text: str) -> str:
        """Returns a text without its secrets."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern in _patterns():
            text = pattern.sub(rf"\g<1>{HIDDEN}", text)
        return text


def redact_address(address: str) -> str:
    """Returns an address for a message: without its query, user names and passwords, in any encoding."""
    scheme, separator, rest = _QUERY.split(address, maxsplit=1)[0].partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        place, colon, _ = scheme.partition(":")
        return f"{place}:{HIDDEN}" if colon and _SCHEME.fullmatch(place) else Scrubber().scrub(scheme)
    user, at, place = rest.rpartition("@")
    if at and not (scheme.lower() in _CONTAINER_AT_HOST and is_plain_name(user)):
        user = HIDDEN
    host = place.partition("/")[0]
    shown = place if is_plain_host(host) else HIDDEN
    return Scrubber().scrub(f"{scheme}://{user}{at}{shown}")


def redact_name(name: str) -> str:
    """Returns an option's name for a message, hidden unless it is made of words: it may be a misplaced secret."""
    return name if len(name) <= _LONGEST_NAME and _WORDS.fullmatch(name) else HIDDEN


def is_plain_name(text: str) -> bool:
    """True if a text can be the name of a container or a bucket, and holds nothing besides."""
    return _NAME.fullmatch(text) is not None


def is_plain_host(text: str) -> bool:
    """True if a text can be a host, with its port, and holds nothing besides."""
    return _HOST.fullmatch(text) is not None


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+")
_HOST = re.compile(r"(?:[\w.-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_NAME = re.compile(r"(?:[\w$. -]|%20)+")
_CONTAINER_AT_HOST = {"abfs", "abfss", "adl", "az", "azure", "wasb", "wasbs"}

# The start of a query or a fragment: plain, or encoded any number of times.
_QUERY = re.compile(r"(?i)[?#]|%(?:25)*(?:3F|23)|&sig(?:=|%(?:25)*3D)")

# Keys and tokens are long, and have digits in the middle of letters.
_WORDS = re.compile(r"[A-Za-z]{1,24}\d{0,3}(?:[_.-][A-Za-z]{1,24}\d{0,3})*")
_LONGEST_NAME = 64

# Anything shorter is no credential, and hiding it would blank out ordinary words.
_SHORTEST_SECRET = 6


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    # Compiled when a text is shown: a short command spares itself that.
    return (
        re.compile(r"(?i)(\bsig(?:nature)?(?:=|%3D))[^&\s\"'<>]+"),
        re.compile(r"(?i)(\b(?:AccountKey|SharedAccessSignature|SharedAccessKey)\s*=\s*)[^;\s\"']+"),
        re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)"),
        re.compile(r"(?i)(\bBearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
        re.compile(r"(?i)(\bSharedKey(?:Lite)?\s+[\w-]+:)[A-Za-z0-9+/=]+"),
        re.compile(
            r"(?i)(\b(?:client_secret|client_assertion|assertion|access_token|refresh_token|password|X-Amz-[A-Za-z-]+)=)"
            r"[^&\s\"'<>]+"
        ),
        re.compile(
            r"(?i)([\"'](?:access_token|refresh_token|id_token|client_secret|private_key|password)[\"']\s*:\s*[\"'])[^\"']+"
        ),
        # A web token: two or three parts of base64, of which the first is the beginning of a JSON object.
        re.compile(r"(\b)eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?"),
        re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?:(?!-----END).)*", re.DOTALL),
    )


def _forms(secret: str) -> set[str]:
    """Returns a secret as it may turn up: as it is, in parts, decoded, encoded."""
    bases = {part for whole in (secret, unquote(secret)) for part in _parts(whole)}
    forms = {form for base in bases for form in (base, quote(base, safe=""), quote(base), quote_plus(base))}
    forms |= {re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in forms}
    return {form for form in forms if len(form) >= _SHORTEST_SECRET}


def _parts(secret: str) -> set[str]:
    """Returns a secret and the secrets in it: a SAS's signature, a proxy's password, a key's lines, JSON's values."""
    parts = {secret}
    for found in (re.search(r"(?i)\bsig=([^&]+)", secret), re.search(r"://[^/]*?:(.+)@", secret)):
        if found:
            parts |= {found[1], unquote(found[1])}
    if secret.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            named = json.loads(secret)
            parts |= {named[key] for key in _SECRETS_IN_JSON if isinstance(named.get(key), str)}
    lines = {line.strip() for part in parts for line in part.splitlines() if "\n" in part}
    return parts | {line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith("-----")}


_SECRETS_IN_JSON = ("private_key", "private_key_id", "client_secret", "refresh_token")

# A shorter one may be a bracket, or an ordinary word.
_SHORTEST_LINE = 16
