"""The options of Google Cloud stores."""

from __future__ import annotations

from delta_sidecar.store.option_names import StorageOption

GOOGLE_OPTIONS: tuple[StorageOption, ...] = (
    StorageOption(
        "service_account",
        "The path of a service account's key file.",
        names=("google_service_account", "google_service_account_path", "service_account_path"),
    ),
    StorageOption(
        "service_account_key",
        "A service account's key, as JSON.",
        names=("google_service_account_key",),
        secret=True,
    ),
    StorageOption(
        "application_credentials",
        "The path of application default credentials.",
        default="where gcloud leaves them",
        names=("google_application_credentials",),
    ),
    StorageOption("bearer_token", "A bearer token.", names=("google_bearer_token",), secret=True),
    StorageOption("skip_signature", "Read a public bucket.", names=("google_skip_signature",), type="flag"),
    StorageOption(
        "base_url",
        "The service's address; http:// is allowed only where this says so.",
        default="https://storage.googleapis.com",
        names=("google_base_url",),
    ),
)
"""The options of Google Cloud stores."""
