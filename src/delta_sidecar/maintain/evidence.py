"""What is known of files of `_delta_log/_sidecars/` beyond their names: by manifests, footers and a reader's trust."""

from __future__ import annotations

import json
import re
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import (
    ObjectNotFoundError,
    ObjectTruncatedError,
    SidecarError,
    StorageError,
    UnreadableFileError,
)
from delta_sidecar.execute.parquet.footer import read_footer_within
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER, LogFileKind, parse_log_name
from delta_sidecar.plan import FILE_LABEL, FileRef, ScanJson, ScanParquet
from delta_sidecar.replay.bases.checkpoint import is_torn
from delta_sidecar.replay.bases.choice import distrust
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.files import struct_fields
from delta_sidecar.replay.open import ListedSidecar
from delta_sidecar.sidecar.manifest import FOOTER_KEY, LARGEST_DOCUMENT, decode_manifest
from delta_sidecar.sidecar.names import HIGHEST_VERSION, SidecarFileKind, parse_sidecar_name
from delta_sidecar.sidecar.schema import FORMAT_VERSION
from delta_sidecar.store import TripClock, run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from delta_sidecar.plan import Executor
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.store import ObjectMeta, Store


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """What a manifest says, as far as it can be read.

    Attributes:
        file: The manifest.
        files: Sizes of the files that it names, by name; None where it cannot be read.
        reason: Why it cannot be read; empty where it can.
        is_foreign: Whether one that cannot be read may be of use to others, such as a newer version of this library.
    """

    file: FolderFile
    files: Mapping[str, int] | None
    reason: str = ""
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Asks the store.

    Attributes:
        store: The table's store.
        requests: Threads that wait for it.
        executor: Runs what a reader does.
        snapshot: The table as it is now.
    """

    store: Store
    requests: Requests
    executor: Executor
    snapshot: Snapshot

    def manifests(self, files: Iterable[FolderFile]) -> Iterator[ReadManifest]:
        """Reads manifests, in order; those that are gone are left out."""
        return (found for found in self.requests.each(self._manifest, files) if found is not None)

    def not_ours(self, files: Iterable[FolderFile]) -> Iterator[str | None]:
        """Why each of these data files does not prove to be ours by its footer; None where it does."""
        return self.requests.each(self._not_ours, files)

    def distrust(self, version: int, *, by_footer: bool = False) -> str | None:
        """Why a reader of the table does not trust the metadata sidecar of a version; None where it does.

        Args:
            version: The version.
            by_footer: Whether the one file is judged by its footer, as if there were no manifest.
        """
        if version > self.snapshot.version:
            return f"the table has no version {version}"
        segment = self.snapshot.choice.segment
        base = SidecarBase.of(ListedSidecar(version, 2 if by_footer else 1), segment)
        if base.name not in segment.sidecars:
            return "it is gone"
        return distrust(base, self.executor)

    def _manifest(self, file: FolderFile) -> ReadManifest | None:
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
        named = [*manifest.files, *([manifest.segments_file] if manifest.segments_file is not None else [])]
        return ReadManifest(file, {found.name: found.size for found in named})

    def _not_ours(self, file: FolderFile) -> str | None:
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


# What a listing of a log shows of metadata sidecars, and of what could need a file beside them.


MOST_STRANGERS = 10_000
"""Names of other files of the folder that are remembered; more are counted."""

_TEMPORARY = re.compile(r"(?P<target>v(?P<version>0|[1-9][0-9]{0,18})\.[a-z0-9.-]+)\.tmp-[0-9a-f]{1,64}")
_CHECKPOINTS = (LogFileKind.CHECKPOINT, LogFileKind.CHECKPOINT_PART, LogFileKind.V2_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file of `_delta_log/_sidecars/` whose name is one of ours. That does not prove that it is ours.

    Attributes:
        name: Its name.
        kind: What it is, by its name; None for a temporary file.
        version: The version in its name.
        build: The build in its name; None where there is none.
        size: In bytes.
        last_modified: When it was written, by the store, in milliseconds since the epoch.
    """

    name: str
    kind: SidecarFileKind | None
    version: int
    build: str | None
    size: int
    last_modified: int

    @property
    def path(self) -> str:
        """Where it is, relative to the table."""
        return SIDECAR_FOLDER + self.name

    @property
    def is_data(self) -> bool:
        """Whether a checkpoint could refer to a file of such a name: it is no JSON."""
        return self.kind not in {SidecarFileKind.MANIFEST, SidecarFileKind.SEGMENTS}


