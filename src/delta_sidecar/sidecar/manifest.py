"""The manifest `v{N}.manifest.json`: the state of the table that a metadata sidecar holds, and the place of each part.

It is one JSON object, sealed by its own digest. Nothing in it is believed before the digest holds, and nothing is taken
unchecked after: every reason to distrust it is a `SidecarError`, and a scan goes on without the sidecar.

The footer of a sidecar in one file carries the same document without the file's size, so that the manifest can be
missing.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from delta_sidecar._arrow import DIGEST_LENGTH, xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.log.names import SidecarFileKind, parse_sidecar_name
from delta_sidecar.sidecar.groups import (
    LARGEST,
    Digest,
    KeyForm,
    RowGroup,
    RowGroups,
    Segment,
    Segments,
    WholeNumber,
    check_row_groups,
    check_segments,
    check_values,
    refuse,
)
from delta_sidecar.sidecar.schema import FORMAT_VERSION, arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from delta_sidecar.log.segment import ListedFile


MOST_ROW_GROUPS = 20_000
"""Above this many row groups a manifest is written in two levels."""

SEGMENT_ROW_GROUPS = 1_000
"""Row groups in a segment, but for the last one."""

FOOTER_KEY = "delta-sidecar"
"""Key in the footer of every data file of ours; in the one-file form its value is the manifest without the size."""

LARGEST_DOCUMENT = 32 * 1024 * 1024
"""Bytes of the largest document that is read."""

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


class _Members(Struct, frozen=True, kw_only=True):
    """The members that a manifest and its JSON have in the same form. Columns are named by their physical paths."""

    version: WholeNumber
    num_files: WholeNumber  # live files of the table: the rows
    schema_hash: Digest
    commit: CommitMark | None = None  # None where it was gone already
    witness: tuple[Witness, ...] = ()
    protocol: dict[str, Any]  # fields of the `protocol` action in force
    metadata: dict[str, Any]  # fields of the `metaData` action in force
    bucket_column: str | None = None
    time_column: _Path | None = None
    sort: tuple[SortColumn, ...]  # before path and deletion vector
    summaries: tuple[_Path, ...]  # columns that row groups have bounds of
    statistics: tuple[_Path, ...]
    stats_format: str  # the layout in which texts of statistics are rebuilt

    def key_form(self) -> KeyForm:
        """The types that the values of its keys may have, place by place."""
        values = (_sort_values(each) | {type(None)} for each in self.sort)
        return (frozenset({int}), *values, frozenset({str}), frozenset({str}))


class Manifest(_Members, frozen=True, kw_only=True):
    """The content of a manifest."""

    files: tuple[SidecarFile, ...]  # the data files; more than one where it was built in parts
    totals: Totals | None = None  # None where they were not counted
    row_groups: RowGroups = ()  # empty where there are segments
    segments_file: SidecarFile | None = None
    segments: Segments = ()

    @property
    def num_row_groups(self) -> int:
        """The number of row groups, those of segments included."""
        return sum(segment.num_row_groups for segment in self.segments) if self.segments_file else len(self.row_groups)

    @property
    def sidecar_file(self) -> SidecarFile:
        """The data file; of several the first."""
        return self.files[0]

    def check_listed(self, version: int, listed: Mapping[str, ListedFile]) -> None:
        """Lets it pass if it is for a version, and its files are there as it says.

        Raises:
            SidecarError: Something else is there.
        """
        if self.version != version:
            msg = f"it is for version {self.version}"
            raise SidecarError(msg, "other_version")
        for file in (*self.files, *(() if self.segments_file is None else (self.segments_file,))):
            if file.name not in listed:
                msg = f"{file.name}, which it speaks of, is not there"
                raise SidecarError(msg, "missing_file")
            size = listed[file.name].size
            if size != file.size:
                msg = f"{file.name} has {size} bytes where it says {file.size}"
                raise SidecarError(msg, "wrong_size")


def encode_manifest(manifest: Manifest) -> bytes:
    """Writes a manifest. Equal ones give equal bytes."""
    return seal(_document(manifest, sized=True))


def decode_manifest(data: bytes, *, version: int | None = None) -> Manifest:
    """Reads a manifest, of any version or of the one that its name says.

    Raises:
        SidecarError: It cannot be trusted; the message says why.
    """
    document = _decoded(unseal(data), _DOCUMENT)
    if document.sidecar_size_bytes is UNSET:
        refuse("has no sidecar_size_bytes")
    return _manifest(document, document.sidecar_size_bytes, version)


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
    """Reads the document in the footer of a sidecar in one file, whose plain name and size are known.

    Raises:
        SidecarError: It cannot be trusted, or is that of another file; the message says why.
    """
    document = _decoded(unseal(data), _DOCUMENT)
    if document.files is not UNSET or document.sidecar_file != file_name:
        refuse("in the footer is that of another file")
    return _manifest(document, file_size, None)


def encode_segment(groups: Sequence[RowGroup]) -> bytes:
    """Writes the row groups of one segment: a JSON array. Segments stand in their file one after another."""
    check_values(groups)
    return canonical(groups)


def decode_segment(data: bytes, segment: Segment, manifest: Manifest) -> RowGroups:
    """Reads the row groups of one segment from the bytes of its range.

    Raises:
        SidecarError: The bytes are not what the manifest says.
    """
    if len(data) != segment.byte_length or xxh3_128(data) != segment.digest:
        msg = f"the segment of row group {segment.first_index} does not have its digest"
        raise SidecarError(msg)
    sizes = [each.size for each in manifest.files]
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
    """Reads what `encode_segment` wrote: row groups in files of these sizes.

    Raises:
        SidecarError: They are out of form, or do not fit the files.
    """
    groups = _decoded(data, _GROUPS)
    check_row_groups(groups, first_index=first_index, sizes=sizes, form=form)
    return groups


# Sealed JSON: one canonical layout, and a digest of it as the first member.


def canonical(value: object) -> bytes:
    """Writes JSON without white space, members in the order of their names' code points."""
    return _ENCODER.encode(value)


