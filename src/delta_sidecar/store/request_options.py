"""The options of every remote store: its requests, their retries and the HTTP client."""

from __future__ import annotations

from delta_sidecar.store.option_names import StorageOption

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
