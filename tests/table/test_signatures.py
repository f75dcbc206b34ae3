"""Every public name of `deltalake.DeltaTable` is there, and takes the same arguments."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import deltalake
import pytest
from tests.table.written import counting_table

from delta_sidecar import DeltaTable, OptionError, write_deltalake
from delta_sidecar.table.writing import Forwarded, Writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# What differs on purpose; the guide "Coming from deltalake" tells.
ONLY_BY_NAME = {"__init__": {"without_files", "log_buffer_size", "skip_stats"}}
NAMESPACES = {"alter": deltalake.table.TableAlterer, "optimize": deltalake.table.TableOptimizer}

NAMES = [
    *("__init__", "__datafusion_table_provider__"),
    *(name for name in dir(deltalake.DeltaTable) if not name.startswith("_")),
]
METHODS = [name for name in NAMES if callable(getattr(deltalake.DeltaTable, name))]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    return DeltaTable(counting_table(tmp_path_factory.mktemp("table"), 1))


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [found for found in inspect.signature(function).parameters.values() if found.name != "self"]


def check(name: str, theirs: Callable[..., Any], ours: Callable[..., Any]) -> None:
    """Asserts that a call which fits theirs fits ours, and means the same by each argument."""
    by_name = ONLY_BY_NAME.get(name, set())
    wanted = [found for found in parameters(theirs) if found.kind not in VARIABLE]
    signature = inspect.Signature(parameters(ours))
    in_order = [found.name for found in wanted if found.kind is POSITIONAL and found.name not in by_name]
    others = [found.name for found in wanted if found.name not in in_order]
    bound = signature.bind(*in_order, **{other: other for other in others})
    assert [bound.arguments[place] for place in in_order] == in_order
    assert signature.bind(**{found.name: found.name for found in wanted}) is not None
    for found in wanted:
        own = signature.parameters.get(found.name)
        if own is not None:
            assert repr(own.default) == repr(found.default), found.name


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_what_it_takes_in_deltalake(table: DeltaTable, name: str) -> None:
    theirs, ours = getattr(deltalake.DeltaTable, name), getattr(DeltaTable, name)
    check(name, theirs, getattr(table, name))
    check(name, theirs, ours)
    bound_in_class = ("is_deltatable", "create")
    assert name in bound_in_class or next(iter(inspect.signature(ours).parameters)) == "self"
    assert inspect.getdoc(ours)


FORWARDED = [name for name, found in vars(Writing).items() if isinstance(found, Forwarded)]


@pytest.mark.parametrize("name", FORWARDED)
def test_what_goes_through_has_the_signature_of_deltalake(name: str) -> None:
    theirs, ours = getattr(deltalake.DeltaTable, name), getattr(DeltaTable, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert inspect.getdoc(ours) == inspect.getdoc(theirs)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [(space, name) for space, kind in NAMESPACES.items() for name in dir(kind) if name[0] != "_" and name != "table"],
)
def test_a_method_below_a_name_takes_what_it_takes_in_deltalake(table: DeltaTable, namespace: str, name: str) -> None:
    check(name, getattr(NAMESPACES[namespace], name), getattr(getattr(table, namespace), name))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in METHODS])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_property_is_there(table: DeltaTable, name: str) -> None:
    assert isinstance(getattr(DeltaTable, name), property)
    assert getattr(table, name) is not None


def test_writing_takes_what_it_takes_in_deltalake() -> None:
    check("write_deltalake", deltalake.write_deltalake, write_deltalake)


def test_the_fourth_argument_is_not_what_it_is_in_deltalake(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="by their names"):
        DeltaTable(tmp_path, None, None, True)  # type: ignore[arg-type]  # noqa: FBT003


def test_arguments_without_effect_are_taken_by_name(tmp_path: Path) -> None:
    counting_table(tmp_path, 1)
    assert DeltaTable(tmp_path, without_files=True, log_buffer_size=5, skip_stats=True).version() == 0
