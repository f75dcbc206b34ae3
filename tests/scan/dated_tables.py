"""Tables whose commits were written when a test says so."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING, Any

from tests.builder import TableBuilder, add, metadata, protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from delta_sidecar.events import Event

NOW = 1_770_000_000_000
MINUTE = 60_000
ENABLED = {"delta.enableInCommitTimestamps": "true"}


def moment(milliseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)


def dated(root: Path, times: Sequence[int], configuration: Mapping[str, str] | None = None) -> TableBuilder:
    """A table with a file in each commit, written at these times."""
    table = TableBuilder(root, configuration=configuration)
    for time in times:
        write(table, time)
    return table


def stamped(
    root: Path, own: Sequence[int], times: Sequence[int], properties: Mapping[str, str] | None = None
) -> TableBuilder:
    """A table whose commits say themselves when they were made."""
    table = TableBuilder(root, create=False)
    created = enabling(ENABLED | dict(properties or {}))
    for stamp, time in zip(own, times, strict=True):
        write(table, time, stamp, () if table.commits else created)
    return table


def enabling(properties: Mapping[str, str]) -> list[dict[str, Any]]:
    """The actions that give a table in-commit timestamps."""
    feature = protocol(features=[], writer_features=["inCommitTimestamp"])
    return [feature, metadata({"id": "long", "value": "string"}, configuration=properties)]


def write(table: TableBuilder, time: int, own: int | None = None, actions: Sequence[dict[str, Any]] = ()) -> None:
    """Writes the next commit, with a file of its own, as if at a time."""
    stamp = [] if own is None else [{"commitInfo": {"inCommitTimestamp": own, "operation": "WRITE"}}]
    version = table.commit([*stamp, *actions, add(f"{table.version + 1}.parquet")])
    os.utime(table.commit_path(version), ns=(time * 1_000_000, time * 1_000_000))


class Heard(list["Event"]):
    """A listener that remembers the events of some kinds."""

    def __init__(self, *kinds: type[Event]) -> None:
        super().__init__()
        self._kinds = kinds

    def __call__(self, event: Event) -> None:
        if isinstance(event, self._kinds):
            self.append(event)
