"""The manifest `v{N}.manifest.json`: the state of the table that a metadata sidecar holds, and the place of each part.

It is one JSON object, sealed by its own digest. Nothing in it is believed before the digest holds, and nothing is taken
unchecked after: every reason to distrust it is a `SidecarError`, and a scan goes on without the sidecar.

What tells of the table comes first in it. The list of row groups comes last, and stays bytes until a row group is asked
for. Of a long list only the newest row groups are in the manifest; the others are in segments, ranges of another file.

The footer of a sidecar in one file carries the same document without the file's size, so that the manifest can be
missing.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

from delta_sidecar._arrow import DIGEST_LENGTH, xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.log.names import SidecarFileKind, parse_sidecar_name
from delta_sidecar.sidecar.groups import (
    LARGEST,
    LARGEST_DOCUMENT,
    Digest,
    KeyForm,
    RowGroups,
    Run,
    Segment,
    Segments,
    WholeNumber,
    check_bounds,
    check_row_groups,
    check_segments,
    refuse,
)
from delta_sidecar.sidecar.schema import FORMAT_VERSION, arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from delta_sidecar.log.segment import ListedFile


MOST_ROW_GROUPS = 512
"""Above this many row groups a manifest is written with segments."""

SEGMENT_ROW_GROUPS = 128
"""Row groups in a segment, at most."""

NEWEST_ROW_GROUPS = 40
"""Row groups in a manifest with segments: the newest hours take no segment, and the manifest stays small."""

FOOTER_KEY = "delta-sidecar"
"""Key in the footer of every data file of ours; in the one-file form its value is the manifest without the size."""

LONGEST_NUMBER = 400
"""Digits of the longest fraction that is read, and the largest exponent."""

SortKind: TypeAlias = Literal["bucket", "partition", "lower_bound"]
_Path: TypeAlias = Annotated[tuple[str, ...], Meta(min_length=1)]


class SidecarFile(Struct, frozen=True):
    """A file of a metadata sidecar: its plain name in `_delta_log/_sidecars/`, and its bytes."""

    name: str
    size: WholeNumber


class CommitMark(Struct, frozen=True):
    """The proof that commit N is still the one that was read: its size, and the digest of its first 4 KiB."""

    size: WholeNumber
    head: Digest


class Witness(Struct, frozen=True):
    """A checkpoint or checksum file of version N, which proves the version where commit N has been cleaned up."""

    name: str  # in the log; of a checkpoint in parts the first file's
    size: WholeNumber  # bytes of all its files
    digest: Digest  # of the first 4 KiB of a checksum file, or of the last 64 KiB of each file of a checkpoint in order


class Totals(Struct, frozen=True):
    """Sums over all live files. None is a sum that a file lacks a value for."""

    bytes: WholeNumber | None
    largest: WholeNumber | None  # bytes of the largest file
    rows: WholeNumber | None  # without those that deletion vectors hide
    most_rows: WholeNumber | None  # rows of the file with most

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            _sum(self.bytes, other.bytes),
            _largest(self.largest, other.largest),
            _sum(self.rows, other.rows),
            _largest(self.most_rows, other.most_rows),
        )


NO_FILES = Totals(0, 0, 0, 0)


class SortColumn(Struct, frozen=True):
    """One column that rows are sorted by: its partition values, or the lower bounds in its statistics."""

    kind: SortKind
    column: _Path  # physical names
    type: str  # by the name that Delta's schemas have for it

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the values."""
        return arrow_type(self.type)


NO_ROW_GROUPS = Raw(b"[]")


