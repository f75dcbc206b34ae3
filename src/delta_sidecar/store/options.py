"""Storage options: their names, the environment variables that set them, and the meaning of their values.

An option may be written in lower or upper case, by its key or by any of its other names, in `storage_options` or,
where a name starts with the prefix of a cloud or of this library, as an environment variable in upper case. The call
is asked before the address, and that before the environment. The options of a cloud are listed in its module, those of
every remote store below. object_store knows most of these names by itself, but not which source a value came from,
nor what a misspelt name was meant to be; so it gets each value by its key.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from delta_sidecar.errors import OptionError
from delta_sidecar.store.redaction import HIDDEN, redact_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class StorageOption:
    """One storage option."""

    key: str
    meaning: str
    aliases: str = ""  # its other names, with spaces between them
    default: str | None = None
    type: Literal["text", "flag", "count", "duration", "certificate"] = "text"
    secret: bool = False  # its value must never be shown

    @property
    def names(self) -> tuple[str, ...]:
        """Its names besides the key."""
        return tuple(self.aliases.split())

    @property
    def environment(self) -> tuple[str, ...]:
        """The environment variables that set it, in the order in which they are looked for."""
        return tuple(name.upper() for name in self.names if name.startswith(_PREFIXES))

    def read(self, value: str) -> str | bool | int | timedelta:
        """Returns the meaning of its value, or raises `OptionError` if it has none."""
        reader = _READERS.get(self.type)
        return value if reader is None else reader(self.key, value)


text = StorageOption
secret = partial(StorageOption, secret=True)
flag = partial(StorageOption, type="flag")
count = partial(StorageOption, type="count")
duration = partial(StorageOption, type="duration")
certificate = partial(StorageOption, type="certificate")

_PREFIXES = ("azure_", "aws_", "google_", "delta_sidecar_")


def with_prefix(prefix: str, *options: StorageOption) -> tuple[StorageOption, ...]:
    """Returns options of which each one without aliases has one: its key behind the prefix."""
    return tuple(option if option.aliases else replace(option, aliases=prefix + option.key) for option in options)


REQUEST_OPTIONS = with_prefix(
    "delta_sidecar_",
    count(
        "max_concurrent_requests",
        "How many requests run at the same time, per account and over all scans of the process.",
        default="64",
    ),
    count(
        "retry_max_retries",
        "How often a failed request is tried again (5xx, dropped connections, timeouts).",
        "delta_sidecar_retry_max_retries max_retries",
        default="5",
    ),
    duration("retry_timeout", "After which time a request is not tried again.", default="45s"),
    duration("retry_init_backoff", "The pause before the first retry; it doubles from there on.", default="100ms"),
    duration("retry_max_backoff", "The longest pause between retries.", default="5s"),
    duration("timeout", "How long one try may take, its body included.", default="60s"),
    duration("connect_timeout", "How long connecting may take.", default="5s"),
    duration("read_timeout", "How long an answer may stall.", default="20s"),
    duration("pool_idle_timeout", "How long an unused connection is kept.", default="60s"),
    secret("proxy_url", "The HTTP proxy."),
    text("proxy_excludes", "Hosts that are reached without the proxy."),
    certificate(
        "root_certificate", "A root certificate to trust besides the usual ones, as PEM text or the path of a PEM file."
    ),
    flag("allow_invalid_certificates", "Trust any certificate; for tests alone."),
    flag(
        "allow_http",
        "Allow http:// where no endpoint says it, as in a service account's key.",
        "delta_sidecar_allow_http aws_allow_http",
    ),
    text("user_agent", "The User-Agent header."),
    text("default_content_type", "The content type of what is written."),
    flag("http1_only", "Speak HTTP/1 alone."),
    flag("http2_only", "Speak HTTP/2 alone."),
    duration("http2_keep_alive_interval", "How often an HTTP/2 connection is asked whether it is alive."),
    duration("http2_keep_alive_timeout", "How long the answer to that may take."),
    flag("http2_keep_alive_while_idle", "Ask unused connections too."),
    text("pool_max_idle_per_host", "How many unused connections are kept."),
    certificate("proxy_ca_certificate", "A certificate of the proxy to trust, as PEM text or the path of a PEM file."),
    flag("randomize_addresses", "Take any of the addresses that a host name has."),
)
"""The options of every remote store: its requests, their retries and the HTTP client."""


def canonical(options: Mapping[str, str], known: Iterable[StorageOption]) -> dict[str, str]:
    """Returns the options of a call by key; empty ones and those of deltalake alone are left out.

    Raises:
        OptionError: A name is unknown, or two names of the same option have different values.
    """
    keys = {name: option.key for option in known for name in (option.key, *option.names)}
    found: dict[str, str] = {}
    for name, value in options.items():
        key = keys.get(name.lower())
        if key is None and _is_for_deltalake(name.lower()):
            continue
        if key is None:
            raise _unknown(name, keys)
        if found.setdefault(key, _text(value)) != _text(value):
            msg = f"the storage option {key!r} is given twice, with different values; leave {name!r} out"
            raise OptionError(msg)
    return {key: value for key, value in found.items() if value}


def from_environment(environment: Mapping[str, str], known: Iterable[StorageOption]) -> dict[str, str]:
    """Returns the options that environment variables set, by key. An empty variable counts as unset."""
    found = ((option.key, filter(None, map(environment.get, option.environment))) for option in known)
    return {key: value for key, values in found if (value := next(values, None)) is not None}


def names_of(options: Iterable[StorageOption]) -> frozenset[str]:
    """Returns every name that some options can be written by, in lower case."""
    return frozenset(name for option in options for name in (option.key, *option.names))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown(name: str, keys: Mapping[str, str]) -> OptionError:
    shown = redact_name(name)
    if shown == HIDDEN:
        return OptionError("unknown storage option, whose name is not shown: it looks like a secret, not like a name")
    nearest = difflib.get_close_matches(name.lower(), keys, n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(sorted(set(keys.values())))}"
    return OptionError(f"unknown storage option {shown!r}{hint}")


# Options that deltalake takes and this library's own reads have no use for. They are ignored here, and go on to
# deltalake with the calls that it does.


def _is_for_deltalake(name: str) -> bool:
    return name in _OF_DELTALAKE or name.startswith(_PREFIXES_OF_DELTALAKE) or name.endswith("_dynamodb")


def is_identity_of_deltalake(name: str) -> bool:
    """True for an option, in either case, that names a profile or role of AWS, which only deltalake uses."""
    return name.lower() in _IDENTITIES_OF_DELTALAKE


_IDENTITIES_OF_DELTALAKE = {
    *("aws_iam_role_arn", "aws_iam_role_session_name", "aws_profile"),
    *("aws_s3_assume_role_arn", "aws_s3_role_session_name"),
}
_OF_DELTALAKE = _IDENTITIES_OF_DELTALAKE | {
    # Its writes.
    *("allow_unsafe_rename", "aws_copy_if_not_exists", "aws_s3_allow_unsafe_rename", "aws_s3_locking_provider"),
    *("copy_if_not_exists", "mount_allow_unsafe_rename"),
    # Its client.
    *("aws_ec2_metadata_disabled", "aws_ec2_metadata_timeout", "aws_force_credential_load", "aws_s3_addressing_style"),
    *("aws_s3_get_internal_server_error_retries", "aws_s3_pool_idle_timeout_seconds"),
    *("aws_sts_pool_idle_timeout_seconds", "concurrency_limit", "object_store_concurrency_limit"),
    # The container, which is in the address.
    *("aws_bucket", "aws_bucket_name", "azure_container_name", "bucket", "bucket_name", "container_name"),
    *("google_bucket", "google_bucket_name"),
}
_PREFIXES_OF_DELTALAKE = ("backoff.", "backoff_config.", "delta_dynamo_")


# Values, which are texts, by their type. Each reader raises `OptionError` for a text that means nothing to it.


def read_flag(key: str, value: str) -> bool:
    """Reads a yes or no."""
    word = value.strip().lower()
    if word in {"true", "1", "yes", "on", "t", "y"}:
        return True
    if word in {"false", "0", "no", "off", "f", "n", ""}:
        return False
    msg = f"the storage option {key!r} must be true or false"
    raise OptionError(msg)


def is_set(options: Mapping[str, str], key: str) -> bool:
    """True if a source of options says yes to one; not saying anything is a no."""
    return read_flag(key, options.get(key, "false"))


def read_count(key: str, value: str, *, least: int = 0) -> int:
    """Reads a whole number that is not smaller than `least`."""
    if re.fullmatch(r"\d{1,9}", value.strip()) and int(value) >= least:
        return int(value)
    msg = f"the storage option {key!r} must be a whole number of at least {least}"
    raise OptionError(msg)


def read_duration(key: str, value: str) -> timedelta:
    """Reads a length of time such as `500ms`, `30s`, `2min` or `1h`; a bare number means seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
    seconds = None if match is None else _SECONDS.get(match[2])
    if match is None or seconds is None:
        msg = f"the storage option {key!r} must be a length of time such as '500ms', '30s' or '2min'"
        raise OptionError(msg)
    return timedelta(seconds=float(match[1]) * seconds)


def read_certificate(key: str, value: str) -> str:
    """Reads certificates as PEM text, which is the value itself or in the file that it names."""
    pem = value
    if _PEM not in value:
        with contextlib.suppress(OSError, ValueError):
            pem = Path(value).read_text(encoding="utf-8")
    if _PEM in pem:
        return pem
    msg = f"the storage option {key!r} must be a certificate as PEM text, or the path of a PEM file"
    raise OptionError(msg)


def read_endpoint(key: str, value: str) -> str:
    """Reads the address of a service, without a `/` at its end."""
    if not value.startswith(("https://", "http://")):
        msg = f"the storage option {key!r} must start with https:// or http://"
        raise OptionError(msg)
    return value.rstrip("/")


_PEM = "-----BEGIN CERTIFICATE-----"

_SECONDS = {
    **dict.fromkeys(("ms", "msec", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
}

_READERS: dict[str, Callable[[str, str], str | bool | int | timedelta]] = {
    "flag": read_flag,
    "count": read_count,
    "duration": read_duration,
    "certificate": read_certificate,
}
