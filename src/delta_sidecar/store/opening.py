"""The way from an address to its store."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from delta_sidecar.store.address import parse_address
from delta_sidecar.store.local import LocalStore
from delta_sidecar.store.options import AZURE_OPTIONS, REQUEST_OPTIONS, canonical
from delta_sidecar.store.redaction import redact_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.store.interface import Store

logger = logging.getLogger("delta_sidecar.store")


def open_store(table_url: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Store:
    """Opens the store that a table is in. Nothing is asked of it yet.

    Args:
        table_url: The table's root; see `delta_sidecar.store.address` for what it can be.
        storage_options: Options by name; see `delta_sidecar.store.options` for all of them.

    Raises:
        OptionError: The address or an option cannot be understood.
    """
    address = parse_address(table_url)
    options = storage_options or {}
    logger.debug("opening %s (options: %s)", address.url, ", ".join(sorted(map(redact_name, options))) or "none")
    if address.kind == "local":
        _check_local(options)
        return LocalStore(address.prefix)
    from delta_sidecar.store.client import client_spec
    from delta_sidecar.store.remote import RemoteStore

    spec, limit = client_spec(address, options, os.environ)
    return RemoteStore(address.url, spec, limit, address.prefix)


def _check_local(options: Mapping[str, str]) -> None:
    """Refuses misspelled options for local tables too; known ones just have nothing to do."""
    of_clouds = ("aws_", "google_", "azure_")
    ours = {name: value for name, value in options.items() if not name.lower().startswith(of_clouds)}
    canonical(ours, (*REQUEST_OPTIONS, *AZURE_OPTIONS))
