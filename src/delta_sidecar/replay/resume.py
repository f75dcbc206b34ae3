"""Where a metadata sidecar breaks off: which files it came past, for whoever goes on.

That is told by keys alone where complete and incomplete rows are in an order that every base tells alike. Else the keys
of the files are needed: of incomplete rows they were noted down, or row groups that were let through are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from delta_sidecar.errors import SidecarError
from delta_sidecar.log.identity import file_keys
from delta_sidecar.plan import Consume, ConsumePhase, ScanPieces, StateMachinePhase
from delta_sidecar.replay.bases.pieces import (
    Course,
    SegmentContinuation,
    SegmentPhase,
    WantedColumns,
    pieces_of,
)
from delta_sidecar.replay.failures import raise_sidecar_failure
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.sidecar.groups import RowGroup
from delta_sidecar.sidecar.manifest import SortColumn
from delta_sidecar.sidecar.names import HIGHEST_VERSION
from delta_sidecar.sidecar.order import SidecarOrder, SortValue, key_scalars, newest_first, within
from delta_sidecar.sidecar.rows import VECTOR_COLUMNS, row_keys
from delta_sidecar.sidecar.schema import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.sidecar.groups import Key, RowGroups, Segment
    from delta_sidecar.sidecar.manifest import Manifest


T = TypeVar("T")
_Ordered = TypeVar("_Ordered", "RowGroup", "Segment")


def broken_at(
    course: Course[T], failed: RowGroup | Segment, error: Exception, noted: SeenSet | None = None
) -> StateMachinePhase[T] | None:
    """Goes on with another base, without the files before a row group or segment in the order of reading.

    Args:
        course: What was read.
        failed: The row group or segment.
        error: Why.
        noted: Keys of the files that were let through: in order of time of all, else of those of incomplete rows. None
            where they were not noted down.
    """
    if not course.is_torn(error):
        return None
    if is_one_run(course.manifest) and is_told_alike(course):
        return course.broken(error, _before(course, failed))
    if isinstance(failed, RowGroup) and noted is not None:
        # In order of time all files were noted down, else those of the incomplete rows, which come first.
        besides = _before(course, failed) if failed.first_key[0] and not course.reading.recent else None
        return course.broken(error, GivenKeys(noted.freeze(), _where(course, failed.index), besides))
    is_segment = not isinstance(failed, RowGroup)
    index = failed.index if isinstance(failed, RowGroup) else failed.first_index
    return note_given(course, index, error, of_segment=is_segment)


def note_given(course: Course[T], index: int, error: Exception, *, of_segment: bool) -> StateMachinePhase[T]:
    """Notes down which files were let through before a row group, and breaks off.

    Args:
        course: What was read.
        index: Number of the row group, or of the first one of the segment, that failed.
        error: Why.
        of_segment: Whether it was the segment.
    """
    segments = in_order(course, course.matching_segments())
    before = tuple(takewhile(lambda segment: not holds(segment, index), segments))
    if not of_segment:
        # Row groups of its own segment may have come before it.
        before = segments[: len(before) + 1]
    groups = () if segments else _up_to(in_order(course, course.matching(course.manifest.row_groups)), index)
    return _note_down(_Noted(course, before, _where(course, index, of_segment=of_segment), error), groups)


def in_order(course: Course[T], groups: Sequence[_Ordered]) -> tuple[_Ordered, ...]:
    """Row groups, or segments, in the order of reading."""
    if course.reading.forward:
        return tuple(groups)
    if course.reading.recent:
        return newest_first(groups, course.layout.order)
    # Incomplete rows come first, in reverse too.
    return tuple(_run(groups, is_complete=False) + _run(groups, is_complete=True))


def is_told_alike(course: Course[T]) -> bool:
    """Whether other bases tell the order of complete rows, and of incomplete ones, as the metadata sidecar does."""
    return is_by_partitions(course.manifest, {physical for _, physical in course.reading.columns.partition_columns})


def holds(segment: Segment, index: int) -> bool:
    """Whether a row group is in a segment."""
    return segment.first_index <= index < segment.first_index + segment.num_row_groups


@dataclass(frozen=True, slots=True)
class GivenKeysPhase(ConsumePhase[T]):
    """Notes down the keys of row groups that were let through before another one failed."""

    noted: _Noted[T]
    groups: tuple[RowGroup, ...] = field(repr=False)

    def plan(self) -> ScanPieces:
        """What their keys are made of."""
        columns = WantedColumns(("path", *VECTOR_COLUMNS), ())
        course = self.noted.course
        groups = tuple(pieces_of(course.manifest, group, columns) for group in self.groups)
        schemas = course.layout.piece_schemas[:1]
        return ScanPieces(groups, columns.by_piece, schemas, at_once=course.reading.at_once)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[T]:
        """Goes on with what else was let through."""
        for batch in data:
            self.noted.keys.insert(file_keys(row_keys(batch)))
        return _note_down(self.noted, ())

    def recover(self, error: Exception) -> StateMachinePhase[T] | None:
        """Nobody can tell any more which files were given out: the scan fails, and the error names the file."""
        raise_sidecar_failure(self.noted.course.reading.table, error)
        return None


@dataclass(frozen=True, slots=True)
class _Noted(SegmentContinuation[T]):
    """What is known of the files that were let through before a row group failed.

    Attributes:
        course: What was read.
        left: Segments whose row groups are not noted down yet.
        where: Which row group failed.
        error: Why.
        keys: The keys that are.
    """

    course: Course[T]
    left: tuple[Segment, ...] = field(repr=False)
    where: BrokenOff
    error: Exception
    keys: SeenSet = field(default_factory=SeenSet, repr=False)

    def read(self, groups: RowGroups) -> StateMachinePhase[T]:
        return _note_down(self, _up_to(in_order(self.course, self.course.matching(groups)), self.where.index))

    def broken(self, segment: Segment, error: Exception) -> StateMachinePhase[T] | None:
        del segment
        raise_sidecar_failure(self.course.reading.table, error)
        return None


def _run(groups: Sequence[_Ordered], *, is_complete: bool) -> list[_Ordered]:
    return [group for group in reversed(groups) if bool(group.first_key[0]) == is_complete]


def _where(course: Course[T], index: int, *, of_segment: bool = False) -> BrokenOff:
    (identity,) = course.base.identity.values()
    base, reading = course.base, course.reading
    return BrokenOff(base.name, base.version, identity, index, of_segment, reading.forward, reading.recent)


def _up_to(groups: Sequence[RowGroup], index: int) -> tuple[RowGroup, ...]:
    return tuple(takewhile(lambda group: group.index != index, groups))


def _note_down(noted: _Noted[T], groups: tuple[RowGroup, ...]) -> StateMachinePhase[T]:
    """Notes the keys of row groups down, then those of the segments that are left, and goes on with another base."""
    course = noted.course
    if groups:
        return Consume(GivenKeysPhase(noted, groups))
    if noted.left:
        return Consume(SegmentPhase(course, noted.left[0], replace(noted, left=noted.left[1:])))
    return course.then.broken(course.base, noted.error, GivenKeys(noted.keys.freeze(), noted.where))


def _before(course: Course[T], failed: RowGroup | Segment) -> KeysBetween:
    """Tells which files lie before a row group in the order of reading; of two runs, only those of the complete one."""
    logical = {physical: name for name, physical in course.reading.columns.partition_columns}
    manifest = course.manifest
    all_of_it = manifest.segments or manifest.row_groups
    if course.reading.forward:
        run = all_of_it[-1].last_key[0]
        first = next(group for group in all_of_it if group.first_key[0] == run)
        return KeysBetween(manifest.sort, failed.first_key, first.first_key, logical, above=False)
    return KeysBetween(manifest.sort, failed.last_key, all_of_it[-1].last_key, logical, above=True)


# Which files a metadata sidecar came past before it broke off, told of files from any part of the log.


Logical = Mapping[str, str]
"""Logical names of partition columns, by physical name."""


@dataclass(frozen=True, slots=True)
class BrokenOff:
    """Where a metadata sidecar broke off, so that what came before can be read again.

    Attributes:
        base: Its name.
        version: Its version.
        identity: What identifies its contents.
        index: Number of the row group, or first row group of the segment, that failed.
        of_segment: Whether it was the segment.
        forward: Whether it was read from its start.
        recent: Whether it was read in order of time, the newest first.
    """

    base: str
    version: int
    identity: str
    index: int
    of_segment: bool
    forward: bool
    recent: bool

    @classmethod
    def from_json(cls, fields: Any) -> BrokenOff:  # noqa: ANN401 - it is checked here
        """Reads what `GivenKeys.to_json` gave.

        Raises:
            ValueError: It is out of form.
        """
        try:
            found = cls(**fields)
        except TypeError as error:
            raise ValueError(str(error)) from error
        kinds = (str, int, str, int, bool, bool, bool)
        if any(type(value) is not kind for value, kind in zip(astuple(found), kinds, strict=True)):
            msg = "a member has another type"
            raise ValueError(msg)
        if not 0 <= found.version <= HIGHEST_VERSION or found.index < 0:
            msg = "a number is out of range"
            raise ValueError(msg)
        return found


@dataclass(frozen=True, slots=True)
class GivenKeys:
    """Those whose keys were noted down, in a set that does not change any more.

    Attributes:
        keys: The keys.
        before: Where they come from.
        besides: Tells of others; None where there are none.
    """

    keys: SeenSet = field(repr=False)
    before: BrokenOff
    besides: KeysBetween | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values: where they come from."""
        return asdict(self.before)

    def __call__(self, files: pa.RecordBatch) -> NDArray[np.bool_]:
        """Tells of each file whether it is one of them."""
        noted = self.keys.contains(given_keys(files))
        return noted if self.besides is None else noted | self.besides(files)


