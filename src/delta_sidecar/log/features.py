"""Which tables may be read: protocol versions and reader features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.errors import UnsupportedFeatureError, UnsupportedProtocolVersionError

if TYPE_CHECKING:
    from delta_sidecar.log.actions import Protocol

MAX_READER_VERSION = 3
TABLE_FEATURES_READER_VERSION = 3

READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)

_HINTS = {
    "catalogManaged": "its newest commits are known to its catalog only; open it through the catalog",
    "catalogOwned": "its newest commits are known to its catalog only; open it through the catalog",
    "catalogOwned-preview": "its newest commits are known to its catalog only; open it through the catalog",
}


def check_readable(protocol: Protocol, table: str) -> None:
    """Refuses a table that asks its readers for more than this library implements.

    Raises:
        UnsupportedProtocolVersionError: The reader version is unknown.
        UnsupportedFeatureError: A reader feature is unknown; the error names it.
    """
    if protocol.min_reader_version > MAX_READER_VERSION:
        msg = (
            f"{table} needs a reader of protocol version {protocol.min_reader_version}; "
            f"this one reads up to {MAX_READER_VERSION}. Upgrade delta-sidecar."
        )
        raise UnsupportedProtocolVersionError(msg)
    if protocol.min_reader_version < TABLE_FEATURES_READER_VERSION:
        return
    unknown = tuple(sorted(set(protocol.reader_features or ()) - READER_FEATURES))
    if unknown:
        hints = "; ".join(_HINTS[name] for name in unknown if name in _HINTS)
        msg = (
            f"{table} uses reader features that are not supported: {', '.join(unknown)}. "
            f"{hints[:1].upper() + hints[1:] if hints else 'Upgrade delta-sidecar, or read it with its own writer'}."
        )
        raise UnsupportedFeatureError(msg, unknown)
