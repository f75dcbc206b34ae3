"""Which S3 service to ask, and with which credentials.

The call is asked before the environment, and credentials come whole from the first of them that has any: an access
key in the call is never sent with a session token of the environment. Without any, object_store asks the machine
for its instance's role. Profiles in files are not read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import AuthenticationError, OptionError
from delta_sidecar.store.failures import ENVIRONMENT, OPTIONS, Access, Identity
from delta_sidecar.store.options import StorageOption, read_flag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from delta_sidecar.store.failures import CredentialProvider


@dataclass(frozen=True, slots=True)
class AccessKey:
    """Hands a client an access key.

    It goes this way because a client adds what it finds in the environment to what it is configured with.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> frozenset[str]:
        """All of it."""
        return frozenset(filter(None, (self.access_key_id, self.secret_access_key, self.session_token)))

    def __call__(self) -> dict[str, Any]:
        """Gives the key; it does not expire, as far as anybody knows."""
        return {
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            "token": self.session_token,
            "expires_at": None,
        }


def s3_access(call: Mapping[str, str], environment: Mapping[str, str], unread: Iterable[str] = ()) -> Access:
    """Gives the way to an S3 service.

    Args:
        call: The options of the call, by key.
        environment: The options of the environment, by key.
        unread: Names of options of the call that say who deltalake is.

    Raises:
        AuthenticationError: There are no credentials but what those name.
        OptionError: A value is not valid, or half of an access key is missing.
    """
    both = {**environment, **{key: value for key, value in call.items() if value}}
    config = {key: value for key, value in both.items() if key not in _OF_CREDENTIALS}
    for option in S3_OPTIONS:
        if option.type == "flag" and option.key in config:
            config[option.key] = str(read_flag(option.key, config[option.key])).lower()
    endpoint = config.pop("endpoint", "").rstrip("/")
    if endpoint:
        if not endpoint.startswith(("https://", "http://")):
            msg = "the storage option 'endpoint' must start with https:// or http://"
            raise OptionError(msg)
        # The most specific name, or the environment's stands above it.
        config["aws_endpoint_url_s3"] = endpoint
    identity, provider = _credentials(config, call, environment, unread)
    return Access(config, endpoint, identity, provider)


_KEY = ("access_key_id", "secret_access_key", "session_token")
_WEB_IDENTITY = ("web_identity_token_file", "role_arn", "role_session_name")
_CONTAINER = (
    "container_credentials_relative_uri",
    "container_credentials_full_uri",
    "container_authorization_token_file",
)
_OF_CREDENTIALS = {*_KEY, *_WEB_IDENTITY, *_CONTAINER, "skip_signature"}

_POLICY = "Check that its policy allows to list and read the bucket"
_GIVE = (
    "Set the storage options 'access_key_id' and 'secret_access_key', or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY in the environment; profiles in files are not read, and "
    "`aws configure export-credentials --format env` writes one as such variables"
)


