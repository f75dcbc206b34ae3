"""Row groups and segments out of a manifest's JSON. Nothing is taken on trust: whole columns are checked at a time."""

from __future__ import annotations

from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NoReturn

from delta_sidecar._digest import DIGEST_LENGTH
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.canonical import refuse
from delta_sidecar.sidecar.footers import FOOTER_END, MAGIC
from delta_sidecar.sidecar.groups import LARGEST, RowGroups, Segments

if TYPE_CHECKING:
    from collections.abc import Sequence

KeyForm = tuple[frozenset[type], ...]
"""The types that the values of a key may have, place by place."""

SMALLEST_PIECE = len(MAGIC) + FOOTER_END
NOTHING = type(None)
SCALARS = frozenset({str, int, Decimal, bool})


def key_form(sort: Sequence[frozenset[type]]) -> KeyForm:
    """The form of keys, given the types that each sort value may have."""
    return (frozenset({int}), *(kinds | {NOTHING} for kinds in sort), frozenset({str}), frozenset({str}))


def read_row_groups(rows: object, *, first_index: int, sizes: Sequence[int], form: KeyForm) -> RowGroups:
    """Reads a list of row groups.

    Args:
        rows: The JSON.
        first_index: Number of the first one.
        sizes: Bytes of each file that they may be in.
        form: The form of their keys.

    Raises:
        SidecarError: It is not a list of row groups, or they do not fit the files.
    """
    listed = _objects(rows, "row_groups")
    columns = _columns(listed, _GROUP)
    columns["file"] = tuple([row.get("file", 0) for row in listed])
    footers = _columns(_objects(list(columns.pop("stats_footer")), "stats_footer"), ("length", "digest"))
    columns["stats_footer_length"], columns["stats_footer_digest"] = footers["length"], footers["digest"]
    _whole(
        columns, "index", "byte_offset", "byte_length", "stats_offset", "stats_length", "stats_footer_length", "file"
    )
    if columns["index"] != tuple(range(first_index, first_index + len(listed))):
        refuse("does not number its row groups in order")
    _digests(columns, "digest", "stats_digest", "stats_footer_digest")
    bounds = _shared(columns, form)
    if any(complete[0] != last[0] for complete, last in zip(columns["first_key"], columns["last_key"], strict=True)):
        refuse("has a row group with complete and incomplete rows")
    if min(columns["stats_footer_length"], default=FOOTER_END) < FOOTER_END or any(
        footer + len(MAGIC) > length
        for footer, length in zip(columns["stats_footer_length"], columns["stats_length"], strict=True)
    ):
        refuse("has a footer that is longer than its piece")
    _ranges(columns, sizes)
    return RowGroups.from_columns({name: columns[name] for name in RowGroups.names}, bounds)


def read_segments(rows: object, *, size: int, form: KeyForm) -> Segments:
    """Reads a list of segments.

    Args:
        rows: The JSON.
        size: Bytes of the segments file.
        form: The form of their keys.

    Raises:
        SidecarError: It is not a list of segments, or they do not fit the file.
    """
    columns = _columns(_objects(rows, "segments"), _SEGMENT)
    _whole(columns, "byte_offset", "byte_length", "first_index", "num_row_groups")
    _digests(columns, "digest")
    bounds = _shared(columns, form)
    following = 0
    for first, count in zip(columns["first_index"], columns["num_row_groups"], strict=True):
        if first != following or not count:
            refuse("does not number the row groups of its segments in order")
        following += count
    ends = [start + length for start, length in zip(columns["byte_offset"], columns["byte_length"], strict=True)]
    _apart([(0, start, end) for start, end in zip(columns["byte_offset"], ends, strict=True)], [size])
    return Segments.from_columns({name: columns[name] for name in Segments.names}, bounds)


_SHARED = (
    *("num_rows", "event_hour_min", "event_hour_max", "null_buckets", "odd_buckets"),
    *("first_key", "last_key", "columns"),
)
_GROUP = (
    *("index", "byte_offset", "byte_length", "digest", "stats_offset", "stats_length", "stats_digest", "stats_footer"),
    *_SHARED,
)
_SEGMENT = ("byte_offset", "byte_length", "digest", "first_index", "num_row_groups", *_SHARED)


