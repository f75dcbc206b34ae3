"""Tables whose metadata sidecars are sorted in every way there is, with odd files among the others."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.builder import TableBuilder, add, deletion_vector
from tests.scan.sidecar_tables import VECTORS, gone, with_sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TIMED = {"id": "long", "at": "timestamp", "name": "string"}
SIDECAR = 4


@dataclass(frozen=True)
class Layout:
    """Columns of a table, and the predicates that are worth asking of it.

    Attributes:
        schema: Names to Delta types.
        partitions: Names of the partition columns.
        predicates: SQL.
    """

    schema: Mapping[str, str]
    partitions: tuple[str, ...] = ()
    predicates: tuple[str, ...] = ()

    def file(self, number: int, dv: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A file; every sixth has no statistics."""
        row = {"id": number, "name": f"n{number}"}
        if "at" in self.schema:
            row["at"] = _moment(number * 5)
        given = {"stats": None} if number % 6 == 5 else {}
        values = {name: value for name in self.partitions if (value := self._value(name, number)) is not ...}
        return add(f"f{number:02}.parquet", rows=[row], partition_values=values, dv=dv, **given)

    def _value(self, name: str, number: int) -> Any:  # noqa: ANN401 - a text, None, or nothing at all
        kind = self.schema[name]
        if number % 5 == 4:
            return None
        if number % 7 == 6 and kind != "string":
            return "no value"
        if number == 10:
            return ...
        return {
            "integer": str(number * 7 % 10 - 3),
            "date": f"2026-02-{number * 7 % 10 + 1:02}",
            "timestamp": _moment(number * 7).strftime("%Y-%m-%d %H:%M:%S"),
            "string": f"{number * 7 % 24:02}" if name.startswith("_") else "ab"[number % 2],
        }[kind]


LAYOUTS = {
    "bucket": Layout(TIMED | {"_event_hour": "string"}, ("_event_hour",), ("_event_hour > '06'",)),
    "bucket of numbers": Layout(TIMED | {"_event_hour": "integer"}, ("_event_hour",), ("_event_hour > 0",)),
    "bucket of days": Layout(TIMED | {"_event_hour": "date"}, ("_event_hour",), ("_event_hour > '2026-02-04'",)),
    "bucket of times": Layout(
        TIMED | {"_event_hour": "timestamp"}, ("_event_hour",), ("_event_hour > timestamp '2026-02-10 10:00:00'",)
    ),
    "bucket among others": Layout(
        TIMED | {"_event_hour": "string", "q": "string"}, ("q", "_event_hour"), ("q = 'a' AND _event_hour > '06'",)
    ),
    "other partitions": Layout(TIMED | {"p": "integer", "q": "string"}, ("p", "q"), ("p > 0",)),
    "days and regions": Layout(TIMED | {"day": "date", "q": "string"}, ("day", "q"), ("day > '2026-02-04'",)),
    "time": Layout(TIMED, (), ("at > timestamp '2026-02-10 10:00:00'",)),
    "path": Layout({"id": "long", "name": "string"}, (), ("id > 3",)),
}


def laid_out(root: Path, layout: Layout, checkpoint: str = "same", **options: Any) -> TableBuilder:  # noqa: ANN401
    """Gives a table with a metadata sidecar at version 4, and three commits after it.

    Args:
        root: Its directory.
        layout: Its columns.
        checkpoint: Where its checkpoint is: `same`, `older`, `newer` or `none`; `bare` is one at the same version, but
            without statistics.
        options: For the build.
    """
    table = TableBuilder(root, schema=layout.schema, partition_columns=layout.partitions, protocol=VECTORS)
    for number in range(4):
        table.commit([layout.file(number * 4 + place) for place in range(4)])
        if number == 1 and checkpoint == "older":
            table.checkpoint(row_group_rows=3)
    vector = deletion_vector("first")
    table.commit([gone(layout.file(2)), layout.file(2, vector), gone(layout.file(9)), layout.file(9, vector)])
    if checkpoint == "same":
        table.checkpoint(row_group_rows=3)
    with_sidecar(table, SIDECAR, **options)
    if checkpoint == "bare":
        table.checkpoint(row_group_rows=3, json_stats=False)
    # A file with another vector, one without statistics, one that goes, one that comes again with other statistics.
    table.commit([gone(layout.file(2, vector)), layout.file(2, deletion_vector("second")), layout.file(20)])
    table.commit([gone(layout.file(0)), layout.file(21)])
    if checkpoint == "newer":
        table.checkpoint(row_group_rows=3)
    again = layout.file(3)
    again["add"] |= {"size": 3, "stats": '{"numRecords":3}'}
    table.commit([gone(layout.file(21)), again])
    return table


def _moment(hours: int) -> dt.datetime:
    return dt.datetime(2026, 2, 10, hours % 24, tzinfo=dt.UTC)
