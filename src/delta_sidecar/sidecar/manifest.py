"""The manifest `v{N}.manifest.json`: which state of the table a metadata sidecar holds, and where in it what is.

It is one JSON object, sealed by its own digest. Nothing in it is believed before the digest holds, and nothing is taken
unchecked after: every reason to distrust it is a `SidecarError`, and a scan goes on without the sidecar.

The footer of a sidecar in one file carries the same document without the file's size, so that the manifest can be
missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from delta_sidecar._arrow import DIGEST_LENGTH, xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.canonical import canonical, parse, refuse, seal, unseal
from delta_sidecar.sidecar.groups import (
    LARGEST,
    KeyForm,
    RowGroup,
    RowGroups,
    Segment,
    Segments,
    group_json,
    key_form,
    read_row_groups,
    read_segments,
    segment_json,
)
from delta_sidecar.sidecar.names import ColumnPath, SidecarFileKind, parse_sidecar_name
from delta_sidecar.sidecar.schema import FORMAT_VERSION, arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


MOST_ROW_GROUPS = 20_000
"""Above this many row groups a manifest is written in two levels."""

FOOTER_KEY = "delta-sidecar"
"""Key in the footer of every data file of ours; in the one-file form its value is the manifest without the size."""

SortKind: TypeAlias = Literal["bucket", "partition", "lower_bound"]


@dataclass(frozen=True, slots=True)
class SidecarFile:
    """A file of a metadata sidecar: its plain name in `_delta_log/_sidecars/`, and its bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class CommitMark:
    """What tells whether commit N is still the one that was read: its size, and the digest of its first 4 KiB."""

    size: int
    head: str


@dataclass(frozen=True, slots=True)
class Witness:
    """A checkpoint or checksum file of version N, which proves the version where commit N has been cleaned up.

    Attributes:
        name: Its name in the log; that of the first file of a checkpoint in parts.
        size: Bytes of all its files.
        digest: Of the first 4 KiB of a checksum file, or of the last 64 KiB of each file of a checkpoint, in order.
    """

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What the live files have in all. None is what not every file tells.

    Attributes:
        bytes: Their size.
        largest: The size of the largest.
        rows: Their rows, those that deletion vectors hide not counted.
        most_rows: The rows of the one with most.
    """

    bytes: int | None = 0
    largest: int | None = 0
    rows: int | None = 0
    most_rows: int | None = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            _sum(self.bytes, other.bytes),
            _largest(self.largest, other.largest),
            _sum(self.rows, other.rows),
            _largest(self.most_rows, other.most_rows),
        )


@dataclass(frozen=True, slots=True)
class SortColumn:
    """One thing that rows are sorted by.

    Attributes:
        kind: `bucket` and `partition` are partition values; `lower_bound` is in the statistics.
        column: The column's physical path.
        type: The column's type, by the name that Delta's schemas have for it.
    """

    kind: SortKind
    column: ColumnPath
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a manifest tells.

    Attributes:
        version: The version of the table.
        files: The data files; one, or more where it was built in parts.
        num_files: How many live files the table has: the rows.
        totals: What they have in all; None where that was not counted.
        schema_hash: `SidecarSchema.schema_hash`.
        commit: The commit that made the version; None where it was gone already.
        witness: What else was there of the version and proves it.
        protocol: Fields of the `protocol` action in force.
        metadata: Fields of the `metaData` action in force.
        bucket_column: Physical name of the bucket column; None for none.
        time_column: Physical path of the time column; None for none.
        sort: What rows are sorted by, before their path and deletion vector.
        summaries: Physical paths of the columns that row groups have bounds of.
        statistics: Physical paths of the columns with statistics, in order.
        stats_format: The layout in which texts of statistics are rebuilt.
        row_groups: The row groups; empty where there are segments.
        segments_file: The second level; None for none.
        segments: Its segments.
    """

    version: int
    files: tuple[SidecarFile, ...]
    num_files: int
    schema_hash: str
    commit: CommitMark | None
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    bucket_column: str | None
    time_column: ColumnPath | None
    sort: tuple[SortColumn, ...]
    summaries: tuple[ColumnPath, ...]
    statistics: tuple[ColumnPath, ...]
    stats_format: str
    witness: tuple[Witness, ...] = ()
    totals: Totals | None = None
    row_groups: RowGroups = field(default_factory=RowGroups)
    segments_file: SidecarFile | None = None
    segments: Segments = field(default_factory=Segments)

    @property
    def num_row_groups(self) -> int:
        """How many row groups there are, those of segments included."""
        return sum(segment.num_row_groups for segment in self.segments) if self.segments_file else len(self.row_groups)

    @property
    def sidecar_file(self) -> SidecarFile:
        """The data file; of several the first."""
        return self.files[0]

    def key_form(self) -> KeyForm:
        """The types that the values of its keys may have, place by place."""
        return key_form([_sort_values(each) for each in self.sort])


