"""Stores that fail as they are told to, in this process and on executors."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import StorageError

if TYPE_CHECKING:
    from delta_sidecar.store import Store
    from delta_sidecar.store.accounting import RequestLog
    from delta_sidecar.store.interface import ObjectMeta


@dataclass(frozen=True)
class FaultyStore:
    """A store whose puts are counted in a folder, so that every process counts together, and which can fail.

    Attributes:
        inner: The store.
        notes: An empty folder.
        failing: Numbers of the puts that fail, from 0.
        sent: Whether what a failing put sends arrives all the same.
    """

    inner: Store
    notes: str
    failing: range = range(0)
    sent: bool = False

    @property
    def puts(self) -> list[str]:
        """What was put, in order."""
        return [note.partition(" ")[2] for note in self._all()]

    @property
    def processes(self) -> list[int]:
        """Which process put it."""
        return [int(note.partition(" ")[0]) for note in self._all()]

    def put(self, path: str, data: bytes, *, overwrite: bool = False) -> ObjectMeta:
        return self._put(path, lambda: self.inner.put(path, data, overwrite=overwrite))

    def put_file(self, path: str, source: str, *, overwrite: bool = False) -> ObjectMeta:
        return self._put(path, lambda: self.inner.put_file(path, source, overwrite=overwrite))

    def bind(self, log: RequestLog) -> FaultyStore:
        return FaultyStore(self.inner.bind(log), self.notes, self.failing, self.sent)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _put(self, path: str, send: Any) -> ObjectMeta:  # noqa: ANN401
        number = self._noted(path)
        if number not in self.failing:
            found: ObjectMeta = send()
            return found
        if self.sent:
            send()
        msg = f"put {number} was cut off"
        raise StorageError(msg)

    def _all(self) -> list[str]:
        return [path.read_text(encoding="utf-8") for path in sorted(Path(self.notes).iterdir())]

    def _noted(self, path: str) -> int:
        number = 0
        while True:
            try:
                with (Path(self.notes) / f"{number:05}").open("x", encoding="utf-8") as file:
                    file.write(f"{os.getpid()} {path}")
            except FileExistsError:
                number += 1
            else:
                return number


@dataclass(frozen=True)
class SecretStore:
    """A store with a credential that travels with it, in the clear."""

    inner: Store
    secret: str = field(repr=False)

    def bind(self, log: RequestLog) -> SecretStore:
        return SecretStore(self.inner.bind(log), self.secret)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        if name in {"inner", "secret"} or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)
