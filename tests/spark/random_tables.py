"""Tables that have been through a lot: random operations of Spark on a table of nested columns.

Each operation is an SQL statement. Values are made from the row's id by hashes, so that a table is the same whenever it
is made from the same seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tests.spark.row_equality import read_by_spark

from delta_sidecar.spark import delta_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession
    from tests.spark.row_equality import Reading


@dataclass
class Column:
    """A column, or a field of a struct."""

    name: str
    kind: Kind


@dataclass
class Struct:
    """Fields."""

    fields: list[Column]


@dataclass
class Items:
    """An array."""

    element: Kind


@dataclass
class Entries:
    """A map from texts."""

    value: Kind


Kind: TypeAlias = str | Struct | Items | Entries


@dataclass(frozen=True)
class Place:
    """Where a type is.

    Attributes:
        path: Names that lead to it.
        owner: What has it.
        attribute: Under which name.
    """

    path: tuple[str, ...]
    owner: Column | Items | Entries
    attribute: str

    @property
    def kind(self) -> Kind:
        """The type."""
        found: Kind = getattr(self.owner, self.attribute)
        return found


WIDER = {
    "tinyint": ("smallint", "int", "bigint", "double", "decimal(12,2)"),
    "smallint": ("int", "bigint", "double", "decimal(12,2)"),
    "int": ("bigint", "double", "decimal(12,2)"),
    "bigint": ("decimal(24,3)",),
    "float": ("double",),
    "decimal(5,2)": ("decimal(7,2)", "decimal(9,4)", "decimal(30,10)"),
    "decimal(12,2)": ("decimal(24,3)",),
    "date": ("timestamp_ntz",),
}
"""What a type may become."""

# An expression of a number from 0 to 39, and a literal that is among the values.
VALUES: dict[str, tuple[str, str]] = {
    "tinyint": ("cast({n} - 20 as tinyint)", "-7"),
    "smallint": ("cast(({n} - 20) * 1000 as smallint)", "4000"),
    "int": ("cast(({n} - 20) * 100000000 as int)", "300000000"),
    "bigint": ("({n} - 20) * 100000000000", "-500000000000"),
    "float": ("cast(({n} - 20) / 4 as float)", "1.25"),
    "double": ("({n} - 20) / 3", "2"),
    "decimal": ("cast(({n} - 20) / 4 as {kind})", "-1.25"),
    "string": ("concat('text ', {n}, ' ü')", "'text 17 ü'"),
    "boolean": ("{n} % 2 = 0", "true"),
    "binary": ("unhex(concat('00FF', {n} + 10))", ""),
    "date": ("date_add(date'2024-02-20', cast({n} as int))", "date'2024-03-01'"),
    "timestamp": ("timestamp_micros(1700000000000000 + {n} * 86400000001)", "timestamp'2023-12-01 00:00:00'"),
    "timestamp_ntz": (
        "timestamp_ntz'2024-02-20 00:00:00' + make_dt_interval({n}, 0, 0, {n} / 1000000)",
        "timestamp_ntz'2024-03-01 00:00:00'",
    ),
}
ADDED = ("int", "string", "timestamp", "decimal(5,2)", "date", "boolean", "binary", "array<timestamp>", "struct")

READ_EVERY = 5

OF_ROWS = ("insert", "delete", "update", "merge", "optimize", "checkpoint")
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
        new = f"{quoted(at.name)} = {self._value(at.kind)}"
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
        path, parent = self._chance.choice(list(self._structs()))
        self._names += 1
        self._add(path, parent, f"added_{self._names}")

    def add_again(self) -> None:
        """A column whose name another one had, of another type as it may be."""
        there = [
            (path, parent, name)
            for path, parent in self._structs()
            for lost, name in self._dropped
            if parent is lost and name not in [each.name for each in parent.fields]
        ]
        if not there:
            self.drop()
            return self.add_again()
        return self._add(*self._chance.choice(there))

    def rename(self) -> None:
        path, parent = self._chance.choice(list(self._structs()))
        at = self._chance.choice([each for each in parent.fields if each.name != "id"])
        self._names += 1
        # Nobody may have a dot in the name of a partition column: Spark's own MERGE fails.
        name = f"né {self._names}" if at in self._partitions else f"né, {self._names}.{self._names}"
        before, at.name = at.name, name
        self._run(f"alter table {self.table} rename column {dotted(*path, before)} to {quoted(name)}")

    def drop(self) -> None:
        places = [(path, parent) for path, parent in self._structs() if len(parent.fields) > 1]
        path, parent = self._chance.choice(places)
        at = self._chance.choice([each for each in parent.fields if each.name != "id" and each not in self._partitions])
        parent.fields.remove(at)
        self._dropped.append((parent, at.name))
        self._run(f"alter table {self.table} drop column {dotted(*path, at.name)}")

    def widen(self) -> None:
        narrow = [place for place in self._places() if place.kind in WIDER and place.path != ("id",)]
        if narrow:
            place = self._chance.choice(narrow)
            kind = self._chance.choice(WIDER[str(place.kind)])
            setattr(place.owner, place.attribute, kind)
            self._run(f"alter table {self.table} alter column {dotted(*place.path)} type {kind}")

    def move(self) -> None:
        path, parent = self._chance.choice([(path, each) for path, each in self._structs() if len(each.fields) > 1])
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

    def _places(self) -> Iterator[Place]:
        """Everything that has a type, from the top down."""
        waiting = [Place((each.name,), each, "kind") for each in self._root.fields]
        while waiting:
            place = waiting.pop()
            yield place
            if isinstance(place.kind, Struct):
                waiting += [Place((*place.path, each.name), each, "kind") for each in place.kind.fields]
            elif isinstance(place.kind, Items):
                waiting.append(Place((*place.path, "element"), place.kind, "element"))
            elif isinstance(place.kind, Entries):
                waiting.append(Place((*place.path, "value"), place.kind, "value"))

    def _structs(self) -> Iterator[tuple[tuple[str, ...], Struct]]:
        """Every struct and the way to it, the table itself first."""
        yield (), self._root
        for place in self._places():
            if isinstance(place.kind, Struct):
                yield place.path, place.kind

    def _run(self, statement: str, *, is_last: bool = False) -> None:
        self.spark.sql(statement)
        self._statements += 1
        # Spark takes longer to read a table than to change it.
        if self._statements % READ_EVERY == 0 or is_last:
            version = delta_log.latest_version(self.spark, self.url)
            reading = read_by_spark(self.spark, self.url, self._predicates())
            self.moments.append(Moment(version, statement, self._projection(), reading))

    def _source(self, start: int, end: int) -> str:
        values = ", ".join(f"{self._source_value(each)} as {quoted(each.name)}" for each in self._root.fields)
        return f"select {values} from range({start}, {end}, 1, 1)"  # noqa: S608 - all of it is from here

    def _source_value(self, column: Column) -> str:
        if column in self._partitions and isinstance(column.kind, str):
            # Few values, and the same rows together by each of the columns: files are few then.
            return f"if(id % 3 = 0, null, {_made(column.kind, '(id % 3 * 9)')})"
        return "id" if column.name == "id" else self._value(column.kind)

    def _value(self, kind: Kind) -> str:
        """An expression of a row's id."""
        number = f"pmod(xxhash64(id, {self._chance.randrange(1 << 30)}), 40)"
        if isinstance(kind, str):
            made = _made(kind, number)
        elif isinstance(kind, Struct):
            fields = ", ".join(f"'{each.name}', {self._value(each.kind)}" for each in kind.fields)
            made = f"named_struct({fields})"
        elif isinstance(kind, Items):
            made = self._first_of(self._value(kind.element), self._value(kind.element), number)
        else:
            keys = self._first_of("'k'", "'ß'", number)
            values = self._first_of(self._value(kind.value), self._value(kind.value), number)
            made = f"map_from_arrays({keys}, {values})"
        return f"if(pmod(xxhash64(id, {self._chance.randrange(1 << 30)}), 6) = 1, null, {made})"

    @staticmethod
    def _first_of(first: str, second: str, number: str) -> str:
        return f"slice(array({first}, {second}), 1, cast({number} % 3 as int))"

    def _some_ids(self) -> str:
        divisor = self._chance.randrange(3, 9)
        return f"id % {divisor} = {self._chance.randrange(divisor)}"

    def _predicates(self) -> tuple[str, ...]:
        """Conditions on columns that are in no list and no map."""
        leaves = [
            (dotted(*place.path), place.kind)
            for place in self._places()
            if isinstance(place.kind, str) and place.kind != "binary" and _is_in_structs(place.path, self._root)
        ]
        made = [f"id >= {self._next_id // 2}"]
        for name, kind in self._chance.sample(leaves, min(2, len(leaves))):
            literal = _literal(kind)
            operator = self._chance.choice(["=", "<>"] if kind == "boolean" else ["=", "<", ">=", "<>"])
            made.append(f"{name} {operator} {literal}")
        (first, _), (second, kind) = self._chance.sample(leaves, 2)
        literal = _literal(kind)
        made.append(f"{first} is null or not ({second} in ({literal}) and id < {self._next_id})")
        return tuple(made)

    def _projection(self) -> tuple[str, ...]:
        names = [each.name for each in self._root.fields]
        return tuple(self._chance.sample(names, min(3, len(names))))


def ddl(kind: Kind) -> str:
    """A type in SQL."""
    if isinstance(kind, Struct):
        return f"struct<{', '.join(f'{quoted(each.name)}: {ddl(each.kind)}' for each in kind.fields)}>"
    if isinstance(kind, Items):
        return f"array<{ddl(kind.element)}>"
    return f"map<string, {ddl(kind.value)}>" if isinstance(kind, Entries) else kind


def quoted(name: str) -> str:
    """A name in SQL."""
    return f"`{name}`"


def dotted(*names: str) -> str:
    """The way to a column in SQL."""
    return ".".join(quoted(name) for name in names)


def _made(kind: str, number: str) -> str:
    return VALUES[kind.partition("(")[0]][0].format(n=number, kind=kind)


def _literal(kind: str) -> str:
    return VALUES[kind.partition("(")[0]][1]


def _listed(properties: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


def _is_in_structs(path: tuple[str, ...], root: Struct) -> bool:
    kind: Kind = root
    for name in path:
        if not isinstance(kind, Struct):
            return False
        kind = next(each.kind for each in kind.fields if each.name == name)
    return True
