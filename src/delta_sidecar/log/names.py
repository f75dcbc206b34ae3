"""The names of the files in a `_delta_log` folder.

    00000000000000000012.json                                     a commit
    00000000000000000012.crc                                      a version checksum
    00000000000000000010.checkpoint.parquet                       a classic checkpoint
    00000000000000000010.checkpoint.0000000001.0000000002.parquet one part of a multi-part checkpoint
    00000000000000000010.checkpoint.{uuid}.json|parquet           the top file of a V2 checkpoint
    00000000000000000003.00000000000000000009.compacted.json      a compacted commit: shown, never replayed
    _last_checkpoint                                              a hint
    _sidecars/{name}.parquet                                      a V2-checkpoint sidecar
    _sidecars/v12.parquet                                         the metadata sidecar of version 12
    _sidecars/v12.manifest.json                                   what is where in it
    _sidecars/v12.{build}.00003-0.parquet                         part 3 of a rebuild or a build in parts, first attempt
    _sidecars/v12[.{build}].segments.json                         lists of row groups of a large one

Everything else (`.*.crc` side files, directory markers, staged commits, temporary files) is no part of the log.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any

from msgspec import Struct

from delta_sidecar.errors import InvalidMetadataError
from delta_sidecar.log.actions import Metadata, Protocol

LOG_FOLDER = "_delta_log/"
SIDECAR_FOLDER = "_delta_log/_sidecars/"
LAST_CHECKPOINT = "_delta_log/_last_checkpoint"

HIGHEST_VERSION = 2**63 - 1


class LogFileKind(Enum):
    """The kinds of files that a replay looks at."""

    COMMIT = "commit"
    CHECKSUM = "checksum"
    CHECKPOINT = "checkpoint"
    CHECKPOINT_PART = "checkpoint part"
    V2_CHECKPOINT = "V2 checkpoint"
    COMPACTED = "compacted commit"


class LogFileName(Struct, frozen=True):
    """A parsed file name of the log."""

    kind: LogFileKind
    version: int  # of a compacted commit the first one
    part: int = 0  # of a multi-part checkpoint, from 1
    parts: int = 0


def commit_path(version: int) -> str:
    """The path of a commit, relative to the table."""
    return f"{LOG_FOLDER}{version:020}.json"


def checksum_path(version: int) -> str:
    """The path of a version checksum, relative to the table."""
    return f"{LOG_FOLDER}{version:020}.crc"


def listing_start(version: int) -> str:
    """A path that sorts before every file of this version and after every file of the one before."""
    return f"{LOG_FOLDER}{version:020}"


def parse_log_name(path: str) -> LogFileName | None:
    """Parses a path relative to the table; None if it is no file that a replay looks at."""
    match = _LOG_NAME.fullmatch(path)
    if match is None or match.lastgroup is None:
        return None
    numbers = (int(match[group] or 0) for group in ("version", "part", "parts"))
    return LogFileName(LogFileKind[match.lastgroup], *numbers)


# The last group to end, and so `lastgroup`, is the one around the whole of a kind.
_LOG_NAME = re.compile(
    rf"""{LOG_FOLDER}(?P<version>\d{{20}})\.(?:
        (?P<COMMIT>json)
      | (?P<CHECKSUM>crc)
      | (?P<CHECKPOINT>checkpoint\.parquet)
      | (?P<CHECKPOINT_PART>checkpoint\.(?P<part>\d{{10}})\.(?P<parts>\d{{10}})\.parquet)
      | (?P<V2_CHECKPOINT>checkpoint\.[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}\.(?:json|parquet))
      | (?P<COMPACTED>\d{{20}}\.compacted\.json)
    )""",
    re.ASCII | re.VERBOSE,
)


# Metadata sidecars, in `_delta_log/_sidecars/`; names there are given without the folder.


TEMPORARY_NAME = re.compile(r"(?P<target>v(?P<version>0|[1-9][0-9]{0,18})\.[a-z0-9.-]+)\.tmp-[0-9a-f]{1,64}")
"""A draft of a file, which some stores write first."""


class SidecarFileKind(Enum):
    """The kinds of files of a metadata sidecar."""

    DATA = "data"
    PART = "part"
    MANIFEST = "manifest"
    SEGMENTS = "segments"


class SidecarName(Struct, frozen=True):
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
    """The name of the file with the segments of a manifest.

    Raises:
        ValueError: The build's name is not 1 to 32 small letters and digits.
    """
    middle = "" if build is None else f"{build}."
    return _own(f"v{_checked(version)}.{middle}segments.json")


def parse_sidecar_name(name: str) -> SidecarName | None:
    """Takes a file name (without its folder) apart; None where it is none of ours."""
    match = _SIDECAR_NAME.fullmatch(name)
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


_BUILD = "[a-z0-9]{1,32}"
_SIDECAR_NAME = re.compile(
    rf"""v(?P<version>0|[1-9][0-9]{{0,18}})\.(?:
        (?P<part_build>{_BUILD})\.(?P<part>[0-9]{{5}}|[1-9][0-9]{{5,8}})-(?P<attempt>0|[1-9][0-9]{{0,8}})\.parquet
        |(?:(?P<segments_build>{_BUILD})\.)?(?P<segments>segments)\.json
        |(?P<manifest>manifest)\.json
        |parquet)""",
    re.VERBOSE,
)


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


# `_last_checkpoint` and version checksums: small JSON files beside the commits, hints both; bad ones are ignored.


class Checksum(Struct, frozen=True):
    """The content of a `{version}.crc` file; None for a total that it lacks."""

    protocol: Protocol
    metadata: Metadata
    num_files: int | None = None
    num_bytes: int | None = None


def last_checkpoint_version(data: bytes) -> int | None:
    """The version in a `_last_checkpoint` file; None if it holds no valid one."""
    version = _object(data).get("version")
    return version if isinstance(version, int) and not isinstance(version, bool) and version >= 0 else None


def read_checksum(data: bytes) -> Checksum | None:
    """Parses a checksum file; None if it lacks the protocol or the metadata."""
    fields = _object(data)
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("partitionColumns"), list):
        return None
    try:
        return Checksum(
            protocol=Protocol.from_action(fields.get("protocol"), "checksum"),
            metadata=Metadata.from_action(metadata, "checksum"),
            num_files=_count(fields.get("numFiles")),
            num_bytes=_count(fields.get("tableSizeBytes")),
        )
    except InvalidMetadataError:
        return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST_VERSION else None


def _object(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
