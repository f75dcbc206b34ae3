"""The sort that spills: order, laziness, memory, and how it ends."""

from __future__ import annotations

import builtins
import datetime as dt
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from delta_sidecar.build.build import require_duckdb, sorted_rows
from delta_sidecar.errors import OptionError, TemporaryFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from delta_sidecar.plan import Batches

SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("text", pa.string()),
        ("TEXT", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("clock", pa.timestamp("us")),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("price", pa.decimal128(38, 10)),
        ("ratio", pa.float32()),
        ("small", pa.int8()),
    ]
)
RANDOM = random.Random(1)  # noqa: S311 - no secrets here
SETTINGS = {"memory": 128 << 20, "threads": 2, "batch_rows": 1_000}


def row(number: int) -> dict[str, Any]:
    moment = dt.datetime(2026, 1, 1, 0, 0, 0, number % 1_000_000, tzinfo=dt.UTC)
    return {
        "key": number,
        "text": f"é\0{number}",
        "TEXT": None if number % 3 else "",
        "at": moment,
        "clock": moment.replace(tzinfo=None),
        "day": dt.date(1, 1, 1),
        "flag": None if number % 2 else True,
        "price": Decimal(number).scaleb(-10),
        "ratio": float("nan") if number % 5 == 0 else 0.1,
        "small": -1,
    }


def batches(rows: list[dict[str, Any]], size: int, schema: pa.Schema = SCHEMA) -> Batches:
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], schema)


def sort(source: Batches, keys: list[str], folder: Path, schema: pa.Schema = SCHEMA, **settings: Any) -> list[Any]:  # noqa: ANN401
    with sorted_rows(schema, source, keys, folder=str(folder), **SETTINGS | settings) as found:
        return [row for batch in found for row in batch.to_pylist()]


def test_rows_come_out_as_they_went_in_but_in_order(tmp_path: Path) -> None:
    rows = [row(number) for number in range(2_500)]
    expected = [each for batch in batches(rows, 2_500) for each in batch.to_pylist()]
    shuffled = RANDOM.sample(rows, len(rows))
    # NaN is not equal to itself.
    assert repr(sort(batches(shuffled, 300), ["key"], tmp_path)) == repr(expected)


def test_nulls_come_first_and_texts_by_their_bytes(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    texts = [None, "", "\0", "A", "a", "a\0", "aa", "b", "é", "\ud7ff", "\ue000", "\U00010000"]
    rows = [{"a": first, "b": second} for first in texts for second in texts]
    found = sort(batches(RANDOM.sample(rows, len(rows)), 7, schema), ["a", "b"], tmp_path, schema)
    assert found == rows


@pytest.mark.parametrize("kind", [pa.float64(), pa.timestamp("us"), pa.date32(), pa.decimal128(10, 2), pa.bool_()])
def test_values_are_sorted_as_what_they_are(tmp_path: Path, kind: pa.DataType) -> None:
    values = {
        pa.float64(): [None, -1e300, -1.5, 0.0, 1e-300, 2.0, 10.0],
        pa.timestamp("us"): [None, dt.datetime(1, 1, 1), dt.datetime(1969, 1, 1), dt.datetime(2026, 1, 1)],  # noqa: DTZ001 - a clock
        pa.date32(): [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 1, 1)],
        pa.decimal128(10, 2): [None, Decimal("-1.00"), Decimal("0.01"), Decimal("10.00")],
        pa.bool_(): [None, False, True],
    }[kind]
    schema = pa.schema([("v", kind)])
    found = sort(batches([{"v": value} for value in reversed(values)], 2, schema), ["v"], tmp_path, schema)
    assert [each["v"] for each in found] == values


def test_nothing_is_taken_before_it_is_asked_for(tmp_path: Path) -> None:
    taken: list[int] = []

    def source() -> Batches:
        for batch in batches([row(number) for number in range(100)], 10):
            taken.append(batch.num_rows)
            yield batch

    with sorted_rows(SCHEMA, source(), ["key"], folder=str(tmp_path), **SETTINGS) as found:
        assert taken == []
        next(found)
        assert len(taken) == 10
    with sorted_rows(SCHEMA, source(), ["key"], folder=str(tmp_path), **SETTINGS):
        pass
    assert len(taken) == 10


