"""Object stores behind one small interface.

`open_store` gives the store of a table's address; `Store.bind` gives a view of it for one scan, whose
requests are counted in a `RequestLog` and can be stopped through it. Wrappers for tests are in
`delta_sidecar.store.testing`.
"""

from __future__ import annotations

from delta_sidecar.store.accounting import (
    Request,
    RequestCounts,
    RequestKind,
    RequestLog,
    ScanCancelledError,
    TripClock,
    TripQueue,
    current_clock,
    fork,
    join,
    run_in,
)
from delta_sidecar.store.clouds.azure import TokenCredential
from delta_sidecar.store.interface import PAGE_SIZE, Buffer, Fetched, ObjectMeta, Page, Store
from delta_sidecar.store.open import open_store

__all__ = [
    "PAGE_SIZE",
    "Buffer",
    "Fetched",
    "ObjectMeta",
    "Page",
    "Request",
    "RequestCounts",
    "RequestKind",
    "RequestLog",
    "ScanCancelledError",
    "Store",
    "TokenCredential",
    "TripClock",
    "TripQueue",
    "current_clock",
    "fork",
    "join",
    "open_store",
    "run_in",
]
