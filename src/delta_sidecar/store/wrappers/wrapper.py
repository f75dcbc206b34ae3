"""What all wrappers share: they pass requests on, and see each one before it goes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from delta_sidecar.store.interface import Buffer, Fetched, ObjectMeta, Page, Store
    from delta_sidecar.store.requests import RequestKind, RequestLog


class StoreWrapper:
    """A store that passes every request on to another one.

    Args:
        inner: The store that answers.
    """

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
