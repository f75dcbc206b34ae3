"""What tests need and the environment does not have: installed once into the repository's cache."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def install_once(cache: Path, is_there: Callable[[], bool], install: Callable[[Path], None]) -> Path:
    """Fills a folder, unless it is filled already.

    Args:
        cache: The folder.
        is_there: Whether it has what is wanted.
        install: Puts that into an empty folder.

    Returns:
        The folder.
    """
    if is_there():
        return cache
    cache.parent.mkdir(parents=True, exist_ok=True)
    # Tests may run in several processes: one of them installs, the others wait.
    with (cache.parent / f"{cache.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there():
            return cache
        # Made beside the cache and moved there whole, so that an interrupted install does no harm.
        draft = Path(tempfile.mkdtemp(prefix=f"{cache.name}-", dir=cache.parent))
        try:
            install(draft)
            shutil.rmtree(cache, ignore_errors=True)
            draft.rename(cache)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return cache
