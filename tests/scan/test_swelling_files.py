"""Files of a log that take far more room in memory than on disk, and memory that does not suffice."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.builder import TableBuilder, add
from tests.scan.reading import scan
from tests.scan.sidecar_tables import heard, manifest_of, resealed, sidecar_path, with_sidecar

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, NotEnoughMemoryError
from delta_sidecar._arrow import xxh3_128
from delta_sidecar.events import BasePassedOver, Event
from delta_sidecar.execute import json as json_lines
from delta_sidecar.execute import json as json_scan
from delta_sidecar.execute import pieces as piece_scan
from delta_sidecar.execute.parquet import file as parquet_file
from delta_sidecar.execute.parquet import scan as parquet_scan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

ROWS = 5_000
TEXT = json.dumps({"numRecords": 1, "padding": "x" * (1 << 20)}, separators=(",", ":"))


def swollen_table(root: Path, *, dictionary: bool = True, rows: int = ROWS, text: str = TEXT) -> TableBuilder:
    """A table whose small checkpoint has one long text in every row; commit 0 is there too."""
    table = TableBuilder(root, schema={"id": "long", "p": "string"}, partition_columns=["p"])
    table.commit([add("a.parquet", partition_values={"p": "1"})])
    table.checkpoint()
    (path,) = table.log.glob("*.checkpoint.parquet")
    found = pq.read_table(path)
    top = found.filter(pc.or_(pc.is_valid(found["protocol"]), pc.is_valid(found["metaData"]))).combine_chunks()
    stats = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    files = pa.StructArray.from_arrays(
        [
            pa.array([f"{number:05}.parquet" for number in range(rows)]),
            pa.array([[("p", str(number % 100))] for number in range(rows)], pa.map_(pa.string(), pa.string())),
            pa.array([1] * rows, pa.int64()),
            pa.array([1] * rows, pa.int64()),
            pa.array([True] * rows),
            stats,
        ],
        names=["path", "partitionValues", "size", "modificationTime", "dataChange", "stats"],
    )
    places = pa.array([None] * top.num_rows + list(range(rows)), pa.int32())
    others = pa.array([*range(top.num_rows), *[None] * rows], pa.int32())
    columns = {name: top[name].take(others) for name in ("protocol", "metaData")}
    made = pa.table({**columns, "add": files.take(places)})
    pq.write_table(made, path, compression="zstd", store_schema=False, use_dictionary=dictionary)
    return table


READER = """
import sys, json
import pyarrow as pa
from delta_sidecar import LazyDeltaScanner, LazyScanConfig, NotEnoughMemoryError
from delta_sidecar._arrow import xxh3_128
for config in json.loads(sys.argv[2]):
    before = pa.default_memory_pool().max_memory()
    files = 0
    with LazyDeltaScanner(sys.argv[1], LazyScanConfig(**config)) as scanner:
        for batch in scanner.scan_batches():
            files += batch.num_rows
            del batch
    print(files, pa.default_memory_pool().max_memory())
