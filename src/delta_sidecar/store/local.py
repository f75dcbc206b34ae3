"""Tables on the local disk, read with plain system calls.

Names are the file system's own: a path from a listing can be opened, with any characters in it. obstore's LocalStore
percent-encodes them, and needs 33 us for a read of 4 KB where this needs 12, its accounting included.
"""
# System calls on plain strings are several times cheaper than pathlib's objects.
# ruff: noqa: PTH103, PTH105, PTH108, PTH116, PTH120, PTH123

from __future__ import annotations

import contextlib
import errno
import itertools
import mmap
import os
import stat
import uuid
from typing import TYPE_CHECKING, Any, BinaryIO

from delta_sidecar.errors import ObjectExistsError, ObjectNotFoundError, ObjectTruncatedError, StorageError
from delta_sidecar.store.accounting import RequestLog
from delta_sidecar.store.interface import (
    PAGE_SIZE,
    Buffer,
    Fetched,
    ObjectMeta,
    Page,
    check_folder,
    check_max_bytes,
    check_path,
    check_range,
    is_folder_marker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from delta_sidecar.store.accounting import RequestKind

_LARGE_READ = 128 << 10
_ONE_CALL = 1 << 30
_BLOCK = 8 << 20


class LocalStore:
    """A table's root folder on the local disk, by its absolute path. It need not exist."""

    def __init__(self, root: str, log: RequestLog | None = None) -> None:
        self.url = root.rstrip("/") or "/"
        self._root = root.rstrip("/") + "/"
        self._log = log or RequestLog()

    def __repr__(self) -> str:
        return f"LocalStore({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the path; the copy counts its requests by itself."""
        return LocalStore, (self.url,)

    def bind(self, log: RequestLog) -> LocalStore:
        """Returns a view of this store for one scan."""
        return LocalStore(self.url, log)

    def get(self, path: str, *, max_bytes: int | None = None) -> Fetched:
        """Reads an object, or its first `max_bytes`."""
        check_max_bytes(max_bytes)
        trip = self._log.begin()
        moved = 0
        try:
            with self._open(path) as file:
                status = os.fstat(file)
                size = status.st_size
                data = self._read(file, path, 0, size if max_bytes is None else min(size, max_bytes))
                moved = len(data)
        finally:
            self._log.finish("get", trip, moved=moved)
        return Fetched(data, size, _e_tag(status))

    def get_range(self, path: str, start: int, end: int) -> Buffer:
        """Reads exactly the bytes from `start` up to `end`."""
        return self.get_ranges(path, [(start, end)])[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Reads several ranges; each counts as a request of the same trip."""
        for start, end in ranges:
            check_range(start, end)
        trip = self._log.begin()
        parts: list[Buffer] = []
        try:
            with self._open(path) as file:
                parts.extend(self._read(file, path, start, end) for start, end in ranges)
        finally:
            for number, (start, end) in enumerate(ranges):
                self._log.finish("get", trip, moved=end - start if number < len(parts) else 0)
        return parts

    def head(self, path: str) -> ObjectMeta:
        """Asks for an object's size, time and e_tag."""
        with self._request("head", path, "find"):
            status = os.stat(self._file(path))
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return _meta(path, status)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Page]:
        """Lists the objects below a folder, page by page. Links to folders are not followed."""
        return self._pages(check_folder(prefix), after or "")

    def put(self, path: str, data: bytes, *, overwrite: bool = False) -> ObjectMeta:
        """Writes an object whole or not at all: its name appears with all its bytes behind it."""
        return self._put(path, lambda file: file.write(data), len(data), overwrite=overwrite)

    def put_file(self, path: str, source: str, *, overwrite: bool = False) -> ObjectMeta:
        """Writes an object from another file, whole or not at all."""
        import shutil

        with contextlib.ExitStack() as stack:
            try:
                origin = stack.enter_context(open(source, "rb"))
                size = os.fstat(origin.fileno()).st_size
            except OSError as error:
                msg = f"cannot write {self.url}/{path}: the file to take it from cannot be read: {error.strerror}"
                raise StorageError(msg) from error
            # In blocks, for a copy by the system cannot be interrupted.
            return self._put(path, lambda file: shutil.copyfileobj(origin, file, _BLOCK), size, overwrite=overwrite)

    def delete(self, path: str) -> None:
        """Deletes an object, if there is one; its folder stays."""
        with self._request("delete", path, "delete"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._file(path))

    def _file(self, path: str) -> str:
        return self._root + check_path(path)

    def _put(self, path: str, write: Callable[[BinaryIO], object], size: int, *, overwrite: bool) -> ObjectMeta:
        target = self._file(path)
        folder = os.path.dirname(target)
        draft = f"{folder}/{_DRAFT}{uuid.uuid4().hex}"
        with self._request("put", path, "write", moved=size):
            os.makedirs(folder, exist_ok=True)
            try:
                with open(draft, "xb") as file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
                    status = os.fstat(file.fileno())
                if overwrite:
                    os.replace(draft, target)
                else:
                    os.link(draft, target)
            finally:
                if os.path.lexists(draft):
                    os.unlink(draft)
        return _meta(path, status)

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[int]:
        try:
            file = os.open(self._file(path), os.O_RDONLY | getattr(os, "O_BINARY", 0))
            try:
                yield file
            finally:
                os.close(file)
        except (OSError, ValueError) as error:
            raise self._explain(error, "read", path) from error

    def _read(self, file: int, path: str, start: int, end: int) -> Buffer:
        data = os.pread(file, end - start, start) if end - start < _LARGE_READ else _read_large(file, start, end)
        if len(data) < end - start:
            msg = f"cannot read bytes {start} to {end} of {self.url}/{path}: it ends at {start + len(data)}"
            raise ObjectTruncatedError(msg)
        return data

    def _pages(self, folder: str, after: str) -> Iterator[Page]:
        found = self._walk(folder, after)
        trip = 0
        page: Page | None = None
        while page is None or len(page) == PAGE_SIZE:
            with self._request("list", folder, "list", previous=trip) as trip:
                page = list(itertools.islice(found, PAGE_SIZE))
            if page:
                yield page

    def _walk(self, folder: str, after: str) -> Iterator[ObjectMeta]:
        try:
            entries = os.scandir(self._root + folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                path = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    # All that is below a folder sorts with the folder's own name, so whole folders fall away.
                    if path + "/" >= after or after.startswith(path + "/"):
                        yield from self._walk(path + "/", after)
                    continue
                if path <= after or entry.name.startswith(_DRAFT) or not entry.is_file():
                    continue
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue
                if not is_folder_marker(path, status.st_size):
                    yield _meta(path, status)

    @contextlib.contextmanager
    def _request(self, kind: RequestKind, path: str, doing: str, *, moved: int = 0, previous: int = 0) -> Iterator[int]:
        trip = self._log.begin(previous)
        try:
            yield trip
        except (OSError, ValueError) as error:
            moved = 0
            raise self._explain(error, doing, path) from error
        finally:
            self._log.finish(kind, trip, moved=moved)

    def _explain(self, error: OSError | ValueError, doing: str, path: str) -> StorageError:
        what = f"cannot {doing} {self.url}/{path}"
        if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
            return ObjectNotFoundError(f"{what}: it does not exist")
        if isinstance(error, FileExistsError):
            return ObjectExistsError(f"{what}: it is already there")
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return StorageError(f"{what}: {reason}")


# Drafts are never listed; a crash may leave one behind.
_DRAFT = ".delta-sidecar-draft-"


def _read_large(file: int, start: int, end: int) -> memoryview:
    # Memory of its own, which goes back to the system with its last user: large blocks from the heap of a thread
    # stay with the process.
    block = mmap.mmap(-1, end - start, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # The system clears new memory, and in small pages that takes longer than reading does.
        with contextlib.suppress(OSError):
            block.madvise(mmap.MADV_HUGEPAGE)
    data = memoryview(block)
    filled = 0
    while filled < len(data):
        count = os.preadv(file, [data[filled : filled + _ONE_CALL]], start + filled)
        if count == 0:
            break
        filled += count
    return data[:filled]


def _meta(path: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(path, status.st_size, status.st_mtime_ns // 1_000_000, _e_tag(status))


def _e_tag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
