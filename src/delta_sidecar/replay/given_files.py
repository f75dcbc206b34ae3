"""Which files a metadata sidecar came past before it broke off, told of files from any part of the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import SidecarError
from delta_sidecar.log.keys import file_keys
from delta_sidecar.replay.sidecar_order import SidecarOrder, SortValue
from delta_sidecar.sidecar.keys import key_scalars, within
from delta_sidecar.sidecar.manifest import SortColumn
from delta_sidecar.sidecar.names import HIGHEST_VERSION
from delta_sidecar.sidecar.schema import arrow_type

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.replay.seen import SeenSet
    from delta_sidecar.sidecar.groups import Key
    from delta_sidecar.sidecar.manifest import Manifest


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