def seal(document: object) -> bytes:
    """Writes an object with its digest as the first member. It may be larger than what is read."""
    body = canonical(document)
    return b"".join((_START, xxh3_128(body).encode(), _MIDDLE, body[1:]))


def unseal(data: bytes) -> bytes:
    """Checks the digest of a sealed document; returns the document without its digest.

    Raises:
        SidecarError: It is too large, or its digest does not hold.
    """
    _check_size(data)
    middle = len(_START) + DIGEST_LENGTH
    body = b"{" + data[middle + len(_MIDDLE) :]
    if data[: middle + len(_MIDDLE)] != b"".join((_START, xxh3_128(body).encode(), _MIDDLE)):
        refuse("does not have its digest")
    return body


_START = b'{"digest":"'
_MIDDLE = b'",'


class _Document(_Members, frozen=True, kw_only=True):
    """The members of a manifest's JSON; other members are ignored."""

    format_version: WholeNumber
    sidecar_file: str
    sidecar_size_bytes: WholeNumber | UnsetType = UNSET
    files: tuple[SidecarFile, ...] | UnsetType = UNSET
    num_row_groups: WholeNumber
    totals: Totals | UnsetType = UNSET
    row_groups: RowGroups | UnsetType = UNSET
    segments_file: SidecarFile | UnsetType = UNSET
    segments: Segments | UnsetType = UNSET


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


_ENCODER = msgspec.json.Encoder(order="sorted", decimal_format="number")
_ANY = msgspec.json.Decoder(float_hook=_fraction)
_DOCUMENT = msgspec.json.Decoder(_Document, float_hook=_fraction)
_GROUPS = msgspec.json.Decoder(RowGroups, float_hook=_fraction)

T = TypeVar("T")


