"""The way from an address to its store."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from delta_sidecar.errors import OptionError
from delta_sidecar.store.address import parse_address
from delta_sidecar.store.local import LocalStore
from delta_sidecar.store.redaction import redact_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.store.clouds.azure import TokenCredential
    from delta_sidecar.store.interface import Store

logger = logging.getLogger("delta_sidecar.store")


def open_store(
    table_url: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    credential: TokenCredential | None = None,
) -> Store:
    """Opens the store that a table is in. Nothing is asked of it yet.

    Args:
        table_url: The table's root; see `delta_sidecar.store.address` for what it can be.
        storage_options: Options by name; see `delta_sidecar.store.client` for all of them. A local folder has no use
            for any, and takes all.
        credential: For Azure, an object that gives tokens: one of azure-identity's credentials, or anything else
            with a method `get_token`.

    Raises:
        OptionError: The address, an option or the credential cannot be understood.
        AuthenticationError: There are no credentials, and nowhere to look for any.
    """
    address = parse_address(table_url)
    options = storage_options or {}
    logger.debug("opening %s (options: %s)", address.url, ", ".join(sorted(map(redact_name, options))) or "none")
    if credential is not None and address.kind not in {"azure", "local"}:
        msg = f"credential objects are for Azure; {address.url} takes its credentials from storage options"
        raise OptionError(msg)
    if address.kind == "local":
        return LocalStore(address.prefix)
    from delta_sidecar.store.client import client_spec
    from delta_sidecar.store.remote import RemoteStore

    spec, limit = client_spec(address, options, os.environ, credential)
    return RemoteStore(address.url, spec, limit, address.prefix)
