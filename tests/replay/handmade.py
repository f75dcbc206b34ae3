"""Logs made by hand: listings, blocks of commits, rows of checkpoints, and the segments and snapshots over them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.builder import add, metadata, protocol, remove

from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.names import LOG_FOLDER, commit_path
from delta_sidecar.log.schema import read_schema
from delta_sidecar.log.segment import ListedFile, LogListing, LogSegment
from delta_sidecar.plan import FILE_LABEL, LINE, ScanJson, ScanParquet
from delta_sidecar.replay.bases.choice import BaseChoice
from delta_sidecar.replay.open import Opening
from delta_sidecar.replay.request import ScanRequest
from delta_sidecar.replay.snapshot import Snapshot, scan
from delta_sidecar.replay.tail import commit_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from delta_sidecar.plan import Flow, Plan
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.snapshot import Scan

DIRECTIONS = pytest.mark.parametrize("forward", [False, True], ids=["reverse", "forward"])

OPENING = Opening("memory://t", None, 3)
PROTOCOL = protocol(1, 2)
METADATA = metadata({"id": "long", "day": "string"}, ["day"])

TAIL = {
    5: [add("new", partition_values={"day": "e"}), remove("b1")],
    4: [add("gone", partition_values={"day": "d"}), add("b2", partition_values={"day": "d"}, size=9)],
    3: [remove("gone"), add("x", partition_values={"day": "d"})],
}


def checkpoint_path(version: int, part: str = "") -> str:
    return f"{LOG_FOLDER}{version:020}.checkpoint{part}.parquet"


def commits(first: int, last: int) -> list[tuple[str, int]]:
    return [(commit_path(version), 100 + version) for version in range(first, last + 1)]


def segment_of(entries: list[tuple[str, int]], version: int, *, complete: bool = True) -> LogSegment:
    listing = LogListing(start=None if complete else 0)
    for path, size in entries:
        listing.add(ListedFile(path, size))
    return listing.segment(version)


def snapshot_of(
    versions: range, checkpoint: int | None = None, *, complete: bool = True, others: Sequence[str] = ()
) -> Snapshot:
    """Gives a snapshot over commits, and other files of the log, that exist in name only."""
    entries = [(path, 1) for path in (*map(commit_path, versions), *others)]
    entries += [] if checkpoint is None else [(checkpoint_path(checkpoint), 9)]
    segment = segment_of(entries, max(versions), complete=complete)
    proto = Protocol.from_action(PROTOCOL["protocol"], "test")
    meta = Metadata.from_action(METADATA["metaData"], "test")
    return Snapshot("t", segment.version, proto, meta, read_schema(meta, proto, "t"), BaseChoice.of(segment))


def listing(entries: Sequence[tuple[str, int]], times: Mapping[str, int] | None = None) -> list[pa.RecordBatch]:
    """Gives the answer to a `ListFiles`; times are by path, 0 where there is none."""
    paths, sizes = [path for path, _ in entries], [size for _, size in entries]
    written = [(times or {}).get(path, 0) for path in paths]
    arrays = [pa.array(paths, pa.string()), *(pa.array(numbers, pa.int64()) for numbers in (sizes, written))]
    arrays.append(pa.nulls(len(entries), pa.string()))
    return [pa.RecordBatch.from_arrays(arrays, names=["path", "size", "last_modified", "e_tag"])]


def read(contents: dict[str, bytes | None]) -> list[pa.RecordBatch]:
    """Gives the answer to a `ReadFiles`; None stands for a file that is too large."""
    return [
        pa.RecordBatch.from_pydict(
            {"path": [path], "size": [len(data or b"x" * 99)], "data": pa.array([data], pa.binary())}
        )
        for path, data in contents.items()
    ]


def json_batch(
    version: int, actions: Sequence[dict[str, Any]], schema: pa.Schema | None = None, *, lines: bool = True
) -> pa.RecordBatch:
    """Gives a block of a commit as a `ScanJson` gives it."""
    schema = commit_schema() if schema is None else schema
    columns = [pa.array([action.get(field.name) for action in actions], field.type) for field in schema]
    texts = [json.dumps(action) if lines else None for action in actions]
    arrays = [*columns, pa.array([version] * len(actions), pa.int64()), pa.array(texts, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, names=[*schema.names, FILE_LABEL, LINE])


TOP_TYPES = {
    "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    ),
    "sidecar": pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())]),
}


def top_batch(rows: list[dict[str, Any]], names: tuple[str, ...] = tuple(TOP_TYPES)) -> pa.RecordBatch:
    columns = [pa.array([row.get(name) for row in rows], TOP_TYPES[name]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
)


def checkpoint_batch(*names: str | None, day: str = "d", size: int = 1) -> pa.RecordBatch:
    rows = [
        None if name is None else {"path": name, "partitionValues": [("day", day)], "size": size, "modificationTime": 1}
        for name in names
    ]
    return pa.RecordBatch.from_arrays([pa.array(rows, ADD)], names=["add"])


def answers(tail: dict[int, list[dict[str, Any]]], base: list[pa.RecordBatch]) -> Callable[[Plan], Any]:
    """Answers the plans of a scan: commits by their labels, a checkpoint by row groups."""

    def answer(plan: Plan) -> Any:  # noqa: ANN401
        if isinstance(plan, ScanJson):
            return [json_batch(ref.label, tail[ref.label], plan.schema) for ref in plan.files if tail[ref.label]]
        assert isinstance(plan, ScanParquet)
        return base[plan.start :] if any(name.startswith("add") for name in plan.columns) else []

    return answer


def paths(batch: pa.RecordBatch | None) -> list[str]:
    return [] if batch is None else batch.column("raw_path").to_pylist()


def paths_of(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [path for batch in batches for path in paths(batch)]


def live(snapshot: Snapshot, predicate: Predicate | None = None, *, forward: bool = False) -> Flow[Scan]:
    """The flow that emits the live files of a snapshot."""
    request = ScanRequest.bind(snapshot.table, snapshot.columns, predicate)
    return scan(snapshot, replace(request, forward=forward))


def unreadable(path: str, cause: Exception | None = None, version: int = -1) -> UnreadableFileError:
    """A failure to read a file, by its cause."""
    error = UnreadableFileError("x", path, version)
    error.__cause__ = cause
    return error


def failing(error: Exception) -> Iterator[pa.RecordBatch]:
    """Batches of which the first cannot be read."""
    raise error
    yield
