"""Evidence about the files of `_delta_log/_sidecars/` beyond their names: manifests, footers, references, trust."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from delta_sidecar._arrow import to_numpy
from delta_sidecar.errors import (
    ObjectNotFoundError,
    ObjectTruncatedError,
    SidecarError,
    StorageError,
    UnreadableFileError,
)
from delta_sidecar.execute.lanes import in_threads
from delta_sidecar.execute.parquet.footer import read_footer_within
from delta_sidecar.log.names import HIGHEST_VERSION, SIDECAR_FOLDER, TEMPORARY_NAME, SidecarFileKind, parse_sidecar_name
from delta_sidecar.log.segment import ListedSidecar
from delta_sidecar.plan import FILE_LABEL, FileRef, ScanJson, ScanParquet
from delta_sidecar.replay.bases.base import raise_unreachable
from delta_sidecar.replay.bases.checkpoint import is_torn
from delta_sidecar.replay.bases.choice import distrust
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.files import struct_fields
from delta_sidecar.sidecar.groups import LARGEST_DOCUMENT
from delta_sidecar.sidecar.manifest import FOOTER_KEY, decode_manifest
from delta_sidecar.sidecar.schema import FORMAT_VERSION
from delta_sidecar.store import TripClock, run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from delta_sidecar.log.segment import ListedFile, LogSegment
    from delta_sidecar.plan import Executor
    from delta_sidecar.store import Store

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 4
"""Requests that are under way at the same time."""


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file of `_delta_log/_sidecars/` whose name is one of ours. That does not prove that it is ours."""

    name: str
    kind: SidecarFileKind | None  # None for a temporary file
    version: int
    build: str | None
    size: int
    last_modified: int

    @property
    def path(self) -> str:
        """Relative to the table."""
        return SIDECAR_FOLDER + self.name

    @property
    def is_data(self) -> bool:
        """Whether a checkpoint could refer to a file of such a name: it is no JSON."""
        return self.kind not in {SidecarFileKind.MANIFEST, SidecarFileKind.SEGMENTS}


def our_files(listed: Mapping[str, ListedFile]) -> dict[str, FolderFile]:
    """The files of the folder that have names of ours, by name."""
    found = {}
    for name, file in listed.items():
        ours, temporary = parse_sidecar_name(name), TEMPORARY_NAME.fullmatch(name)
        if ours is not None:
            kind, version, build = ours.kind, ours.version, ours.build
        elif temporary is not None and int(temporary["version"]) <= HIGHEST_VERSION:
            target = parse_sidecar_name(temporary["target"])
            kind, version, build = None, int(temporary["version"]), None if target is None else target.build
        else:
            continue
        found[name] = FolderFile(name, kind, version, build, file.size, file.last_modified)
    return found


def of_kind(files: Mapping[str, FolderFile], kind: SidecarFileKind) -> list[FolderFile]:
    """The files of a kind, those of the newest version first."""
    return sorted((file for file in files.values() if file.kind is kind), key=lambda file: (-file.version, file.name))


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """The contents of a manifest, as far as it can be read."""

    file: FolderFile
    files: Mapping[str, int] | None  # sizes of the files that it names, by name; None where it cannot be read
    reason: str = ""  # why it cannot be read
    is_foreign: bool = False  # it cannot be read, and may be of use to others, such as a newer version of this library


