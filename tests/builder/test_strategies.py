"""Random histories are legal, mean what they say, and cover what they are for."""

from __future__ import annotations

import contextlib
import json
import math
import random
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from tests.builder import AddAction, TableBuilder, canonical_path, file_key
from tests.builder.columns import DATA_COLUMNS, value
from tests.builder.strategies import Condition, History, histories, predicates
from tests.builder.values import arrow_type, typed

if TYPE_CHECKING:
    from collections.abc import Callable

RELAXED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

UNSHRUNK = settings(RELAXED, max_examples=500, phases=[Phase.generate], database=None, derandomize=True)


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
        for add in history.build(Path(root)).model_files().values():
            if "stats" in add:
                assert_true_statistics(add)


@RELAXED
@given(history=histories(), data=st.data())
def test_predicates_are_about_rows_of_the_table(history: History, data: st.DataObject) -> None:
    condition = data.draw(predicates(history.columns))
    with tempfile.TemporaryDirectory() as root:
        for add in history.build(Path(root)).model_files().values():
            for row in add.rows:
                assert set(history.columns) <= set(row)
                assert condition.verdict(row) in (True, False, None)


@RELAXED
@given(
    condition=predicates({"id": "long", "name": "string", "score": "double", "flag": "boolean"}),
    seed=st.integers(0, 99),
)
def test_a_predicate_means_what_its_sql_means(condition: Condition, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    rows = [{name: value(DATA_COLUMNS[name], dice) for name in ("id", "name", "score", "flag")} for _ in range(20)]
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA case_sensitive_like = ON")
        database.execute("CREATE TABLE t (id INTEGER, name TEXT, score REAL, flag INTEGER)")
        database.executemany("INSERT INTO t VALUES (:id, :name, :score, :flag)", rows)
        query = f"SELECT {condition.sql} FROM t ORDER BY rowid"  # noqa: S608 - the query is what is tested
        verdicts = [verdict for (verdict,) in database.execute(query)]
    for row, verdict in zip(rows, verdicts, strict=True):
        # SQLite has no NaN: it stores a null.
        if row["score"] is None or not math.isnan(row["score"]):
            assert condition.verdict(row) == (None if verdict is None else bool(verdict))


def test_histories_reach_what_they_are_for() -> None:
    wanted = {
        "a clean-up with commits after it": lambda table: 0 not in table.readable_versions() and table.version > 2,
        "a live file with a deletion vector": lambda table: any(dv for _, dv in table.model_files()),
        "a re-added file": lambda table: len(adds(table)) > len({file_key(add) for add in adds(table)}),
        "a V2 checkpoint with sidecars": lambda table: (table.log / "_sidecars").exists(),
        "wide bounds": lambda table: any('"tightBounds":false' in add.get("stats", "") for add in adds(table)),
        "an absolute path": lambda table: any(add["path"].startswith("file:/") for add in adds(table)),
        "a metadata change": lambda table: any("metaData" in line for line in table.commits[-1]) and table.version > 0,
    }
    for name, reached in wanted.items():

        def built(history: History, reached: Callable[[TableBuilder], bool] = reached) -> bool:
            with tempfile.TemporaryDirectory() as root:
                return bool(reached(history.build(Path(root))))

        assert find(histories(), built, settings=UNSHRUNK), name


def adds(table: TableBuilder) -> list[AddAction]:
    return [action["add"] for commit in table.commits for action in commit if "add" in action]


def assert_true_statistics(add: AddAction) -> None:
    stats = json.loads(add["stats"])
    assert stats["numRecords"] >= len(add.rows)
    for name, kind in DATA_COLUMNS.items():
        seen = [row[name] for row in add.rows if row[name] is not None]
        low, high = (typed(stats.get(side, {}).get(name), arrow_type(kind)) for side in ("minValues", "maxValues"))
        ordered = [value for value in seen if not (isinstance(value, float) and math.isnan(value))]
        if low is not None and ordered:
            assert low <= min(ordered)
        if high is not None and ordered:
            assert high >= cut(max(ordered))
        nulls = stats.get("nullCount", {}).get(name)
        if stats.get("tightBounds", True) and nulls is not None:
            assert nulls == len(add.rows) - len(seen)


def cut(value: Any) -> Any:  # noqa: ANN401 - a value of any column type
    if isinstance(value, str):
        return value[:32]
    return value.replace(microsecond=value.microsecond // 1000 * 1000) if hasattr(value, "hour") else value
