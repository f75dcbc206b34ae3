"""One's own commit among those of others, and what Spark's errors become. No Spark runs here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from tests.builder import TableBuilder, add

from delta_sidecar import SchemaMismatchError
from delta_sidecar.log.names import checksum_path, commit_path
from delta_sidecar.spark.commits import Committed, Mark, find_commit, mark_in, pipeline_mark, transactions_at
from delta_sidecar.spark.ingest.buckets import TimeBucket
from delta_sidecar.spark.spark_errors import condition_of, ingest_failure
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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


APP, TXN_ID = "stream", "1b2c"


def test_the_transactions_of_a_version_are_in_its_checksum_file(tmp_path: Path) -> None:
    checksum = table_with_checksum(tmp_path)
    store = RecordingStore(open_store(tmp_path))
    assert transactions_at(store, 1) == {APP: 7, "other": 2}
    assert len(store.attempts) == 2
    write_checksum(tmp_path, checksum | {"setTransactions": [{"appId": APP, "version": 7}]})
    assert transactions_at(store, 1) == {APP: 7}


# Each is what a file in doubt has instead.
DOUBTFUL: dict[str, dict[str, object]] = {
    "no transactions": {"setTransactions": None},
    "no transaction of the commit": {"setTransactions": []},
    "an older transaction than the commit's": {"setTransactions": [{"appId": APP, "version": 6}]},
    "an application twice": {"setTransactions": [{"appId": APP, "version": 8}, {"appId": APP, "version": 7}]},
    "a transaction without a version": {"setTransactions": [{"appId": APP}]},
    "another write": {"txnId": "9f"},
    "an unknown write": {"txnId": None},
    "transactions that expire": {"metadata": {"configuration": {"delta.setTransactionRetentionDuration": "1 day"}}},
    "commits that are elsewhere": {"protocol": {"writerFeatures": ["appendOnly", "catalogManaged"]}},
    "another place": {"metadata": {"configuration": {"delta.redirectWriterOnly-preview": "{}"}}},
    "no metadata": {"metadata": None},
}


def test_a_checksum_file_in_doubt_tells_nothing(tmp_path: Path, subtests: pytest.Subtests) -> None:
    checksum = table_with_checksum(tmp_path)
    store = open_store(tmp_path)
    for name, instead in DOUBTFUL.items():
        with subtests.test(name):
            write_checksum(tmp_path, checksum | instead)
            assert transactions_at(store, 1) is None
    whole = json.dumps(checksum)
    for text in (whole[:-1], whole[: len(whole) // 2], "", "[]", "null"):
        with subtests.test(f"torn after {len(text)} bytes"):
            (tmp_path / checksum_path(1)).write_text(text)
            assert transactions_at(store, 1) is None
    write_checksum(tmp_path, checksum)
    assert transactions_at(store, 1) is not None
    (tmp_path / commit_path(1)).write_text(json.dumps({"txn": {"appId": APP, "version": 7}}))
    assert transactions_at(store, 1) is None, "nobody says which write the commit is of"
    (tmp_path / commit_path(1)).unlink()
    assert transactions_at(store, 1) is None
    (tmp_path / checksum_path(1)).unlink()
    assert transactions_at(store, 0) is None


def table_with_checksum(path: Path) -> dict[str, object]:
    """Writes a table whose newest commit has a transaction and a checksum file; gives the latter's content."""
    table = TableBuilder(path)
    table.commit()
    table.commit([{"commitInfo": {"operation": "WRITE", "txnId": TXN_ID}}, {"txn": {"appId": APP, "version": 7}}])
    transactions = [{"appId": APP, "version": 7, "lastUpdated": 1}, {"appId": "other", "version": 2}]
    checksum: dict[str, object] = {
        "txnId": TXN_ID,
        "setTransactions": transactions,
        "metadata": {"id": "1", "configuration": {"delta.appendOnly": "true"}},
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    }
    write_checksum(path, checksum)
    return checksum


def write_checksum(path: Path, content: dict[str, object]) -> None:
    (path / checksum_path(1)).write_text(
        json.dumps({name: value for name, value in content.items() if value is not None})
    )