@dataclass(frozen=True, slots=True)
class Evidence:
    """Asks the store, with a few requests at once."""

    store: Store
    executor: Executor
    segment: LogSegment  # the newest version of the table
    clock: TripClock = field(default_factory=TripClock)

    def each(self, ask: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Asks for each item, in order. After a failure nothing more is asked for, and nothing is under way."""

        def timed(item: T) -> tuple[TripClock, R]:
            clock = TripClock(self.clock.depth)
            return clock, run_in(clock, partial(ask, item))

        with closing(in_threads(timed, items, AT_ONCE, "vacuum")) as answers:
            for clock, answer in answers:
                self.clock.depth = max(self.clock.depth, clock.depth)
                yield answer

    def distrust(self, version: int, *, by_footer: bool = False) -> str | None:
        """Why a reader does not trust the listed metadata sidecar of a version; None where it does.

        Args:
            version: The version.
            by_footer: Whether the one file is judged by its footer, as if there were no manifest.
        """
        if version > self.segment.version:
            return f"the table has no version {version}"
        listed = ListedSidecar.of(self.segment.sidecars, version, 2 if by_footer else 1)
        return distrust(SidecarBase.of(self.segment, listed), self.executor)

    def manifest(self, file: FolderFile) -> ReadManifest | None:
        """Reads a manifest; None where it is gone."""
        if file.size > LARGEST_DOCUMENT:
            return ReadManifest(file, None, f"it has {file.size} bytes, more than a manifest may have", is_foreign=True)
        try:
            data = bytes(self.store.get(file.path, max_bytes=LARGEST_DOCUMENT).data)
        except ObjectNotFoundError:
            return None
        try:
            manifest = decode_manifest(data)
        except SidecarError as error:
            return ReadManifest(file, None, str(error), is_foreign=_is_of_a_newer_format(data))
        if manifest.version != file.version:
            return ReadManifest(file, None, f"it is for version {manifest.version}", is_foreign=True)
        return ReadManifest(file, {found.name: found.size for found in manifest.files})

    def not_ours(self, file: FolderFile) -> str | None:
        """Why a data file does not prove to be ours by its footer; None where it does."""
        try:
            footer = read_footer_within(self.store, file.path, file.size, None)
        except (ObjectNotFoundError, ObjectTruncatedError):
            return "it changed or went meanwhile"
        except (MemoryError, StorageError):
            raise
        except (pa.ArrowException, OSError, ValueError):
            return "it cannot be read as a Parquet file"
        pairs = footer.metadata.metadata if footer is not None else None
        return None if FOOTER_KEY.encode() in (pairs or {}) else "its footer does not say that it is a metadata sidecar"


def _is_of_a_newer_format(data: bytes) -> bool:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    found = document.get("format_version") if isinstance(document, dict) else None
    return isinstance(found, int) and not isinstance(found, bool) and found > FORMAT_VERSION


# The files of the folder that checkpoints refer to: their V2-checkpoint sidecars.


_TOP = pa.schema(
    [
        ("sidecar", pa.struct([("path", pa.string())])),
        ("metaData", pa.struct([("id", pa.string()), ("schemaString", pa.string())])),
    ]
)


@dataclass(frozen=True, slots=True)
class References:
    """The files that checkpoints refer to."""

    names: frozenset[str] = frozenset()
    unreadable: tuple[str, str] | None = None  # the first checkpoint that cannot be read, and why; it may refer to any


def read_references(executor: Executor, checkpoints: Iterable[ListedFile], names: Iterable[str]) -> References:
    """Reads the `sidecar` actions of checkpoints: footers, and of their rows only those that have one.

    Args:
        executor: Runs the reading.
        checkpoints: The files of all checkpoints.
        names: The files of the folder that it matters for.

    Raises:
        StorageError: The store is out of reach.
    """
    matters, found = frozenset(names), set[str]()
    left = [FileRef(file.path, file.size, label, file.e_tag) for label, file in enumerate(checkpoints)]
    while True:
        try:
            for path in _paths(executor, left):
                # The protocol keeps these files in one folder, so that only the name counts.
                found |= matters.intersection(text.rpartition("/")[2] for text in (path, unquote(path)))
        except UnreadableFileError as error:
            if isinstance(error.__cause__, ObjectNotFoundError):
                # The log is being cleaned up: what is gone refers to nothing.
                left = [ref for ref in left if ref.path != error.path]
                continue
            if not is_torn(error):
                raise_unreachable("the checkpoint", error)
                raise
            return References(frozenset(found), (error.path, str(error.__cause__ or error)))
        return References(frozenset(found))


def _paths(executor: Executor, checkpoints: Sequence[FileRef]) -> Iterator[str]:
    """The paths in all `sidecar` actions."""
    tables = tuple(ref for ref in checkpoints if not ref.path.endswith(".json"))
    texts = tuple(ref for ref in checkpoints if ref.path.endswith(".json"))
    if tables:
        plan = ScanParquet(tables, ("sidecar.path",), non_null=("sidecar.path",))
        with closing(executor.execute(plan)) as batches:
            for batch in batches:
                yield from _sidecar_paths(batch, executor)
    if texts:
        whole: set[int] = set()
        with closing(executor.execute(ScanJson(texts, _TOP))) as batches:
            for batch in batches:
                if any(to_numpy(found.is_valid()).any() for found in struct_fields(batch.column("metaData")).values()):
                    whole.add(batch.column(FILE_LABEL)[0].as_py())
                yield from _sidecar_paths(batch, executor)
        for ref in texts:
            if ref.label not in whole:
                msg = f"{ref.path}: it has no metaData"
                raise UnreadableFileError(msg, ref.path, ref.label)


def _sidecar_paths(batch: pa.RecordBatch, executor: Executor) -> Iterator[str]:
    if "sidecar" not in batch.schema.names:
        return
    paths = struct_fields(batch.column("sidecar")).get("path")
    if paths is None:
        return
    if not pa.types.is_string(paths.type):
        at = executor.progress.place
        place = "" if at is None else at.path
        msg = f"{place}: the paths of its sidecar actions are no texts"
        raise UnreadableFileError(msg, place)
    yield from paths.drop_null().to_pylist()
