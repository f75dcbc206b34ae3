"""The schema of a random table and what may happen to it: columns come, and with column mapping are renamed and go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.builder.actions import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.builder.columns import Kind

Place = tuple[str, ...]
"""Physical names from the top level down: they stay, whatever a column is called."""


@dataclass(frozen=True)
class Field:
    """A column or a field of a struct.

    Attributes:
        name: What users call it.
        physical: Its name in data files, statistics and partition values.
        kind: A Delta type by name, or the fields of a struct.
        number: Its column mapping id.
    """

    name: str
    physical: str
    kind: str | tuple[Field, ...]
    number: int

    @property
    def physical_kind(self) -> Kind:
        """The kind under physical names alone."""
        return self.kind if isinstance(self.kind, str) else {field.physical: field.physical_kind for field in self.kind}


@dataclass(frozen=True)
class Schema:
    """A table's schema at one moment.

    Attributes:
        fields: The columns.
        partitions: Physical names of the partition columns.
        mode: Of column mapping: `none`, `name` or `id`.
        highest: The highest id ever given to a column.
    """

    fields: tuple[Field, ...]
    partitions: tuple[str, ...]
    mode: str
    highest: int

    @classmethod
    def first(cls, columns: Mapping[str, Kind], partitions: Mapping[str, str], mode: str) -> Schema:
        """Makes the schema of a new table."""
        empty = cls((), (), mode, 0)
        made = empty.with_columns({**columns, **partitions})
        return replace(made, partitions=tuple(field.physical for field in made.fields if field.name in partitions))

    @property
    def data(self) -> dict[str, Kind]:
        """The kinds of the columns that are no partition columns, by physical name."""
        return {field.physical: field.physical_kind for field in self.fields if field.physical not in self.partitions}

    @property
    def partition_names(self) -> list[str]:
        """The logical names of the partition columns."""
        return [field.name for physical in self.partitions for field in self.fields if field.physical == physical]

    @property
    def configuration(self) -> dict[str, str]:
        """The table properties that belong to the schema."""
        if self.mode == "none":
            return {}
        return {"delta.columnMapping.mode": self.mode, "delta.columnMapping.maxColumnId": str(self.highest)}

    @property
    def struct(self) -> dict[str, Any]:
        """The schema as Delta writes it."""
        return _struct(self.fields, mapped=self.mode != "none")

    def action(self, **configuration: str) -> dict[str, Any]:
        """Makes the metaData action."""
        return metadata(self.struct, self.partition_names, configuration=self.configuration | configuration)

    def places(self) -> list[Place]:
        """Lists the columns and the fields in structs."""
        return [place for place, _ in _walk(self.fields)]

    def structs(self) -> list[Place]:
        """Lists the columns and fields that have fields of their own."""
        return [place for place, field in _walk(self.fields) if not isinstance(field.kind, str)]

    def droppable(self) -> list[Place]:
        """Lists what may go: no partition column, and nothing that is the last of its struct or of the data."""
        return [
            place
            for place in self.places()
            if place[0] not in self.partitions and len(self._siblings(place)) > 1 and (len(self.data) > 1 or place[1:])
        ]

    def name_of(self, place: Place) -> str:
        """Gives the logical name, without those above it."""
        return next(field.name for at, field in _walk(self.fields) if at == place)

    def free_names(self, place: Place, wanted: tuple[str, ...]) -> list[str]:
        """Of some names, those that no column beside this one has; names that differ in case are the same."""
        taken = {field.name.casefold() for field in self._siblings(place)}
        return [name for name in wanted if name.casefold() not in taken]

    def mapped(self) -> Schema:
        """Switches column mapping on: the columns that are there keep their names as physical ones."""
        return replace(self, mode="name")

    def with_columns(self, columns: Mapping[str, Kind], inside: Place = ()) -> Schema:
        """Adds columns, or fields to a struct."""
        made, highest = self.fields, self.highest
        for name, kind in columns.items():
            field, highest = _made(name, kind, highest, mapped=self.mode != "none")
            made = _changed(made, inside, lambda fields, field=field: (*fields, field))
        return replace(self, fields=made, highest=highest)

    def renamed(self, names: Mapping[Place, str]) -> Schema:
        """Renames columns, all at once: names can change places."""
        fields = self.fields
        for place, name in names.items():
            fields = _changed(
                fields,
                place[:-1],
                lambda inner, last=place[-1], name=name: tuple(
                    replace(field, name=name) if field.physical == last else field for field in inner
                ),
            )
        return replace(self, fields=fields)

    def without(self, place: Place) -> Schema:
        """Drops a column or a field."""
        last = place[-1]
        fields = _changed(
            self.fields, place[:-1], lambda inner: tuple(field for field in inner if field.physical != last)
        )
        return replace(self, fields=fields)

    def _siblings(self, place: Place) -> list[Field]:
        return [field for at, field in _walk(self.fields) if at[:-1] == place[:-1]]


def _made(name: str, kind: Kind, highest: int, *, mapped: bool) -> tuple[Field, int]:
    """Makes a field and those in it, with the next ids; physical names of mapped ones are made up, as Spark does."""
    number = highest = highest + 1
    inner: str | tuple[Field, ...] = ()
    if isinstance(kind, str):
        inner = kind
    else:
        for below, deeper in kind.items():
            field, highest = _made(below, deeper, highest, mapped=mapped)
            inner = (*inner, field)
    return Field(name, f"col-{number:04x}" if mapped else name, inner, number), highest


def _walk(fields: tuple[Field, ...], above: Place = ()) -> Iterator[tuple[Place, Field]]:
    for field in fields:
        place = (*above, field.physical)
        yield place, field
        if not isinstance(field.kind, str):
            yield from _walk(field.kind, place)


def _changed(fields: tuple[Field, ...], inside: Place, change: Any) -> tuple[Field, ...]:  # noqa: ANN401
    """Changes the fields of a struct, or the columns where `inside` is empty."""
    if not inside:
        changed: tuple[Field, ...] = change(fields)
        return changed
    return tuple(
        replace(field, kind=_changed(field.kind, inside[1:], change))
        if field.physical == inside[0] and not isinstance(field.kind, str)
        else field
        for field in fields
    )


def _struct(fields: tuple[Field, ...], *, mapped: bool) -> dict[str, Any]:
    return {"type": "struct", "fields": [_delta_field(field, mapped=mapped) for field in fields]}


def _delta_field(field: Field, *, mapped: bool) -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": field.number, "delta.columnMapping.physicalName": field.physical}
    return {
        "name": field.name,
        "type": field.kind if isinstance(field.kind, str) else _struct(field.kind, mapped=mapped),
        "nullable": True,
        "metadata": mapping if mapped else {},
    }
