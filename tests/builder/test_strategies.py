"""Random histories are legal, mean what they say, and cover what they are for."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import random
import re
import sqlite3
import tempfile
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from tests.builder import AddAction, ModelColumn, TableBuilder, canonical_path, file_key
from tests.builder.columns import DATA_COLUMNS, value
from tests.builder.model import STRUCT
from tests.builder.predicates import READINGS, Reading, compared
from tests.builder.strategies import Condition, History, histories, predicates
from tests.builder.values import arrow_type, nearest_float32, typed

if TYPE_CHECKING:
    from collections.abc import Callable

RELAXED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

SEVERAL = settings(RELAXED, max_examples=3_000, phases=[Phase.generate], database=None, derandomize=True)


@RELAXED
@given(history=histories(portable=True))
def test_an_independent_reader_finds_the_files_of_the_model(history: History) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = history.build(Path(root))
        for version in table.readable_versions():
            found = pa.table(DeltaTable(root, version=version).get_add_actions())
            expected = table.model_files(version)
            assert sorted(canonical_path(path) for path in found["path"].to_pylist()) == sorted(
                path for path, _ in expected
            )
            assert sorted(found["size_bytes"].to_pylist()) == sorted(add["size"] for add in expected.values())


@RELAXED
@given(history=histories())
def test_a_commit_names_a_path_once_of_each_type(history: History) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = history.build(Path(root))
        for commit in table.commits:
            for kind in ("add", "remove"):
                paths = [file_key(action[kind])[0] for action in commit if kind in action]
                assert len(paths) == len(set(paths))
        for version in range(len(table.commits)):
            paths = [path for path, _ in table.model_files(version)]
            assert len(paths) == len(set(paths))


@RELAXED
@given(history=histories())
def test_statistics_are_true_of_the_rows(history: History) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = history.build(Path(root))
        for version in range(table.version + 1):
            for action in table.commits[version]:
                if "stats" in action.get("add", {}):
                    assert_true_statistics(action["add"], table.model_columns(version))


@RELAXED
@given(history=histories(), data=st.data())
def test_predicates_are_about_rows_of_the_table(history: History, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = history.build(Path(root))
        columns = table.model_columns()
        condition = data.draw(predicates(columns))
        for add in table.model_files().values():
            for row, reading in product(add.rows, READINGS):
                assert condition.verdict(row, reading) in (True, False, None)
            for column in columns:
                if column.is_partition:
                    assert len({repr(column.value(row)) for row in add.rows}) <= 1


@RELAXED
@given(history=histories(), data=st.data())
def test_rows_are_of_the_types_of_their_columns(history: History, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = history.build(Path(root))
        version = data.draw(st.sampled_from(range(table.version + 1)))
        columns = [column for column in table.model_columns(version) if column.kind != STRUCT]
        for add in table.model_files(version).values():
            for column in columns:
                cells = [column.value(row) for row in add.rows]
                kept = pa.array(cells, arrow_type(column.kind)).to_pylist()
                assert list(map(repr, kept)) == list(map(repr, map(in_utc, cells)))


def in_utc(cell: Any) -> Any:  # noqa: ANN401 - a value of any column type
    """Arrow gives moments in a zone of its own make."""
    is_moment = isinstance(cell, dt.datetime) and cell.tzinfo is not None
    return pa.scalar(cell, pa.timestamp("us", "UTC")).as_py() if is_moment else cell


FLAT = [
    ModelColumn((name,), (name,), str(DATA_COLUMNS[name])) for name in ("id", "name", "score", "flag", "day", "dot.ted")
]


@RELAXED
@given(condition=predicates(FLAT), seed=st.integers(0, 99))
def test_a_predicate_means_what_its_sql_means(condition: Condition, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    rows = [{column.path[0]: value(column.kind, dice) for column in FLAT} for _ in range(20)]
    # SQLite has no dates and no infinity: texts in the same order, and a number beyond all others.
    text = re.sub(r"DATE '", "'", condition.sql)
    text = re.sub(r"CAST\('(-?)(inf|nan)' AS DOUBLE\)", r"\g<1>9e999", text)
    assume("nan" not in condition.sql)
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA case_sensitive_like = ON")
        database.execute(
            "CREATE TABLE t (id INTEGER, name TEXT, score REAL, flag INTEGER, day TEXT, `dot.ted` INTEGER)"
        )
        cells = [[cell.isoformat() if isinstance(cell, dt.date) else cell for cell in row.values()] for row in rows]
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", cells)
        query = f"SELECT {text} FROM t ORDER BY rowid"  # noqa: S608 - the query is what is tested
        verdicts = [verdict for (verdict,) in database.execute(query)]
    for row, verdict in zip(rows, verdicts, strict=True):
        # SQLite has no NaN: it stores a null.
        if row["score"] is None or not math.isnan(row["score"]):
            assert condition.verdict(row, Reading()) == (None if verdict is None else bool(verdict))


def test_readings_differ_in_what_engines_disagree_about() -> None:
    spark, rounding = Reading(nan_is_greatest=True), Reading(floats_round=True)
    for sign, found, literal, by_default, in_spark in (
        ("=", math.nan, math.nan, False, True),
        (">", math.nan, 5.0, False, True),
        ("<=", math.nan, math.inf, False, False),
        ("<", 5.0, math.nan, False, True),
        ("<>", math.nan, 5.0, True, True),
        ("=", -0.0, 0.0, True, True),
    ):
        assert compared(sign, found, literal, "double", Reading()) is by_default
        assert compared(sign, found, literal, "double", spark) is in_spark
    assert not compared("=", nearest_float32(0.1), 0.1, "float", Reading())
    assert compared("=", nearest_float32(0.1), 0.1, "float", rounding)


WANTED: dict[str, Callable[[TableBuilder], bool]] = {
    "a clean-up with commits after it": lambda table: 0 not in table.readable_versions() and table.version > 2,
    "a live file with a deletion vector": lambda table: any(dv for _, dv in table.model_files()),
    "a re-added file": lambda table: len(adds(table)) > len({file_key(add) for add in adds(table)}),
    "a V2 checkpoint with sidecars": lambda table: (table.log / "_sidecars").exists(),
    "wide bounds": lambda table: any('"tightBounds":false' in add.get("stats", "") for add in adds(table)),
    "an absolute path": lambda table: any(add["path"].startswith("file:/") for add in adds(table)),
    "a metadata change": lambda table: any("metaData" in line for line in table.commits[-1]) and table.version > 0,
    "column mapping switched on later": lambda table: mode(table, 0) == "none" != mode(table),
    "a name that is another column's physical name": lambda table: any(
        column.path == other.physical != column.physical for column, other in product(table.model_columns(), repeat=2)
    ),
    "a column with the name of one that is gone": lambda table: any(
        column.path == other.path and column.physical != other.physical
        for column, other in product(table.model_columns(), table.model_columns(0))
    ),
    "a field of a struct in statistics": lambda table: any(
        isinstance(bound, dict) and any(bound.values())
        for add in adds(table)
        for bound in json.loads(add.get("stats") or "{}").get("maxValues", {}).values()
    ),
    "infinity in statistics": lambda table: any('"-Infinity"' in add.get("stats", "") for add in adds(table)),
    "NaN in statistics": lambda table: any('"NaN"' in add.get("stats", "") for add in adds(table)),
    "files with and without statistics": lambda table: (
        len({"stats" in add for add in table.model_files().values()}) == 2
    ),
}


class AllReachedError(Exception):
    """Ends the search."""


@pytest.mark.full
def test_histories_reach_what_they_are_for() -> None:
    missing = set(WANTED)

    @SEVERAL
    @given(history=histories())
    def look(history: History) -> None:
        with tempfile.TemporaryDirectory() as root:
            table = history.build(Path(root))
            missing.difference_update([name for name, reached in WANTED.items() if reached(table)])
        if not missing:
            raise AllReachedError

    with contextlib.suppress(AllReachedError):
        look()
    assert not missing


def adds(table: TableBuilder) -> list[AddAction]:
    return [action["add"] for commit in table.commits for action in commit if "add" in action]


def mode(table: TableBuilder, version: int | None = None) -> str:
    return str(table.model_action("metaData", version)["configuration"].get("delta.columnMapping.mode", "none"))


def assert_true_statistics(add: AddAction, columns: list[ModelColumn]) -> None:
    stats = json.loads(add["stats"], parse_float=Decimal)
    assert stats["numRecords"] >= len(add.rows)
    for column in columns:
        if column.kind == STRUCT or column.is_partition:
            continue
        seen = [found for row in add.rows if (found := column.value(row)) is not None]
        kind = arrow_type(column.kind)
        low, high = (typed(column.value(stats.get(side, {})), kind) for side in ("minValues", "maxValues"))
        ordered = [found for found in seen if not (isinstance(found, float) and math.isnan(found))]
        if ordered and low is not None and repr(low) != "nan":
            assert low <= max(min(ordered), through_double(min(ordered)))
        if ordered and high is not None and repr(high) != "nan":
            assert high >= min(cut(max(ordered)), through_double(max(ordered)))
        nulls = column.value(stats.get("nullCount", {}))
        if nulls is not None and stats.get("tightBounds", True):
            assert nulls == len(add.rows) - len(seen)
        elif nulls is not None and nulls in (0, stats["numRecords"]):
            assert len(seen) == (0 if nulls else len(add.rows))


def through_double(value: Any) -> Any:  # noqa: ANN401 - a value of any column type
    return typed(float(value), pa.decimal128(38, 18)) if isinstance(value, Decimal) else cut(value)


def cut(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        return value[:32]
    return value.replace(microsecond=value.microsecond // 1000 * 1000) if hasattr(value, "hour") else value