@dataclass(frozen=True, slots=True)
class KeysBetween:
    """Those whose key lies between that of a row group and the end that reading began at.

    Only partition values and paths count, which every base tells alike.

    Attributes:
        sort: The order of the metadata sidecar, as its manifest has it.
        near: The row group's last or first key, which is not one of them.
        far: The sidecar's last or first key, which is.
        logical: Logical names of the partition columns, by physical name.
        above: Whether the end that reading began at is the upper one.
    """

    sort: tuple[SortColumn, ...]
    near: Key
    far: Key
    logical: Logical = field(hash=False)
    above: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        sort = [[each.kind, list(each.column), each.type] for each in self.sort]
        return {"sort": sort, "near": list(self.near), "far": list(self.far), "above": self.above}

    def __call__(self, files: pa.RecordBatch) -> NDArray[np.bool_]:
        """Tells of each file whether it is one of them."""
        values = tuple(SortValue(each.kind, each.column, arrow_type(each.type)) for each in self.sort)
        columns = SidecarOrder(values, {}).of_files(files, self.logical)[1:]
        near, far = (key_scalars(key, self.sort)[1:] for key in (self.near, self.far))
        between = within(near, far, columns) if self.above else within(far, near, columns)
        return between & ~within(near, near, columns)


def given_keys(files: pa.RecordBatch) -> pa.BinaryArray:
    """The keys of files."""
    return file_keys({"path": files.column("raw_path"), "deletionVector": files.column("deletion_vector")})


