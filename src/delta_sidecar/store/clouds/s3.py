"""S3: its options, the service's address and the credentials.

The call is asked before the environment, and credentials come whole from the first of them that has any: an access
key in the call is never sent with a session token of the environment. Without any, object_store asks the machine
for its instance's role. Profiles in files are not read.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import AuthenticationError, OptionError
from delta_sidecar.store.clouds import ENVIRONMENT, OPTIONS, CloudAccess, Identity
from delta_sidecar.store.options import flag, is_set, read_endpoint, secret, text, with_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

S3_OPTIONS = with_prefix(
    "aws_",
    secret("access_key_id", "The id of an access key."),
    secret("secret_access_key", "The access key's secret."),
    secret("session_token", "The token of a temporary access key.", "aws_session_token token"),
    text("region", "The bucket's region.", "aws_region aws_default_region default_region", default="us-east-1"),
    text(
        "endpoint",
        "The address of a service other than Amazon's; http:// is allowed only where this says so.",
        "aws_endpoint_url_s3 aws_endpoint_url aws_endpoint endpoint_url",
    ),
    flag("virtual_hosted_style_request", "The bucket is a part of the endpoint's host, not of the path."),
    flag("skip_signature", "Read a public bucket."),
    text("web_identity_token_file", "The token file of a web identity, as in Kubernetes."),
    text("role_arn", "The role that a web identity takes on."),
    text("role_session_name", "The name of its session."),
    text("endpoint_url_sts", "Where a web identity's token is exchanged."),
    text("container_credentials_relative_uri", "Where a container asks for its credentials, as in ECS."),
    text("container_credentials_full_uri", "Where a container asks for its credentials, as in EKS."),
    text("container_authorization_token_file", "The token file that it shows there."),
    text("metadata_endpoint", "Where a machine asks for its instance's credentials.", default="http://169.254.169.254"),
    flag("imdsv1_fallback", "Ask there by the first version of the protocol if the second is refused."),
    text("request_payer", "Pay for requests to a bucket of others."),
    flag("s3_express", "The bucket is one of S3 Express."),
    text("conditional_put", "How an object is created only where there is none.", default="etag"),
    flag("disable_tagging", "Write no tags."),
    flag("disable_bulk_delete", "Delete objects one by one."),
    text("checksum_algorithm", "How what is written is checked."),
    flag("unsigned_payload", "Leave what is written out of the signature."),
    text("server_side_encryption", "How what is written is encrypted."),
    text("sse_kms_key_id", "The key of the key service to encrypt with."),
    flag("sse_bucket_key_enabled", "Encrypt with a key of the bucket."),
    secret("sse_customer_key_base64", "A customer-provided encryption key, base64."),
)
"""The options of S3 stores."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """Hands a client an access key.

    It goes this way because a client adds what it finds in the environment to what it is configured with.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __call__(self) -> dict[str, Any]:
        """Returns the key; it does not expire, as far as anybody knows."""
        return {
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            "token": self.session_token,
            "expires_at": None,
        }


def s3_access(call: Mapping[str, str], environment: Mapping[str, str], unread: Iterable[str] = ()) -> CloudAccess:
    """Reads the options of the call and of the environment, by key, for an S3 service.

    `unread` are names of options of the call that name an identity for deltalake alone.

    Raises:
        AuthenticationError: There are no credentials but those that deltalake alone can use.
        OptionError: A value is not valid, or half of an access key is missing.
    """
    both = {**environment, **call}
    config = {
        option.key: str(option.read(both[option.key])).lower() if option.type == "flag" else both[option.key]
        for option in S3_OPTIONS
        if option.key in both and option.key not in _OF_CREDENTIALS
    }
    endpoint = config.pop("endpoint", "")
    if endpoint:
        # The most specific name, or the environment's stands above it.
        endpoint = config["aws_endpoint_url_s3"] = read_endpoint("endpoint", endpoint)
    identity, key = _credentials(config, call, environment, unread)
    secrets = filter(None, astuple(key)) if key else ()
    return CloudAccess(config, endpoint, identity, key, frozenset(secrets))


_KEY = ("access_key_id", "secret_access_key", "session_token")
_MACHINES = {
    "the web identity": ("web_identity_token_file", "role_arn", "role_session_name"),
    "the container's credentials": (
        *("container_credentials_relative_uri", "container_credentials_full_uri"),
        "container_authorization_token_file",
    ),
}
# Those that are credentials by themselves; the others describe them.
_POINTERS = {"web_identity_token_file", "container_credentials_relative_uri", "container_credentials_full_uri"}
_OF_CREDENTIALS = {*_KEY, *(name for names in _MACHINES.values() for name in names), "skip_signature"}

_POLICY = "Check that its policy allows to list and read the bucket"
_GIVE = (
    "Set the storage options 'access_key_id' and 'secret_access_key', or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY in the environment; profiles in files are not read, and "
    "`aws configure export-credentials --format env` writes one as such variables"
)


def _credentials(
    config: dict[str, str], call: Mapping[str, str], environment: Mapping[str, str], unread: Iterable[str]
) -> tuple[Identity, AccessKey | None]:
    # Set in any case, or the client looks for it in the environment by itself.
    config["skip_signature"] = "false"
    for source, origin in ((call, OPTIONS), (environment, ENVIRONMENT)):
        if is_set(source, "skip_signature"):
            config["skip_signature"] = "true"
            return Identity("no credentials, for 'skip_signature' is set", f"The bucket is not public. {_GIVE}"), None
        if any(name in source for name in _KEY):
            return Identity(f"the access key {origin}", f"Check the key and its region. {_POLICY}"), _access_key(source)
        for what, names in _MACHINES.items():
            if any(name in source for name in names if name in _POINTERS):
                # A client reads a key in the environment by itself, and prefers it.
                if "access_key_id" in environment or "secret_access_key" in environment:
                    msg = (
                        f"the storage options name {what}, and an access key is in the environment, which "
                        "object_store prefers: unset AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                    )
                    raise OptionError(msg)
                config |= {name: source[name] for name in names if name in source}
                return Identity(f"{what} {origin}", _POLICY), None
    if unused := ", ".join(unread):
        msg = f"{unused}: profiles and roles are for the calls that deltalake does, reads need credentials too. {_GIVE}"
        raise AuthenticationError(msg)
    return Identity("the role of this machine's instance, for no credentials were given", _GIVE), None


def _access_key(source: Mapping[str, str]) -> AccessKey:
    for missing in ("access_key_id", "secret_access_key"):
        if missing not in source:
            msg = f"the storage option {missing!r} is missing: an access key is an id and a secret"
            raise OptionError(msg)
    return AccessKey(**{name: source[name] for name in _KEY if name in source})
