"""Stores behind obstore: Azure, memory, S3 and Google Cloud."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore.exceptions import BaseError, NotSupportedError

from delta_sidecar._threads import ThreadPool
from delta_sidecar.errors import (
    AuthenticationError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    StorageError,
)
from delta_sidecar.store.accounting import RequestLog, ScanCancelledError, current_clock, gate_for
from delta_sidecar.store.client import ClientSpec, client_for, explain, is_interrupt
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
    merge,
    split,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from delta_sidecar.store.accounting import RequestKind

T = TypeVar("T")

logger = logging.getLogger("delta_sidecar.store")

LARGE_FILE = 32 << 20
"""Files above this size are not taken into memory to be written."""

_BLOCK = 8 << 20
_MOST_BLOCKS = 9_000
_BLOCKS_AT_ONCE = 4
_COPY_WAITS = (0.05, 0.1, 0.2, 0.5, *[1.0] * 60)

# The size of an answer of these, so that a page of ours is one request.
_PAGE_SIZES = {"s3": 1000, "gs": 1000}

_LISTING_TRIES = 4
_SHORT_BODY_TRIES = 3
_PARALLEL_RANGES = 16

_VERBS: dict[RequestKind, str] = {"get": "read", "list": "list", "head": "find", "put": "write", "delete": "delete"}


class RemoteStore:
    """A table's root folder behind obstore: `prefix` inside of the container that `spec` names."""

    def __init__(self, url: str, spec: ClientSpec, prefix: str, log: RequestLog | None = None) -> None:
        self.url = url
        self._spec = spec
        self._root = f"{prefix}/" if prefix else ""
        self._prefix = prefix
        self._log = log or RequestLog()
        self._client = client_for(spec)
        self._gate = gate_for(spec.account, spec.limit, explicit=spec.is_limit_explicit)
        self._scrubber = spec.scrubber

    def __repr__(self) -> str:
        return f"RemoteStore({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles what the store is made from; the copy counts its requests by itself."""
        return RemoteStore, (self.url, self._spec, self._prefix)

    def bind(self, log: RequestLog) -> RemoteStore:
        """Returns a view of this store for one scan."""
        return RemoteStore(self.url, self._spec, self._prefix, log)

    def get(self, path: str, *, max_bytes: int | None = None) -> Fetched:
        """Reads an object, or its first `max_bytes`."""
        check_max_bytes(max_bytes)
        if max_bytes is not None:
            # An empty object has no first byte, and Azure refuses to send any range of it.
            with contextlib.suppress(ObjectTruncatedError):
                return self._read(path, 0, max_bytes, self._log.begin())
        return self._read(path, 0, None, self._log.begin())

    def get_range(self, path: str, start: int, end: int) -> Buffer:
        """Reads exactly the bytes from `start` up to `end`."""
        return self._read_exactly(path, (start, end), self._log.begin())

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Reads several ranges together, close ones in one request, the others side by side."""
        if not ranges:
            return []
        trip = self._log.begin()
        merged = merge(ranges)
        parts = [self._read_exactly(path, merged[0], trip)] if len(merged) == 1 else self._read_all(path, merged, trip)
        return split(merged, parts, ranges)

    def head(self, path: str) -> ObjectMeta:
        """Asks for an object's size, time and e_tag."""
        key = self._key(path)
        return _meta(path, self._send("head", path, lambda: obstore.head(self._client, key)))

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Page]:
        """Lists the objects below a folder, page by page."""
        return self._pages(check_folder(prefix), after)

    def put(self, path: str, data: bytes, *, overwrite: bool = False) -> ObjectMeta:
        """Writes an object whole or not at all. The answer's time is this machine's."""
        mode = "overwrite" if overwrite else "create"
        answer = self._put(path, data, len(data), mode=mode, use_multipart=False)
        return ObjectMeta(path, len(data), time.time_ns() // 1_000_000, _unquoted(answer["e_tag"]))

    def put_file(self, path: str, source: str, *, overwrite: bool = False) -> ObjectMeta:
        """Writes an object from a file on the local disk, whole or not at all.

        A large one goes up in blocks, which no store takes together with "only if there is none": so under another name
        first (`{path}.tmp-{hex}`), which is then copied and deleted. Where a store cannot copy that way either (S3), it
        is looked whether there is one, and the blocks are put together under its own name.
        """
        try:
            size = Path(source).stat().st_size
            data = Path(source).read_bytes() if size <= LARGE_FILE else None
        except OSError as error:
            msg = f"cannot write {self.url}/{path}: the file to take it from cannot be read: {error.strerror}"
            raise StorageError(msg) from error
        if data is not None:
            return self.put(path, data, overwrite=overwrite)
        if overwrite:
            self._put_blocks(path, source, size)
            return self.head(path)
        draft = f"{path}.tmp-{uuid.uuid4().hex}"
        try:
            self._put_blocks(draft, source, size)
            copied = self._copy(draft, path)
        finally:
            with contextlib.suppress(StorageError, ScanCancelledError):
                self.delete(draft)
        if not copied:
            self._put_if_absent(path, source, size)
        return self._when_whole(path, size)

    def delete(self, path: str) -> None:
        """Deletes an object, if there is one."""
        key = self._key(path)
        with contextlib.suppress(ObjectNotFoundError):
            self._send("delete", path, lambda: obstore.delete(self._client, key))

    def _key(self, path: str) -> str:
        return self._root + check_path(path)

    def _put(self, path: str, data: bytes | Path, size: int, **how: Any) -> obstore.PutResult:  # noqa: ANN401 - obstore's
        key = self._key(path)
        return self._send("put", path, lambda: obstore.put(self._client, key, data, **how), moved=size)

    def _put_blocks(self, path: str, source: str, size: int) -> None:
        block = max(_BLOCK, -(-size // _MOST_BLOCKS))
        self._put(path, Path(source), size, use_multipart=True, chunk_size=block, max_concurrency=_BLOCKS_AT_ONCE)

    def _copy(self, source: str, path: str) -> bool:
        """Copies an object to where there is none; False where the store cannot do that."""
        keys = self._key(source), self._key(path)

        def copy() -> bool:
            with contextlib.suppress(NotSupportedError, NotImplementedError):
                obstore.copy(self._client, *keys, overwrite=False)
                return True
            return False

        return self._send("put", path, copy)

    def _put_if_absent(self, path: str, source: str, size: int) -> None:
        try:
            self.head(path)
        except ObjectNotFoundError:
            self._put_blocks(path, source, size)
            return
        msg = f"cannot write {self.url}/{path}: it is already there"
        raise ObjectExistsError(msg)

    def _when_whole(self, path: str, size: int) -> ObjectMeta:
        """Waits for a copy that the store makes in its own time; until then the object is empty."""
        for wait in _COPY_WAITS:
            meta = self.head(path)
            if meta.size == size:
                return meta
            time.sleep(wait)
        msg = f"cannot write {self.url}/{path}: the store has not finished the copy; it has {meta.size} of {size} bytes"
        raise StorageError(msg)

    def _read_all(self, path: str, ranges: Sequence[tuple[int, int]], trip: int) -> Sequence[Buffer]:
        pool = ThreadPool(min(len(ranges), _PARALLEL_RANGES), "delta-sidecar-range")
        # Those that no thread is left for wait for another trip.
        at_once = min(_PARALLEL_RANGES, self._gate.limit)
        trips = [trip + number // at_once for number in range(len(ranges))]
        try:
            read = [pool.submit(self._read_exactly, path, *each) for each in zip(ranges, trips, strict=True)]
            return [each.result() for each in read]
        finally:
            pool.close(wait_for_calls=True)
            clock = current_clock()
            clock.depth = max(clock.depth, trips[-1])

    def _read_exactly(self, path: str, bounds: tuple[int, int], trip: int) -> Buffer:
        start, end = bounds
        check_range(start, end)
        if start == end:
            return b""
        fetched = self._read(path, start, end, trip)
        if len(fetched.data) != end - start:
            msg = (
                f"cannot read bytes {start} to {end} of {self.url}/{path}: it has only {fetched.size} bytes; "
                "it was replaced or cut off"
            )
            raise ObjectTruncatedError(msg)
        return fetched.data

    def _read(self, path: str, start: int, end: int | None, trip: int) -> Fetched:
        """Reads what there is of a range; a body shorter than its own headers say is asked for again."""
        key = self._key(path)

        def fetch() -> Fetched:
            answer = obstore.get(self._client, key, options=None if end is None else {"range": (start, end)})
            return Fetched(memoryview(answer.bytes()), answer.meta["size"], _unquoted(answer.meta["e_tag"]))

        for _ in range(_SHORT_BODY_TRIES):
            fetched = self._send("get", path, fetch, trip=trip)
            if len(fetched.data) == (fetched.size if end is None else min(end, fetched.size)) - start:
                return fetched
            logger.debug("short answer for %s/%s: %d bytes", self.url, path, len(fetched.data))
        msg = f"cannot read {self.url}/{path}: the store keeps sending fewer bytes than it announces"
        raise StorageError(msg)

    def _pages(self, folder: str, after: str | None) -> Iterator[Page]:
        stream: Iterator[Sequence[Mapping[str, Any]]] | None = None
        trip = 0
        start = seen = None if after is None else self._root + after
        tries = _LISTING_TRIES

        def following() -> Sequence[Mapping[str, Any]]:
            nonlocal stream
            if stream is None:
                # The folder's own `/` is left out: obstore's prefixes are folders anyway.
                folder_key = (self._root + folder).removesuffix("/") or None
                page_size = _PAGE_SIZES.get(self._spec.kind, PAGE_SIZE)
                stream = iter(obstore.list(self._client, prefix=folder_key, offset=start, chunk_size=page_size))
            return next(stream, [])

        while True:
            previous, trip = trip, self._log.begin(trip)
            try:
                page = self._send("list", folder, following, trip=trip, first=previous == 0)
            except (AuthenticationError, ObjectNotFoundError):
                raise
            except StorageError:
                # The client asks again for a request that fails, not for an answer that breaks off.
                tries -= 1
                if not tries:
                    raise
                stream, start = None, seen
                continue
            if not page:
                return
            keys = [raw["path"] for raw in page]
            # A listing that breaks off goes on after the last path. Out of order there is none, and the failure stands.
            tries = tries if keys == sorted(keys) and keys[0] > (seen or "") else 1
            seen = max(keys)
            shown = [
                _meta(key.removeprefix(self._root), raw)
                for key, raw in zip(keys, page, strict=True)
                if key > (start or "") and not is_folder_marker(key, raw["size"])
            ]
            if shown:
                yield shown

    def _send(
        self,
        kind: RequestKind,
        path: str,
        action: Callable[[], T],
        *,
        trip: int | None = None,
        moved: int = 0,
        first: bool = True,
    ) -> T:
        """Makes one request in its turn, counts it, and raises this library's errors."""
        if trip is None:
            trip = self._log.begin()
        with self._gate.slot(self._log):
            sent = True
            try:
                value = action()
                # The end of a listing is known from the page before; asking for it sends nothing.
                sent = first or value != []
                moved = len(value.data) if isinstance(value, Fetched) else moved
            except (BaseError, OSError, ValueError) as error:
                if is_interrupt(error):
                    raise KeyboardInterrupt from None
                what = f"cannot {_VERBS[kind]} {self.url}/{path}"
                failure = explain(error, what, self._scrubber, self._spec.identity)
                moved = 0
            else:
                return value
            finally:
                if sent:
                    self._log.finish(kind, trip, moved=moved)
        raise failure


def _meta(path: str, raw: Mapping[str, Any]) -> ObjectMeta:
    modified = int(raw["last_modified"].timestamp() * 1000)
    return ObjectMeta(path, raw["size"], modified, _unquoted(raw["e_tag"]))


def _unquoted(e_tag: str | None) -> str | None:
    return None if e_tag is None else e_tag.removeprefix("W/").strip('"')
