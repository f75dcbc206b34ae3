"""Tokens from credential objects, such as those of azure-identity.

obstore keeps a token and asks for the next one when fewer than five minutes are left of it. However many requests
wait for it, it asks once, in the thread of one of them.
"""

from __future__ import annotations

import datetime as dt
import inspect
import pickle
import re
from typing import Any, Protocol, runtime_checkable

from delta_sidecar.errors import OptionError

STORAGE_SCOPE = "https://storage.azure.com/.default"
"""What tokens for Azure's storage are asked for, in every Azure cloud and for OneLake."""


@runtime_checkable
class TokenCredential(Protocol):
    """What gives tokens: the protocol that azure-identity's credentials follow."""

    def get_token(self, *scopes: str, **kwargs: Any) -> Any:  # noqa: ANN401 - `kwargs` are the credential's own
        """Gives an object with a `token` and with `expires_on`, in seconds since the epoch."""


class NoTokenError(Exception):
    """A credential gave no token. It travels through the client as text and becomes an `AuthenticationError`."""


class CredentialTokens:
    """Hands a client the tokens of a credential object.

    Two are equal if they ask the same object.

    Args:
        credential: The object.
        tenant: The tenant to ask for tokens of; None for the credential's own.
    """

    def __init__(self, credential: TokenCredential, tenant: str | None = None) -> None:
        self.credential = credential
        self.tenant = tenant

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CredentialTokens):
            return NotImplemented
        return other.credential is self.credential and other.tenant == self.tenant

    def __hash__(self) -> int:
        return hash((id(self.credential), self.tenant))

    def __repr__(self) -> str:
        """Shows the kind of credential alone."""
        return f"CredentialTokens({type(self.credential).__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the credential, if it can be pickled."""
        try:
            pickle.dumps(self.credential)
        except Exception:  # noqa: BLE001 - whatever the object's own code raises
            refused = True
        else:
            refused = False
        if refused:
            msg = (
                f"a store with a {type(self.credential).__name__} cannot be sent to another process, for that "
                "credential cannot be pickled: open the store there, or name its kind in the storage option "
                "'credential_type'"
            )
            raise pickle.PicklingError(msg)
        return CredentialTokens, (self.credential, self.tenant)

    @property
    def secrets(self) -> frozenset[str]:
        """None that anybody can know of."""
        return frozenset()

    def __call__(self) -> dict[str, Any]:
        """Gives a token."""
        return ask_for_token(self.credential, self.tenant)


def check_credential(credential: object) -> TokenCredential:
    """Gives a credential object that has been looked at.

    Raises:
        OptionError: It gives no tokens, or gives them asynchronously.
    """
    kind = type(credential).__name__
    if isinstance(credential, type) or not isinstance(credential, TokenCredential):
        msg = f"a credential is an object with a method get_token, as those of azure-identity; {kind} is none"
        raise OptionError(msg)
    if inspect.iscoroutinefunction(credential.get_token):
        msg = f"{kind} is an asynchronous credential, of azure.identity.aio; give its twin of azure.identity"
        raise OptionError(msg)
    return credential


def ask_for_token(credential: TokenCredential, tenant: str | None = None) -> dict[str, Any]:
    """Asks for a token, in obstore's form.

    Raises:
        NoTokenError: There is none. Its text names the credential or, where it is a chain, each one in it.
    """
    name = type(credential).__name__
    try:
        token = credential.get_token(STORAGE_SCOPE, **({} if tenant is None else {"tenant_id": tenant}))
        text, until = token.token, dt.datetime.fromtimestamp(token.expires_on, dt.UTC)
    except Exception as error:  # noqa: BLE001 - the object is anybody's
        why = describe_failure(name, error)
    else:
        if isinstance(text, str):
            return {"token": text, "expires_at": until}
        why = f"{name} (gave no token)"
    raise NoTokenError(why)


def describe_failure(name: str, error: Exception) -> str:
    """Gives the names of the credentials that were tried, each with its reason in brackets."""
    text = str(error) or type(error).__name__
    inner = [(found[1], found[2]) for found in _ATTEMPT.finditer(text)]
    if not inner:
        return f"{name} ({_short(name, text)})"
    return ", ".join(f"{tried} ({_short(tried, why)})" for tried, why in inner)


def _short(name: str, why: str) -> str:
    """Gives a reason in a few words: without the name before it, and without the advice after it."""
    text = " ".join(_ADVICE.split(why, maxsplit=1)[0].split())
    text = text.removeprefix(f"{name} ").removeprefix(f"{name}: ").rstrip(". ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_LONGEST = 160

# How a chain of azure-identity lists the credentials in it.
_ATTEMPT = re.compile(r"^\t(\w+): (.*(?:\n(?!\t|To mitigate).*)*)", re.MULTILINE)
_ADVICE = re.compile(r"(?:\n|\s)(?=Visit https?://|See the troubleshooting|To mitigate|Please visit )")
