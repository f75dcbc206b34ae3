"""Row groups and segments of a manifest: typed values that msgspec decodes, and the checks between their members."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

from msgspec import Meta, Struct

from delta_sidecar._arrow import DIGEST_LENGTH
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.pieces import FOOTER_END, MAGIC

LARGEST = 2**63 - 1
SMALLEST_PIECE = len(MAGIC) + FOOTER_END

WholeNumber: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)]
Digest: TypeAlias = Annotated[str, Meta(min_length=DIGEST_LENGTH, max_length=DIGEST_LENGTH)]

if TYPE_CHECKING:
    from collections.abc import Sequence

    JsonScalar: TypeAlias = str | int | Decimal | bool
else:
    # msgspec has no union of texts and decimals: it decodes any JSON here, and the type is checked afterwards.
    JsonScalar = Any

Key: TypeAlias = tuple[JsonScalar | None, ...]
"""`(complete, sort value..., path, id of the deletion vector)`."""

KeyForm: TypeAlias = tuple[frozenset[type], ...]
"""The types that the values of a key may have, place by place."""


class SummaryBounds(Struct, frozen=True):
    """The lowest and the highest value of a column over all rows, as Delta's statistics write them."""

    min: JsonScalar
    max: JsonScalar


class StatsFooter(Struct, frozen=True):
    """The footer of a statistics piece, which is its last bytes."""

    length: WholeNumber
    digest: Digest


class RowSummary(Struct, frozen=True, kw_only=True):
    """The members that row groups and segments have in common."""

    num_rows: WholeNumber
    first_key: Key
    last_key: Key
    event_hour_min: str | None  # raw text of the lowest bucket; None where no row has one
    event_hour_max: str | None
    null_buckets: WholeNumber  # rows whose bucket is null
    odd_buckets: WholeNumber  # rows whose bucket is no value of its type, or unknown
    columns: dict[str, SummaryBounds]  # bounds of summary columns, only of those that every row has both bounds of


class RowGroup(RowSummary, frozen=True, kw_only=True, omit_defaults=True):
    """One row group: the places of its two pieces, and a summary of its rows."""

    index: WholeNumber
    byte_offset: WholeNumber
    byte_length: WholeNumber
    digest: Digest
    stats_offset: WholeNumber
    stats_length: WholeNumber
    stats_digest: Digest
    stats_footer: StatsFooter
    file: WholeNumber = 0  # number of its file in the manifest's list


class Segment(RowSummary, frozen=True, kw_only=True):
    """A run of row groups in the second level of a manifest: its range in the segments file, and a summary."""

    byte_offset: WholeNumber
    byte_length: WholeNumber
    digest: Digest
    first_index: WholeNumber
    num_row_groups: WholeNumber


RowGroups: TypeAlias = tuple[RowGroup, ...]
"""The row groups of a manifest, or of one segment of it, in order."""

Segments: TypeAlias = tuple[Segment, ...]
"""The segments of a manifest in two levels, in order."""


def check_row_groups(groups: Sequence[RowGroup], *, first_index: int, sizes: Sequence[int], form: KeyForm) -> None:
    """Checks decoded row groups against each other and against the sizes of the files that they may be in.

    Raises:
        SidecarError: They are not in order, or do not fit the files.
    """
    if [group.index for group in groups] != list(range(first_index, first_index + len(groups))):
        refuse("does not number its row groups in order")
    _check_summaries(groups, form)
    if any(group.first_key[0] != group.last_key[0] for group in groups):
        refuse("has a row group with complete and incomplete rows")
    if any(not FOOTER_END <= group.stats_footer.length <= group.stats_length - len(MAGIC) for group in groups):
        refuse("has a footer that is longer than its piece")
    spans = [(group.file, group.byte_offset, group.byte_offset + group.byte_length) for group in groups]
    spans += [(group.file, group.stats_offset, group.stats_offset + group.stats_length) for group in groups]
    if any(end - start < SMALLEST_PIECE for _, start, end in spans):
        refuse("has a piece that is too short")
    _check_spans(spans, sizes)


def check_segments(segments: Sequence[Segment], *, size: int, form: KeyForm) -> None:
    """Checks decoded segments against each other and against the size of the segments file.

    Raises:
        SidecarError: They are not in order, or do not fit the file.
    """
    _check_summaries(segments, form)
    following = 0
    for segment in segments:
        if segment.first_index != following or not segment.num_row_groups:
            refuse("does not number the row groups of its segments in order")
        following += segment.num_row_groups
    _check_spans([(0, each.byte_offset, each.byte_offset + each.byte_length) for each in segments], [size])


def check_values(rows: Sequence[RowSummary]) -> None:
    """Checks the types of bounds.

    Raises:
        SidecarError: One is neither a text nor a finite number nor a truth value.
    """
    values = [value for row in rows for bounds in row.columns.values() for value in (bounds.min, bounds.max)]
    if not _SCALARS.issuperset(map(type, values)):
        refuse("has a bound that is neither a text nor a number")
    if any(isinstance(value, Decimal) and not value.is_finite() for value in values):
        refuse("has a bound that is not finite")


def refuse(what: str, code: str = "damaged") -> NoReturn:
    """Raises the error for a manifest that cannot be trusted.

    Raises:
        SidecarError: Always.
    """
    msg = f"the manifest {what}"
    raise SidecarError(msg, code)


_SCALARS = frozenset({str, int, Decimal, bool})


def _check_summaries(rows: Sequence[RowSummary], form: KeyForm) -> None:
    if any(not row.num_rows or row.null_buckets + row.odd_buckets > row.num_rows for row in rows):
        refuse("has a row group without rows, or with more buckets than rows")
    if any((row.event_hour_min is None) != (row.event_hour_max is None) for row in rows):
        refuse("has a bucket that is no text")
    keys = [key for row in rows for key in (row.first_key, row.last_key)]
    if any(len(key) != len(form) for key in keys):
        refuse("has a key out of form")
    places = zip(form, zip(*keys, strict=True), strict=False)
    if not all(kinds.issuperset(map(type, values)) for kinds, values in places) or {key[0] for key in keys} - {0, 1}:
        refuse("has a key out of form")
    check_values(rows)


def _check_spans(spans: list[tuple[int, int, int]], sizes: Sequence[int]) -> None:
    """Checks that ranges lie inside their files and do not overlap."""
    if spans and max(spans)[0] >= len(sizes):
        refuse("has a row group in a file that it does not name")
    spans.sort()
    before = (0, 0, 0)
    for span in spans:
        if span[2] > sizes[span[0]] or (span[0] == before[0] and span[1] < before[2]):
            refuse("has a range outside of its file or over another one")
        before = span