def _credentials(
    config: dict[str, str], call: Mapping[str, str], environment: Mapping[str, str], unread: Iterable[str]
) -> tuple[Identity, CredentialProvider | None]:
    for source, origin in ((call, OPTIONS), (environment, ENVIRONMENT)):
        if read_flag("skip_signature", source.get("skip_signature", "false")):
            config["skip_signature"] = "true"
            return Identity("no credentials, for 'skip_signature' is set", f"The bucket is not public. {_GIVE}"), None
        # Said in any case, or the client looks for it in the environment by itself.
        config["skip_signature"] = "false"
        key = [source.get(name) or None for name in _KEY]
        if any(key):
            return Identity(f"the access key {origin}", f"Check the key and its region. {_POLICY}"), _key(key)
        for names, what in ((_WEB_IDENTITY, "the web identity"), (_CONTAINER, "the container's credentials")):
            if source.get(names[0]) or (names is _CONTAINER and source.get(names[1])):
                if source is call and (environment.get("access_key_id") or environment.get("secret_access_key")):
                    msg = (
                        f"the storage options name {what}, and an access key is in the environment, which object_store "
                        "prefers: unset AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                    )
                    raise OptionError(msg)
                config |= {name: source[name] for name in names if source.get(name)}
                return Identity(f"{what} {origin}", _POLICY), None
    if given := ", ".join(unread):
        msg = f"{given}: profiles and roles are for the calls that deltalake does, reads need credentials too. {_GIVE}"
        raise AuthenticationError(msg)
    tried = "the role of this machine's instance, for no credentials were given"
    return Identity(tried, _GIVE), None


def _key(parts: list[str | None]) -> AccessKey:
    key_id, secret, token = parts
    if not key_id or not secret:
        missing = "access_key_id" if not key_id else "secret_access_key"
        msg = f"the storage option {missing!r} is missing: an access key is an id and a secret"
        raise OptionError(msg)
    return AccessKey(key_id, secret, token)


# The options of S3 stores.


S3_OPTIONS: tuple[StorageOption, ...] = (
    StorageOption("access_key_id", "The id of an access key.", names=("aws_access_key_id",), secret=True),
    StorageOption("secret_access_key", "The access key's secret.", names=("aws_secret_access_key",), secret=True),
    StorageOption(
        "session_token",
        "The token of a temporary access key.",
        names=("aws_session_token", "token"),
        secret=True,
    ),
    StorageOption(
        "region",
        "The bucket's region.",
        default="us-east-1",
        names=("aws_region", "aws_default_region", "default_region"),
    ),
    StorageOption(
        "endpoint",
        "The address of a service other than Amazon's; http:// is allowed only where this says so.",
        names=("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url"),
    ),
    StorageOption(
        "virtual_hosted_style_request",
        "The bucket is a part of the endpoint's host, not of the path.",
        names=("aws_virtual_hosted_style_request",),
        type="flag",
    ),
    StorageOption("skip_signature", "Read a public bucket.", names=("aws_skip_signature",), type="flag"),
    StorageOption(
        "web_identity_token_file",
        "The token file of a web identity, as in Kubernetes.",
        names=("aws_web_identity_token_file",),
    ),
    StorageOption("role_arn", "The role that a web identity takes on.", names=("aws_role_arn",)),
    StorageOption("role_session_name", "The name of its session.", names=("aws_role_session_name",)),
    StorageOption(
        "endpoint_url_sts",
        "Where a web identity's token is exchanged.",
        names=("aws_endpoint_url_sts",),
    ),
    StorageOption(
        "container_credentials_relative_uri",
        "Where a container asks for its credentials, as in ECS.",
        names=("aws_container_credentials_relative_uri",),
    ),
    StorageOption(
        "container_credentials_full_uri",
        "Where a container asks for its credentials, as in EKS.",
        names=("aws_container_credentials_full_uri",),
    ),
    StorageOption(
        "container_authorization_token_file",
        "The token file that it shows there.",
        names=("aws_container_authorization_token_file",),
    ),
    StorageOption(
        "metadata_endpoint",
        "Where a machine asks for its instance's credentials.",
        default="http://169.254.169.254",
        names=("aws_metadata_endpoint",),
    ),
    StorageOption(
        "imdsv1_fallback",
        "Ask there by the first version of the protocol if the second is refused.",
        names=("aws_imdsv1_fallback",),
        type="flag",
    ),
    StorageOption("request_payer", "Pay for requests to a bucket of others.", names=("aws_request_payer",)),
    StorageOption("s3_express", "The bucket is one of S3 Express.", names=("aws_s3_express",), type="flag"),
    StorageOption(
        "conditional_put",
        "How an object is created only where there is none.",
        default="etag",
        names=("aws_conditional_put",),
    ),
    StorageOption("disable_tagging", "Write no tags.", names=("aws_disable_tagging",), type="flag"),
    StorageOption(
        "disable_bulk_delete",
        "Delete objects one by one.",
        names=("aws_disable_bulk_delete",),
        type="flag",
    ),
    StorageOption("checksum_algorithm", "How what is written is checked.", names=("aws_checksum_algorithm",)),
    StorageOption(
        "unsigned_payload",
        "Leave what is written out of the signature.",
        names=("aws_unsigned_payload",),
        type="flag",
    ),
    StorageOption(
        "server_side_encryption",
        "How what is written is encrypted.",
        names=("aws_server_side_encryption",),
    ),
    StorageOption("sse_kms_key_id", "The key of the key service to encrypt with.", names=("aws_sse_kms_key_id",)),
    StorageOption(
        "sse_bucket_key_enabled",
        "Encrypt with a key of the bucket.",
        names=("aws_sse_bucket_key_enabled",),
        type="flag",
    ),
    StorageOption(
        "sse_customer_key_base64",
        "A customer-provided encryption key, base64.",
        names=("aws_sse_customer_key_base64",),
        secret=True,
    ),
)
"""The options of S3 stores."""