"""


@pytest.mark.full
def test_a_dictionary_that_swells_is_decoded_bit_by_bit(tmp_path: Path) -> None:
    table = swollen_table(tmp_path)
    (path,) = table.log.glob("*.checkpoint.parquet")
    assert path.stat().st_size < 30_000
    configs: list[dict[str, Any]] = [
        {"strategy": "reverse"},
        {"strategy": "forward"},
        {"limit": 7},
        {"predicate": "p = '7'"},
        {"predicate": "id = 3"},
    ]
    answer = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path), json.dumps(configs)], check=True, capture_output=True, text=True
    )
    found = [tuple(map(int, line.split())) for line in answer.stdout.splitlines()]
    assert [files for files, _ in found] == [ROWS, ROWS, 7, ROWS // 100, ROWS]
    assert max(most for _, most in found) < 256 << 20, "all of it are five gigabytes"


def test_pages_that_hold_more_than_the_footer_says_are_decoded_bit_by_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = swollen_table(tmp_path, dictionary=False, rows=1_500, text="x" * 100_000)
    sizes: list[int] = []
    decoded = parquet_file.ParquetRows._decoded

    def watched(self: parquet_file.ParquetRows, *args: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        for batch in decoded(self, *args):
            sizes.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(parquet_file.ParquetRows, "_decoded", watched)
    # What a footer leads to that says that there is next to nothing.
    monkeypatch.setattr(parquet_file.ParquetRows, "batch_rows", lambda *_: 16_384)
    assert len(scan(table)) == 1_500
    assert sum(sizes) > 150_000_000
    assert max(sizes) < 64 << 20


def passed_over(table: TableBuilder, **config: Any) -> tuple[pytest.ExceptionInfo[NotEnoughMemoryError], list[Event]]:  # noqa: ANN401
    events: list[Event] = []
    with pytest.raises(NotEnoughMemoryError) as raised:
        list(LazyDeltaScanner(table.root, LazyScanConfig(**config), listeners=[events.append]).scan_files())
    return raised, [event for event in events if isinstance(event, BasePassedOver)]


def test_a_page_that_is_too_large_is_named_and_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = swollen_table(tmp_path)
    monkeypatch.setattr(parquet_file, "MOST_PAGE_BYTES", 1 << 20)
    raised, events = passed_over(table)
    assert "0.checkpoint.parquet takes more memory" in str(raised.value)
    assert "column add.stats has a page of 1,0" in str(raised.value)
    assert "torn" not in str(raised.value)
    assert events == []


FAILURES = [
    pa.ArrowMemoryError("malloc of size 5368709120 failed"),
    pa.ArrowCapacityError("more than 2 GB of texts"),
    MemoryError(),
]
CHECKPOINT = "00000000000000000001.checkpoint.parquet"


@pytest.mark.parametrize(
    ("module", "name", "file", "failure"),
    [
        (parquet_file, "first_header", CHECKPOINT, OSError(errno.ENOMEM, "no room")),
        *((parquet_scan, "read_footer_within", CHECKPOINT, failure) for failure in FAILURES),
        *((parquet_file, "first_header", CHECKPOINT, failure) for failure in FAILURES),
        *((piece_scan, "_check_columns", "v1.parquet", failure) for failure in FAILURES),
        *((json_scan, "parse_lines", "00000000000000000002.json", failure) for failure in FAILURES),
    ],
    ids=lambda value: getattr(value, "__name__", "") or repr(value),
)
def test_memory_that_does_not_suffice_is_no_damage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    file: str,
    failure: Exception,
) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    table.commit([add("b.parquet")])
    table.checkpoint()
    if module is piece_scan:
        with_sidecar(table)
    table.commit([add("c.parquet")])
    assert len(heard(table).files) == 3

    def failing(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(module, name, failing)
    raised, events = passed_over(table)
    assert file in str(raised.value)
    assert raised.value.path.endswith(file)
    assert events == [], "another base would have done, and would have hidden it"


def test_a_line_that_is_too_long_is_named_and_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet"), add("b.parquet", stats={"numRecords": 1, "padding": "x" * 100_000})])
    assert len(scan(table)) == 2
    monkeypatch.setattr(json_lines, "PARSED_BYTES", 1_000)
    assert len(scan(table)) == 2
    monkeypatch.setattr(json_lines, "MOST_LINE_BYTES", 50_000)
    raised, _ = passed_over(table)
    assert "00000000000000000000.json" in str(raised.value)
    assert "a line has more than 50,000 bytes" in str(raised.value)


LONG = "x" * (256 << 10)
PATHS = [f"{number:05}.parquet" for number in range(1_000)]


def forged_sidecar(root: Path, **options: Any) -> TableBuilder:  # noqa: ANN401
    """A table whose sidecar has one row group, with a long path in every row, written as the options say."""
    table = TableBuilder(root)
    table.commit([add(path) for path in PATHS])
    table.checkpoint()
    with_sidecar(table, rows_per_group=len(PATHS))
    (group,) = manifest_of(table, 0).row_groups
    path = sidecar_path(table, 0)
    content = path.read_bytes()
    index = pq.read_table(pa.BufferReader(content[group.byte_offset : group.byte_offset + group.byte_length]))
    sink = pa.BufferOutputStream()
    long_paths = index.set_column(0, pa.field("path", pa.string()), pa.array([LONG] * len(PATHS)))
    pq.write_table(long_paths, sink, compression="zstd", store_schema=False, **options)
    forged = sink.getvalue().to_pybytes()
    assert len(forged) < 500_000
    path.write_bytes(content + forged)

    def point_at_it(document: dict[str, Any]) -> None:
        document["sidecar_size_bytes"] = len(content) + len(forged)
        document["row_groups"][0].update(
            byte_offset=len(content), byte_length=len(forged), digest=xxh3_128(memoryview(forged))
        )

    resealed(table, 0, point_at_it)
    return table


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"use_dictionary": ["path"]}, "column path is not encoded as in a metadata sidecar"),
        (
            {"use_dictionary": False, "column_encoding": {"path": "DELTA_BYTE_ARRAY"}},
            "column path is not encoded as in a metadata sidecar",
        ),
        ({"use_dictionary": False, "data_page_size": 1, "write_batch_size": 10}, "column path is not one page"),
        ({"use_dictionary": False, "row_group_size": 500}, "it has 2 row groups"),
        ({"use_dictionary": False, "data_page_size": 1 << 30}, "once it is decompressed"),
        ({"use_dictionary": False, "data_page_size": 1 << 30, "data_page_version": "2.0"}, "a page has no header"),
    ],
)
def test_a_row_group_of_a_sidecar_that_swells_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], reason: str
) -> None:
    table = forged_sidecar(tmp_path, **options)
    monkeypatch.setattr(piece_scan, "MOST_PIECE_BYTES", 100_000_000)
    one = heard(table)
    assert sorted(file.path for file in one.files) == PATHS
    (passed,) = [event for event in one.events if isinstance(event, BasePassedOver)]
    assert reason in passed.reason


PAGE = bytes.fromhex("1500 15d0 0f15 d00f 2c15 a01f 1500 1506 1506 0000")
"""The header of a data page of 1,000 bytes and 2,000 values."""


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(PAGE.replace(b"\x15\x00", b"\x15\x02", 1), id="an index page, which readers pass over"),
        pytest.param(PAGE.replace(b"\x15\x00", b"\x15\x04", 1), id="a dictionary"),
        pytest.param(PAGE[:-1] + bytes.fromhex("0504 8080 8001 00"), id="a size that is there twice"),
        pytest.param(PAGE[:-2], id="a header that is cut off"),
    ],
)
def test_a_page_is_believed_only_if_every_reader_takes_it_as_the_same(header: bytes) -> None:
    assert piece_scan._first_page(memoryview(b"PAR1" + PAGE), 4) == (1_000, 2_000)
    with pytest.raises(pa.ArrowInvalid, match="no header as in a metadata sidecar"):
        piece_scan._first_page(memoryview(b"PAR1" + header), 4)


def test_a_dictionary_of_a_sidecar_is_not_decoded(tmp_path: Path) -> None:
    table = forged_sidecar(tmp_path, use_dictionary=["path"])
    ran = subprocess.run(
        [sys.executable, "-c", READER, str(table.root), json.dumps([{}])], check=True, capture_output=True, text=True
    )
    files, peak = map(int, ran.stdout.split())
    assert files == len(PATHS)
    assert peak < 50_000_000
