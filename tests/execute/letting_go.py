"""A stream that sees whether its items are let go of."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE = 10
"""Seconds after which an item counts as held."""


class Item:
    """Something that can be watched."""


class WatchedItems:
    """Makes a few items, each once the one before it is held by nobody any more, or patience has ended.

    Attributes:
        let_go: Item by item, whether that was so.
    """

    def __init__(self) -> None:
        self.let_go: list[bool] = []

    def __call__(self) -> Iterator[Item]:
        for _ in range(3):
            gone = threading.Event()
            yield _watched(gone)
            self.let_go.append(gone.wait(_PATIENCE))


def _watched(gone: threading.Event) -> Item:
    item = Item()
    weakref.finalize(item, gone.set)
    return item
