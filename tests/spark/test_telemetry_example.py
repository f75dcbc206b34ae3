"""The example of a stream runs, and what it shows is so."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "telemetry"


@pytest.mark.full
def test_the_last_hour_is_asked_for_while_it_streams(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    example = importlib.import_module("stream")
    shown = io.StringIO()
    example.show(spark, tmp_path, 7, 0, Console(file=shown, width=100))
    text = shown.getvalue()
    assert "7 files arrive" in text
    assert "2,800 readings were made, and 2,800 are in the table" in text
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit() and "2026-02-10" in line]
    versions = [int(cells[0]) for cells in rows]
    assert versions == sorted(set(versions))
    assert versions[-1] == 7
    # The seventh file is that of the next hour, after the sidecar of version 5.
    assert rows[-1][1:4] == ["2026-02-10", "21h", "1"]
    assert "sidecar 5 and 2 commits" in text


def test_what_is_generated_is_the_same_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    generate = importlib.import_module("generate")
    example = importlib.import_module("stream")
    first = generate.write_file(tmp_path, 3, example.START).read_text()
    assert generate.write_file(tmp_path, 3, example.START).read_text() == first
    assert [path.name for path in tmp_path.iterdir()] == ["readings-00003.json"]
