"""What the driver makes of the tasks' records: the files and row groups of one manifest, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar.errors import BuildError
from delta_sidecar.sidecar.canonical import parse
from delta_sidecar.sidecar.group_reading import read_row_groups
from delta_sidecar.sidecar.keys import key_scalars
from delta_sidecar.sidecar.manifest import SidecarFile, Totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from delta_sidecar.sidecar.groups import Key, RowGroup
    from delta_sidecar.sidecar.manifest import Manifest, SortColumn


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts of a sidecar.

    Attributes:
        files: Their names and sizes, in order.
        groups: Their row groups, in the order of the sidecar.
        num_rows: How many rows they have.
        kept_texts: Rows whose statistics are kept as text.
        index_bytes: Bytes of their index pieces.
        stats_bytes: Bytes of their statistics pieces.
        totals: What the files of all rows have.
    """

    files: tuple[SidecarFile, ...]
    groups: list[RowGroup]
    num_rows: int
    kept_texts: int
    index_bytes: int
    stats_bytes: int
    totals: Totals


def joined_records(records: Iterable[Mapping[str, Any]], facts: Manifest) -> Parts:
    """Joins the records of all tasks.

    Args:
        records: The records, in any order.
        facts: The manifest, but for what only the files tell.

    Raises:
        BuildError: The row groups do not follow one another in the order of the sidecar.
    """
    ordered = sorted(records, key=lambda record: record["part"])
    files = tuple(SidecarFile(record["name"], record["size"]) for record in ordered)
    found: list[RowGroup] = []
    for number, record in enumerate(ordered):
        groups = read_row_groups(
            parse(bytes(record["groups"])), first_index=0, sizes=[record["size"]], form=facts.key_form()
        )
        found.extend(replace(group, file=number) for group in groups)
    # Every part has its incomplete files in front; here all of those come before all others.
    found.sort(key=lambda group: bool(group.first_key[0]))
    _check_order(found, facts.sort)
    return Parts(
        files,
        [replace(group, index=index) for index, group in enumerate(found)],
        sum(group.num_rows for group in found),
        sum(record["kept_texts"] for record in ordered),
        sum(record["index_bytes"] for record in ordered),
        sum(record["stats_bytes"] for record in ordered),
        sum((_totals(record) for record in ordered), Totals()),
    )


def _totals(record: Mapping[str, Any]) -> Totals:
    return Totals(record["bytes"], record["largest"], record["rows"], record["most_rows"])


def _check_order(groups: Sequence[RowGroup], sort: Sequence[SortColumn]) -> None:
    keys = [_comparable(key, sort) for group in groups for key in (group.first_key, group.last_key)]
    # A row group of one row has its key twice.
    for place, (before, after) in enumerate(pairwise(keys)):
        if before > after or (place % 2 and before == after):
            msg = f"the parts of the sidecar are out of order at row group {place // 2}: nothing was published"
            raise BuildError(msg)


def _comparable(key: Key, sort: Sequence[SortColumn]) -> tuple[tuple[Any, ...], ...]:
    """A key that Python orders as a sidecar does: null first, texts by their bytes."""
    return tuple((1, _value(each)) if each.is_valid else (0,) for each in key_scalars(key, sort))


def _value(value: pa.Scalar) -> Any:  # noqa: ANN401 - a value of any type that has an order
    kind = value.type
    if pa.types.is_string(kind):
        return value.as_py().encode()
    # Moments and days that Python cannot hold are numbers here.
    return value.value if pa.types.is_temporal(kind) else value.as_py()