def _objects(rows: object, what: str) -> list[dict[str, Any]]:
    if type(rows) is not list or set(map(type, rows)) - {dict}:
        refuse(f"has no list of objects as {what}")
    return rows


def _columns(rows: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    try:
        columns = list(zip(*map(itemgetter(*names), rows), strict=True))
    except KeyError as error:
        msg = f"the manifest has no {error.args[0]} for a row group"
        raise SidecarError(msg) from None
    return dict(zip(names, columns or [()] * len(names), strict=True))


def _whole(columns: dict[str, tuple[Any, ...]], *names: str) -> None:
    for name in names:
        column = columns[name]
        if set(map(type, column)) - {int} or min(column, default=0) < 0 or max(column, default=0) > LARGEST:
            refuse(f"has a {name} that is no whole number in range")


def _digests(columns: dict[str, tuple[Any, ...]], *names: str) -> None:
    for name in names:
        column = columns[name]
        if set(map(type, column)) - {str} or set(map(len, column)) - {DIGEST_LENGTH}:
            refuse(f"has a {name} that is no digest")


def _shared(columns: dict[str, tuple[Any, ...]], form: KeyForm) -> dict[str, tuple[list[Any], list[Any]]]:
    """Checks what row groups and segments have in common, and gives the bounds of their columns."""
    _whole(columns, "num_rows", "null_buckets", "odd_buckets")
    counts = zip(columns["num_rows"], columns["null_buckets"], columns["odd_buckets"], strict=True)
    if any(not rows or null + odd > rows for rows, null, odd in counts):
        refuse("has a row group without rows, or with more buckets than rows")
    lowest, highest = columns["event_hour_min"], columns["event_hour_max"]
    if (set(map(type, lowest)) | set(map(type, highest))) - {str, NOTHING} or any(
        (low is None) != (high is None) for low, high in zip(lowest, highest, strict=True)
    ):
        refuse("has a bucket that is no text")
    for name in ("first_key", "last_key"):
        columns[name] = _keys(columns[name], form)
    return _bounds(columns.pop("columns"))


def _keys(keys: tuple[Any, ...], form: KeyForm) -> tuple[tuple[Any, ...], ...]:
    if set(map(type, keys)) - {list} or set(map(len, keys)) - {len(form)}:
        _no_key()
    for kinds, values in zip(form, zip(*keys, strict=True), strict=False):
        if set(map(type, values)) - kinds:
            _no_key()
    if {key[0] for key in keys} - {0, 1}:
        _no_key()
    return tuple(map(tuple, keys))


def _no_key() -> NoReturn:
    refuse("has a key out of form")


def _bounds(columns: tuple[Any, ...]) -> dict[str, tuple[list[Any], list[Any]]]:
    if set(map(type, columns)) - {dict}:
        refuse("has bounds that are no object")
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for name in {name for each in columns for name in each}:
        listed = [each.get(name, _ABSENT) for each in columns]
        if set(map(type, listed)) - {dict}:
            refuse("has bounds that are no object")
        lower, upper = [each.get("min") for each in listed], [each.get("max") for each in listed]
        present = [
            value for each, *values in zip(listed, lower, upper, strict=True) if each is not _ABSENT for value in values
        ]
        if set(map(type, present)) - SCALARS:
            refuse("has a bound that is neither a text nor a number")
        found[name] = (lower, upper)
    return found


_ABSENT: dict[str, Any] = {}


def _ranges(columns: dict[str, tuple[Any, ...]], sizes: Sequence[int]) -> None:
    spans = [
        (file, start, start + length)
        for offset, size in (("byte_offset", "byte_length"), ("stats_offset", "stats_length"))
        for file, start, length in zip(columns["file"], columns[offset], columns[size], strict=True)
    ]
    if any(end - start < SMALLEST_PIECE for _, start, end in spans):
        refuse("has a piece that is too short")
    _apart(spans, sizes)


def _apart(spans: list[tuple[int, int, int]], sizes: Sequence[int]) -> None:
    """Checks that ranges lie inside their files and do not overlap."""
    if spans and max(spans)[0] >= len(sizes):
        refuse("has a row group in a file that it does not name")
    spans.sort()
    before = (0, 0, 0)
    for span in spans:
        if span[2] > sizes[span[0]] or (span[0] == before[0] and span[1] < before[2]):
            refuse("has a range outside of its file or over another one")
        before = span
