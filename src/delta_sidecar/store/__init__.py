"""Object stores behind one small interface.

`open_store` gives the store of a table's address; `Store.bind` gives a view of it for one scan, whose
requests are counted in a `RequestLog` and can be stopped through it.

To be read in this order: `interface` (the protocol), `local` and `remote` (what implements it), `accounting` (requests,
trips and turns), `address`, `options` and `clouds` (how a table is found and with which credentials), `client` (what
all that makes, and how it fails), `redaction` (what a user gets to see). Wrappers for tests are in `testing`.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from delta_sidecar.errors import OptionError
from delta_sidecar.store.accounting import (
    RequestCounts,
    RequestKind,
    RequestLog,
    ScanCancelledError,
    TripClock,
    current_clock,
    run_in,
)
from delta_sidecar.store.address import parse_address
from delta_sidecar.store.interface import PAGE_SIZE, Buffer, Fetched, ObjectMeta, Page, Store, TokenCredential
from delta_sidecar.store.local import LocalStore
from delta_sidecar.store.redaction import redact_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PAGE_SIZE",
    "Buffer",
    "Fetched",
    "ObjectMeta",
    "Page",
    "RequestCounts",
    "RequestKind",
    "RequestLog",
    "ScanCancelledError",
    "Store",
    "TokenCredential",
    "TripClock",
    "current_clock",
    "open_store",
    "run_in",
]

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
        storage_options: Options by name; see `delta_sidecar.store.options`. A local folder has no use for any, and
            takes all.
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

    return RemoteStore(address.url, client_spec(address, options, os.environ, credential), address.prefix)
