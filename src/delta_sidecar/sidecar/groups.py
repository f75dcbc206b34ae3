"""What a manifest tells of each row group, kept by columns.

A table of 10M files has a thousand row groups. A scan prunes over all of them but opens a few: only those become
objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, TypeAlias, TypeVar, overload

from delta_sidecar._arrow import DIGEST_LENGTH
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.canonical import refuse
from delta_sidecar.sidecar.footer import FOOTER_END, MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


JsonScalar: TypeAlias = str | int | Decimal | bool
Key: TypeAlias = tuple[JsonScalar | None, ...]
"""`(complete, sort value..., path, id of the deletion vector)`."""

LARGEST = 2**63 - 1


class Bounds(NamedTuple):
    """The lowest and the highest value of a column over all rows, as Delta's statistics write them."""

    min: JsonScalar
    max: JsonScalar


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: where its two pieces are, and what is in them.

    Attributes:
        index: Its number, from 0.
        byte_offset: Where its index piece begins in the file.
        byte_length: Bytes of its index piece.
        num_rows: How many rows it has.
        digest: Digest of the index piece.
        stats_offset: Where its statistics piece begins in the file.
        stats_length: Bytes of its statistics piece.
        stats_digest: Digest of the statistics piece.
        stats_footer_length: Bytes of the statistics piece's footer: its last ones.
        stats_footer_digest: Digest of that footer.
        first_key: Key of its first row.
        last_key: Key of its last row.
        event_hour_min: Raw text of the lowest bucket; None where no row has one.
        event_hour_max: Raw text of the highest bucket; None where no row has one.
        null_buckets: Rows whose bucket is null.
        odd_buckets: Rows whose bucket is no value of its type, or not told.
        file: Which of the manifest's files it is in.
        columns: Bounds of summary columns, by name; only of those that every row has both bounds of.
    """

    index: int
    byte_offset: int
    byte_length: int
    num_rows: int
    digest: str
    stats_offset: int
    stats_length: int
    stats_digest: str
    stats_footer_length: int
    stats_footer_digest: str
    first_key: Key
    last_key: Key
    event_hour_min: str | None = None
    event_hour_max: str | None = None
    null_buckets: int = 0
    odd_buckets: int = 0
    file: int = 0
    columns: Mapping[str, Bounds] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of row groups in the second level of a manifest, and what is in them together.

    Attributes:
        byte_offset: Where the run begins in the segments file.
        byte_length: Its bytes.
        digest: Its digest.
        first_index: Number of its first row group.
        num_row_groups: How many row groups it has.
        num_rows: How many rows they have together.
        first_key: Key of its first row.
        last_key: Key of its last row.
        event_hour_min: Raw text of the lowest bucket; None where no row has one.
        event_hour_max: Raw text of the highest bucket; None where no row has one.
        null_buckets: Rows whose bucket is null.
        odd_buckets: Rows whose bucket is no value of its type, or not told.
        columns: Bounds of summary columns, by name; only of those that every row has both bounds of.
    """

    byte_offset: int
    byte_length: int
    digest: str
    first_index: int
    num_row_groups: int
    num_rows: int
    first_key: Key
    last_key: Key
    event_hour_min: str | None = None
    event_hour_max: str | None = None
    null_buckets: int = 0
    odd_buckets: int = 0
    columns: Mapping[str, Bounds] = field(default_factory=dict)


T = TypeVar("T", RowGroup, Segment)