def encode_manifest(manifest: Manifest) -> bytes:
    """Writes a manifest. Equal ones give equal bytes."""
    return seal(_document(manifest, sized=True))


def decode_manifest(data: bytes, *, version: int | None = None) -> Manifest:
    """Reads a manifest.

    Args:
        data: The whole file.
        version: The version that its name tells; None to take any.

    Raises:
        SidecarError: It cannot be trusted; the message says why.
    """
    document = unseal(data)
    size = whole(document, "sidecar_size_bytes")
    return _manifest(document, size, version)


def encode_body_for_footer(manifest: Manifest) -> bytes:
    """Writes the document that the footer of a sidecar in one file carries under `FOOTER_KEY`.

    Raises:
        ValueError: The sidecar has several files.
    """
    if len(manifest.files) != 1:
        msg = "only a metadata sidecar in one file has its manifest in its footer"
        raise ValueError(msg)
    return seal(_document(manifest, sized=False))


def decode_footer_body(data: bytes, file_name: str, file_size: int) -> Manifest:
    """Reads the document in the footer of a sidecar in one file.

    Args:
        data: The document.
        file_name: The plain name of the file that it was found in.
        file_size: The size of that file.

    Raises:
        SidecarError: It cannot be trusted, or is that of another file; the message says why.
    """
    document = unseal(data)
    if "files" in document or document.get("sidecar_file") != file_name:
        refuse("in the footer is that of another file")
    return _manifest(document, file_size, None)


def _document(manifest: Manifest, *, sized: bool) -> dict[str, Any]:
    first = manifest.files[0]
    document: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "version": manifest.version,
        "sidecar_file": first.name,
        "num_files": manifest.num_files,
        "num_row_groups": manifest.num_row_groups,
        "schema_hash": manifest.schema_hash,
        "commit": None if manifest.commit is None else {"size": manifest.commit.size, "head": manifest.commit.head},
        "protocol": dict(manifest.protocol),
        "metadata": dict(manifest.metadata),
        "bucket_column": manifest.bucket_column,
        "time_column": None if manifest.time_column is None else list(manifest.time_column),
        "sort": [{"kind": each.kind, "column": list(each.column), "type": each.type} for each in manifest.sort],
        "summaries": [list(each) for each in manifest.summaries],
        "statistics": [list(each) for each in manifest.statistics],
        "stats_format": manifest.stats_format,
        "witness": [{"name": each.name, "size": each.size, "digest": each.digest} for each in manifest.witness],
    }
    if manifest.totals is not None:
        document["totals"] = {name: getattr(manifest.totals, name) for name in _TOTALS}
    if sized:
        document["sidecar_size_bytes"] = first.size
    if len(manifest.files) > 1:
        document["files"] = [{"name": each.name, "size": each.size} for each in manifest.files]
    if manifest.segments_file is None:
        document["row_groups"] = [group_json(group) for group in manifest.row_groups]
    else:
        document["segments_file"] = {"name": manifest.segments_file.name, "size": manifest.segments_file.size}
        document["segments"] = [segment_json(segment) for segment in manifest.segments]
    return document


