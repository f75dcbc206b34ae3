"""`_last_checkpoint` and version checksums: small JSON files beside the commits, hints both; bad ones are ignored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from delta_sidecar.errors import InvalidMetadataError
from delta_sidecar.log.actions import Metadata, Protocol


@dataclass(frozen=True, slots=True)
class Checksum:
    """What a `{version}.crc` file says of the table at that version.

    Attributes:
        protocol: The protocol in force.
        metadata: The metadata in force.
        num_files: How many files are live; None where it does not say.
        num_bytes: Their size together; None where it does not say.
    """

    protocol: Protocol
    metadata: Metadata
    num_files: int | None = None
    num_bytes: int | None = None


def last_checkpoint_version(data: bytes) -> int | None:
    """The version in a `_last_checkpoint` file; None where it makes no sense."""
    version = _object(data).get("version")
    return version if isinstance(version, int) and not isinstance(version, bool) and version >= 0 else None


def read_checksum(data: bytes) -> Checksum | None:
    """Reads a checksum file; None where it lacks the protocol or the metadata."""
    fields = _object(data)
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("partitionColumns"), list):
        return None
    try:
        return Checksum(
            protocol=Protocol.from_action(fields.get("protocol"), "checksum"),
            metadata=Metadata.from_action(metadata, "checksum"),
            num_files=_count(fields.get("numFiles")),
            num_bytes=_count(fields.get("tableSizeBytes")),
        )
    except InvalidMetadataError:
        return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


_MOST = 2**63 - 1


def _object(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
