"""What a storage option is, and how it is found by any of its names."""

from __future__ import annotations

import contextlib
import difflib
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from delta_sidecar.errors import OptionError
from delta_sidecar.store.redaction import HIDDEN, redact_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class StorageOption:
    """One storage option.

    Attributes:
        key: Its name.
        meaning: What it does.
        default: What holds when nobody says anything; None for nothing.
        names: Its other names; those that start with a cloud's name are environment variables too.
        part: What it configures: the access to a cloud, the HTTP client, retries, or the cap on requests.
        type: How its value is read: text, a yes or no, a number, or a length of time.
        secret: Its value must never be shown.
    """

    key: str
    meaning: str
    default: str | None = None
    names: tuple[str, ...] = ()
    part: Literal["access", "client", "retry", "gate"] = "access"
    type: Literal["text", "flag", "count", "duration"] = "text"
    secret: bool = False

    @property
    def environment(self) -> tuple[str, ...]:
        """The environment variables that set it, the first one first."""
        ours = () if self.part == "access" else (f"DELTA_SIDECAR_{self.key.upper()}",)
        return (*ours, *(name.upper() for name in self.names if name.startswith(("azure_", "aws_", "google_"))))


def canonical(given: Mapping[str, str], options: Iterable[StorageOption]) -> dict[str, str]:
    """Sorts the options of a call by their keys; those of deltalake alone are left out.

    Args:
        given: The options as the caller wrote them, in either case.
        options: The options that there are.

    Raises:
        OptionError: A name is unknown, or two names of the same option have different values.
    """
    if not given:
        return {}
    keys = {name: option.key for option in options for name in _names(option)}
    known: dict[str, str] = {}
    for name, value in given.items():
        key = keys.get(name.lower())
        if key is None and is_for_deltalake(name):
            continue
        if key is None:
            raise _unknown(name, keys)
        if known.setdefault(key, _text(value)) != _text(value):
            msg = f"the storage option {key!r} is given twice, with different values; leave {name!r} out"
            raise OptionError(msg)
    return known


def from_environment(environment: Mapping[str, str], options: Iterable[StorageOption]) -> dict[str, str]:
    """Gives the options that environment variables set, by key. An empty variable counts as unset."""
    found: dict[str, str] = {}
    for option in options:
        for name in option.environment:
            value = environment.get(name)
            if value:
                found[option.key] = value
                break
    return found


def names_of(options: Iterable[StorageOption]) -> frozenset[str]:
    """Gives every name that some options can be written by, in lower case."""
    return frozenset(name for option in options for name in _names(option))


def _names(option: StorageOption) -> tuple[str, ...]:
    return (option.key, *option.names, *(name.lower() for name in option.environment))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _unknown(name: str, keys: Mapping[str, str]) -> OptionError:
    shown = redact_name(name)
    if shown == HIDDEN:
        return OptionError("unknown storage option, whose name is not shown: it looks like a secret, not like a name")
    nearest = difflib.get_close_matches(name.lower(), keys, n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(sorted(set(keys.values())))}"
    return OptionError(f"unknown storage option {shown!r}{hint}")


# Reads the values of options, which are texts, as what they mean.


def read_flag(key: str, value: str) -> bool:
    """Reads a yes or no.

    Raises:
        OptionError: It is neither.
    """
    word = value.strip().lower()
    if word in {"true", "1", "yes", "on", "t", "y"}:
        return True
    if word in {"false", "0", "no", "off", "f", "n", ""}:
        return False
    msg = f"the storage option {key!r} must be true or false"
    raise OptionError(msg)


def read_count(key: str, value: str, *, least: int = 0) -> int:
    """Reads a number of things.

    Raises:
        OptionError: It is not a whole number, or smaller than `least`.
    """
    if re.fullmatch(r"\d{1,9}", value.strip()) and int(value) >= least:
        return int(value)
    msg = f"the storage option {key!r} must be a whole number of at least {least}"
    raise OptionError(msg)


