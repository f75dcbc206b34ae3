"""What a listing of a log shows of metadata sidecars, and of what could need a file beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER, LogFileKind, parse_log_name
from delta_sidecar.plan import FileRef
from delta_sidecar.sidecar.names import HIGHEST_VERSION, SidecarFileKind, parse_sidecar_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from delta_sidecar.store import ObjectMeta

MOST_STRANGERS = 10_000
"""Names of other files of the folder that are remembered; more are counted."""

_TEMPORARY = re.compile(r"(?P<target>v(?P<version>0|[1-9][0-9]{0,18})\.[a-z0-9.-]+)\.tmp-[0-9a-f]{1,64}")
_CHECKPOINTS = (LogFileKind.CHECKPOINT, LogFileKind.CHECKPOINT_PART, LogFileKind.V2_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file of `_delta_log/_sidecars/` whose name is one of ours. That does not prove that it is ours.

    Attributes:
        name: Its name.
        kind: What it is, by its name; None for a temporary file.
        version: The version in its name.
        build: The build in its name; None where there is none.
        size: In bytes.
        last_modified: When it was written, by the store, in milliseconds since the epoch.
    """

    name: str
    kind: SidecarFileKind | None
    version: int
    build: str | None
    size: int
    last_modified: int

    @property
    def path(self) -> str:
        """Where it is, relative to the table."""
        return SIDECAR_FOLDER + self.name

    @property
    def is_data(self) -> bool:
        """Whether a checkpoint could refer to a file of such a name: it is no JSON."""
        return self.kind not in {SidecarFileKind.MANIFEST, SidecarFileKind.SEGMENTS}


@dataclass(slots=True)
class LogInventory:
    """Collects a listing of a log, page by page. Of commits only numbers are kept.

    Attributes:
        ours: The files with names of ours, by name.
        strangers: Sizes of the first other files of the folder, by name.
        more_strangers: How many there are beyond those.
        checkpoints: Every file of a checkpoint.
        latest: The newest version with a commit or a file of a checkpoint; -1 without any.
        newest_time: When the newest file of the log was written, by the store.
    """

    ours: dict[str, FolderFile] = field(default_factory=dict)
    strangers: dict[str, int] = field(default_factory=dict)
    more_strangers: int = 0
    checkpoints: list[FileRef] = field(default_factory=list)
    latest: int = -1
    newest_time: int = 0

    def add_all(self, page: Iterable[ObjectMeta]) -> None:
        """Takes a page of the listing."""
        for meta in page:
            self.newest_time = max(self.newest_time, meta.last_modified)
            if meta.path.startswith(SIDECAR_FOLDER):
                self._add_to_folder(meta)
            elif meta.path.startswith(LOG_FOLDER):
                self._add_to_log(meta)

    def of_kind(self, kind: SidecarFileKind) -> Iterator[FolderFile]:
        """The files of a kind, those of the newest version first."""
        found = (file for file in self.ours.values() if file.kind is kind)
        return iter(sorted(found, key=lambda file: (-file.version, file.name)))

    def _add_to_log(self, meta: ObjectMeta) -> None:
        name = parse_log_name(meta.path)
        if name is None or name.version > HIGHEST_VERSION:
            return
        if name.kind in _CHECKPOINTS:
            self.checkpoints.append(FileRef(meta.path, meta.size, len(self.checkpoints), meta.e_tag))
        if name.kind is LogFileKind.COMMIT or name.kind in _CHECKPOINTS:
            self.latest = max(self.latest, name.version)

    def _add_to_folder(self, meta: ObjectMeta) -> None:
        name = meta.path.removeprefix(SIDECAR_FOLDER)
        file = _folder_file(name, meta)
        if file is not None:
            self.ours[name] = file
        elif len(self.strangers) < MOST_STRANGERS:
            self.strangers[name] = meta.size
        else:
            self.more_strangers += 1


def _folder_file(name: str, meta: ObjectMeta) -> FolderFile | None:
    found = parse_sidecar_name(name)
    if found is not None:
        return FolderFile(name, found.kind, found.version, found.build, meta.size, meta.last_modified)
    temporary = _TEMPORARY.fullmatch(name)
    if temporary is None or int(temporary["version"]) > HIGHEST_VERSION:
        return None
    target = parse_sidecar_name(temporary["target"])
    build = None if target is None else target.build
    return FolderFile(name, None, int(temporary["version"]), build, meta.size, meta.last_modified)