class Manifest(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A manifest: the members of its JSON behind the digest, in the order in which they are written.

    Columns are named by their physical paths. What has its default is not written; unknown members are ignored.
    """

    format_version: WholeNumber
    version: WholeNumber
    commit: CommitMark | None = None  # None where it was gone already
    witness: tuple[Witness, ...] = ()
    protocol: dict[str, Any]  # fields of the `protocol` action in force
    metadata: dict[str, Any]  # fields of the `metaData` action in force
    sidecar_file: str  # the data file; of several the first
    sidecar_size_bytes: WholeNumber = 0  # 0 in its own footer, where it is not known
    other_files: tuple[SidecarFile, ...] = field(name="files", default=())  # numbered from 1: data files, segments
    num_files: WholeNumber  # live files of the table: the rows
    num_row_groups: WholeNumber
    totals: Totals | None = None  # None where they were not counted
    schema_hash: Digest
    bucket_column: str | None = None
    time_column: _Path | None = None
    sort: tuple[SortColumn, ...]  # before path and deletion vector
    summaries: tuple[_Path, ...]  # columns that row groups have bounds of
    statistics: tuple[_Path, ...]
    stats_format: str  # the layout in which texts of statistics are rebuilt
    custom: dict[str, Any] = {}  # what its writer keeps with it; of no meaning here
    listed_segments: Raw = field(name="segments", default=NO_ROW_GROUPS)
    listed_row_groups: Raw = field(name="row_groups")

    @cached_property
    def files(self) -> tuple[SidecarFile, ...]:
        """Its files, by their numbers: data files and, of a long list of row groups, segments."""
        return (SidecarFile(self.sidecar_file, self.sidecar_size_bytes), *self.other_files)

    @property
    def segments(self) -> Segments:
        """The segments, which come before the row groups that the manifest itself has.

        Raises:
            SidecarError: They, or those row groups, are not as they should be.
        """
        return self._lists[0]

    @property
    def row_groups(self) -> RowGroups:
        """The row groups that the manifest itself has: all of them, or those behind the last segment.

        Raises:
            SidecarError: They, or the segments, are not as they should be.
        """
        return self._lists[1]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All row groups in order: the segments, then the row groups that the manifest itself has.

        Raises:
            SidecarError: They are not as they should be.
        """
        return (*self.segments, *self.row_groups)

    @cached_property
    def _lists(self) -> tuple[Segments, RowGroups]:
        form, files = self.key_form(), self.files
        segments, groups = _decoded(self.listed_segments, _SEGMENTS), _decoded(self.listed_row_groups, _GROUPS)
        check_segments(segments, sizes=[0 if _is_data(each) else each.size for each in files], form=form)
        before = sum(segment.num_row_groups for segment in segments)
        sizes = [each.size if _is_data(each) else 0 for each in files]
        check_row_groups(groups, first_index=before, sizes=sizes, form=form)
        rows = sum(segment.num_rows for segment in segments) + sum(group.num_rows for group in groups)
        if (before + len(groups), rows) != (self.num_row_groups, self.num_files):
            refuse("does not have as many row groups or files as it says")
        return segments, groups

    def key_form(self) -> KeyForm:
        """The types that the values of its keys may have, place by place."""
        values = (_sort_values(each) | {type(None)} for each in self.sort)
        return (frozenset({int}), *values, frozenset({str}), frozenset({str}))

    def check_listed(self, version: int, listed: Mapping[str, ListedFile]) -> None:
        """Lets it pass if it is for a version, and its files are there as it says.

        Raises:
            SidecarError: Something else is there.
        """
        if self.version != version:
            msg = f"it is for version {self.version}"
            raise SidecarError(msg, "other_version")
        for file in self.files:
            if file.name not in listed:
                msg = f"{file.name}, which it speaks of, is not there"
                raise SidecarError(msg, "missing_file")
            size = listed[file.name].size
            if size != file.size:
                msg = f"{file.name} has {size} bytes where it says {file.size}"
                raise SidecarError(msg, "wrong_size")


def encode_manifest(manifest: Manifest) -> bytes:
    """Writes a manifest. Equal ones give equal bytes."""
    return seal(manifest)


def decode_manifest(data: bytes, *, version: int | None = None) -> Manifest:
    """Reads a manifest, of any version or of the one that its name says. Its row groups are checked later.

    Raises:
        SidecarError: It cannot be trusted; the message says why.
    """
    manifest = _unsealed(data)
    if not manifest.sidecar_size_bytes:
        refuse("has no sidecar_size_bytes")
    if version is not None and manifest.version != version:
        refuse(f"is that of version {manifest.version}", "other_version")
    return manifest


def encode_body_for_footer(manifest: Manifest) -> bytes:
    """Writes the document that the footer of a sidecar's data file carries under `FOOTER_KEY`."""
    return seal(msgspec.structs.replace(manifest, sidecar_size_bytes=0))


def decode_footer_body(data: bytes, file_name: str, file_size: int) -> Manifest:
    """Reads the document in the footer of a data file, whose plain name and size are known.

    Raises:
        SidecarError: It cannot be trusted, or is that of another file; the message says why.
    """
    manifest = _unsealed(data)
    if manifest.sidecar_file != file_name or manifest.sidecar_size_bytes:
        refuse("in the footer is that of another file")
    return msgspec.structs.replace(manifest, sidecar_size_bytes=file_size)


def encode_groups(groups: RowGroups) -> bytes:
    """Writes row groups: a JSON array, as in a manifest or as a segment. Segments stand in their file one by one."""
    check_bounds(groups)
    return _ENCODER.encode(groups)


def with_row_groups(manifest: Manifest, groups: RowGroups, segments: Segments = ()) -> Manifest:
    """Puts row groups into a manifest, and the segments before them."""
    check_bounds(segments)
    return msgspec.structs.replace(
        manifest,
        num_row_groups=sum(segment.num_row_groups for segment in segments) + len(groups),
        listed_segments=Raw(_ENCODER.encode(segments)) if segments else NO_ROW_GROUPS,
        listed_row_groups=Raw(encode_groups(groups)),
    )


def decode_segment(data: bytes, segment: Segment, manifest: Manifest) -> RowGroups:
    """Reads the row groups of one segment from the bytes of its range.

    Raises:
        SidecarError: The bytes are not what the manifest says.
    """
    if len(data) != segment.byte_length or xxh3_128(data) != segment.digest:
        msg = f"the segment of row group {segment.first_index} does not have its digest"
        raise SidecarError(msg)
    sizes = [each.size if _is_data(each) else 0 for each in manifest.files]
    groups = decode_groups(data, first_index=segment.first_index, sizes=sizes, form=manifest.key_form())
    sums = [sum(getattr(group, name) for group in groups) for name in ("num_rows", "null_buckets", "odd_buckets")]
    said = [segment.num_row_groups, segment.num_rows, segment.null_buckets, segment.odd_buckets]
    if [len(groups), *sums] != said or (groups[0].first_key, groups[-1].last_key) != (
        segment.first_key,
        segment.last_key,
    ):
        msg = f"the segment of row group {segment.first_index} is not what the manifest says"
        raise SidecarError(msg)
    return groups


def decode_groups(data: bytes, *, first_index: int, sizes: Sequence[int], form: KeyForm) -> RowGroups:
    """Reads what `encode_groups` wrote: row groups in files of these sizes.

    Raises:
        SidecarError: They are out of form, or do not fit the files.
    """
    groups = _decoded(data, _GROUPS)
    check_row_groups(groups, first_index=first_index, sizes=sizes, form=form)
    return groups


# Sealed JSON: the digest of all bytes behind it is the first member.


def seal(document: object) -> bytes:
    """Writes an object, which is not empty, with its digest as the first member."""
    rest = b'",' + _ENCODER.encode(document)[1:]
    return b"".join((_START, xxh3_128(rest).encode(), rest))


def check_seal(data: bytes) -> None:
    """Lets a sealed document pass whose digest holds.

    Raises:
        SidecarError: It is too large, or its digest does not hold.
    """
    _check_size(data)
    if not data.startswith(_START) or data[len(_START) : _SEALED] != xxh3_128(memoryview(data)[_SEALED:]).encode():
        refuse("does not have its digest")


_START = b'{"digest":"'
_SEALED = len(_START) + DIGEST_LENGTH  # the first byte that the digest is of


class _ProtocolFields(Struct, rename="camel"):
    min_reader_version: WholeNumber
    min_writer_version: WholeNumber
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class _MetadataFields(Struct, rename="camel"):
    id: str
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]


