"""Random histories of a table, and the table that each of them builds.

    @given(history=histories())
    def test_files(history, tmp_path_factory):
        table = history.build(tmp_path_factory.mktemp("table"))
        for version in table.readable_versions():
            expected = table.model_files(version)

A history is legal Delta: what a writer may do, in any order. `portable=True` leaves out what readers disagree
about, so that an independent reader can be asked.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.builder.columns import DATA_COLUMNS, PARTITION_COLUMNS, Kind
from tests.builder.history_writer import HistoryWriter
from tests.builder.predicates import Condition, normal_forms, predicates, true_conditions
from tests.builder.schemas import Schema
from tests.builder.table import TableBuilder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Condition",
    "History",
    "Step",
    "column_histories",
    "histories",
    "normal_forms",
    "predicates",
    "true_conditions",
]

_ZONES = [dt.timedelta(hours=hours) for hours in (-12, -5, 0, 14)] + [dt.timedelta(hours=5, minutes=30)]
_CHANGES = (
    "append",
    "remove",
    "add_again",
    "new_statistics",
    "deletion_vector",
    "rewrite",
    "metadata",
    "upgrade",
    "nothing",
)


@dataclass(frozen=True)
class Step:
    """One thing that happens to a log: `commit`, `checkpoint`, `checksum` or `clean_up`, with its arguments."""

    verb: str
    arguments: dict[str, Any]

    def apply(self, table: TableBuilder) -> None:
        """Does it."""
        getattr(table, self.verb)(**self.arguments)


@dataclass(frozen=True)
class History:
    """A table from its first version on.

    Attributes:
        schema: The first schema.
        protocol: The first protocol action.
        zone: How far ahead of UTC the writer's clock is.
        steps: What happens.
    """

    schema: Schema
    protocol: dict[str, Any]
    zone: dt.timedelta
    steps: tuple[Step, ...]

    def build(self, root: Path) -> TableBuilder:
        """Writes the table into a directory."""
        table = TableBuilder(
            root,
            schema=self.schema.struct,
            partition_columns=self.schema.partition_names,
            configuration=self.schema.configuration,
            protocol=self.protocol,
            zone=self.zone,
        )
        for step in self.steps:
            step.apply(table)
        return table


@st.composite
def histories(draw: st.DrawFn, *, portable: bool = False, max_steps: int = 10) -> History:
    """Gives random histories.

    Args:
        draw: Hypothesis's own.
        portable: Leaves out absolute paths, one file under two spellings, and the same key removed and added
            in one commit.
        max_steps: At most so many commits after the first; checkpoints and clean-ups come on top.
    """
    schema = draw(_schemas())
    zone = draw(st.sampled_from(_ZONES))
    writer = HistoryWriter(draw, schema, zone, portable=portable)
    changes = _CHANGES if portable else (*_CHANGES, "same_key_twice")
    first_protocol = writer.protocol()
    steps = [Step("commit", {"actions": writer.append()})]
    steps += draw(_log_keeping(writer, 0))
    for version in range(1, 1 + draw(st.integers(0, max_steps))):
        actions: list[dict[str, Any]] = []
        for change in draw(st.lists(st.sampled_from(changes), min_size=1, max_size=2, unique=True)):
            actions += getattr(writer, change)()
        writer.commit_ends()
        steps.append(Step("commit", {"actions": actions}))
        steps += draw(_log_keeping(writer, version))
    return History(schema, first_protocol, zone, tuple(steps))


@st.composite
def column_histories(draw: st.DrawFn, kind: str, role: str) -> History:
    """Gives tables that are about one column: files with statistics, then, it may be, vectors and a checkpoint.

    Args:
        draw: Hypothesis's own.
        kind: The Delta type of the column `c`.
        role: `column`, `field` of a struct or `partition`.
    """
    data: dict[str, Kind] = {"column": {"c": kind}, "field": {"s": {"c": kind}}, "partition": {"id": "long"}}[role]
    schema = Schema.first(
        data, {"c": kind} if role == "partition" else {}, draw(st.sampled_from(["none", "name", "id"]))
    )
    zone = draw(st.sampled_from(_ZONES))
    writer = HistoryWriter(draw, schema, zone, complete=True)
    first_protocol = writer.protocol()
    steps = [Step("commit", {"actions": writer.append(3, 5)})]
    for change in draw(st.sampled_from([[], ["deletion_vector"], ["append"]])):
        writer.commit_ends()
        steps.append(Step("commit", {"actions": getattr(writer, change)() or writer.nothing()}))
    if draw(st.booleans()):
        steps.append(Step("checkpoint", draw(_checkpoints(writer))))
    return History(schema, first_protocol, zone, tuple(steps))


@st.composite
def _schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(st.sampled_from(sorted(DATA_COLUMNS)), unique=True, min_size=1, max_size=6))
    keys = draw(st.lists(st.sampled_from(sorted(PARTITION_COLUMNS)), unique=True, max_size=3))
    data = {name: DATA_COLUMNS[name] for name in names}
    partitions = {name: PARTITION_COLUMNS[name] for name in keys}
    mode = draw(st.sampled_from(["none", "none", "name", "id", "switched on"]))
    if mode == "switched on":
        # As if there had been data before: physical names are the first names, which may since be those of others.
        return Schema.first(data, partitions, "none").mapped()
    return Schema.first(data, partitions, mode)


@st.composite
def _log_keeping(draw: st.DrawFn, writer: HistoryWriter, version: int) -> list[Step]:
    steps = []
    if draw(st.integers(0, 3)) == 0:
        steps.append(Step("checksum", {}))
    if draw(st.integers(0, 3)) == 0:
        steps.append(Step("checkpoint", draw(_checkpoints(writer))))
        if version and draw(st.integers(0, 2)) == 0:
            steps.append(Step("clean_up", {"inclusive": draw(st.booleans())}))
    return steps


def _checkpoints(writer: HistoryWriter) -> st.SearchStrategy[dict[str, Any]]:
    v2 = "v2Checkpoint" in writer.features
    kinds = ("v1", "v2-json", "v2-parquet", "v2-classic") if v2 else ("v1", "v1-multipart")
    return st.fixed_dictionaries(
        {
            "kind": st.sampled_from(kinds),
            "struct_stats": st.booleans(),
            "json_stats": st.booleans(),
            "row_group_rows": st.sampled_from([None, 1, 2, 5]),
            "parts": st.integers(2, 3),
            "sidecars": st.integers(0, 2),
            "tombstones": st.booleans(),
            "top_last": st.booleans(),
            "last_checkpoint": st.booleans(),
        }
    )
