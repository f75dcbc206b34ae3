"""Whether a batch was written before, told by a checksum file: the same as Delta tells it, and without a replay."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from tests.spark.file_lists import assert_same_files
from tests.spark.readings import commits_of, readings, sums_in, sums_of, table_of

from delta_sidecar import IngestError
from delta_sidecar.events import BatchWritten, Event
from delta_sidecar.log.names import checksum_path
from delta_sidecar.options import INGEST_OPTIONS
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.ingest import batch as batches
from delta_sidecar.spark.ingest.pipeline import IngestPipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

(OPTION,) = INGEST_OPTIONS


@pytest.mark.parametrize("check", ["checksum", "replay"])
def test_the_log_is_replayed_only_without_checksum_files(spark: SparkSession, local_lake: Lake, check: str) -> None:
    url = local_lake.new_url()
    told: list[Event] = []
    pipeline = IngestPipeline(
        spark, url, sidecars=False, checksum_transactions=check == "checksum", listeners=[told.append]
    )
    pipeline.write(readings(spark, 60), batch_id=1)
    newest = forgotten(spark, url)
    assert pipeline.write(readings(spark, 60), batch_id=1).skipped
    assert pipeline.write(readings(spark, 60, first=100), batch_id=2).batch_check == check
    assert newest.version == 1
    assert newest.state.stateReconstructionTriggered() is (check == "replay")
    found = [(event.outcome, event.batch_check) for event in told if isinstance(event, BatchWritten)]
    assert found == [("complete", check), ("skipped", check), ("complete", check)]
    assert pipeline.write(readings(spark, 10, first=200)).batch_check is None
    assert sums_in(spark, local_lake, url) == sums_of(
        readings(spark, 60).union(readings(spark, 60, first=100)).union(readings(spark, 10, first=200))
    )
    assert_same_files(spark, local_lake, url)


def test_a_commit_is_as_delta_makes_it_by_itself(spark: SparkSession, local_lake: Lake) -> None:
    made = []
    for uses_checksums in (True, False):
        url = local_lake.new_url()
        pipeline = IngestPipeline(
            spark,
            url,
            sidecars=False,
            merge_schema=True,
            change_data_feed=True,
            checksum_transactions=uses_checksums,
        )
        pipeline.write(readings(spark, 60), batch_id=1)
        cached = table_of(spark, local_lake, url).cache()
        assert cached.count() == 60
        pipeline.write(readings(spark, 30, first=100), batch_id=2)
        assert cached.count() == 90, "what is cached is out of date"
        cached.unpersist()
        more = readings(spark, 30, first=200).withColumn("humidity", F.lit(1.5))
        assert pipeline.write(more, batch_id=3).batch_check == ("checksum" if uses_checksums else "replay")
        made.append([[stable(action) for action in commit] for commit in commits_of(local_lake, url)])
    assert len(made[0]) == 4
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_text(path.read_text()[:-40]),
        lambda path: rewrite(path, setTransactions=None),
        lambda path: rewrite(path, setTransactions=[]),
        lambda path: rewrite(path, txnId="another"),
        lambda path: path.write_text(Path(str(path).replace("2.crc", "1.crc")).read_text()),
    ],
    ids=["missing", "torn", "without transactions", "not the commit's", "of another write", "of an older version"],
)
def test_a_checksum_file_in_doubt_leaves_it_to_delta(
    spark: SparkSession, local_lake: Lake, spoil: Callable[[Path], object]
) -> None:
    url = local_lake.new_url()
    pipeline = IngestPipeline(spark, url, sidecars=False)
    for number in (1, 2):
        assert pipeline.write(readings(spark, 30, first=100 * number), batch_id=number).batch_check == "checksum"
    spoil(Path(url, checksum_path(2)))
    forgotten(spark, url)
    again = pipeline.write(readings(spark, 30, first=200), batch_id=2)
    assert (again.skipped, again.batch_check) == (True, "replay")
    third = pipeline.write(readings(spark, 30, first=300), batch_id=3)
    assert (third.skipped, third.batch_check, third.version) == (False, "replay", 3)
    # Delta has the transactions by then, and writes them into the next one.
    fourth = pipeline.write(readings(spark, 30, first=400), batch_id=4)
    assert (fourth.skipped, fourth.batch_check, fourth.version) == (False, "checksum", 4)
    assert table_of(spark, local_lake, url).count() == 120


def test_delta_is_asked_where_a_table_a_setting_or_another_delta_wants_it(
    spark: SparkSession, local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = local_lake.new_url()
    pipeline = IngestPipeline(spark, url, sidecars=False, properties={OPTION.table_property: "false"})
    assert pipeline.write(readings(spark, 30), batch_id=1).batch_check == "replay"
    said = IngestPipeline(spark, url, sidecars=False, checksum_transactions=True)
    assert said.write(readings(spark, 30), batch_id=1).batch_check == "checksum"
    with monkeypatch.context() as patched:
        patched.setattr(delta_log, "_APPENDING", "5.")
        assert said.write(readings(spark, 30), batch_id=1).batch_check == "replay"
    url = local_lake.new_url()
    pipeline = IngestPipeline(spark, url, sidecars=False)
    monkeypatch.setenv(OPTION.environment_variable, "false")
    assert pipeline.write(readings(spark, 30), batch_id=1).batch_check == "replay"
    monkeypatch.delenv(OPTION.environment_variable)
    assert pipeline.write(readings(spark, 30), batch_id=1).batch_check == "checksum"
    # Transactions that expire: Delta knows which do.
    expiring = {"delta.setTransactionRetentionDuration": "interval 30 days"}
    pipeline = IngestPipeline(spark, local_lake.new_url(), sidecars=False, properties=expiring)
    assert pipeline.write(readings(spark, 30), batch_id=1).batch_check == "replay"
    assert pipeline.write(readings(spark, 30), batch_id=1).skipped


@pytest.mark.parametrize("theirs", [6, 7, 8])
def test_what_another_commits_after_the_check_is_seen(spark: SparkSession, local_lake: Lake, theirs: int) -> None:
    url = local_lake.new_url()
    pipeline = IngestPipeline(spark, url, sidecars=False)
    pipeline.write(readings(spark, 30), batch_id=5)
    pipeline._writer.__class__ = LateWriter
    LateWriter.meanwhile = lambda: delta_writes(spark, url, "delta-sidecar", theirs)
    try:
        if theirs <= 7:
            summary = pipeline.write(readings(spark, 30, first=100), batch_id=7)
            assert (summary.skipped, summary.batch_check) == (theirs == 7, "checksum")
            assert table_of(spark, local_lake, url).count() == (50 if theirs == 7 else 80)
        else:
            with pytest.raises(IngestError, match="batch 7 was not written, and batch 8 of delta-sidecar was written"):
                pipeline.write(readings(spark, 30, first=100), batch_id=7)
            assert table_of(spark, local_lake, url).count() == 50
    finally:
        LateWriter.meanwhile = None
    assert last_by_delta(spark, url, "delta-sidecar") == max(theirs, 7)


def test_commits_of_others_after_the_check_are_no_conflict(spark: SparkSession, local_lake: Lake) -> None:
    url = local_lake.new_url()
    pipeline = IngestPipeline(spark, url, sidecars=False)
    pipeline.write(readings(spark, 30), batch_id=5)
    pipeline._writer.__class__ = LateWriter
    LateWriter.meanwhile = lambda: delta_writes(spark, url, "another", 7)
    summary = pipeline.write(readings(spark, 30, first=100), batch_id=7)
    assert (summary.skipped, summary.batch_check, summary.version) == (False, "checksum", 3)
    assert table_of(spark, local_lake, url).count() == 80


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
def test_random_batches_are_taken_and_refused_as_by_delta(spark: SparkSession, local_lake: Lake, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - what is tried, no secret
    url = local_lake.new_url()
    pipelines = {
        (app, way): IngestPipeline(spark, url, sidecars=False, app_id=app, checksum_transactions=way == "checksum")
        for app in ("a", "b")
        for way in ("checksum", "replay")
    }
    written: dict[str, list[int]] = {"a": [], "b": []}
    rows, checks = 0, set()
    for step in range(14):
        app, way, batch_id = chance.choice("ab"), chance.choice(["checksum"] * 3 + ["replay"]), chance.randrange(6)
        before, batch = written[app], readings(spark, 10, first=step * 100)
        if step and chance.random() < 0.2:
            newest = max(Path(url, "_delta_log").glob("*.crc"))
            newest.unlink()
            forgotten(spark, url)
        if step and chance.random() < 0.3:
            # Delta's own writer has the last word on what it takes.
            taken = delta_writes(spark, url, app, batch_id)
            assert taken is (not before or batch_id > max(before))
            rows += 20 if taken else 0
        elif before and batch_id < max(before) and batch_id not in before:
            with pytest.raises(IngestError, match=f"batch {batch_id} was not written"):
                pipelines[app, way].write(batch, batch_id=batch_id)
            taken = False
        else:
            summary = pipelines[app, way].write(batch, batch_id=batch_id)
            checks.add(summary.batch_check)
            taken = not summary.skipped
            assert taken is (batch_id not in before)
            rows += summary.rows
        if taken:
            before.append(batch_id)
        assert table_of(spark, local_lake, url).count() == rows
        for each, ids in written.items():
            assert last_by_delta(spark, url, each) == max(ids, default=None)
    assert checks == {"checksum", "replay"}
    assert_same_files(spark, local_lake, url)


class LateWriter(batches.BatchWriter):
    """Lets another write between the check and the commit, once."""

    meanwhile: Callable[[], object] | None = None

    def _append(self, *arguments: Any) -> None:  # noqa: ANN401 - as the other has it
        meanwhile, LateWriter.meanwhile = LateWriter.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super()._append(*arguments)


def delta_writes(spark: SparkSession, url: str, app_id: str, batch_id: int) -> bool:
    """Has Delta's own writer write 20 rows, with a mark by which the batch is found again; whether it did."""
    before = delta_log.open_snapshot(spark, url).version
    mark = json.dumps({"deltaSidecar": {"pipeline": app_id, "batch": batch_id}})
    options = {"txnAppId": app_id, "txnVersion": str(batch_id), "userMetadata": mark}
    readings(spark, 20, first=10_000).write.format("delta").mode("append").options(**options).save(url)
    return delta_log.open_snapshot(spark, url).version > before


def last_by_delta(spark: SparkSession, url: str, app_id: str) -> int | None:
    return delta_log.open_snapshot(spark, url).last_transaction(app_id)


def forgotten(spark: SparkSession, url: str) -> delta_log.DeltaSnapshot:
    """Has Delta forget what it has read, and gives the newest snapshot as it reads it again."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    return delta_log.open_snapshot(spark, url)


def rewrite(path: Path, **fields: object) -> None:
    """Changes fields of a checksum file; None takes one away."""
    # Hadoop's own checksum of the file would not fit any more.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    content = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


def stable(action: dict[str, Any]) -> dict[str, Any]:
    """An action without what is different each time: times, ids, names of files and the write's own mark."""
    ((kind, fields),) = action.items()
    changing = {"timestamp", "txnId", "lastUpdated", "path", "modificationTime", "userMetadata", "id", "createdTime"}
    kept = {name: value for name, value in fields.items() if name not in changing}
    if "userMetadata" in fields:
        kept["mark"] = json.loads(fields["userMetadata"])["deltaSidecar"] | {"write": ""}
    return {kind: kept}
