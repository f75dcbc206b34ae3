"""Small tables with metadata sidecars, and what a scan of one says of itself."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.builder import TableBuilder, add, deletion_vector, metadata, protocol, remove
from tests.builder.meaning import meaning
from tests.scan.reading import keys_of

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar.build import build_sidecar
from delta_sidecar.events import BaseChosen, BasePassedOver, Event, ScanEnded
from delta_sidecar.sidecar.manifest import decode_manifest, seal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from delta_sidecar import DeltaFile
    from delta_sidecar.sidecar.groups import RowGroup
    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.store import Store


@dataclass(frozen=True)
class Heard:
    """The answer of a scan, and what its listeners were told."""

    files: list[DeltaFile]
    events: list[Event]

    @property
    def end(self) -> ScanEnded:
        (found,) = (event for event in self.events if isinstance(event, ScanEnded))
        return found

    @property
    def bases(self) -> list[tuple[int, int]]:
        """Version and tier of every base that files were taken from, in order."""
        return [(event.version, event.tier) for event in self.events if isinstance(event, BaseChosen)]

    @property
    def passed_over(self) -> list[tuple[str, str]]:
        """Name of every base that was passed over, and why, in a word."""
        return [(event.base, event.code) for event in self.events if isinstance(event, BasePassedOver)]

    @property
    def told(self) -> tuple[int | None, str | None]:
        """Tier and reason, as the end of the scan tells them."""
        return self.end.sidecar_tier, self.end.sidecar_fallback_reason


def heard(table: TableBuilder, store: Store | None = None, **config: Any) -> Heard:  # noqa: ANN401 - any option
    """Scans to the end, or to the limit."""
    events: list[Event] = []
    reader = LazyDeltaScanner(table.root, LazyScanConfig(**config), store=store, listeners=[events.append])
    return Heard(list(reader.scan_files()), events)


def without_sidecars(table: TableBuilder, **config: Any) -> list[DeltaFile]:  # noqa: ANN401
    """The answer that has to come, whatever sidecars there are."""
    return heard(table, **config, sidecar_enabled=False).files


def in_order(files: list[DeltaFile]) -> list[tuple[DeltaFile, Any]]:
    """Files in an order of their own, to compare whole answers with everything in them, statistics by what they say."""
    found = sorted(files, key=lambda file: (file.raw_path, repr(file.deletion_vector)))
    return [(replace(file, stats=None), meaning(file.stats)) for file in found]


def is_same(found: list[DeltaFile], expected: list[DeltaFile]) -> None:
    """Asserts that two answers hold the same files with the same everything."""
    assert keys_of(found) == keys_of(expected)
    assert in_order(found) == in_order(expected)


def with_sidecar(table: TableBuilder, version: int | None = None, **options: Any) -> TableBuilder:  # noqa: ANN401
    """Builds a sidecar, in small row groups unless told otherwise."""
    build_sidecar(table.root, version=version, **{"rows_per_group": 2, "threads": 1, **options})
    return table


def sidecar_path(table: TableBuilder, version: int) -> Path:
    return table.log / "_sidecars" / f"v{version}.parquet"


def manifest_path(table: TableBuilder, version: int) -> Path:
    return table.log / "_sidecars" / f"v{version}.manifest.json"


def manifest_of(table: TableBuilder, version: int) -> Manifest:
    return decode_manifest(manifest_path(table, version).read_bytes())


def document_of(table: TableBuilder, version: int) -> dict[str, Any]:
    """A manifest without its digest, as plain JSON."""
    document: dict[str, Any] = json.loads(manifest_path(table, version).read_bytes(), parse_float=Decimal)
    del document["digest"]
    return document


def resealed(table: TableBuilder, version: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes a manifest, and gives it the digest that belongs to it now."""
    document = document_of(table, version)
    change(document)
    manifest_path(table, version).write_bytes(seal(document))


def spoil(path: Path, at: int, length: int = 1, bit: int = 0x55) -> None:
    """Turns bits of a file over."""
    with path.open("r+b") as file:
        file.seek(at)
        data = file.read(length)
        file.seek(at)
        file.write(bytes(byte ^ bit for byte in data))


def spoil_piece(table: TableBuilder, version: int, group: RowGroup, piece: str) -> None:
    """Damages the middle of the index or the statistics of a row group."""
    start, length = (
        (group.byte_offset, group.byte_length) if piece == "index" else (group.stats_offset, group.stats_length)
    )
    spoil(sidecar_path(table, version), start + length // 2, 3)


SCHEMA = {"id": "long", "at": "timestamp", "name": "string", "_event_hour": "string"}
VECTORS = protocol(features=["deletionVectors", "v2Checkpoint"])
BASE, NEWEST = 3, 6


def hour_file(number: int, *, stats: bool = True, dv: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A file of one hour; every fifth has no bucket."""
    at = dt.datetime(2026, 2, 10, number % 24, 30, tzinfo=dt.UTC)
    rows = [{"id": number, "at": at, "name": f"n{number:03}"}]
    hour = None if number % 5 == 4 else f"20260210{number % 24:02}"
    given = {} if stats else {"stats": None}
    return add(f"f{number:03}.parquet", rows=rows, partition_values={"_event_hour": hour}, dv=dv, **given)


def gone(action: dict[str, Any]) -> dict[str, Any]:
    """The remove of an added file."""
    added = action["add"]
    return remove(added["path"], dv=added.get("deletionVector"), partition_values=added["partitionValues"])


def hourly(
    root: Path, kind: str | None = "v1", *, last_checkpoint: bool = True, table_id: str = "one", **properties: str
) -> TableBuilder:
    """Gives a table of hours with versions 0..6, and a checkpoint at 3 unless that is None."""
    built = TableBuilder(root, protocol=VECTORS)
    first = [metadata(SCHEMA, ["_event_hour"], table_id=table_id, configuration=properties)]
    for number in range(BASE + 1):
        built.commit(first + [hour_file(number * 4 + place, stats=place != 1) for place in range(4)])
        first = []
    if kind is not None:
        built.checkpoint(kind, row_group_rows=3, last_checkpoint=last_checkpoint)
    vector = deletion_vector("first")
    built.commit([gone(hour_file(2)), hour_file(2, dv=vector), hour_file(20)])
    built.commit([gone(hour_file(7)), hour_file(21)])
    built.commit([gone(hour_file(2, dv=vector)), hour_file(2, dv=deletion_vector("second")), gone(hour_file(21))])
    return built