def large(count: int, watch: Callable[[int], None]) -> Batches:
    """Rows of about a megabyte a batch, made as they are asked for, in random order."""
    numbers = RANDOM.sample(range(count), count)
    schema = pa.schema([("key", pa.int64()), ("text", pa.string())])
    for taken, number in enumerate(numbers):
        watch(taken)
        keys = pa.array(range(number * 1_000, (number + 1) * 1_000), pa.int64())
        texts = pa.array([f"{key:01000}" for key in keys.to_pylist()])
        yield pa.RecordBatch.from_arrays([keys, texts], schema=schema)


def test_more_rows_than_memory_go_to_disk(tmp_path: Path) -> None:
    spilled: list[int] = []

    def watch(_: int) -> None:
        spilled.append(sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()))

    schema = pa.schema([("key", pa.int64()), ("text", pa.string())])
    settings: dict[str, Any] = {"folder": str(tmp_path), "memory": 256 << 20, "threads": 1, "batch_rows": 1_000}
    expected = 0
    before = pa.total_allocated_bytes()
    with sorted_rows(schema, large(400, watch), ["key"], **settings) as found:
        for batch in found:
            keys = batch.column("key").to_pylist()
            assert keys == list(range(expected, expected + len(keys)))
            expected += len(keys)
            # What comes out is not all in memory.
            assert pa.total_allocated_bytes() - before < 64 << 20
    assert expected == 400_000
    assert max(spilled) > 0
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_nothing_is_said_on_stdout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings: dict[str, Any] = {"folder": str(tmp_path), **SETTINGS}
    with sorted_rows(SCHEMA, batches([row(1)], 1), ["key"], **settings) as found:
        list(found)
    assert capfd.readouterr() == ("", "")


def test_thousands_of_columns(tmp_path: Path) -> None:
    schema = pa.schema([(f"c{number}", pa.float64()) for number in range(4_000)])
    rows = [{name: float(place) for name in schema.names} for place in range(5)]
    assert sort(batches(rows[::-1], 2, schema), ["c7"], tmp_path, schema) == rows


class OwnError(Exception):
    pass


def test_an_error_of_the_source_comes_through(tmp_path: Path) -> None:
    closed = []

    def source() -> Batches:
        try:
            yield from batches([row(1)], 1)
            raise OwnError
        finally:
            closed.append(True)

    with pytest.raises(OwnError):
        sort(source(), ["key"], tmp_path)
    assert closed == [True]


def test_who_stops_early_stops_the_source(tmp_path: Path) -> None:
    closed = []

    def source() -> Batches:
        try:
            yield from batches([row(number) for number in range(5_000)], 10)
        finally:
            closed.append(True)

    with sorted_rows(SCHEMA, source(), ["key"], folder=str(tmp_path), **SETTINGS) as found:
        next(found)
    assert closed == [True]


def test_an_interrupt_lets_go_at_once(tmp_path: Path) -> None:
    let_go: list[bool] = []

    def interrupted() -> Iterator[None]:
        settings: dict[str, Any] = {"folder": str(tmp_path), **SETTINGS}
        source = batches([row(number) for number in range(5_000)], 10)
        with sorted_rows(SCHEMA, source, ["key"], abandon=lambda: let_go.append(True), **settings) as found:
            next(found)
            raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        next(interrupted())
    assert let_go == [True]


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("in the way")
    schema = pa.schema([("key", pa.int64()), ("text", pa.string())])
    settings: dict[str, Any] = {"folder": str(folder), "memory": 128 << 20, "threads": 1, "batch_rows": 10_000}

    def run() -> None:
        with sorted_rows(schema, large(400, lambda _: None), ["key"], **settings) as found:
            for _ in found:
                pass

    with pytest.raises(TemporaryFileError, match="could not be sorted"):
        run()


def test_without_duckdb_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as Python has it
        if name == "duckdb":
            raise ImportError(name)
        return found(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(OptionError, match=r"pip install '\.\[build\]' in a clone of delta-sidecar"):
        require_duckdb()
