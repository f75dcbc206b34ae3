"""An object store's failures as this library's errors, without secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from delta_sidecar.errors import (
    AuthenticationError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    OptionError,
    StorageError,
)

if TYPE_CHECKING:
    from delta_sidecar.store.clouds import Identity
    from delta_sidecar.store.redaction import Scrubber


def explain(error: Exception, *, doing: str, where: str, scrubber: Scrubber, identity: Identity) -> StorageError:
    """Returns the error to raise for a client's error, about what "cannot {doing} {where}".

    Raise it outside of the `except` block: the client's own error, with its unscrubbed text, is then not
    chained.
    """
    name = type(error).__name__
    what = f"cannot {doing} {where}"
    tried = scrubber.scrub(identity.tried)
    no_token = _NO_TOKEN.search(_own_text(error))
    if no_token:
        why = scrubber.scrub(" ".join(no_token[1].split()))
        return AuthenticationError(f"{what}: there is no token for it. Tried: {tried}: {why}. {identity.hint}")
    reason = reason_of(error, scrubber)
    if isinstance(error, FileNotFoundError):
        missing = "its container does not exist" if "ContainerNotFound" in str(error) else "it does not exist"
        return ObjectNotFoundError(f"{what}: {missing}")
    if name == "AlreadyExistsError":
        return ObjectExistsError(f"{what}: it is already there")
    if name in {"UnauthenticatedError", "PermissionDeniedError"} or _REFUSED.search(str(error)):
        return AuthenticationError(
            f"{what}: the store refused the credentials ({reason}). Tried: {tried}. {identity.hint}"
        )
    if _NO_CREDENTIALS.search(str(error)):
        return AuthenticationError(
            f"{what}: there are no credentials for it ({reason}). Tried: {tried}. {identity.hint}"
        )
    if _BEYOND.search(reason):
        return ObjectTruncatedError(f"{what}: the object is shorter than the range asked for")
    distrusted = _DISTRUSTED.search(str(error))
    if distrusted:
        reason = f"{reason}. The certificate of the service is not trusted ({distrusted[1]}); {_TRUST}"
    return StorageError(f"{what}: {reason}.")


def is_interrupt(error: Exception) -> bool:
    """True if a client's error is a Ctrl-C that came while a credential was asked for its token."""
    return _INTERRUPT in _own_text(error)


def reason_of(error: Exception, scrubber: Scrubber) -> str:
    """Returns a client's error text in one short line without secrets."""
    text = _own_text(error)
    answer = re.search(r"<Code>(\w+)</Code>\s*<Message>([^\n<]*)", text)
    if answer:
        text = f"{text.split('<?xml', 1)[0].split('<Error', 1)[0].rstrip(': ')}: {answer[1]}: {answer[2]}"
    text = scrubber.scrub(" ".join(text.split())).rstrip(".")
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


_LONGEST_REASON = 400

_TRUST = "the storage option 'root_certificate' names the certificates of a company or an emulator"

# The answer of services, and the error of obstore's memory store.
_BEYOND = re.compile(r"status code: 416\b|Wanted range starting at")

# S3 answers 400 to what is wrong with a signature or its token.
_REFUSED = re.compile(
    r"(?i)code: 40[13]\b|invalid_client|invalid_grant"
    r"|<Code>(?:ExpiredToken|InvalidToken|TokenRefreshRequired|AuthorizationHeaderMalformed)</Code>"
)

# Failures on the way to a token or a key come as general ones.
_NO_CREDENTIALS = re.compile(
    r"(?i)token request|azure cli|federated token file|/latest/(?:api/token|meta-data)|AssumeRoleWithWebIdentity"
    r"|computeMetadata|service account file|web identity|POST REDACTED"
)

# The error of a provider of tokens.
_NO_TOKEN = re.compile(r"(?s)External \w+ credential provider: \w+: (.*)")

_INTERRUPT = "credential provider: KeyboardInterrupt"

_DISTRUSTED = re.compile(r"InvalidCertificate\(\s*(\w+)")


def _own_text(error: Exception) -> str:
    """Returns a client's error text without the description of its insides."""
    return str(error).split("\n\nDebug source:", 1)[0]


class UnreachableStore:
    """The store of a table that only deltalake can reach: every request is refused, with what to do instead."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        msg = (
            f"{self.url} can be reached by deltalake alone. What goes through to it works: version, load_as_version, "
            "delete, update, merge, optimize, vacuum, alter, restore, load_cdf, create_checkpoint and others; "
            "as_deltalake() gives the table that reads there"
        )
        raise OptionError(msg)
