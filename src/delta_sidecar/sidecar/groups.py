"""Row groups and segments of a manifest: typed values that msgspec decodes, and the checks between their members."""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from msgspec import Meta, Struct

from delta_sidecar._arrow import DIGEST_LENGTH
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.pieces import FOOTER_END, MAGIC

LARGEST = 2**63 - 1

LARGEST_DOCUMENT = 32 * 1024 * 1024
"""Bytes of the largest document that is read: a manifest, or a segment of one."""

WholeNumber: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST)]
PieceLength: TypeAlias = Annotated[int, Meta(ge=len(MAGIC) + FOOTER_END, le=LARGEST)]
Digest: TypeAlias = Annotated[str, Meta(min_length=DIGEST_LENGTH, max_length=DIGEST_LENGTH)]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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

    length: Annotated[int, Meta(ge=FOOTER_END, le=LARGEST)]
    digest: Digest


class RowSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The members that row groups and segments have in common. What has its default is not written."""

    num_rows: Count
    event_hour_min: str | None = None  # raw text of the lowest bucket; None where no row has one
    event_hour_max: str | None = None
    null_buckets: WholeNumber = 0  # rows whose bucket is null
    odd_buckets: WholeNumber = 0  # rows whose bucket is no value of its type, or unknown
    first_key: Key
    last_key: Key
    columns: dict[str, SummaryBounds] = {}  # bounds of summary columns, only of those that every row has both bounds of


class RowGroup(RowSummary, frozen=True, kw_only=True, omit_defaults=True):
    """One row group: the places of its two pieces, and a summary of its rows."""

    index: WholeNumber
    file: WholeNumber = 0  # number of its file in the manifest's list
    byte_offset: WholeNumber
    byte_length: PieceLength
    digest: Digest
    stats_offset: WholeNumber
    stats_length: PieceLength
    stats_digest: Digest
    stats_footer: StatsFooter | None = None  # None where the piece is small: it is only read whole

    num_row_groups: ClassVar[int] = 1

    @property
    def first_index(self) -> int:
        """Its number, as a run of row groups has it."""
        return self.index


class Segment(RowSummary, frozen=True, kw_only=True, omit_defaults=True):
    """A run of row groups that are listed outside of the manifest: the range with the list, and a summary."""

    first_index: WholeNumber
    num_row_groups: Count
    file: WholeNumber
    byte_offset: WholeNumber
    byte_length: Annotated[int, Meta(ge=0, le=LARGEST_DOCUMENT)]
    digest: Digest


RowGroups: TypeAlias = tuple[RowGroup, ...]
"""Row groups, in order."""

Segments: TypeAlias = tuple[Segment, ...]
"""Segments, in order."""

Run: TypeAlias = RowGroup | Segment
"""Row groups that follow one another: a single one, or a segment of them."""


def check_row_groups(groups: RowGroups, *, first_index: int, sizes: Sequence[int], form: KeyForm) -> None:
    """Checks decoded row groups against each other and against the sizes of the files that they may be in.

    Raises:
        SidecarError: They are not in order, or do not fit the files.
    """
    if not groups:
        return
    if [group.index for group in groups] != list(range(first_index, first_index + len(groups))):
        refuse("does not number its row groups in order")
    _check_summaries(groups, form)
    if any(group.first_key[0] != group.last_key[0] for group in groups):
        refuse("has a row group with complete and incomplete rows")
    if any(each.stats_footer and each.stats_footer.length > each.stats_length - len(MAGIC) for each in groups):
        refuse("has a footer that is longer than its piece")
    starts, lengths = (
        np.concatenate([_numbers(groups, name) for name in names])
        for names in (("byte_offset", "stats_offset"), ("byte_length", "stats_length"))
    )
    _check_ranges(np.tile(_numbers(groups, "file"), 2), starts, lengths, sizes)


def check_segments(segments: Segments, *, sizes: Sequence[int], form: KeyForm) -> None:
    """Checks decoded segments against each other and against the sizes of the files that they may be in.

    Raises:
        SidecarError: They are not in order, or do not fit the files.
    """
    if not segments:
        return
    _check_summaries(segments, form)
    following = 0
    for segment in segments:
        if segment.first_index != following:
            refuse("does not number the row groups of its segments in order")
        following += segment.num_row_groups
    file, starts, lengths = (_numbers(segments, name) for name in ("file", "byte_offset", "byte_length"))
    _check_ranges(file, starts, lengths, sizes)


def check_bounds(rows: Sequence[RowSummary]) -> None:
    """Checks the types of bounds.

    Raises:
        SidecarError: One is neither a text nor a finite number nor a truth value.
    """
    values = [value for row in rows for bounds in row.columns.values() for value in (bounds.min, bounds.max)]
    kinds = set(map(type, values))
    if not kinds <= _SCALARS:
        refuse("has a bound that is neither a text nor a number")
    if Decimal in kinds and not all(value.is_finite() for value in values if isinstance(value, Decimal)):
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
    null_buckets, odd_buckets = _numbers(rows, "null_buckets"), _numbers(rows, "odd_buckets")
    if (null_buckets > _numbers(rows, "num_rows") - odd_buckets).any():
        refuse("has a row group with more buckets than rows")
    if any((row.event_hour_min is None) != (row.event_hour_max is None) for row in rows):
        refuse("has a bucket that is no text")
    keys = [*map(attrgetter("first_key"), rows), *map(attrgetter("last_key"), rows)]
    if set(map(len, keys)) != {len(form)}:
        refuse("has a key out of form")
    places = list(zip(*keys, strict=True))
    is_typed = all(kinds.issuperset(map(type, values)) for kinds, values in zip(form, places, strict=True))
    if not is_typed or not {0, 1}.issuperset(places[0]):
        refuse("has a key out of form")
    check_bounds(rows)


def _check_ranges(
    file: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64], sizes: Sequence[int]
) -> None:
    """Checks that ranges lie inside their files and do not overlap."""
    if file.max() >= len(sizes):
        refuse("has a row group in a file that it does not name")
    size = np.array(sizes, dtype=np.int64)[file]
    order = np.lexsort((start, file))
    file, start, length, size = file[order], start[order], length[order], size[order]
    # No sum is made before it is known to be a number of bytes in the file.
    if (start > size).any() or (length > size - start).any():
        refuse("has a range outside of its file")
    if ((file[1:] == file[:-1]) & (start[1:] < (start + length)[:-1])).any():
        refuse("has a range over another one")


def _numbers(rows: Sequence[RowSummary], name: str) -> NDArray[np.int64]:
    return np.fromiter(map(attrgetter(name), rows), dtype=np.int64, count=len(rows))
