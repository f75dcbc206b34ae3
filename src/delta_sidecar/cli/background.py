"""Work on a JVM, done apart from the main thread.

Python takes Ctrl-C in its main thread alone. A main thread that waits for an answer of the JVM would take it in the
middle of Py4J, which tells of that at length; and a Spark that is started there takes Ctrl-C for itself.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def in_background(work: Callable[[], T]) -> T:
    """Does work in a thread of its own, and waits for it.

    Raises:
        KeyboardInterrupt: It was interrupted. The work goes on until the process ends, which does not wait for it.
        Exception: What the work raised.
    """
    pool = ThreadPoolExecutor(1, "delta-sidecar-work")
    try:
        return pool.submit(work).result()
    finally:
        pool.shutdown(wait=False)
