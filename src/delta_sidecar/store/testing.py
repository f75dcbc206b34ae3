"""Stores around stores, for tests: slow ones, faulty ones, and ones that remember their requests.

They compose (`RecordingStore(LatencyStore(store, 0.02))`), and a bound view keeps its wrappers.
"""

from __future__ import annotations

import copy
import threading
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Self, TypeAlias

from msgspec.structs import replace

from delta_sidecar.errors import ObjectTruncatedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from delta_sidecar.store.accounting import RequestKind, RequestLog
    from delta_sidecar.store.interface import Buffer, Fetched, ObjectMeta, Page, Store


class StoreWrapper:
    """A store that passes every request on to another one, and sees it before it goes."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        """Shows the wrapper and what is inside of it."""
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def url(self) -> str:
        """The root's address."""
        return self.inner.url

    def bind(self, log: RequestLog) -> Self:
        """Binds the inner store; the view shares everything else with this wrapper."""
        bound = copy.copy(self)
        bound.inner = self.inner.bind(log)
        return bound

    def before(self, kind: RequestKind, path: str, start: int | None = None, end: int | None = None) -> None:
        """Is called before each request; what it raises is raised instead of an answer.

        From a listing's second page on it is called when the page has come: only then is it known that there
        is one.
        """

    def before_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Is called before ranges are read together."""
        for start, end in ranges:
            self.before("get", path, start, end)

    def get(self, path: str, *, max_bytes: int | None = None) -> Fetched:
        """Reads an object, or its first `max_bytes`."""
        self.before("get", path, 0, max_bytes)
        return self.inner.get(path, max_bytes=max_bytes)

    def get_range(self, path: str, start: int, end: int) -> Buffer:
        """Reads exactly the bytes from `start` up to `end`."""
        self.before("get", path, start, end)
        return self.inner.get_range(path, start, end)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Reads several ranges together."""
        self.before_ranges(path, ranges)
        return self.inner.get_ranges(path, ranges)

    def head(self, path: str) -> ObjectMeta:
        """Asks for an object's size, time and e_tag."""
        self.before("head", path)
        return self.inner.head(path)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Page]:
        """Lists the objects below a folder, page by page."""
        self.before("list", prefix)
        for number, page in enumerate(self.inner.list(prefix, after=after)):
            if number:
                self.before("list", prefix)
            yield page

    def put(self, path: str, data: bytes, *, overwrite: bool = False) -> ObjectMeta:
        """Writes an object whole or not at all."""
        self.before("put", path)
        return self.inner.put(path, data, overwrite=overwrite)

    def put_file(self, path: str, source: str, *, overwrite: bool = False) -> ObjectMeta:
        """Writes an object from a file on the local disk."""
        self.before("put", path)
        return self.inner.put_file(path, source, overwrite=overwrite)

    def delete(self, path: str) -> None:
        """Deletes an object, if there is one."""
        self.before("delete", path)
        self.inner.delete(path)


