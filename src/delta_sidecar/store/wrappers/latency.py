"""A store that is far away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from delta_sidecar.store.wrappers.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from delta_sidecar.store.interface import Store
    from delta_sidecar.store.requests import RequestKind


class LatencyStore(StoreWrapper):
    """A store whose every answer takes longer. Ranges that are read together wait once.

    Args:
        inner: The store that answers.
        seconds: How much longer.
        sleep: What waits.
    """

    def __init__(self, inner: Store, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__(inner)
        self.seconds = seconds
        self._sleep = sleep

    def before(
        self,
        kind: RequestKind,  # noqa: ARG002 - all requests are alike
        path: str,  # noqa: ARG002
        start: int | None = None,  # noqa: ARG002
        end: int | None = None,  # noqa: ARG002
    ) -> None:
        """Waits."""
        self._sleep(self.seconds)

    def before_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> None:  # noqa: ARG002 - as above
        """Waits once for all of them."""
        self._sleep(self.seconds)
