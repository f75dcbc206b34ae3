"""A store that fails in the ways real ones do, on purpose."""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from delta_sidecar.errors import ObjectTruncatedError, StorageError
from delta_sidecar.store.wrappers.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from delta_sidecar.store.interface import Buffer, Fetched, ObjectMeta, Page, Store
    from delta_sidecar.store.requests import RequestKind


@dataclass(frozen=True, slots=True)
class Fail:
    """Some requests raise an error.

    Attributes:
        path: The pattern of the paths concerned, as in `fnmatch`; a listing's path is its prefix.
        kind: The kind of request; None for any.
        error: What is raised.
        first: Which of these requests is the first to fail, counted from one.
        times: How many fail; None for all that follow.
    """

    path: str = "*"
    kind: RequestKind | None = None
    error: Exception = field(default_factory=lambda: StorageError("injected: 500 internal server error"))
    first: int = 1
    times: int | None = None


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
    """Listings show everything below the folder, whatever they are asked to start after."""


@dataclass(frozen=True, slots=True)
class EmptyAfterOffset:
    """Listings that are asked to start somewhere show nothing."""


Rule: TypeAlias = Fail | Truncate | Hide | IgnoreOffset | EmptyAfterOffset


class FaultStore(StoreWrapper):
    """A store with faults. Requests are counted over all its bound views.

    Args:
        inner: The store that answers.
        rules: What goes wrong.
    """

    def __init__(self, inner: Store, *rules: Rule) -> None:
        super().__init__(inner)
        self.rules = rules
        self._seen = _Counter(len(rules))

    def before(self, kind: RequestKind, path: str, start: int | None = None, end: int | None = None) -> None:  # noqa: ARG002
        """Raises what a rule says."""
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
        return dataclasses.replace(fetched, data=fetched.data[:keep], size=keep)

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
        if after is not None and self._has(IgnoreOffset):
            after = None
        for page in super().list(prefix, after=after):
            if after is None or not self._has(EmptyAfterOffset):
                yield [self._cut(meta) for meta in page if not self._hidden(meta.path)]

    def _has(self, kind: type[IgnoreOffset | EmptyAfterOffset]) -> bool:
        return any(isinstance(rule, kind) for rule in self.rules)

    def _hidden(self, path: str) -> bool:
        return any(isinstance(rule, Hide) and fnmatchcase(path, rule.path) for rule in self.rules)

    def _keep(self, path: str, size: int) -> int:
        cuts = (rule.keep for rule in self.rules if isinstance(rule, Truncate) and fnmatchcase(path, rule.path))
        return min(cuts, default=size)

    def _cut(self, meta: ObjectMeta) -> ObjectMeta:
        return dataclasses.replace(meta, size=min(meta.size, self._keep(meta.path, meta.size)))

    def _check_end(self, path: str, end: int) -> None:
        keep = self._keep(path, end)
        if keep < end:
            self.before("get", path, 0, end)
            msg = f"cannot read up to byte {end} of {self.url}/{path}: it ends at {keep}"
            raise ObjectTruncatedError(msg)


class _Counter:
    """Counts the requests that each rule has seen."""

    def __init__(self, rules: int) -> None:
        self._counts = [0] * rules
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_Counter], tuple[int]]:
        return _Counter, (len(self._counts),)

    def count(self, index: int) -> int:
        with self._lock:
            self._counts[index] += 1
            return self._counts[index]
