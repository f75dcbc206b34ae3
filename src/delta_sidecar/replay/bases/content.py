"""Whether Parquet files are those of a checkpoint, by their footers.

The protocol wants a protocol and a metaData action in every checkpoint, and one action in every row. A column that a
file lacks is null in it: so a part of a checkpoint may do without `add`, as long as all its rows are other actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from delta_sidecar.errors import UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from delta_sidecar.plan import FileSummary

_ADD = "add.path"
_TOP = {
    "protocol": ("protocol.minReaderVersion",),
    "metaData": ("metaData.id", "metaData.schemaString"),
}
_SIDECAR = ("sidecar.path", "sidecar.sizeInBytes")
# Of each action, the fields that it cannot be without.
_OTHERS = {
    **_TOP,
    "txn": ("txn.appId", "txn.version"),
    "remove": ("remove.path", "remove.dataChange"),
    "domainMetadata": ("domainMetadata.domain",),
    "checkpointMetadata": ("checkpointMetadata.version",),
    "sidecar": _SIDECAR,
}


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """Refuses files that are not what a checkpoint is made of.

    Attributes:
        has_top: Whether protocol and metadata must be in one of the files: not so for V2-checkpoint sidecars.
    """

    has_top: bool
    columns: ClassVar[tuple[str, ...]] = (_ADD, *(leaf for leaves in _OTHERS.values() for leaf in leaves))

    def __call__(self, files: Sequence[FileSummary]) -> None:
        """Looks at the footers of all files.

        Raises:
            UnreadableFileError: A file is no part of a checkpoint; the message says why.
        """
        for name, leaves in _TOP.items() if self.has_top else ():
            if not any(_may_have(file, leaves) for file in files):
                _refuse(files[0], f"it has no {name}")
        for file in files:
            if _ADD not in file.values and not (self.has_top and _may_have(file, _SIDECAR)):
                _check_without_add(file)


def _may_have(file: FileSummary, leaves: Iterable[str]) -> bool:
    return any(file.values[leaf] != 0 for leaf in leaves if leaf in file.values)


def _check_without_add(file: FileSummary) -> None:
    if not file.values:
        _refuse(file, "it has none of the columns of a checkpoint")
    known = sum(max(file.values.get(leaf) or 0 for leaf in leaves) for leaves in _OTHERS.values())
    if known < file.rows:
        _refuse(file, f"it has no column {_ADD}, and {file.rows - known} of its rows are no other action")


def _refuse(file: FileSummary, why: str) -> None:
    msg = f"{file.path}: {why}"
    raise UnreadableFileError(msg, file.path)