class _Rows(Sequence[T]):
    """Row groups or segments by columns; single ones are made when they are asked for."""

    __slots__ = ("_bounds", "_columns", "_length")

    _made_of: type[T]
    names: tuple[str, ...]

    def __init__(self, rows: Iterable[T] = ()) -> None:
        kept = list(rows)
        self._length = len(kept)
        columns = zip(*map(attrgetter(*self.names), kept), strict=True) if kept else [()] * len(self.names)
        self._columns: dict[str, tuple[Any, ...]] = dict(zip(self.names, columns, strict=True))
        self._bounds = bounds_by_name([row.columns for row in kept])

    @classmethod
    def from_columns(cls, columns: dict[str, tuple[Any, ...]], bounds: dict[str, tuple[list[Any], list[Any]]]) -> Self:
        """Takes checked columns, one for each of `names`, and the bounds as `bounds_by_name` gives them."""
        made = cls.__new__(cls)
        made.__setstate__((len(columns["num_rows"]), columns, bounds))
        return made

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> list[T]: ...

    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self._row(each) for each in range(*place.indices(self._length))]
        if not -self._length <= place < self._length:
            msg = "no such row group"
            raise IndexError(msg)
        return self._row(place % self._length)

    def __iter__(self) -> Iterator[T]:
        return map(self._row, range(self._length))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._columns == other._columns and self._bounds == other._bounds

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> tuple[Any, ...]:
        return self._length, self._columns, self._bounds

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._length, self._columns, self._bounds = state

    def _row(self, place: int) -> T:
        values = {name: column[place] for name, column in self._columns.items()}
        bounds = {
            name: Bounds(lower[place], upper[place])
            for name, (lower, upper) in self._bounds.items()
            if lower[place] is not None
        }
        return self._made_of(**values, columns=bounds)

    @property
    def num_rows(self) -> Sequence[int]:
        """Rows of each."""
        return self._columns["num_rows"]

    @property
    def event_hour_min(self) -> Sequence[str | None]:
        """Raw text of the lowest bucket of each; None for none."""
        return self._columns["event_hour_min"]

    @property
    def event_hour_max(self) -> Sequence[str | None]:
        """Raw text of the highest bucket of each; None for none."""
        return self._columns["event_hour_max"]

    @property
    def null_buckets(self) -> Sequence[int]:
        """Rows of each whose bucket is null."""
        return self._columns["null_buckets"]

    @property
    def odd_buckets(self) -> Sequence[int]:
        """Rows of each whose bucket is no value of its type, or not told."""
        return self._columns["odd_buckets"]

    def bounds(self, column: str) -> tuple[Sequence[JsonScalar | None], Sequence[JsonScalar | None]]:
        """The lowest and the highest value of a column in each; None where one tells none."""
        if column not in self._bounds:
            nothing = [None] * self._length
            return nothing, nothing
        return self._bounds[column]

    def bounded(self) -> frozenset[str]:
        """Names of the columns that any of them tells bounds of."""
        return frozenset(self._bounds)


class RowGroups(_Rows[RowGroup]):
    """The row groups of a manifest, or of one segment of it, in order."""

    __slots__ = ()

    _made_of = RowGroup
    names = tuple(name for name in RowGroup.__slots__ if name != "columns")


class Segments(_Rows[Segment]):
    """The segments of a manifest in two levels, in order."""

    __slots__ = ()

    _made_of = Segment
    names = tuple(name for name in Segment.__slots__ if name != "columns")


def bounds_by_name(rows: Sequence[Mapping[str, Bounds]]) -> dict[str, tuple[list[Any], list[Any]]]:
    """The bounds of each column as two lists, None where a row has none."""
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for place, row in enumerate(rows):
        for name, bounds in row.items():
            if name not in found:
                found[name] = ([None] * len(rows), [None] * len(rows))
            found[name][0][place], found[name][1][place] = bounds
    return found


def group_json(group: RowGroup) -> dict[str, Any]:
    """A row group as it stands in a manifest."""
    document = {name: getattr(group, name) for name in _AS_THEY_ARE} | _shared_json(group)
    document["stats_footer"] = {"length": group.stats_footer_length, "digest": group.stats_footer_digest}
    if group.file:
        document["file"] = group.file
    return document


def segment_json(segment: Segment) -> dict[str, Any]:
    """A segment as it stands in a manifest."""
    names = ("byte_offset", "byte_length", "digest", "first_index", "num_row_groups")
    return {name: getattr(segment, name) for name in names} | _shared_json(segment)


_AS_THEY_ARE = ("index", "byte_offset", "byte_length", "digest", "stats_offset", "stats_length", "stats_digest")
_SHARED = ("num_rows", "event_hour_min", "event_hour_max", "null_buckets", "odd_buckets")


def _shared_json(row: RowGroup | Segment) -> dict[str, Any]:
    document = {name: getattr(row, name) for name in _SHARED}
    document["first_key"] = [_exact(value) for value in row.first_key]
    document["last_key"] = [_exact(value) for value in row.last_key]
    document["columns"] = {
        name: {"min": _exact(bounds.min), "max": _exact(bounds.max)} for name, bounds in row.columns.items()
    }
    return document


def _exact(value: object) -> object:
    return Decimal(repr(value)) if isinstance(value, float) else value


# Row groups and segments out of a manifest's JSON. Nothing is taken on trust: whole columns are checked at a time.


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


_GROUP_READING_SHARED = (
    *("num_rows", "event_hour_min", "event_hour_max", "null_buckets", "odd_buckets"),
    *("first_key", "last_key", "columns"),
)
_GROUP = (
    *("index", "byte_offset", "byte_length", "digest", "stats_offset", "stats_length", "stats_digest", "stats_footer"),
    *_GROUP_READING_SHARED,
)
_SEGMENT = ("byte_offset", "byte_length", "digest", "first_index", "num_row_groups", *_GROUP_READING_SHARED)


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
