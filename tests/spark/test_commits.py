"""One's own commit among those of others, and what Spark's errors become. No Spark runs here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from tests.builder import TableBuilder, add

from delta_sidecar import SchemaMismatchError
from delta_sidecar.spark.commits import Committed, Mark, find_commit, mark_in, pipeline_mark
from delta_sidecar.spark.ingest.buckets import TimeBucket
from delta_sidecar.spark.spark_errors import condition_of, ingest_failure
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

HOUR = "_event_hour"


def marked(text: str) -> dict[str, object]:
    return {"commitInfo": {"operation": "WRITE", "userMetadata": text}}


def test_ones_own_commit_is_found_among_others(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, partition_columns=[HOUR], schema={"id": "long", HOUR: "string"})
    own, other = pipeline_mark("mine", write="1"), pipeline_mark("mine", write="2")
    table.commit()
    table.commit([marked(other), add("b", partition_values={HOUR: "1"}, rows=[{"id": 1}])])
    table.commit(
        [
            marked(own),
            add("c", partition_values={HOUR: "1"}, size=10, rows=[{"id": 1}, {"id": 2}]),
            add("d", partition_values={HOUR: "1"}, size=20, rows=[{"id": 3}]),
            add("e", partition_values={HOUR: None}, size=30, rows=[{"id": 4}]),
        ]
    )
    table.commit([marked("somebody's own words")])
    store = RecordingStore(open_store(tmp_path))
    assert find_commit(store, 0, own, HOUR) == Committed(2, 4, 3, 60, 2, 1)
    # Each commit is asked for once.
    assert len(store.attempts) == 2
    assert find_commit(store, 2, own, HOUR) is None
    assert find_commit(store, 0, pipeline_mark("mine", write="3"), HOUR) is None
    assert mark_in(store, 2) == Mark("mine")


def test_a_long_commit_is_read_whole_only_where_it_is_ones_own(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, partition_columns=[HOUR], schema={"id": "long", HOUR: "string"})
    own = pipeline_mark("mine", write="1")
    many = [add(f"{'x' * 200}-{n}", partition_values={HOUR: str(n % 3)}, size=1, rows=[{"id": n}]) for n in range(500)]
    table.commit()
    table.commit([marked("another"), *many])
    table.commit([marked(own), *many])
    store = RecordingStore(open_store(tmp_path))
    assert find_commit(store, 0, own, HOUR) == Committed(2, 500, 500, 500, 3, 0)
    assert len(store.attempts) == 3


def test_a_mark_says_whose_it_is_and_which() -> None:
    assert json.loads(pipeline_mark("mine", write="7")) == {"deltaSidecar": {"pipeline": "mine", "write": "7"}}


def test_an_error_of_spark_is_one_line_without_rows() -> None:
    text = "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: id.\n\nJVM stack:\n\tat x.y"
    error = AnalysisException(text)
    assert condition_of(error) == "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    assert str(ingest_failure(error, "/t", TimeBucket())) == (
        "/t: the batch was not written: [DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: "
        "id. Nothing of it is in the table; it can be run again"
    )


def test_an_error_of_java_is_told_by_its_cause() -> None:
    text = (
        "An error occurred while calling o218.save.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b\n"
        "Caused by: java.io.IOException: PUT https://account/x?sv=2020&sig=c2VjcmV0c2VjcmV0 was refused\n\tat c.d\n"
    )
    said = str(ingest_failure(AnalysisException(text), "/t", TimeBucket()))
    assert "the batch was not written: java.io.IOException: PUT" in said
    assert "\n" not in said
    assert "c2VjcmV0" not in said


def test_a_bucket_column_with_other_values_is_told_without_them() -> None:
    text = (
        "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint Generated Column (_event_hour <=> x) violated by row "
        "with values:\n - _event_hour : 2020010101"
    )
    said = ingest_failure(AnalysisException(text), "/t", TimeBucket())
    assert isinstance(said, SchemaMismatchError)
    assert "2020010101" not in str(said)
    assert "leave it out" in str(said)