def _decoded(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    _check_size(data)
    try:
        _check_canonical(data)
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:120]
        msg = f"the manifest cannot be read: {reason}"
        raise SidecarError(msg) from error


def _check_canonical(data: bytes) -> None:
    # Of two members with one name msgspec takes the last: in the canonical layout none is there twice.
    if canonical(_ANY.decode(data)) != data:
        refuse("is not in the canonical layout")


def _check_size(data: bytes) -> None:
    if len(data) > LARGEST_DOCUMENT:
        refuse(f"has {len(data)} bytes, more than {LARGEST_DOCUMENT}")


def _document(manifest: Manifest, *, sized: bool) -> _Document:
    first, file = manifest.files[0], manifest.segments_file
    check_values([*manifest.row_groups, *manifest.segments])
    return _Document(
        format_version=FORMAT_VERSION,
        sidecar_file=first.name,
        sidecar_size_bytes=first.size if sized else UNSET,
        files=manifest.files if len(manifest.files) > 1 else UNSET,
        num_row_groups=manifest.num_row_groups,
        totals=UNSET if manifest.totals is None else manifest.totals,
        row_groups=manifest.row_groups if file is None else UNSET,
        segments_file=UNSET if file is None else file,
        segments=UNSET if file is None else manifest.segments,
        **{name: getattr(manifest, name) for name in _Members.__struct_fields__},
    )


def _manifest(document: _Document, size: int, expected: int | None) -> Manifest:
    if document.format_version != FORMAT_VERSION:
        refuse(f"has format_version {document.format_version}; known is {FORMAT_VERSION}")
    version = document.version
    if expected is not None and version != expected:
        refuse(f"is that of version {version}", "other_version")
    files = _files(document, size)
    try:
        _ = [each.arrow_type for each in document.sort]
    except ValueError:
        refuse("is sorted by something of an unknown type")
    _check_actions(document)
    form = document.key_form()
    segments_file: SidecarFile | None = None
    segments: Segments = ()
    row_groups: RowGroups = ()
    if document.segments_file is not UNSET:
        if document.segments is UNSET:
            refuse("has no segments")
        segments_file, segments = document.segments_file, document.segments
        _check_name(segments_file, version, SidecarFileKind.SEGMENTS)
        check_segments(segments, size=segments_file.size, form=form)
    elif document.row_groups is UNSET:
        refuse("has no row_groups")
    else:
        row_groups = document.row_groups
        check_row_groups(row_groups, first_index=0, sizes=[each.size for each in files], form=form)
    manifest = Manifest(
        files=files,
        totals=None if document.totals is UNSET else document.totals,
        row_groups=row_groups,
        segments_file=segments_file,
        segments=segments,
        **{name: getattr(document, name) for name in _Members.__struct_fields__},
    )
    rows = sum(group.num_rows for group in row_groups) + sum(segment.num_rows for segment in segments)
    if (manifest.num_row_groups, rows) != (document.num_row_groups, document.num_files):
        refuse("does not have as many row groups or files as it says")
    return manifest


def _files(document: _Document, size: int) -> tuple[SidecarFile, ...]:
    first = SidecarFile(document.sidecar_file, size)
    files = (first,) if document.files is UNSET else document.files
    for each in (first, *files):
        _check_name(each, document.version, SidecarFileKind.DATA, SidecarFileKind.PART)
    if files[:1] != (first,) or len({each.name for each in files}) != len(files):
        refuse("does not begin its files with sidecar_file, or names one twice")
    return files


def _check_name(file: SidecarFile, version: int, *kinds: SidecarFileKind) -> None:
    found = parse_sidecar_name(file.name)
    if found is None or found.kind not in kinds or found.version != version:
        refuse("names a file that is none of its version")


def _check_actions(document: _Document) -> None:
    try:
        msgspec.convert(document.protocol, _ProtocolFields)
        msgspec.convert(document.metadata, _MetadataFields)
    except msgspec.ValidationError as error:
        refuse(f"has a protocol or metadata that cannot be read: {str(error)[:120]}")


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
