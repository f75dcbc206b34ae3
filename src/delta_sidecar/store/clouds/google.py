"""Google Cloud: its options, the service's address and the credentials.

The call is asked before the environment, and credentials come from the first of them that has any. Without any,
object_store looks for application default credentials, and then asks the machine for its service account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.errors import OptionError
from delta_sidecar.store.clouds import ENVIRONMENT, OPTIONS, CloudAccess, Identity
from delta_sidecar.store.options import flag, is_set, read_endpoint, secret, text, with_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

GOOGLE_OPTIONS = with_prefix(
    "google_",
    text(
        "service_account",
        "The path of a service account's key file.",
        "google_service_account google_service_account_path service_account_path",
    ),
    secret("service_account_key", "A service account's key, as JSON."),
    text("application_credentials", "The path of application default credentials.", default="where gcloud leaves them"),
    secret("bearer_token", "A bearer token."),
    flag("skip_signature", "Read a public bucket."),
    text(
        "base_url",
        "The service's address; http:// is allowed only where this says so.",
        default="https://storage.googleapis.com",
    ),
)
"""The options of Google Cloud stores."""


def google_access(call: Mapping[str, str], environment: Mapping[str, str]) -> CloudAccess:
    """Reads the options of the call and of the environment, by key, for Google Cloud."""
    endpoint = call.get("base_url") or environment.get("base_url", "")
    # Set in any case, or the client looks for it in the environment by itself.
    config = {"skip_signature": "false"}
    if endpoint:
        endpoint = config["base_url"] = read_endpoint("base_url", endpoint)
    return CloudAccess(config, endpoint, _credentials(config, call, environment))


_KINDS = {
    "bearer_token": "the bearer token",
    "service_account": "the service account's key file",
    "service_account_key": "the service account's key",
    "application_credentials": "the application credentials",
}

_ROLE = "Check that the account has a role on the bucket, such as Storage Object Viewer"
_GIVE = (
    "Set the storage option 'service_account' or 'service_account_key', or GOOGLE_SERVICE_ACCOUNT or "
    "GOOGLE_APPLICATION_CREDENTIALS in the environment, or log in with 'gcloud auth application-default login'"
)


def _credentials(config: dict[str, str], call: Mapping[str, str], environment: Mapping[str, str]) -> Identity:
    for source, origin in ((call, OPTIONS), (environment, ENVIRONMENT)):
        if is_set(source, "skip_signature"):
            config["skip_signature"] = "true"
            return Identity("no credentials, for 'skip_signature' is set", f"The bucket is not public. {_GIVE}")
        found = {key: source[key] for key in _KINDS if key in source}
        if found:
            for key in ("bearer_token", "service_account", "service_account_key"):
                # A client reads it by itself, and prefers it.
                if key in environment and key not in found:
                    msg = (
                        f"the storage option {next(iter(found))!r} and the environment variable GOOGLE_{key.upper()} "
                        "are both set, and object_store prefers the latter: unset it"
                    )
                    raise OptionError(msg)
            config |= found
            return Identity(f"{_KINDS[next(iter(found))]} {origin}", _ROLE)
    tried = "application default credentials, and this machine's service account, for no credentials were given"
    return Identity(tried, _GIVE)
