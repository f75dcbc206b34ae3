"""The store of a table that only deltalake can reach."""

from __future__ import annotations

from typing import NoReturn

from delta_sidecar.errors import OptionError


class UnreachableStore:
    """Stands for a store where none can be opened: whatever is asked of it is refused, with what to do instead.

    Args:
        url: The table's address for messages, without secrets.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        msg = (
            f"{self.url} can be reached by deltalake alone. What goes through to it works: version, load_as_version, "
            "delete, update, merge, optimize, vacuum, alter, restore, load_cdf, create_checkpoint and others; "
            "as_deltalake() gives the table that reads there"
        )
        raise OptionError(msg)