def read_duration(key: str, value: str) -> timedelta:
    """Reads a length of time such as `500ms`, `30s`, `2min` or `1h`; a bare number means seconds.

    Raises:
        OptionError: It is not one.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
    seconds = None if match is None else _SECONDS.get(match[2])
    if match is None or seconds is None:
        msg = f"the storage option {key!r} must be a length of time such as '500ms', '30s' or '2min'"
        raise OptionError(msg)
    return timedelta(seconds=float(match[1]) * seconds)


def read_certificate(key: str, value: str) -> str:
    """Reads certificates as PEM text, which is the value itself or in the file that it names.

    Raises:
        OptionError: It is no PEM text, and no file that can be read.
    """
    text = value
    if _PEM not in value:
        with contextlib.suppress(OSError, ValueError):
            text = Path(value).read_text(encoding="utf-8")
    if _PEM in text:
        return text
    msg = f"the storage option {key!r} must be a certificate as PEM text, or the path of a PEM file"
    raise OptionError(msg)


_PEM = "-----BEGIN CERTIFICATE-----"

_SECONDS = {
    **dict.fromkeys(("ms", "msec", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
}


# The options of every remote store: its requests, their retries and the HTTP client.


REQUEST_OPTIONS: tuple[StorageOption, ...] = (
    StorageOption(
        "max_concurrent_requests",
        "How many requests run at the same time, per account and over all scans of the process.",
        default="64",
        part="gate",
        type="count",
    ),
    StorageOption(
        "retry_max_retries",
        "How often a failed request is tried again (5xx, dropped connections, timeouts).",
        default="5",
        names=("max_retries",),
        part="retry",
        type="count",
    ),
    StorageOption(
        "retry_timeout",
        "After which time a request is not tried again.",
        default="45s",
        part="retry",
        type="duration",
    ),
    StorageOption(
        "retry_init_backoff",
        "The pause before the first retry; it doubles from there on.",
        default="100ms",
        part="retry",
        type="duration",
    ),
    StorageOption(
        "retry_max_backoff",
        "The longest pause between retries.",
        default="5s",
        part="retry",
        type="duration",
    ),
    StorageOption(
        "timeout",
        "How long one try may take, its body included.",
        default="60s",
        part="client",
        type="duration",
    ),
    StorageOption(
        "connect_timeout",
        "How long connecting may take.",
        default="5s",
        part="client",
        type="duration",
    ),
    StorageOption(
        "read_timeout",
        "How long an answer may stall.",
        default="20s",
        part="client",
        type="duration",
    ),
    StorageOption(
        "pool_idle_timeout",
        "How long an unused connection is kept.",
        default="60s",
        part="client",
        type="duration",
    ),
    StorageOption("proxy_url", "The HTTP proxy.", part="client", secret=True),
    StorageOption("proxy_excludes", "Hosts that are reached without the proxy.", part="client"),
    StorageOption(
        "root_certificate",
        "A root certificate to trust besides the usual ones, as PEM text or the path of a PEM file.",
        part="client",
    ),
    StorageOption(
        "allow_invalid_certificates",
        "Trust any certificate; for tests alone.",
        part="client",
        type="flag",
    ),
    StorageOption(
        "allow_http",
        "Allow http:// where no endpoint says it, as in a service account's key.",
        names=("aws_allow_http",),
        part="client",
        type="flag",
    ),
    StorageOption("user_agent", "The User-Agent header.", part="client"),
    StorageOption("default_content_type", "The content type of what is written.", part="client"),
    StorageOption("http1_only", "Speak HTTP/1 alone.", part="client", type="flag"),
    StorageOption("http2_only", "Speak HTTP/2 alone.", part="client", type="flag"),
    StorageOption(
        "http2_keep_alive_interval",
        "How often an HTTP/2 connection is asked whether it is alive.",
        part="client",
        type="duration",
    ),
    StorageOption(
        "http2_keep_alive_timeout",
        "How long the answer to that may take.",
        part="client",
        type="duration",
    ),
    StorageOption(
        "http2_keep_alive_while_idle",
        "Ask unused connections too.",
        part="client",
        type="flag",
    ),
    StorageOption(
        "pool_max_idle_per_host",
        "How many unused connections are kept.",
        part="client",
    ),
    StorageOption(
        "proxy_ca_certificate",
        "A certificate of the proxy to trust, as PEM text or the path of a PEM file.",
        part="client",
    ),
    StorageOption(
        "randomize_addresses",
        "Take any of the addresses that a host name has.",
        part="client",
        type="flag",
    ),
)
"""The options of every remote store."""


# Storage options that deltalake takes and this library's own reads have no use for.
#
# They are passed over here, and go on to deltalake with the calls that it does.


_WRITING = {
    "allow_unsafe_rename",
    "aws_copy_if_not_exists",
    "aws_s3_allow_unsafe_rename",
    "aws_s3_locking_provider",
    "copy_if_not_exists",
    "mount_allow_unsafe_rename",
}
_CLIENT = {
    "aws_ec2_metadata_disabled",
    "aws_ec2_metadata_timeout",
    "aws_force_credential_load",
    "aws_s3_addressing_style",
    "aws_s3_get_internal_server_error_retries",
    "aws_s3_pool_idle_timeout_seconds",
    "aws_sts_pool_idle_timeout_seconds",
    "concurrency_limit",
    "object_store_concurrency_limit",
}
# The address says it.
_CONTAINERS = {
    "aws_bucket",
    "aws_bucket_name",
    "azure_container_name",
    "bucket",
    "bucket_name",
    "container_name",
    "google_bucket",
    "google_bucket_name",
}
_IDENTITIES = {
    "aws_iam_role_arn",
    "aws_iam_role_session_name",
    "aws_profile",
    "aws_s3_assume_role_arn",
    "aws_s3_role_session_name",
}
_NAMES = _WRITING | _CLIENT | _CONTAINERS | _IDENTITIES
_PREFIXES = ("backoff.", "backoff_config.", "delta_dynamo_")
_DYNAMO = "_dynamodb"


def is_for_deltalake(name: str) -> bool:
    """Whether an option is for deltalake alone, by its name in either case."""
    lowered = name.lower()
    return lowered in _NAMES or lowered.startswith(_PREFIXES) or lowered.endswith(_DYNAMO)


def is_an_identity(name: str) -> bool:
    """Whether an option says by which profile or role of AWS deltalake goes, by its name in either case."""
    return name.lower() in _IDENTITIES