@dataclass(slots=True)
class LogInventory:
    """Collects a listing of a log, page by page. Of commits only numbers are kept.

    Attributes:
        ours: The files with names of ours, by name.
        strangers: Sizes of the first other files of the folder, by name.
        more_strangers: How many there are beyond those.
        checkpoints: Every file of a checkpoint.
        latest: The newest version with a commit or a file of a checkpoint; -1 without any.
        newest_time: When the newest file of the log was written, by the store.
    """

    ours: dict[str, FolderFile] = field(default_factory=dict)
    strangers: dict[str, int] = field(default_factory=dict)
    more_strangers: int = 0
    checkpoints: list[FileRef] = field(default_factory=list)
    latest: int = -1
    newest_time: int = 0

    def add_all(self, page: Iterable[ObjectMeta]) -> None:
        """Takes a page of the listing."""
        for meta in page:
            self.newest_time = max(self.newest_time, meta.last_modified)
            if meta.path.startswith(SIDECAR_FOLDER):
                self._add_to_folder(meta)
            elif meta.path.startswith(LOG_FOLDER):
                self._add_to_log(meta)

    def of_kind(self, kind: SidecarFileKind) -> Iterator[FolderFile]:
        """The files of a kind, those of the newest version first."""
        found = (file for file in self.ours.values() if file.kind is kind)
        return iter(sorted(found, key=lambda file: (-file.version, file.name)))

    def _add_to_log(self, meta: ObjectMeta) -> None:
        name = parse_log_name(meta.path)
        if name is None or name.version > HIGHEST_VERSION:
            return
        if name.kind in _CHECKPOINTS:
            self.checkpoints.append(FileRef(meta.path, meta.size, len(self.checkpoints), meta.e_tag))
        if name.kind is LogFileKind.COMMIT or name.kind in _CHECKPOINTS:
            self.latest = max(self.latest, name.version)

    def _add_to_folder(self, meta: ObjectMeta) -> None:
        name = meta.path.removeprefix(SIDECAR_FOLDER)
        file = _folder_file(name, meta)
        if file is not None:
            self.ours[name] = file
        elif len(self.strangers) < MOST_STRANGERS:
            self.strangers[name] = meta.size
        else:
            self.more_strangers += 1


def _folder_file(name: str, meta: ObjectMeta) -> FolderFile | None:
    found = parse_sidecar_name(name)
    if found is not None:
        return FolderFile(name, found.kind, found.version, found.build, meta.size, meta.last_modified)
    temporary = _TEMPORARY.fullmatch(name)
    if temporary is None or int(temporary["version"]) > HIGHEST_VERSION:
        return None
    target = parse_sidecar_name(temporary["target"])
    build = None if target is None else target.build
    return FolderFile(name, None, int(temporary["version"]), build, meta.size, meta.last_modified)


# Which files of `_delta_log/_sidecars/` the checkpoints of a log refer to: their V2-checkpoint sidecars.


_TOP = pa.schema(
    [
        ("sidecar", pa.struct([("path", pa.string())])),
        ("metaData", pa.struct([("id", pa.string()), ("schemaString", pa.string())])),
    ]
)


@dataclass(frozen=True, slots=True)
class References:
    """What checkpoints refer to.

    Attributes:
        names: Names of files; only those that were asked for.
        unreadable: The first checkpoint that cannot be read, and why: it may refer to anything. None where all can.
    """

    names: frozenset[str] = frozenset()
    unreadable: tuple[str, str] | None = None


def read_references(
    executor: Executor, checkpoints: Sequence[FileRef], is_asked_for: Callable[[str], bool]
) -> References:
    """Reads the `sidecar` actions of checkpoints: footers, and of their rows only those that have one.

    Args:
        executor: Runs the reading.
        checkpoints: The files of all checkpoints, each with its place in this sequence as its label.
        is_asked_for: Tells whether it matters that a file is referred to.

    Raises:
        StorageError: The store is out of reach.
    """
    found: set[str] = set()
    left = list(checkpoints)
    while True:
        try:
            for path in _paths(executor, left):
                # The protocol keeps these files in one folder, so that only the name counts.
                names = {text.rpartition("/")[2] for text in (path, unquote(path))}
                found |= {name for name in names if is_asked_for(name)}
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
        yield from _paths_in_texts(executor, texts)


def _paths_in_texts(executor: Executor, texts: tuple[FileRef, ...]) -> Iterator[str]:
    whole: set[int] = set()
    with closing(executor.execute(ScanJson(texts, _TOP))) as batches:
        for batch in batches:
            told = [valid_mask(found) for found in struct_fields(batch.column("metaData")).values()]
            if any(mask.any() for mask in told):
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


# Requests of a clean-up: several at once, a bounded number ahead, their answers in order.


T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 4
"""Requests that are under way at the same time."""


class Requests:
    """Threads that wait for the store, so that an interrupt reaches the caller. `close` ends them."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="delta-sidecar-vacuum")
        self._clock = TripClock()

    def each(self, ask: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Asks for each item. After a failure, or where the caller stops, nothing more is asked for.

        Args:
            ask: Makes the requests for one item, in a thread.
            items: The items; they are taken as they are needed.
        """
        waiting: deque[tuple[TripClock, Future[R]]] = deque()
        remaining = iter(items)
        try:
            while True:
                while len(waiting) < self._at_once:
                    try:
                        item = next(remaining)
                    except StopIteration:
                        break
                    clock = self._clock.fork()
                    waiting.append((clock, self._pool.submit(run_in, clock, partial(ask, item))))
                if not waiting:
                    return
                clock, future = waiting.popleft()
                answer = future.result()
                self._clock.join(clock)
                yield answer
        except Exception:
            # What is under way comes to its end, so that nothing changes any more once the failure is told.
            wait([future for _, future in waiting if not future.cancel()])
            raise
        finally:
            for _, future in waiting:
                future.cancel()

    def close(self) -> None:
        """Ends the threads. What is under way is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
