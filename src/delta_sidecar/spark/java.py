"""A Java for Spark."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def java_for_spark() -> Iterator[None]:
    """Has the process find a Java that runs Spark, while Spark is started."""
    yield