def _manifest(document: dict[str, Any], size: int, expected: int | None) -> Manifest:
    if whole(document, "format_version") != FORMAT_VERSION:
        refuse(f"has format_version {document['format_version']}; known is {FORMAT_VERSION}")
    version = whole(document, "version")
    if expected is not None and version != expected:
        refuse(f"is that of version {version}", "other_version")
    files = _files(document, version, size)
    sort = tuple(_sort(each) for each in array(document, "sort"))
    form = key_form([_sort_values(each) for each in sort])
    segments_file, segments, row_groups = None, Segments(), RowGroups()
    if "segments_file" in document:
        segments_file = _file(document["segments_file"], version, SidecarFileKind.SEGMENTS)
        segments = read_segments(document.get("segments"), size=segments_file.size, form=form)
    else:
        sizes = [each.size for each in files]
        row_groups = read_row_groups(document.get("row_groups"), first_index=0, sizes=sizes, form=form)
    manifest = Manifest(
        version=version,
        files=files,
        num_files=whole(document, "num_files"),
        schema_hash=digest(document, "schema_hash"),
        commit=_commit(document.get("commit")),
        protocol=_protocol(document),
        metadata=_metadata(document),
        bucket_column=None if document.get("bucket_column") is None else text(document, "bucket_column"),
        time_column=None if document.get("time_column") is None else path(document["time_column"]),
        sort=sort,
        summaries=tuple(path(each) for each in array(document, "summaries")),
        statistics=tuple(path(each) for each in array(document, "statistics")),
        stats_format=text(document, "stats_format"),
        witness=_witness(document),
        totals=_totals(document),
        row_groups=row_groups,
        segments_file=segments_file,
        segments=segments,
    )
    rows = sum(manifest.segments.num_rows) + sum(manifest.row_groups.num_rows)
    if (manifest.num_row_groups, rows) != (whole(document, "num_row_groups"), manifest.num_files):
        refuse("does not have as many row groups or files as it says")
    return manifest


def _file(value: object, version: int, *kinds: SidecarFileKind) -> SidecarFile:
    if type(value) is not dict:
        refuse("has a file that is no object")
    name, size = text(value, "name"), whole(value, "size")
    found = parse_sidecar_name(name)
    if found is None or found.kind not in kinds or found.version != version:
        refuse("names a file that is none of its version")
    return SidecarFile(name, size)


def _files(document: dict[str, Any], version: int, size: int) -> tuple[SidecarFile, ...]:
    kinds = (SidecarFileKind.DATA, SidecarFileKind.PART)
    first = _file({"name": document.get("sidecar_file"), "size": size}, version, *kinds)
    if "files" not in document:
        return (first,)
    files = tuple(_file(each, version, *kinds) for each in array(document, "files"))
    if files[:1] != (first,) or len({each.name for each in files}) != len(files):
        refuse("does not begin its files with sidecar_file, or names one twice")
    return files


def _commit(value: object) -> CommitMark | None:
    if value is None:
        return None
    if type(value) is not dict:
        refuse("has a commit that is no object")
    return CommitMark(whole(value, "size"), digest(value, "head"))


def _witness(document: dict[str, Any]) -> tuple[Witness, ...]:
    """Those that it names; without any, only the commit proves it."""
    found = array(document, "witness") if "witness" in document else []
    if any(type(each) is not dict for each in found):
        refuse("has a witness that is no object")
    return tuple(Witness(text(each, "name"), whole(each, "size"), digest(each, "digest")) for each in found)


_TOTALS = ("bytes", "largest", "rows", "most_rows")


def _totals(document: dict[str, Any]) -> Totals | None:
    if "totals" not in document:
        return None
    found = mapping(document, "totals")
    return Totals(*(None if found.get(name) is None else whole(found, name) for name in _TOTALS))


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None or one + other > LARGEST else one + other


