"""Options: what counts of what is said where, and that every one is said once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder, add

from delta_sidecar import DeltaTable, LazyDeltaScanner, LazyScanConfig, OptionError
from delta_sidecar.events import Event, PropertyIgnored
from delta_sidecar.options import INGEST_OPTIONS, ROW_OPTIONS, SCAN_OPTIONS, Option
from delta_sidecar.replay.seen import seen
from delta_sidecar.rows.query import RowOptions
from delta_sidecar.scan.config import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Callable

BY_NAME = {option.name: option for option in SCAN_OPTIONS}
# Two values of each, as texts, and what they are.
VALUES: dict[str, tuple[tuple[str, Any], tuple[str, Any]]] = {
    "strategy": (("reverse", "reverse"), ("Forward", "forward")),
    "order": (("recent", "recent"), ("any", "any")),
    "bucket_column": (("hour", "hour"), ("day", "day")),
    "batch_size": (("5", 5), ("7", 7)),
    "commit_read_parallelism": (("5", 5), (" 7 ", 7)),
    "checkpoint_row_groups_per_batch": (("5", 5), ("7", 7)),
    "sidecar_enabled": (("off", False), ("true", True)),
    "sidecar_row_groups_per_batch": (("7", 7), ("9", 9)),
    "remove_set_memory_limit": (("5MB", 5 << 20), ("70000", 70_000)),
    "strict": (("true", True), ("false", False)),
    "enable_fallback": (("no", False), ("1", True)),
    "retention_guard": (("on", True), ("off", False)),
}
WRONG = {
    "strategy": "sideways",
    "order": "newest",
    "bucket_column": "",
    "batch_size": "0",
    "commit_read_parallelism": "many",
    "checkpoint_row_groups_per_batch": "-1",
    "sidecar_enabled": "sometimes",
    "sidecar_row_groups_per_batch": "0",
    "remove_set_memory_limit": "5 apples",
    "strict": "perhaps",
    "enable_fallback": "",
    "retention_guard": "maybe",
}


def value_of(option: Option, config: LazyScanConfig, properties: dict[str, str]) -> object:
    found = getattr(config.options(properties), option.name)
    return getattr(found, "value", found)


def test_every_option_is_tried_here() -> None:
    assert set(VALUES) == set(WRONG) == set(BY_NAME)
    assert set(ScanOptions.__struct_fields__) == set(BY_NAME)
    assert set(BY_NAME) <= {field.name for field in fields(LazyScanConfig)}


@pytest.mark.parametrize("name", BY_NAME)
def test_the_call_counts_most_then_the_table_then_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    option = BY_NAME[name]
    (first, one), (second, other) = VALUES[name]
    assert value_of(option, LazyScanConfig(), {}) == option.default
    monkeypatch.setenv(option.environment_variable, first)
    assert value_of(option, LazyScanConfig(), {}) == one
    assert value_of(option, LazyScanConfig(), {option.table_property: second}) == other
    assert value_of(option, LazyScanConfig(**{name: one}), {option.table_property: second}) == one


@pytest.mark.parametrize("name", BY_NAME)
def test_bad_values_of_call_and_environment_are_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=name):
        LazyScanConfig(**{name: WRONG[name]})
    monkeypatch.setenv(BY_NAME[name].environment_variable, WRONG[name])
    with pytest.raises(OptionError, match=BY_NAME[name].environment_variable):
        LazyScanConfig().options()


def test_bad_properties_do_not_make_a_table_unreadable(tmp_path: Path) -> None:
    table = TableBuilder(
        tmp_path, configuration={BY_NAME[name].table_property: text for name, text in WRONG.items() if text}
    )
    table.commit([add("a.parquet")])
    events: list[Event] = []
    assert len(list(LazyDeltaScanner(tmp_path, listeners=[events.append]).scan_files())) == 1
    ignored = {event.property for event in events if isinstance(event, PropertyIgnored)}
    assert ignored == {BY_NAME[name].table_property for name, text in WRONG.items() if text}


def test_the_names_follow_one_rule() -> None:
    assert BY_NAME["commit_read_parallelism"].environment_variable == "DELTA_COMMIT_PARALLELISM"
    assert BY_NAME["commit_read_parallelism"].table_property == "deltaSidecar.commit.parallelism"
    sidecar = BY_NAME["sidecar_enabled"]
    assert (sidecar.environment_variable, sidecar.table_property) == ("DELTA_SIDECAR_ENABLED", "deltaSidecar.enabled")
    for names in zip(*((o.name, o.key, o.environment_variable, o.table_property) for o in SCAN_OPTIONS), strict=True):
        assert len(set(names)) == len(names)


def test_the_default_of_the_memory_limit_is_the_sets_own() -> None:
    assert BY_NAME["remove_set_memory_limit"].default == seen.MEMORY_LIMIT


def test_a_function_may_guard_only_in_a_call() -> None:
    guard: Callable[[Any], str | None] = lambda check: None  # noqa: E731, ARG005
    assert LazyScanConfig(retention_guard=guard).options().retention_guard is guard


def test_the_page_has_every_option() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "options.md").read_text()
    for option in (*SCAN_OPTIONS, *INGEST_OPTIONS):
        assert row_of(option) in page, f"docs/reference/options.md lacks or differs from:\n{row_of(option)}"


ROW_VALUES = {
    "file_parallelism": ("5", 5, "0"),
    "rows_per_batch": ("7", 7, "few"),
    "rows_memory_limit": ("5MB", 5 << 20, "much"),
    "allow_external_paths": ("yes", True, "perhaps"),
    "time_zone": ("Asia/Tokyo", "Asia/Tokyo", "Nowhere/Land"),
}


@pytest.mark.parametrize("option", ROW_OPTIONS, ids=lambda option: option.name)
def test_an_option_of_rows_is_set_by_the_call_and_the_environment(
    option: Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, value, wrong = ROW_VALUES[option.name]
    assert getattr(RowOptions(), option.name) == option.default == getattr(RowOptions.of({}), option.name)
    assert getattr(RowOptions.of({option.name: text}), option.name) == value
    monkeypatch.setenv(option.environment_variable, text)
    assert getattr(RowOptions.of({}), option.name) == value
    monkeypatch.setenv(option.environment_variable, wrong)
    with pytest.raises(OptionError, match=option.environment_variable):
        DeltaTable("./telemetry")


def test_an_unknown_option_of_a_table_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="unknown option 'paralelism'; the options are allow_external_paths, "):
        DeltaTable("./telemetry", options={"paralelism": 3})


def test_the_page_has_every_option_of_rows() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "options.md").read_text()
    for option in ROW_OPTIONS:
        row = row_of(option).replace(f" `{option.table_property}` |", "")
        assert row in page, f"docs/reference/options.md lacks or differs from:\n{row}"


def row_of(option: Option) -> str:
    """The row of an option in the table of the page."""
    default = option.shown or f"`{str(option.default).lower() if isinstance(option.default, bool) else option.default}`"
    cells = (
        f"`{option.name}`",
        f"`{option.table_property}`",
        f"`{option.environment_variable}`",
        default,
        option.meaning,
    )
    return f"| {' | '.join(cells)} |"
