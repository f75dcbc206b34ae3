"""Tables that have been through a lot: random operations of Spark on a table of nested columns.

Each operation is an SQL statement. Values are made from the row's id by hashes, so that a table is the same whenever it
is made from the same seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.spark.random_columns import (
    WIDER,
    Column,
    Entries,
    Items,
    Struct,
    conditions,
    ddl,
    dotted,
    places,
    quoted,
    structs,
    value,
    value_of,
)
from tests.spark.row_equality import read_by_spark

from delta_sidecar.spark import delta_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession
    from tests.spark.random_columns import Kind
    from tests.spark.row_equality import Reading


ADDED = ("int", "string", "timestamp", "decimal(5,2)", "date", "boolean", "binary", "array<timestamp>", "struct")

READ_EVERY = 6

OF_COLUMNS = (
    *("add", "add", "add", "rename", "rename", "rename", "drop", "drop", "add_again"),
    *("widen", "widen", "widen", "widen", "move"),
)
WITHOUT_MAPPING = ("insert", "add", "add", "widen", "widen", "move", "delete")
"""What can be done to a table whose columns have their own names in files."""


@dataclass(frozen=True)
class Moment:
    """A version of a table, and what Spark read of it when it was the newest.

    Attributes:
        version: The version.
        statement: What made it.
        projection: Some of its columns.
        reading: What Spark reads.
    """

    version: int
    statement: str
    projection: tuple[str, ...]
    reading: Reading


@dataclass
class RandomTable:
    """A table to which random operations are done.

    Attributes:
        spark: The session.
        url: Where it is.
        seed: Decides on everything.
        partitioned: Whether it has partition columns.
        moments: Its versions so far.
    """

    spark: SparkSession
    url: str
    seed: int
    partitioned: bool = False
    moments: list[Moment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 - a table, no secret
        self._next_id = self._names = self._statements = 0
        self._dropped: list[tuple[Struct, str]] = []
        inner = Struct([Column("x", "tinyint"), Column("y", "string")])
        self._root = Struct(
            [
                Column("id", "bigint"),
                Column("day", "date"),
                Column("part", "smallint"),
                Column("tiny", "tinyint"),
                Column("number", "int"),
                Column("real", "float"),
                Column("price", "decimal(5,2)"),
                Column("moment", "timestamp"),
                Column("name", "string"),
                Column("place", Struct([Column("a", "smallint"), Column("b", "date"), Column("c", inner)])),
                Column("items", Items(Struct([Column("x", "tinyint"), Column("y", "string")]))),
                Column("entries", Entries(Struct([Column("v", "int"), Column("w", "float")]))),
                Column("nested", Items(Entries(Items("timestamp")))),
                Column("numbers", Items("int")),
                Column("by_name", Entries("float")),
            ]
        )
        self._partitions = self._root.fields[1:3] if self.partitioned else []

    def create(self, mapping: str) -> None:
        """Makes the table, with some rows.

        Args:
            mapping: The mode of column mapping.
        """
        properties = {
            "delta.columnMapping.mode": mapping,
            "delta.enableDeletionVectors": "true",
            "delta.enableTypeWidening": "true",
            "delta.feature.timestampNtz": "supported",
            "delta.checkpointInterval": "1000",
        }
        columns = ", ".join(f"{quoted(each.name)} {ddl(each.kind)}" for each in self._root.fields)
        by = f"partitioned by ({', '.join(each.name for each in self._partitions)})" if self.partitioned else ""
        self.spark.sql(f"create table {self.table} ({columns}) using delta {by} tblproperties ({_listed(properties)})")
        self.insert()

    def upgrade(self) -> None:
        """Turns column mapping on."""
        self._run(f"alter table {self.table} set tblproperties ('delta.columnMapping.mode' = 'name')")

    def go_through(self, course: Sequence[str]) -> None:
        """Does operations in a random order, and a last insert into what has become of the table."""
        for name in self._chance.sample(course, len(course)):
            operation: Callable[[], None] = getattr(self, name)
            operation()
        self.insert(is_last=True)

    @property
    def table(self) -> str:
        """Its name in SQL."""
        return f"delta.`{self.url}`"

    # --- rows ------------------------------------------------------------------------------------------------------

    def insert(self, *, is_last: bool = False) -> None:
        start, self._next_id = self._next_id, self._next_id + self._chance.randrange(10, 40)
        self._run(f"insert into {self.table} {self._source(start, self._next_id)}", is_last=is_last)

    def delete(self) -> None:
        self._run(f"delete from {self.table} where {self._some_ids()}")  # noqa: S608 - all of it is from here

    def update(self) -> None:
        at = self._chance.choice([each for each in self._root.fields[1:] if each not in self._partitions])
        new = f"{quoted(at.name)} = {value(at.kind, self._chance)}"
        self._run(f"update {self.table} set {new} where {self._some_ids()}")  # noqa: S608 - all of it is from here

    def merge(self) -> None:
        start = max(0, self._next_id - 12)
        self._run(
            f"merge into {self.table} t using ({self._source(start, self._next_id + 8)}) s on t.id = s.id "
            "when matched and s.id % 3 = 0 then delete when matched then update set * when not matched then insert *"
        )
        self._next_id += 8

    # --- columns ---------------------------------------------------------------------------------------------------

    def add(self) -> None:
        path, parent = self._chance.choice(structs(self._root))
        self._names += 1
        self._add(path, parent, f"added_{self._names}")

    def add_again(self) -> None:
        """A column whose name another one had, of another type as it may be."""
        there = [
            (path, parent, name)
            for path, parent in structs(self._root)
            for lost, name in self._dropped
            if parent is lost and name not in [each.name for each in parent.fields]
        ]
        if not there:
            self.drop()
            return self.add_again()
        return self._add(*self._chance.choice(there))

    def rename(self) -> None:
        path, parent = self._chance.choice(structs(self._root))
        at = self._chance.choice([each for each in parent.fields if each.name != "id"])
        self._names += 1
        # Nobody may have a dot in the name of a partition column: Spark's own MERGE fails.
        name = f"né {self._names}" if at in self._partitions else f"né, {self._names}.{self._names}"
        before, at.name = at.name, name
        self._run(f"alter table {self.table} rename column {dotted(*path, before)} to {quoted(name)}")

    def drop(self) -> None:
        places = [(path, parent) for path, parent in structs(self._root) if len(parent.fields) > 1]
        path, parent = self._chance.choice(places)
        at = self._chance.choice([each for each in parent.fields if each.name != "id" and each not in self._partitions])
        parent.fields.remove(at)
        self._dropped.append((parent, at.name))
        self._run(f"alter table {self.table} drop column {dotted(*path, at.name)}")

    def widen(self) -> None:
        narrow = [place for place in places(self._root) if place.kind in WIDER and place.path != ("id",)]
        if narrow:
            place = self._chance.choice(narrow)
            kind = self._chance.choice(WIDER[str(place.kind)])
            setattr(place.owner, place.attribute, kind)
            self._run(f"alter table {self.table} alter column {dotted(*place.path)} type {kind}")

    def move(self) -> None:
        path, parent = self._chance.choice([(path, each) for path, each in structs(self._root) if len(each.fields) > 1])
        parent.fields.insert(0, parent.fields.pop())
        self._run(f"alter table {self.table} alter column {dotted(*path, parent.fields[0].name)} first")

    # --- files -----------------------------------------------------------------------------------------------------

    def optimize(self) -> None:
        self._run(f"optimize {self.table}")

    def checkpoint(self) -> None:
        delta_log.checkpoint(self.spark, self.url)

    def _add(self, path: tuple[str, ...], parent: Struct, name: str) -> None:
        chosen = self._chance.choice(ADDED)
        kinds: dict[str, Kind] = {
            "array<timestamp>": Items("timestamp"),
            "struct": Struct([Column("x", "int"), Column("y", Entries("date"))]),
        }
        kind = kinds.get(chosen, chosen)
        parent.fields.append(Column(name, kind))
        self._run(f"alter table {self.table} add columns ({dotted(*path, name)} {ddl(kind)})")

    def _run(self, statement: str, *, is_last: bool = False) -> None:
        self.spark.sql(statement)
        self._statements += 1
        # Spark takes longer to read a table than to change it.
        if self._statements % READ_EVERY == 0 or is_last:
            version = int(delta_log.open_snapshot(self.spark, self.url).state.version())
            reading = read_by_spark(
                self.spark, self.url, (f"id >= {self._next_id // 2}", *conditions(self._root, self._chance))
            )
            self.moments.append(Moment(version, statement, self._projection(), reading))

    def _source(self, start: int, end: int) -> str:
        values = ", ".join(f"{self._source_value(each)} as {quoted(each.name)}" for each in self._root.fields)
        return f"select {values} from range({start}, {end}, 1, 1)"  # noqa: S608 - all of it is from here

    def _source_value(self, column: Column) -> str:
        if column in self._partitions and isinstance(column.kind, str):
            # Few values, and the same rows together by each of the columns: files are few then.
            return f"if(id % 3 = 0, null, {value_of(column.kind, '(id % 3 * 9)')})"
        return "id" if column.name == "id" else value(column.kind, self._chance)

    def _some_ids(self) -> str:
        divisor = self._chance.randrange(3, 9)
        return f"id % {divisor} = {self._chance.randrange(divisor)}"

    def _projection(self) -> tuple[str, ...]:
        names = [each.name for each in self._root.fields]
        return tuple(self._chance.sample(names, min(3, len(names))))


def _listed(properties: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
