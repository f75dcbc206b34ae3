"""Stores around stores, for tests: slow ones, faulty ones, and ones that remember what was asked.

They compose (`RecordingStore(LatencyStore(store, 0.02))`), and a bound view keeps its wrappers.
"""

from __future__ import annotations

from delta_sidecar.store.wrappers.faults import (
    EmptyAfterOffset,
    Fail,
    FaultStore,
    Hide,
    IgnoreOffset,
    Truncate,
)
from delta_sidecar.store.wrappers.latency import LatencyStore
from delta_sidecar.store.wrappers.recording import Attempt, RecordingStore

__all__ = [
    "Attempt",
    "EmptyAfterOffset",
    "Fail",
    "FaultStore",
    "Hide",
    "IgnoreOffset",
    "LatencyStore",
    "RecordingStore",
    "Truncate",
]
