"""What an object store's failures mean, in this library's errors and without secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from delta_sidecar.errors import (
    AuthenticationError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    StorageError,
)

if TYPE_CHECKING:
    from delta_sidecar.store.redaction import Scrubber


def explain(error: Exception, *, doing: str, where: str, scrubber: Scrubber, identified: bool = True) -> StorageError:
    """Gives the error to raise for what a client raised.

    Raise it outside of the `except` block: the client's own error, with its unscrubbed text, is then not
    chained.

    Args:
        error: What the client raised.
        doing: What was asked, as in "cannot {doing} {where}".
        where: The address of the object or folder.
        scrubber: What keeps the secrets out.
        identified: Whether any credentials were given.
    """
    name = type(error).__name__
    reason = reason_of(error, scrubber)
    what = f"cannot {doing} {where}"
    if isinstance(error, FileNotFoundError):
        missing = "its container does not exist" if "ContainerNotFound" in str(error) else "it does not exist"
        return ObjectNotFoundError(f"{what}: {missing}")
    if name == "AlreadyExistsError":
        return ObjectExistsError(f"{what}: it is already there")
    if name in {"UnauthenticatedError", "PermissionDeniedError"} or _REFUSED.search(str(error)):
        hint = _CHECK if identified else _IDENTIFY
        return AuthenticationError(f"{what}: the store refused the credentials ({reason}). {hint}")
    if _BEYOND.search(reason):
        return ObjectTruncatedError(f"{what}: the object is shorter than the range asked for")
    hint = "" if identified else f" {_IDENTIFY}"
    return StorageError(f"{what}: {reason}.{hint}")


def reason_of(error: Exception, scrubber: Scrubber) -> str:
    """Gives a client's error text in one short line without secrets."""
    text = str(error).split("\n\nDebug source:", 1)[0]
    answer = re.search(r"<Code>(\w+)</Code>\s*<Message>([^\n<]*)", text)
    if answer:
        text = f"{text.split('<?xml', 1)[0].split('<Error', 1)[0].rstrip(': ')}: {answer[1]}: {answer[2]}"
    text = scrubber.scrub(" ".join(text.split())).rstrip(".")
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


_LONGEST_REASON = 400

_CHECK = "Check the account key, the signature and its expiry, or the role of the identity"

_IDENTIFY = (
    "No credentials were given: set the storage option 'account_key', 'sas_token' or 'connection_string', or "
    "the environment variable AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or "
    "AZURE_STORAGE_CONNECTION_STRING"
)

# What services answer, and what obstore says of memory.
_BEYOND = re.compile(r"status code: 416\b|Wanted range starting at")

# Failures on the way to a token come as general ones.
_REFUSED = re.compile(r"(?i)code: 40[13]\b|token request|azure cli|invalid_client|invalid_grant")
