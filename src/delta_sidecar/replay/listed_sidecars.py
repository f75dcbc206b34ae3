"""Which metadata sidecars a listing offers as bases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.sidecar.names import SidecarFileKind, manifest_name, parse_sidecar_name, sidecar_name

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_TAIL = 1_000
"""A metadata sidecar with more commits after it is no base: a checkpoint is closer."""

_MOST_TRIED = 4


@dataclass(frozen=True, slots=True)
class ListedSidecar:
    """A metadata sidecar, as a listing shows it.

    Attributes:
        version: The version whose state it holds.
        tier: 1 for one with a manifest, 2 for one file that is read by its footer.
    """

    version: int
    tier: int

    @property
    def name(self) -> str:
        """Name of the file that is read first."""
        return manifest_name(self.version) if self.tier == 1 else sidecar_name(self.version)


def listed_sidecars(names: Iterable[str], version: int, excluded: frozenset[str] = frozenset()) -> list[ListedSidecar]:
    """The metadata sidecars that can be a base of a version, the best one first: not too many, not too old.

    Args:
        names: What is in the folder of sidecars.
        version: The version to read.
        excluded: Names of those that proved unusable.
    """
    found = set()
    for name in names:
        parsed = parse_sidecar_name(name)
        if parsed is None or name in excluded or not version - MOST_TAIL <= parsed.version <= version:
            continue
        if parsed.kind is SidecarFileKind.MANIFEST:
            found.add(ListedSidecar(parsed.version, 1))
        elif parsed.kind is SidecarFileKind.DATA:
            found.add(ListedSidecar(parsed.version, 2))
    newest = sorted({sidecar.version for sidecar in found}, reverse=True)[:_MOST_TRIED]
    ordered = sorted(found, key=lambda sidecar: (-sidecar.version, sidecar.tier))
    return [sidecar for sidecar in ordered if sidecar.version in newest]
