"""Where data files and deletion vectors are: below the table's own folder, or elsewhere where that is allowed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta_sidecar.errors import OptionError, UnreadableFileError
from delta_sidecar.log.paths import is_absolute
from delta_sidecar.store import open_store
from delta_sidecar.store.address import Address, parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.store import RequestLog, Store, TokenCredential


@dataclass(frozen=True, slots=True)
class Access:
    """How files of a table are reached.

    Attributes:
        store: The table's own store.
        storage_options: What it was opened with, for other places.
        credential: Likewise.
        allow_external_paths: Whether files outside of the table's folder may be opened.
    """

    store: Store
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    credential: TokenCredential | None = field(default=None, repr=False)
    allow_external_paths: bool = False


class Places:
    """Finds the store and the path of files, for one scan.

    Args:
        access: How files are reached.
        requests: Is told of all requests.
    """

    def __init__(self, access: Access, requests: RequestLog) -> None:
        self._access = access
        self._requests = requests
        self._own = access.store.bind(requests)
        self._others: dict[tuple[str, str, str | None], Store] = {}
        self._lock = threading.Lock()

    def find(self, path: str) -> tuple[Store, str]:
        """The store that a file is in, and its path there.

        Args:
            path: Decoded, relative to the table or absolute.

        Raises:
            UnreadableFileError: It is outside of the table's folder, and that is not allowed.
        """
        if not is_absolute(path):
            return self._own, path
        there, here = _address(path), parse_address(self._access.store.url)
        if _is_same_store(here, there):
            root = here.prefix.rstrip("/") + "/"
            if there.prefix.startswith(root) or not here.prefix:
                return self._own, there.prefix.removeprefix(root).lstrip("/")
        if not self._access.allow_external_paths:
            msg = (
                f"{there.url} is outside of the table {self._access.store.url}: it is not opened unless the option "
                "allow_external_paths is set"
            )
            raise UnreadableFileError(msg, path)
        return self._other(there)

    def _other(self, there: Address) -> tuple[Store, str]:
        folder, _, name = there.prefix.rpartition("/")
        key = (there.kind, f"{there.container}/{folder}", there.account)
        with self._lock:
            store = self._others.get(key)
            if store is None:
                url = there.url.removesuffix(name).rstrip("/") or "/"
                access = self._access
                credential = access.credential if there.kind == "azure" else None
                opened = open_store(url, access.storage_options, credential=credential)
                store = self._others[key] = opened.bind(self._requests)
        return store, name


def _address(path: str) -> Address:
    try:
        return parse_address(path)
    except OptionError as error:
        msg = f"a file of the table has a path that cannot be used: {error}"
        raise UnreadableFileError(msg, path) from error


def _is_same_store(here: Address, there: Address) -> bool:
    if here.kind != there.kind or here.container != there.container:
        return False
    return here.account is None or there.account is None or here.account == there.account
