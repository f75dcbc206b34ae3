"""The interface of an object store.

Every path is relative to the table's root, separated by `/`, in raw characters: never URL-encoded, so a path
read from a listing can be handed straight back.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from delta_sidecar.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from delta_sidecar.store.accounting import RequestLog


Buffer: TypeAlias = memoryview | bytes
"""Bytes that Arrow can wrap without a copy."""

PAGE_SIZE = 5000
"""The most objects in one page of a listing: what Azure sends in one answer."""


class ObjectMeta(Struct, frozen=True):
    """One object of a store."""

    path: str
    size: int
    last_modified: int  # in milliseconds since the epoch
    e_tag: str | None  # identifies the contents, never in quotes; None where the store has none


Page: TypeAlias = list[ObjectMeta]
"""One page of a listing."""


class Fetched(Struct, frozen=True):
    """The answer to a read of an object from its start: all of it, or as many bytes as were asked for."""

    data: Buffer
    size: int  # of the whole object
    e_tag: str | None  # as in `ObjectMeta`


class Store(Protocol):
    """A table's root folder in an object store.

    A missing object raises `ObjectNotFoundError`, refused credentials `AuthenticationError`, anything else
    that goes wrong `StorageError`. Stores are used by many threads at once, and pickle.
    """

    @property
    def url(self) -> str:
        """The root's address for messages: no secrets in it, no `/` at its end."""

    def get(self, path: str, *, max_bytes: int | None = None) -> Fetched:
        """Reads an object, or its first `max_bytes` (at least one)."""

    def get_range(self, path: str, start: int, end: int) -> Buffer:
        """Reads exactly the bytes from `start` up to `end`; an object that ends earlier is an error."""

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Reads several ranges together, in one dependent trip. Ranges that lie close may share a request."""

    def head(self, path: str) -> ObjectMeta:
        """Asks for an object's size, time and e_tag."""

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Page]:
        """Lists the objects below a folder (empty for the root) whose paths sort after `after`, page by page.

        The next page is requested when it is asked for. Pages and what is in them come in no particular order. A
        missing folder is empty. Folder markers, as Hadoop leaves them (no bytes and no extension), are left out.
        """

    def put(self, path: str, data: bytes, *, overwrite: bool = False) -> ObjectMeta:
        """Writes an object whole or not at all.

        Raises:
            ObjectExistsError: There is one already, and `overwrite` was not set.
        """

    def put_file(self, path: str, source: str, *, overwrite: bool = False) -> ObjectMeta:
        """Writes an object from a local file, as `put` does, but without ever having all of it in memory."""

    def delete(self, path: str) -> None:
        """Deletes an object; that there is none is no error, for not every store tells."""

    def bind(self, log: RequestLog) -> Store:
        """Returns a view of this store for one scan.

        Its requests are counted in `log`, wait for their turn as one scan and are refused once `log` is
        cancelled.
        """


@runtime_checkable
class TokenCredential(Protocol):
    """A source of tokens: the protocol that azure-identity's credentials follow."""

    def get_token(self, *scopes: str, **kwargs: Any) -> Any:  # noqa: ANN401 - `kwargs` are the credential's own
        """Gives an object with a `token` and with `expires_on`, in seconds since the epoch."""


def check_path(path: str) -> str:
    """Returns a path that stays below the root; one that is empty or has empty, `.` or `..` segments does not."""
    if any(segment in {"", ".", ".."} for segment in path.split("/")):
        msg = f"not a path below the table's root: {path!r}"
        raise StorageError(msg)
    return path


def check_folder(prefix: str) -> str:
    """Returns a listing prefix as a folder: empty, or ending in one `/`."""
    folder = prefix.removesuffix("/")
    return check_path(folder) + "/" if folder else ""


def is_folder_marker(path: str, size: int) -> bool:
    """True if an object only marks a folder: it has no bytes, and its name has no extension."""
    return size == 0 and "." not in path.rsplit("/", 1)[-1]


# Byte ranges of one object: close ones are read together.


CLOSE = 256 * 1024
"""Ranges this near to each other share a request: reading the gap is quicker than asking again."""


def check_range(start: int, end: int) -> None:
    """Raises `ValueError` for a range that starts before the object, or ends before it starts."""
    if not 0 <= start <= end:
        msg = f"not a range of bytes: {start} to {end}"
        raise ValueError(msg)


def check_max_bytes(max_bytes: int | None) -> None:
    """Raises `ValueError` for a number of bytes that is not positive."""
    if max_bytes is not None and max_bytes < 1:
        msg = f"max_bytes must be positive: {max_bytes}"
        raise ValueError(msg)


def merge(ranges: Sequence[tuple[int, int]], close: int = CLOSE) -> list[tuple[int, int]]:
    """Returns the fewest ranges that cover all of these, reading over gaps of up to `close` bytes."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        check_range(start, end)
        if merged and start - merged[-1][1] <= close:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def split(
    merged: Sequence[tuple[int, int]], parts: Sequence[Buffer], ranges: Sequence[tuple[int, int]]
) -> list[Buffer]:
    """Cuts the bytes of merged ranges into the ranges that were asked for, without copying."""
    firsts = [first for first, _ in merged]
    answers: list[Buffer] = []
    for start, end in ranges:
        at = bisect_right(firsts, start) - 1
        answers.append(memoryview(parts[at])[start - firsts[at] : end - firsts[at]])
    return answers