def is_one_run(manifest: Manifest) -> bool:
    """Whether its rows are all complete, or all incomplete."""
    groups = manifest.segments or manifest.row_groups
    return not groups or groups[0].first_key[0] == groups[-1].last_key[0]


def is_by_partitions(manifest: Manifest, partitions: Collection[str]) -> bool:
    """Whether complete rows, and incomplete ones, are in an order that every base tells alike.

    Statistics may be cut, or missing, elsewhere; a time without a zone may have been read in another zone; and what is
    no partition column any more is told nowhere else.

    Args:
        manifest: The manifest.
        partitions: Physical names of the partition columns that the table has now.
    """
    return all(
        each.kind != "lower_bound" and each.type != "timestamp" and each.column[0] in partitions
        for each in manifest.sort
    )


def given_from_json(fields: Any, logical: Logical) -> KeysBetween:  # noqa: ANN401 - it is checked here
    """Reads what `KeysBetween.to_json` gave.

    Args:
        fields: The JSON values.
        logical: Logical names of the table's partition columns, by physical name.

    Raises:
        ValueError: It is out of form.
    """
    try:
        sort = tuple(SortColumn(kind, _path(column), type_) for kind, column, type_ in fields["sort"])
        near, far = (tuple(fields[name]) for name in ("near", "far"))
        if not all(map(is_text, (*near[-2:], *far[-2:]))):
            raise TypeError  # noqa: TRY301 - one reason for all
        # They are made now, so that what is out of form is found before the first file.
        key_scalars(near, sort)
        key_scalars(far, sort)
        if any(each.kind == "lower_bound" or each.column[0] not in logical for each in sort):
            msg = "it is sorted by something that is no partition column"
            raise ValueError(msg)
        return KeysBetween(sort, near, far, logical, above=bool(fields["above"]))
    except (KeyError, TypeError, IndexError, UnicodeError, SidecarError) as error:
        raise ValueError(str(error)) from error


def is_text(value: object) -> bool:
    """Whether something is a text that can be written as UTF-8: JSON has escapes that cannot."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def _path(parts: Any) -> tuple[str, ...]:  # noqa: ANN401
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        raise TypeError
    return tuple(parts)
