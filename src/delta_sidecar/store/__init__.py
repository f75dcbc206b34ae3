"""Object stores behind one small interface.

`open_store` gives the store of a table's address; `Store.bind` gives a view of it for one scan, whose
requests are counted in a `RequestLog` and can be stopped through it. Wrappers for tests are in
`delta_sidecar.store.wrappers`.
"""

from __future__ import annotations

from delta_sidecar.store.interface import PAGE_SIZE, Buffer, Fetched, ObjectMeta, Page, Store
from delta_sidecar.store.opening import open_store
from delta_sidecar.store.requests import (
    Request,
    RequestCounts,
    RequestKind,
    RequestLog,
    ScanCancelledError,
)
from delta_sidecar.store.tokens import TokenCredential
from delta_sidecar.store.trips import TripClock, TripQueue, current_clock, fork, join, run_in

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
