"""Writing commits, and the checksum files beside them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from delta_sidecar.synth.randomness import random_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from delta_sidecar.synth.files import FileSeries

_BLOCK_ROWS = 65_536


def write_commit(
    log: Path,
    version: int,
    series: FileSeries,
    *,
    added: range,
    removed: NDArray[np.int64],
    first: Sequence[dict[str, Any]],
    timestamp: int,
    report: Callable[[int], None],
) -> int:
    """Writes one commit and gives by how many bytes the table grows.

    Args:
        log: The `_delta_log` directory.
        version: The version of the commit.
        series: Where the files come from.
        added: The numbers of the files that it adds.
        removed: The numbers of the files that it removes.
        first: Actions to write before the file actions.
        timestamp: When the commit is made, in milliseconds since the epoch.
        report: Called with the number of files written since the last call.
    """
    grown = 0
    with (log / f"{version:020}.json").open("wb") as file:
        for action in (_commit_info(series, version, len(added), len(removed), timestamp), *first):
            file.write(_line(action))
        for at in range(added.start, added.stop, _BLOCK_ROWS):
            block = series.block(np.arange(at, min(added.stop, at + _BLOCK_ROWS), dtype=np.int64))
            for lines in block.add_lines():
                file.write(np.ascontiguousarray(lines).data.cast("B"))
            grown += int(block.sizes.sum())
            report(len(block))
        if len(removed):
            block = series.block(removed)
            for action in block.remove_actions(timestamp):
                file.write(_line(action))
            grown -= int(block.sizes.sum())
    return grown


def write_checksum(
    log: Path,
    version: int,
    *,
    files: int,
    table_bytes: int,
    metadata: dict[str, Any],
    protocol: dict[str, Any],
    transaction: dict[str, Any],
    txn_id: str,
) -> None:
    """Writes the checksum file of a version."""
    checksum = {
        "txnId": txn_id,
        "tableSizeBytes": table_bytes,
        "numFiles": files,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [transaction],
        "domainMetadata": [],
        "metadata": metadata,
        "protocol": protocol,
    }
    (log / f"{version:020}.crc").write_bytes(_line(checksum))


def transaction_action(series: FileSeries, version: int, timestamp: int) -> dict[str, Any]:
    """Returns the content of the txn action by which a stream remembers how far it came."""
    return {"appId": random_uuid(series.seed, 510), "version": version, "lastUpdated": timestamp}


def transaction_id(series: FileSeries, version: int) -> str:
    """Returns the id that a commit and its checksum file share."""
    return random_uuid(series.seed, 511, version)


def _commit_info(series: FileSeries, version: int, added: int, removed: int, timestamp: int) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": timestamp,
            "operation": "STREAMING UPDATE",
            "operationParameters": {
                "outputMode": "Append",
                "queryId": random_uuid(series.seed, 510),
                "epochId": str(version),
            },
            "readVersion": version - 1,
            "isolationLevel": "Serializable",
            "isBlindAppend": removed == 0,
            "operationMetrics": {"numAddedFiles": str(added), "numRemovedFiles": str(removed)},
            "engineInfo": "delta-sidecar synth",
            "txnId": transaction_id(series, version),
        }
    }


def _line(action: dict[str, Any]) -> bytes:
    return json.dumps(action, separators=(",", ":")).encode() + b"\n"
