"""The places of data files and deletion vectors: below the table's own folder, or elsewhere where that is allowed."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta_sidecar.errors import OptionError, StorageError, UnreadableFileError
from delta_sidecar.log.identity import is_absolute
from delta_sidecar.store import open_store
from delta_sidecar.store.address import Address, parse_address
from delta_sidecar.store.redaction import redact_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.store import RequestLog, Store, TokenCredential


@dataclass(frozen=True, slots=True)
class TableAccess:
    """The access to files of a table: its own store, and what that was opened with, for other places."""

    store: Store
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    credential: TokenCredential | None = field(default=None, repr=False)
    allow_external_paths: bool = False  # files outside of the table's folder may be opened


class Places:
    """Finds the store and the path of files, for one scan, whose requests it counts."""

    def __init__(self, access: TableAccess, requests: RequestLog) -> None:
        self._access = access
        self._requests = requests
        self._own = access.store.bind(requests)
        self._others: dict[tuple[str, str, str | None], Store] = {}
        self._lock = threading.Lock()

    def find(self, path: str) -> tuple[Store, str]:
        """The store of a file by its decoded path, relative to the table or absolute, and its path there.

        Raises:
            UnreadableFileError: It is outside of the table's folder, and that is not allowed, or cannot be used.
        """
        if not is_absolute(path):
            return self._own, path
        there, here = _address(path), _address(self._access.store.url)
        if _account(here) == _account(there):
            root = here.prefix.rstrip("/") + "/" if here.prefix else ""
            prefix = there.prefix
            if there.kind == "local" and not prefix.startswith(root):
                # The log may name the files of a local table by a link to its folder.
                prefix = os.path.realpath(prefix)
            if prefix.startswith(root):
                return self._own, prefix.removeprefix(root).lstrip("/")
        if not self._access.allow_external_paths:
            msg = (
                f"{there.url} is outside of the table {self._access.store.url}: it is not opened unless the option "
                "allow_external_paths is set"
            )
            raise UnreadableFileError(msg, shown(path))
        return self._other(there), there.prefix.lstrip("/")

    def _other(self, there: Address) -> Store:
        """The store of a whole container, or of the whole disk: one, however many folders there are."""
        with self._lock:
            if _account(there) in self._others:
                return self._others[_account(there)]
            if there.url.startswith(_WEB):
                msg = (
                    f"{there.url} is an address of the web: the table's credentials are not sent wherever its log says"
                )
                raise UnreadableFileError(msg, there.url)
            credential = self._access.credential if there.kind == "azure" else None
            root = there.url.removesuffix(there.prefix).rstrip("/") or "/"
            try:
                store = open_store(root, self._access.storage_options, credential=credential)
            except (OptionError, StorageError) as error:
                msg = f"{there.url} cannot be opened as the table is: {error}"
                raise UnreadableFileError(msg, there.url) from error
            return self._others.setdefault(_account(there), store.bind(self._requests))


def shown(path: str) -> str:
    """A file's path for a message: an absolute one may have been written with a signature or a password in it."""
    return redact_address(path) if is_absolute(path) else path


_FILE = re.compile(r"^file:(?://(?:localhost)?)?/")
_WEB = ("http://", "https://")


def _address(path: str) -> Address:
    """The address of an absolute path, which is decoded already: no sign in it stands for another one."""
    local = _FILE.sub("/", path)
    if not local.startswith("/"):
        local = path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    try:
        found = parse_address(local)
    except OptionError as error:
        msg = f"a file of the table has a path that cannot be used: {error}"
        raise UnreadableFileError(msg, shown(path)) from error
    if ".." in found.prefix.split("/"):
        msg = f"{found.url} leads back (..): such a path is not opened"
        raise UnreadableFileError(msg, shown(path))
    return found


def _account(address: Address) -> tuple[str, str, str | None]:
    return address.kind, address.container, address.account
