"""What the commits of a table say of themselves, newest first."""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import CorruptCommitError, ObjectNotFoundError
from delta_sidecar.log.names import commit_path

if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import Future

    from delta_sidecar.store import Store

_BEGINNING = 64 << 10
_AT_ONCE = 10


def stream_history(store: Store, version: int, limit: int | None = None) -> Generator[dict[str, Any], None, None]:
    """Streams the `commitInfo` of commits, each with its `version`, down to the oldest commit that is still there.

    A commit without one is passed over.

    Args:
        store: The table's store.
        version: The version to begin with.
        limit: At most so many; None for all.

    Raises:
        CorruptCommitError: A commit cannot be read.
        StorageError: It cannot be fetched.
    """
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delta-sidecar-history")
    waiting: deque[tuple[int, Future[dict[str, Any] | None]]] = deque()
    following, most, left = version, 1, limit
    try:
        while left is None or left > 0:
            while following >= 0 and len(waiting) < (most if left is None else min(most, left)):
                waiting.append((following, pool.submit(_commit_info, store, following)))
                following -= 1
            if not waiting:
                return
            at, asked = waiting.popleft()
            try:
                info = asked.result()
            except ObjectNotFoundError:
                # Older ones have been cleaned up.
                return
            if info is not None:
                yield {**info, "version": at}
                left = None if left is None else left - 1
            most = min(_AT_ONCE, most * 2)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _commit_info(store: Store, version: int) -> dict[str, Any] | None:
    path = commit_path(version)
    first = store.get(path, max_bytes=_BEGINNING)
    data = bytes(first.data)
    is_whole = len(data) >= first.size
    found = _info_in(data if is_whole else data[: data.rfind(b"\n") + 1], path, version)
    if found is None and not is_whole:
        # Some writers put it last.
        end = bytes(store.get_range(path, max(0, first.size - _BEGINNING), first.size))
        found = _info_in(end[end.find(b"\n") + 1 :], path, version)
        if found is None:
            found = _info_in(bytes(store.get(path).data), path, version)
    return found


def _info_in(lines: bytes, path: str, version: int) -> dict[str, Any] | None:
    for line in lines.splitlines():
        if b'"commitInfo"' not in line:
            continue
        try:
            action = json.loads(line)
        except (ValueError, RecursionError) as error:
            msg = f"{path} cannot be read: {error}"
            raise CorruptCommitError(msg, version) from error
        if isinstance(action, dict) and isinstance(action.get("commitInfo"), dict):
            return dict(action["commitInfo"])
    return None