def _fraction(text: str) -> Decimal:
    """A number with a fraction or an exponent: no digit of a bound may be lost."""
    number = Decimal(text)
    if len(text) > LONGEST_NUMBER or (number and abs(number.adjusted()) > LONGEST_NUMBER):
        msg = "a number is too long"
        raise ValueError(msg)
    return number


_ENCODER = msgspec.json.Encoder(order="deterministic", decimal_format="number")
_MANIFEST = msgspec.json.Decoder(Manifest, float_hook=_fraction)
_GROUPS = msgspec.json.Decoder(RowGroups, float_hook=_fraction)
_SEGMENTS = msgspec.json.Decoder(Segments, float_hook=_fraction)

T = TypeVar("T")


def _unsealed(data: bytes) -> Manifest:
    check_seal(data)
    manifest = _decoded(data, _MANIFEST)
    if manifest.format_version != FORMAT_VERSION:
        refuse(f"has format_version {manifest.format_version}; known is {FORMAT_VERSION}")
    _check_names(manifest)
    try:
        _ = [each.arrow_type for each in manifest.sort]
    except ValueError:
        refuse("is sorted by something of an unknown type")
    try:
        msgspec.convert(manifest.protocol, _ProtocolFields)
        msgspec.convert(manifest.metadata, _MetadataFields)
    except msgspec.ValidationError as error:
        refuse(f"has a protocol or metadata that cannot be read: {str(error)[:120]}")
    return manifest


def _decoded(data: bytes | Raw, decoder: msgspec.json.Decoder[T]) -> T:
    _check_size(data)
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:120]
        msg = f"the manifest cannot be read: {reason}"
        raise SidecarError(msg) from error


def _check_size(data: bytes | Raw) -> None:
    size = memoryview(data).nbytes
    if size > LARGEST_DOCUMENT:
        refuse(f"has {size} bytes, more than {LARGEST_DOCUMENT}")


def _check_names(manifest: Manifest) -> None:
    """Checks that files have names of its version, each another one, and that the first is a data file."""
    names = [each.name for each in manifest.files]
    parsed = [parse_sidecar_name(name) for name in names]
    if any(found is None or found.version != manifest.version for found in parsed):
        refuse("names a file that is none of its version")
    kinds = [found.kind for found in parsed if found is not None]
    if kinds[0] not in _DATA or not _FILES.issuperset(kinds) or len(set(names)) < len(names):
        refuse("names a file of another kind, or one twice")


_DATA = frozenset({SidecarFileKind.DATA, SidecarFileKind.PART})
_FILES = _DATA | {SidecarFileKind.SEGMENTS}


def _is_data(file: SidecarFile) -> bool:
    return file.name.endswith(".parquet")


_TEXTS = frozenset({"string", "date", "timestamp", "timestamp_ntz"})


def _sort_values(sort: SortColumn) -> frozenset[type]:
    """The types that a sort value may have in JSON."""
    if sort.kind != "lower_bound" or sort.type in _TEXTS:
        return frozenset({str})
    if sort.type == "boolean":
        return frozenset({bool})
    # Numbers that are not finite are texts.
    return frozenset({int, Decimal, str}) if sort.type in ("float", "double") else frozenset({int, Decimal})


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None or one + other > LARGEST else one + other


def _largest(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
