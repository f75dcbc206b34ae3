"""The page about metrics names every event, instrument and count as the code has them, and its examples run."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tests.builder import TableBuilder, add

import delta_sidecar.events
from delta_sidecar import RowMetrics, ScanMetrics
from delta_sidecar.events import Event, FallbackTriggered, FirstFileFound, ScanEnded
from delta_sidecar.otel import OpenTelemetryListener
from delta_sidecar.replay.request import EntryCounts
from delta_sidecar.store import RequestCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"
EVENTS = [
    kind
    for kind in vars(delta_sidecar.events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
]


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_is_described_as_in_the_code(kind: type[Event]) -> None:
    assert section_of(kind) in PAGE.read_text()


@pytest.mark.parametrize("kind", [ScanMetrics, RowMetrics, RequestCounts, EntryCounts], ids=lambda kind: kind.__name__)
def test_every_count_is_described_as_in_the_code(kind: type) -> None:
    assert table_of(kind) in PAGE.read_text()


def test_the_page_has_no_event_that_the_code_has_not() -> None:
    found = re.findall(r"^### `(\w+)`: ", PAGE.read_text(), re.MULTILINE)
    assert found == [kind.name for kind in EVENTS]


def test_the_table_of_instruments_is_whole() -> None:
    rows = ["| instrument | kind | unit | attributes | meaning |", "|---|---|---|---|---|", *instrument_rows()]
    assert "\n".join(rows) + "\n\n" in PAGE.read_text()


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "scan_ended"), (1, '"event": "scan_ended"'), (2, "delta.lazy.files_emitted"), (3, "3 files in ")],
)
def test_an_example_runs(tmp_path: Path, number: int, expected: str) -> None:
    table = TableBuilder(tmp_path / "telemetry")
    table.commit([add("a"), add("b")])
    table.commit([add("c")])
    code = examples()[number]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert expected in done.stdout + done.stderr
    if number == 1:
        lines = done.stderr.splitlines()
        assert lines
        assert all(json.loads(line)["time"] for line in lines)


def test_every_example_is_run() -> None:
    assert len(examples()) == 4


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def section_of(kind: type[Event]) -> str:
    level = logging.getLevelName(kind.level).lower()
    summary = (kind.__doc__ or "").partition("\n")[0]
    return f"### `{kind.name}`: {kind.__name__}, {level}\n\n{summary}\n\n{table_of(kind)}"


def table_of(kind: type) -> str:
    rows = ["| field | meaning |", "|---|---|"]
    if issubclass(kind, Event):
        rows.append("| `table` | The table's address, without secrets. |")
    rows += [f"| `{name}` | {meaning} |" for name, meaning in attributes_of(kind)]
    return "\n".join(rows) + "\n"


def attributes_of(kind: type) -> Iterator[tuple[str, str]]:
    """The attributes that a docstring describes."""
    text = (kind.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    for entry in re.split(r"\n {8}(?=\S)", "\n" + text.rstrip())[1:]:
        name, _, meaning = entry.partition(": ")
        yield name, " ".join(meaning.split())


def instrument_rows() -> list[str]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    listener = OpenTelemetryListener(provider, with_table=True)
    zeros: dict[str, Any] = dict.fromkeys(ScanEnded.__struct_fields__, 0)
    listener(ScanEnded(**{**zeros, "table": "t", "outcome": "complete"}))
    listener(FirstFileFound(table="t", milliseconds=1, trips=1))
    listener(FallbackTriggered(table="t", action="txn", version=1))
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    provider.shutdown()
    kinds = {"Sum": "counter", "Histogram": "histogram"}
    return [
        f"| `{metric.name}` | {kinds[type(metric.data).__name__]} | `{metric.unit}` | "
        f"{', '.join(f'`{name}`' for name in sorted(metric.data.data_points[0].attributes))} | {metric.description} |"
        for metric in sorted(scope.metrics, key=lambda metric: metric.name)
    ]
