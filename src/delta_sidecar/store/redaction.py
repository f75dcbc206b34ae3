"""Keeps secrets out of everything a person or a log file gets to see."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

HIDDEN = "***"


class Scrubber:
    """Replaces secrets in texts: the values it was given, in any encoding, and whatever looks like one.

    Args:
        secrets: The values of a store's own credentials.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first, so that no secret is left half visible by another one inside it.
        forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(form) for form in forms)) if forms else None

    def scrub(self, text: str) -> str:
        """Gives a text without its secrets."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern in _PATTERNS:
            text = pattern.sub(rf"\g<1>{HIDDEN}", text)
        return text


def redact_address(address: str) -> str:
    """Gives an address for a message: without its query, and without user names and passwords."""
    bare = address.split("?", 1)[0]
    scheme, separator, rest = bare.partition("://")
    if not separator:
        return Scrubber().scrub(bare)
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if ":" in user:
        authority = f"{HIDDEN}{at}{host}"
    return Scrubber().scrub(f"{scheme}://{authority}{slash}{path}")


# Anything shorter is no credential, and hiding it would blank out ordinary words.
_SHORTEST_SECRET = 6

_PATTERNS = (
    re.compile(r"(?i)(\bsig(?:nature)?(?:=|%3D))[^&\s\"'<>]+"),
    re.compile(r"(?i)(\b(?:AccountKey|SharedAccessSignature|SharedAccessKey)\s*=\s*)[^;\s\"']+"),
    re.compile(r"(?i)(\bBearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(?i)(\bSharedKey(?:Lite)?\s+[\w-]+:)[A-Za-z0-9+/=]+"),
    re.compile(r"(?i)(\b(?:client_secret|client_assertion|access_token|X-Amz-[A-Za-z-]+)=)[^&\s\"'<>]+"),
)


def _forms(secret: str) -> set[str]:
    """Gives a secret as it may turn up: as it is, decoded, encoded, and a SAS by its signature alone."""
    bases = {secret, unquote(secret)}
    found = re.search(r"(?i)\bsig=([^&]+)", secret)
    if found:
        bases |= {found[1], unquote(found[1])}
    forms = {form for base in bases for form in (base, quote(base, safe=""), quote(base), quote_plus(base))}
    forms |= {re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in forms}
    return {form for form in forms if len(form) >= _SHORTEST_SECRET}
