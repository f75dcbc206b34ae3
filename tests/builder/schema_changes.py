"""What a metadata change may do to the schema of a random table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.builder.columns import LATER_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.builder.schemas import Place, Schema

_NEW_NAMES = ("renamed", "dot.ted", "with space", "ünï", "select", "id", "name", "num", "back`quote")


def changed(draw: st.DrawFn, schema: Schema, features: tuple[str, ...]) -> Schema:
    """Draws a legal change: without column mapping columns come, with it they are renamed and go as well."""
    changes: list[Callable[[st.DrawFn, Schema], Schema]] = [_as_it_is, _added]
    if schema.mode != "none":
        changes += [_renamed, _renamed, _swapped, _dropped, _replaced]
    elif "columnMapping" in features:
        changes += [_mapped, _mapped]
    return draw(st.sampled_from(changes))(draw, schema)


def _as_it_is(_draw: st.DrawFn, schema: Schema) -> Schema:
    return schema


def _mapped(_draw: st.DrawFn, schema: Schema) -> Schema:
    return schema.mapped()


def _added(draw: st.DrawFn, schema: Schema) -> Schema:
    """Adds a column, or a field to a struct."""
    inside = draw(st.sampled_from([(), *schema.structs()]))
    free = schema.free_names((*inside, ""), tuple(LATER_COLUMNS))
    return schema.with_columns({name: LATER_COLUMNS[name] for name in _one(draw, free)}, inside)


def _renamed(draw: st.DrawFn, schema: Schema) -> Schema:
    place = draw(st.sampled_from(schema.places()))
    return schema.renamed(dict.fromkeys([place], draw(st.sampled_from(schema.free_names(place, _NEW_NAMES)))))


def _swapped(draw: st.DrawFn, schema: Schema) -> Schema:
    """Gives two columns, or two fields of a struct, each the other's name."""
    first = draw(st.sampled_from(schema.places()))
    beside = [place for place in schema.places() if place[:-1] == first[:-1] and place != first]
    names: dict[Place, str] = {}
    for second in _one(draw, beside):
        names = {first: schema.name_of(second), second: schema.name_of(first)}
    return schema.renamed(names)


def _dropped(draw: st.DrawFn, schema: Schema) -> Schema:
    for place in _one(draw, schema.droppable()):
        schema = schema.without(place)
    return schema


def _replaced(draw: st.DrawFn, schema: Schema) -> Schema:
    """Drops a column and adds another one that has nothing of it but the name."""
    for place in _one(draw, schema.droppable()):
        kind = draw(st.sampled_from(["long", "string"]))
        schema = schema.without(place).with_columns({schema.name_of(place): kind}, place[:-1])
    return schema


def _one(draw: st.DrawFn, among: Sequence[Any]) -> list[Any]:
    """Draws one; nothing where there is nothing."""
    return [draw(st.sampled_from(among))] if among else []
