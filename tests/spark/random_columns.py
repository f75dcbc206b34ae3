"""Columns of random tables: their types at every depth, values for them, and conditions on them, as SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator


@dataclass(eq=False)
class Column:
    """A column, or a field of a struct."""

    name: str
    kind: Kind


@dataclass(eq=False)
class Struct:
    """Fields."""

    fields: list[Column]


@dataclass(eq=False)
class Items:
    """An array."""

    element: Kind


@dataclass(eq=False)
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


def places(root: Struct) -> Iterator[Place]:
    """Everything below a struct that has a type, from the top down."""
    waiting = [Place((each.name,), each, "kind") for each in root.fields]
    while waiting:
        place = waiting.pop()
        yield place
        if isinstance(place.kind, Struct):
            waiting += [Place((*place.path, each.name), each, "kind") for each in place.kind.fields]
        elif isinstance(place.kind, Items):
            waiting.append(Place((*place.path, "element"), place.kind, "element"))
        elif isinstance(place.kind, Entries):
            waiting.append(Place((*place.path, "value"), place.kind, "value"))


def structs(root: Struct) -> list[tuple[tuple[str, ...], Struct]]:
    """Every struct and the way to it, the table itself first."""
    return [((), root), *((place.path, place.kind) for place in places(root) if isinstance(place.kind, Struct))]


def value(kind: Kind, chance: random.Random) -> str:
    """An expression of a row's id, which is null for some."""
    number = f"pmod(xxhash64(id, {chance.randrange(1 << 30)}), 40)"
    if isinstance(kind, str):
        made = value_of(kind, number)
    elif isinstance(kind, Struct):
        fields = ", ".join(f"'{each.name}', {value(each.kind, chance)}" for each in kind.fields)
        made = f"named_struct({fields})"
    elif isinstance(kind, Items):
        made = _first_of(value(kind.element, chance), value(kind.element, chance), number)
    else:
        keys = _first_of("'k'", "'ß'", number)
        made = f"map_from_arrays({keys}, {_first_of(value(kind.value, chance), value(kind.value, chance), number)})"
    return f"if(pmod(xxhash64(id, {chance.randrange(1 << 30)}), 6) = 1, null, {made})"


def value_of(kind: str, number: str) -> str:
    """An expression of a number from 0 to 39, in a type of single values."""
    return VALUES[kind.partition("(")[0]][0].format(n=number, kind=kind)


def conditions(root: Struct, chance: random.Random) -> tuple[str, ...]:
    """Conditions on columns that are in no list and no map."""
    leaves = [
        (dotted(*place.path), place.kind)
        for place in places(root)
        if isinstance(place.kind, str) and place.kind != "binary" and _is_in_structs(place.path, root)
    ]
    made = []
    for name, kind in chance.sample(leaves, 2):
        operator = chance.choice(["=", "<>"] if kind == "boolean" else ["=", "<", ">=", "<>"])
        made.append(f"{name} {operator} {_literal(kind)}")
    (first, _), (second, kind) = chance.sample(leaves, 2)
    made.append(f"{first} is null or not ({second} in ({_literal(kind)}) and id >= 30)")
    return tuple(made)


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


def _first_of(first: str, second: str, number: str) -> str:
    """None of two, the first of them, or both."""
    return f"slice(array({first}, {second}), 1, cast({number} % 3 as int))"


def _literal(kind: str) -> str:
    return VALUES[kind.partition("(")[0]][1]


def _is_in_structs(path: tuple[str, ...], root: Struct) -> bool:
    kind: Kind = root
    for name in path:
        if not isinstance(kind, Struct):
            return False
        kind = next(each.kind for each in kind.fields if each.name == name)
    return True