def _largest(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _protocol(document: dict[str, Any]) -> dict[str, Any]:
    fields = mapping(document, "protocol")
    for name in ("minReaderVersion", "minWriterVersion"):
        whole(fields, name)
    for name in ("readerFeatures", "writerFeatures"):
        if fields.get(name) is not None and any(type(each) is not str for each in array(fields, name)):
            refuse(f"has no list of names as {name}")
    return fields


def _metadata(document: dict[str, Any]) -> dict[str, Any]:
    fields = mapping(document, "metadata")
    text(fields, "id")
    text(fields, "schemaString")
    if any(type(each) is not str for each in array(fields, "partitionColumns")):
        refuse("has no list of names as partitionColumns")
    if any(type(each) is not str for each in mapping(fields, "configuration").values()):
        refuse("has a property that is no text")
    return fields


def _sort(value: object) -> SortColumn:
    if type(value) is not dict or value.get("kind") not in ("bucket", "partition", "lower_bound"):
        refuse("is sorted by something unknown")
    try:
        arrow_type(text(value, "type"))
    except ValueError:
        refuse("is sorted by something of an unknown type")
    return SortColumn(cast("SortKind", value["kind"]), path(value.get("column")), value["type"])


_TEXTS = frozenset({"string", "date", "timestamp", "timestamp_ntz"})


def _sort_values(sort: SortColumn) -> frozenset[type]:
    """The types that a sort value may have in JSON."""
    if sort.kind != "lower_bound" or sort.type in _TEXTS:
        return frozenset({str})
    if sort.type == "boolean":
        return frozenset({bool})
    # Numbers that are not finite are texts.
    return frozenset({int, Decimal, str}) if sort.type in ("float", "double") else frozenset({int, Decimal})


# Members of a manifest's objects, each of the type that it must have.
#
# Every function raises `SidecarError` where it is not.


def whole(document: Mapping[str, Any], name: str) -> int:
    """A member that is a whole number, from 0 to the largest of 64 bits."""
    value = document.get(name)
    if type(value) is not int or not 0 <= value <= LARGEST:
        refuse(f"has no whole number in range as {name}")
    return value


def text(document: Mapping[str, Any], name: str) -> str:
    """A member that is a text."""
    value = document.get(name)
    if type(value) is not str:
        refuse(f"has no text as {name}")
    return value


def array(document: Mapping[str, Any], name: str) -> list[Any]:
    """A member that is a list."""
    value = document.get(name)
    if type(value) is not list:
        refuse(f"has no list as {name}")
    return value


def mapping(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A member that is an object."""
    value = document.get(name)
    if type(value) is not dict:
        refuse(f"has no object as {name}")
    return value


def digest(document: Mapping[str, Any], name: str) -> str:
    """A member that is a digest."""
    value = text(document, name)
    if len(value) != DIGEST_LENGTH:
        refuse(f"has no digest as {name}")
    return value


def path(value: object) -> ColumnPath:
    """A path of names out of a JSON value."""
    if type(value) is not list or not value or any(type(part) is not str for part in value):
        refuse("has a column that is no list of names")
    return tuple(value)


# The second level of a large manifest: row groups in segments, each a range of `v{N}.segments.json` with a digest.
#
# The manifest then tells of each segment what it would tell of each row group, so that only the segments that can match
# are fetched.


SEGMENT_ROW_GROUPS = 1_000
"""How many row groups a segment has, but for the last one."""


def encode_segment(groups: Iterable[RowGroup]) -> bytes:
    """Writes the row groups of one segment: a JSON array. Segments stand in their file one after another."""
    return canonical([group_json(group) for group in groups])


def decode_segment(data: bytes, segment: Segment, manifest: Manifest) -> RowGroups:
    """Reads the row groups of one segment.

    Args:
        data: The bytes of its range.
        segment: What the manifest tells of it.
        manifest: The manifest.

    Raises:
        SidecarError: The bytes are not what the manifest says.
    """
    if len(data) != segment.byte_length or xxh3_128(data) != segment.digest:
        msg = f"the segment of row group {segment.first_index} does not have its digest"
        raise SidecarError(msg)
    groups = read_row_groups(
        parse(data),
        first_index=segment.first_index,
        sizes=[each.size for each in manifest.files],
        form=manifest.key_form(),
    )
    found = (len(groups), sum(groups.num_rows), sum(groups.null_buckets), sum(groups.odd_buckets))
    told = (segment.num_row_groups, segment.num_rows, segment.null_buckets, segment.odd_buckets)
    if found != told or (groups[0].first_key, groups[-1].last_key) != (segment.first_key, segment.last_key):
        msg = f"the segment of row group {segment.first_index} is not what the manifest says"
        raise SidecarError(msg)
    return groups
