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


def stream_history(store: Store, version: int) -> Generator[dict[str, Any], None, None]:
    """Streams the `commitInfo` of each commit, with its `version`, down to the oldest that is still there.

    A commit without one has an entry with its version alone.

    Args:
        store: The table's store.
        version: The version to begin with.

    Raises:
        CorruptCommitError: A commit cannot be read.
        StorageError: It cannot be fetched.
    """
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delta-sidecar-history")
    waiting: deque[tuple[int, Future[dict[str, Any]]]] = deque()
    following, most = version, 1
    try:
        while True:
            while following >= 0 and len(waiting) < most:
                waiting.append((following, pool.submit(_commit_info, store, following)))
                following -= 1
            if not waiting:
                return
            at, asked = waiting.popleft()
            try:
                yield {**asked.result(), "version": at}
            except ObjectNotFoundError:
                # Older ones have been cleaned up.
                return
            most = min(_AT_ONCE, most * 2)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _commit_info(store: Store, version: int) -> dict[str, Any]:
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
    return found or {}


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
