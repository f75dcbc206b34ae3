"""Every storage option, once.

An option may be written in lower or upper case, by its key or by any of its other names, in `storage_options`
or, where a name starts with `azure_`, `aws_`, `google_` or `delta_sidecar_`, as an environment variable in upper
case. What the call says holds before what the address says, and that before the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.store.azure_options import AZURE_OPTIONS
from delta_sidecar.store.google_options import GOOGLE_OPTIONS
from delta_sidecar.store.request_options import REQUEST_OPTIONS
from delta_sidecar.store.s3_options import S3_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.store.address import StoreKind
    from delta_sidecar.store.option_names import StorageOption

__all__ = ["AZURE_OPTIONS", "GOOGLE_OPTIONS", "REQUEST_OPTIONS", "S3_OPTIONS", "environment_secrets", "options_of"]


def options_of(kind: StoreKind) -> tuple[StorageOption, ...]:
    """Gives the options that a kind of store knows. A local table knows those of all, and does nothing with them."""
    clouds = {"azure": AZURE_OPTIONS, "s3": S3_OPTIONS, "gs": GOOGLE_OPTIONS, "memory": ()}
    return (*REQUEST_OPTIONS, *clouds.get(kind, (*AZURE_OPTIONS, *S3_OPTIONS, *GOOGLE_OPTIONS)))


def environment_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Gives the secrets that are in environment variables, whoever reads them."""
    ours = (name for option in options_of("local") if option.secret for name in option.environment)
    return frozenset(value for name in (*ours, *_SECRETS_OF_OTHERS) if (value := environment.get(name)))


# Clients look for these by themselves.
_SECRETS_OF_OTHERS = (
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_TOKEN",
    "AZURE_PASSWORD",
    "IDENTITY_HEADER",
    "MSI_SECRET",
)
