"""The names of metadata sidecars in `_delta_log/_sidecars/`, and the names of the columns inside.

    v12.parquet                    the metadata sidecar of version 12
    v12.manifest.json              what is where in it
    v12.{build}.00003-0.parquet    a data file of a rebuild or of a build in parts: part 3, first attempt
    v12.segments.json              the second level of a large manifest
    v12.{build}.segments.json      the same of a rebuild or of a build in parts

A column of the table is named by its *physical* path, the parts joined by dots. A part that is empty or has a dot or a
back-quote in it stands in back-quotes, with the back-quotes inside doubled: `a.b`, `` a.`b.c` ``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from delta_sidecar.log.schema import ColumnPath

HIGHEST_VERSION = 2**63 - 1

TEMPORARY_NAME = re.compile(r"(?P<target>v(?P<version>0|[1-9][0-9]{0,18})\.[a-z0-9.-]+)\.tmp-[0-9a-f]{1,64}")
"""A draft of a file, which some stores write first."""


class SidecarFileKind(Enum):
    """The kinds of files of a metadata sidecar."""

    DATA = "data"
    PART = "part"
    MANIFEST = "manifest"
    SEGMENTS = "segments"


@dataclass(frozen=True, slots=True)
class SidecarName:
    """A file name of ours, taken apart. Part and attempt are 0 for other kinds than parts."""

    kind: SidecarFileKind
    version: int  # of the table
    build: str | None = None  # None for the first one, which needs no name
    part: int = 0
    attempt: int = 0


def sidecar_name(version: int) -> str:
    """The name of the metadata sidecar of a version."""
    return f"v{_checked(version)}.parquet"


def manifest_name(version: int) -> str:
    """The name of the manifest of a version."""
    return f"v{_checked(version)}.manifest.json"


def part_name(version: int, build: str, part: int, attempt: int) -> str:
    """The name of one data file of a build that has a name.

    Raises:
        ValueError: The build's name is not 1 to 32 small letters and digits, or a number is out of range.
    """
    return _own(f"v{_checked(version)}.{build}.{part:05}-{attempt}.parquet")


def segments_name(version: int, build: str | None = None) -> str:
    """The name of the second level of a manifest.

    Raises:
        ValueError: The build's name is not 1 to 32 small letters and digits.
    """
    middle = "" if build is None else f"{build}."
    return _own(f"v{_checked(version)}.{middle}segments.json")


def parse_sidecar_name(name: str) -> SidecarName | None:
    """Takes a file name (without its folder) apart; None where it is none of ours."""
    match = _NAME.fullmatch(name)
    if match is None or int(match["version"]) > HIGHEST_VERSION:
        return None
    version = int(match["version"])
    if match["part"] is not None:
        return SidecarName(
            SidecarFileKind.PART, version, match["part_build"], int(match["part"]), int(match["attempt"])
        )
    if match["segments"] is not None:
        return SidecarName(SidecarFileKind.SEGMENTS, version, match["segments_build"])
    return SidecarName(SidecarFileKind.MANIFEST if match["manifest"] else SidecarFileKind.DATA, version)


MOST_TAIL = 1_000
"""A metadata sidecar with more commits after it is no base: a checkpoint is closer."""

_MOST_TRIED = 4


def listed_sidecars(names: Iterable[str], version: int, excluded: Collection[str] = ()) -> list[tuple[int, int]]:
    """The metadata sidecars that can be a base of a version, as versions and tiers; the newest few, newest first.

    Tier 1 has a manifest; tier 2 is one file that is read by its footer.
    """
    tiers = {SidecarFileKind.MANIFEST: 1, SidecarFileKind.DATA: 2}
    found = set()
    for name in names:
        parsed = parse_sidecar_name(name)
        if parsed is not None and parsed.kind in tiers and name not in excluded:
            found.add((-parsed.version, tiers[parsed.kind]))
    near = [(-negative, tier) for negative, tier in sorted(found) if version - MOST_TAIL <= -negative <= version]
    newest = sorted({at for at, _ in near}, reverse=True)[:_MOST_TRIED]
    return [each for each in near if each[0] in newest]


def column_name(path: ColumnPath) -> str:
    """The name of a column of the table, from the physical names on the way to it.

    Raises:
        ValueError: The path is empty.
    """
    if not path:
        msg = "a column has at least one name"
        raise ValueError(msg)
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in path)


_BUILD = "[a-z0-9]{1,32}"
_NAME = re.compile(
    rf"""v(?P<version>0|[1-9][0-9]{{0,18}})\.(?:
        (?P<part_build>{_BUILD})\.(?P<part>[0-9]{{5}}|[1-9][0-9]{{5,8}})-(?P<attempt>0|[1-9][0-9]{{0,8}})\.parquet
        |(?:(?P<segments_build>{_BUILD})\.)?(?P<segments>segments)\.json
        |(?P<manifest>manifest)\.json
        |parquet)""",
    re.VERBOSE,
)


_PLAIN = re.compile(r"[^.`]+")


def _checked(version: int) -> int:
    if not 0 <= version <= HIGHEST_VERSION:
        msg = f"not a version: {version}"
        raise ValueError(msg)
    return version


def _own(name: str) -> str:
    if parse_sidecar_name(name) is None:
        msg = f"not the name of a metadata sidecar: {name!r}"
        raise ValueError(msg)
    return name