class LatencyStore(StoreWrapper):
    """A store whose every answer takes some seconds longer. Ranges that are read together wait once."""

    def __init__(self, inner: Store, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__(inner)
        self.seconds = seconds
        self._sleep = sleep

    def before(self, *_request: object, **_range: object) -> None:
        """Waits."""
        self._sleep(self.seconds)

    def before_ranges(self, *_ranges: object, **_named: object) -> None:
        """Waits once for all of them."""
        self._sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class Fail:
    """Some requests raise an error."""

    path: str = "*"  # the pattern of the paths concerned, as in `fnmatch`; a listing's path is its prefix
    kind: RequestKind | None = None  # None for any
    error: Exception = field(default_factory=lambda: StorageError("injected: 500 internal server error"))
    first: int = 1  # the number of the first request to fail, counted from one
    times: int | None = None  # the number of requests that fail; None for all that follow


@dataclass(frozen=True, slots=True)
class Truncate:
    """Objects look as if writing them had stopped after `keep` bytes; reads, heads and listings agree."""

    path: str
    keep: int


@dataclass(frozen=True, slots=True)
class Hide:
    """A stale listing: it does not show these objects yet, though they can be read."""

    path: str


@dataclass(frozen=True, slots=True)
class IgnoreOffset:
    """Listings show everything below the folder, even when they are asked to start after a path."""


@dataclass(frozen=True, slots=True)
class EmptyAfterOffset:
    """Listings that are asked to start after a path show nothing."""


Rule: TypeAlias = Fail | Truncate | Hide | IgnoreOffset | EmptyAfterOffset


class FaultStore(StoreWrapper):
    """A store that fails in the ways real ones do, by rules. Requests are counted over all its bound views."""

    def __init__(self, inner: Store, *rules: Rule) -> None:
        super().__init__(inner)
        self.rules = rules
        self._seen = _Counter(len(rules))

    def before(self, kind: RequestKind, path: str, *_range: object, **_named: object) -> None:
        """Raises the error of a rule."""
        for index, rule in enumerate(self.rules):
            if not isinstance(rule, Fail) or rule.kind not in {None, kind} or not fnmatchcase(path, rule.path):
                continue
            number = self._seen.count(index) - rule.first
            if number >= 0 and (rule.times is None or number < rule.times):
                raise rule.error

    def get(self, path: str, *, max_bytes: int | None = None) -> Fetched:
        """Reads what is left of an object."""
        fetched = super().get(path, max_bytes=max_bytes)
        keep = self._keep(path, fetched.size)
        return replace(fetched, data=fetched.data[:keep], size=keep)

    def get_range(self, path: str, start: int, end: int) -> Buffer:
        """Reads a range of what is left of an object."""
        self._check_end(path, end)
        return super().get_range(path, start, end)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Reads ranges of what is left of an object."""
        self._check_end(path, max((end for _, end in ranges), default=0))
        return super().get_ranges(path, ranges)

    def head(self, path: str) -> ObjectMeta:
        """Asks for the size of what is left of an object."""
        return self._cut(super().head(path))

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Page]:
        """Lists what the rules leave to see."""
        if IgnoreOffset() in self.rules:
            after = None
        for page in super().list(prefix, after=after):
            if after is None or EmptyAfterOffset() not in self.rules:
                yield [self._cut(meta) for meta in page if not self._hidden(meta.path)]

    def _hidden(self, path: str) -> bool:
        return any(isinstance(rule, Hide) and fnmatchcase(path, rule.path) for rule in self.rules)

    def _keep(self, path: str, size: int) -> int:
        cuts = (rule.keep for rule in self.rules if isinstance(rule, Truncate) and fnmatchcase(path, rule.path))
        return min(cuts, default=size)

    def _cut(self, meta: ObjectMeta) -> ObjectMeta:
        return replace(meta, size=min(meta.size, self._keep(meta.path, meta.size)))

    def _check_end(self, path: str, end: int) -> None:
        keep = self._keep(path, end)
        if keep < end:
            self.before("get", path, 0, end)
            msg = f"cannot read up to byte {end} of {self.url}/{path}: it ends at {keep}"
            raise ObjectTruncatedError(msg)


class _Counter:
    """Counts the requests that each rule has seen; a pickled one starts anew."""

    def __init__(self, rules: int) -> None:
        self._counts = [0] * rules
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_Counter], tuple[int]]:
        return _Counter, (len(self._counts),)

    def count(self, index: int) -> int:
        with self._lock:
            self._counts[index] += 1
            return self._counts[index]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request as it was asked for, answered or not."""

    kind: RequestKind
    path: str
    start: int | None = None
    end: int | None = None


class RecordingStore(StoreWrapper):
    """A store that remembers every request, over all its bound views.

    `hook` is called before each request, in the thread that makes it; it may wait, or raise.
    """

    def __init__(self, inner: Store, hook: Callable[[Attempt], None] | None = None) -> None:
        super().__init__(inner)
        self.attempts: list[Attempt] = []
        self._hook = hook
        self._lock = threading.Lock()

    def before(self, kind: RequestKind, path: str, start: int | None = None, end: int | None = None) -> None:
        """Remembers the request and calls the hook."""
        attempt = Attempt(kind, path, start, end)
        with self._lock:
            self.attempts.append(attempt)
        if self._hook is not None:
            self._hook(attempt)

    def paths(self, kind: RequestKind) -> list[str]:
        """Returns the paths of the requests of one kind, in order."""
        with self._lock:
            return [attempt.path for attempt in self.attempts if attempt.kind == kind]
