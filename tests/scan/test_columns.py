"""Batches with chosen columns: the same values, and nothing read for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, LogCorruptionError, OptionError
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.scan.files import delta_files
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import RecordingStore
from delta_sidecar.synth import TelemetryLog

if TYPE_CHECKING:
    from pathlib import Path

NAMES = FILE_SCHEMA.names
CHOICES = [["path"], ["size", "path"], ["stats"], ["tags", "modification_time"], [], list(NAMES)]
PREDICATES = [None, "_event_hour = '2025010101'", "event_ts < timestamp '2025-01-01 01:10:00'"]


@pytest.fixture(scope="module", params=["v1", "v2-json", "v2-parquet", None])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table")
    log = TelemetryLog(
        files=3_000, files_per_hour=500, checkpoint=request.param, tail_commits=3, deletion_vectors=0.1, seed=3
    )
    log.write(path)
    return path


@pytest.mark.full
@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("columns", CHOICES, ids=str)
def test_chosen_columns_have_the_values_of_all(table: Path, columns: list[str], predicate: str | None) -> None:
    scanner = LazyDeltaScanner(table, LazyScanConfig(predicate=predicate))
    everything = scanner.scan_batches().read_all()
    chosen = scanner.scan_batches(columns).read_all()
    assert chosen.schema.names == columns
    assert scanner.metrics.files_emitted == everything.num_rows > 0
    assert chosen.equals(everything.select(columns))


def test_what_is_not_chosen_is_not_read(tmp_path: Path) -> None:
    TelemetryLog(files=20_000, tail_commits=0).write(tmp_path)
    (checkpoint,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    row_group = pq.ParquetFile(checkpoint).metadata.row_group(0)
    chunks = [row_group.column(index) for index in range(row_group.num_columns)]
    (stats,) = [chunk for chunk in chunks if chunk.path_in_schema == "add.stats"]
    start = stats.dictionary_page_offset or stats.data_page_offset

    def read(columns: list[str]) -> int:
        store = RecordingStore(open_store(tmp_path))
        LazyDeltaScanner(tmp_path, store=store).scan_batches(columns).read_all()
        spans = [(a.start, a.end) for a in store.attempts if a.path.endswith(".parquet") and a.start is not None]
        end = start + stats.total_compressed_size
        return sum(max(0, min(end, high or end) - max(start, low)) for low, high in spans)

    assert read(["path", "stats"]) >= stats.total_compressed_size
    # The footer is read with some bytes before it.
    assert read(["path", "size", "modification_time", "partition_values"]) <= 256 << 10
    assert stats.total_compressed_size > 1 << 20


def test_an_unknown_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no column 'sizes'.*size"):
        LazyDeltaScanner(tmp_path).scan_batches(["sizes"])


def test_text_that_is_not_utf8_is_the_logs_fault() -> None:
    texts = pa.array([b"a\xff.parquet"], pa.binary())
    paths = pa.Array.from_buffers(pa.string(), 1, texts.buffers())
    columns = [paths if name in ("path", "raw_path") else pa.nulls(1, FILE_SCHEMA.field(name).type) for name in NAMES]
    with pytest.raises(LogCorruptionError, match="not UTF-8"):
        list(delta_files(pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)))


def test_a_name_alone_is_no_list_of_names(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\['path'\]"):
        LazyDeltaScanner(tmp_path).scan_batches("path")
