"""Events become OpenTelemetry measurements: the instruments, their units and their attributes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tests.builder import TableBuilder, add, remove

from delta_sidecar import LazyDeltaScanner, LazyScanConfig, OptionError, StorageError
from delta_sidecar.events import BaseChosen, Events, FallbackTriggered, FirstFileFound, ScanEnded
from delta_sidecar.otel import OpenTelemetryListener
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import Fail, FaultStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk.metrics.export import Metric

COUNTED = {
    "delta.lazy.commits_scanned": ("commits_scanned", "{commit}"),
    "delta.lazy.files_emitted": ("files_emitted", "{file}"),
    "delta.lazy.requests": ("requests", "{request}"),
    "delta.lazy.bytes": ("bytes", "By"),
    "delta.lazy.row_groups_read": ("row_groups_read", "{row_group}"),
    "delta.lazy.row_groups_skipped": ("row_groups_skipped", "{row_group}"),
    "delta.sidecar.row_groups_read": ("sidecar_row_groups_read", "{row_group}"),
    "delta.sidecar.row_groups_skipped": ("sidecar_row_groups_skipped", "{row_group}"),
}
TABLE = "abfss://lake@account.dfs.core.windows.net/telemetry"


class Measured:
    """A meter provider whose measurements can be looked at."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider(metric_readers=[self._reader], shutdown_on_exit=False)

    def metrics(self) -> dict[str, Metric]:
        data = self._reader.get_metrics_data()
        scopes = [] if data is None else [scope for found in data.resource_metrics for scope in found.scope_metrics]
        assert {scope.scope.name for scope in scopes} <= {"delta_sidecar"}
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def points(self) -> dict[str, dict[tuple[tuple[str, Any], ...], Any]]:
        """What was measured, by instrument and attributes: a counter's value, or a histogram's count and sum."""
        return {
            name: {
                tuple(sorted(point.attributes.items())): (
                    point.value if hasattr(point, "value") else (point.count, point.sum)
                )
                for point in metric.data.data_points
            }
            for name, metric in self.metrics().items()
        }


@pytest.fixture
def measured() -> Iterator[Measured]:
    found = Measured()
    yield found
    found.provider.shutdown()


def ended(outcome: Any = "complete", number: int = 1) -> ScanEnded:  # noqa: ANN401 - one of the literals
    return ScanEnded(
        table=TABLE,
        outcome=outcome,
        error=None,
        milliseconds=5.0,
        version=7,
        strategy="reverse",
        files_emitted=2 * number,
        commits_scanned=3 * number,
        requests=5 * number,
        bytes=7 * number,
        trips=2,
        row_groups_read=11 * number,
        row_groups_skipped=13 * number,
        sidecar_tier=2,
        sidecar_fallback_reason="no_manifest",
        sidecar_row_groups_read=19 * number,
        sidecar_row_groups_skipped=23 * number,
        remove_set_size=17 * number,
        remove_set_tier="keys",
    )


def test_every_instrument_has_its_name_kind_and_unit(measured: Measured) -> None:
    tell = Events((OpenTelemetryListener(measured.provider),))
    tell(ended())
    tell(FirstFileFound(table=TABLE, milliseconds=12.5, trips=2))
    tell(FallbackTriggered(table=TABLE, action="txn", version=3))
    kinds = {name: (type(metric.data).__name__, metric.unit) for name, metric in measured.metrics().items()}
    assert kinds == {
        **{name: ("Sum", unit) for name, (_, unit) in COUNTED.items()},
        "delta.lazy.scans": ("Sum", "{scan}"),
        "delta.lazy.fallback_triggered": ("Sum", "{fallback}"),
        "delta.lazy.remove_set_size": ("Histogram", "{key}"),
        "delta.lazy.time_to_first_file_ms": ("Histogram", "ms"),
        "delta.sidecar.tier": ("Sum", "{scan}"),
        "delta.sidecar.fallback_reason": ("Sum", "{scan}"),
    }
    assert all(metric.description for metric in measured.metrics().values())


def test_scans_add_up_by_outcome(measured: Measured) -> None:
    tell = Events((OpenTelemetryListener(measured.provider),))
    for event in (ended(), ended(number=10), ended("failed", 100)):
        tell(event)
    complete, failed = (("outcome", "complete"),), (("outcome", "failed"),)
    points = measured.points()
    assert points["delta.lazy.scans"] == {complete: 2, failed: 1}
    for name, (field, _) in COUNTED.items():
        one = getattr(ended(), field)
        assert points[name] == {complete: 11 * one, failed: 100 * one}, name
    assert points["delta.lazy.remove_set_size"] == {complete: (2, 17 * 11), failed: (1, 1_700)}


def test_scans_are_counted_by_the_tier_of_their_base_and_by_why_it_is_not_the_best(measured: Measured) -> None:
    listener = OpenTelemetryListener(measured.provider)
    listener(ended())
    listener(replace(ended(), sidecar_tier=1, sidecar_fallback_reason=None))
    listener(replace(ended(), sidecar_tier=3, sidecar_fallback_reason="none"))
    listener(replace(ended("failed"), sidecar_tier=None, sidecar_fallback_reason=None))
    complete = ("outcome", "complete")
    points = measured.points()
    assert points["delta.sidecar.tier"] == {(complete, ("tier", tier)): 1 for tier in (1, 2, 3)}
    reasons = {(complete, ("reason", reason)): 1 for reason in ("no_manifest", "none")}
    assert points["delta.sidecar.fallback_reason"] == reasons


def test_first_files_and_fallbacks_are_measured_when_they_happen(measured: Measured) -> None:
    tell = Events((OpenTelemetryListener(measured.provider),))
    tell(FirstFileFound(table=TABLE, milliseconds=12.5, trips=2))
    tell(FallbackTriggered(table=TABLE, action="txn", version=3))
    tell(FallbackTriggered(table=TABLE, action="cdc", version=4))
    assert measured.points() == {
        "delta.lazy.time_to_first_file_ms": {(): (1, 12.5)},
        "delta.lazy.fallback_triggered": {(): 2},
    }


def test_other_events_measure_nothing(measured: Measured) -> None:
    OpenTelemetryListener(measured.provider)(BaseChosen(table=TABLE, base="", version=-1))
    assert measured.points() == {}


def test_the_table_is_an_attribute_only_where_it_is_asked_for(measured: Measured) -> None:
    tell = Events((OpenTelemetryListener(measured.provider, with_table=True),))
    tell(ended())
    tell(FirstFileFound(table=TABLE, milliseconds=12.5, trips=2))
    tell(FallbackTriggered(table=TABLE, action="txn", version=3))
    outcome, table = ("outcome", "complete"), ("table", TABLE)
    others = {
        "delta.lazy.time_to_first_file_ms": (table,),
        "delta.lazy.fallback_triggered": (table,),
        "delta.sidecar.tier": (outcome, table, ("tier", 2)),
        "delta.sidecar.fallback_reason": (outcome, ("reason", "no_manifest"), table),
    }
    for name, points in measured.points().items():
        assert set(points) == {others.get(name, (outcome, table))}, name


@pytest.mark.parametrize("name", ["delta.lazy.remove_set_size", "delta.lazy.time_to_first_file_ms"])
def test_large_values_are_told_apart(measured: Measured, name: str) -> None:
    listener = OpenTelemetryListener(measured.provider)
    for large in (20_000, 50_000, 500_000):
        listener(ended(number=large))
        listener(FirstFileFound(table=TABLE, milliseconds=large, trips=2))
    (point,) = measured.metrics()[name].data.data_points
    assert sum(count > 0 for count in point.bucket_counts) == (2 if name.endswith("size") else 3)


def test_the_provider_of_the_process_may_be_set_after_the_listener() -> None:
    program = (
        "from opentelemetry import metrics\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "from opentelemetry.sdk.metrics.export import InMemoryMetricReader\n"
        "from delta_sidecar.events import FallbackTriggered\n"
        "from delta_sidecar.otel import OpenTelemetryListener\n"
        "listener = OpenTelemetryListener()\n"
        "listener(FallbackTriggered(table='t', action='txn', version=1))\n"
        "reader = InMemoryMetricReader()\n"
        "metrics.set_meter_provider(MeterProvider([reader]))\n"
        "listener(FallbackTriggered(table='t', action='txn', version=1))\n"
        "(scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics\n"
        "print([(metric.name, metric.data.data_points[0].value) for metric in scope.metrics])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[('delta.lazy.fallback_triggered', 1)]\n"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(OptionError, match=r"pip install '\.\[otel\]' in a clone of delta-sidecar"):
        OpenTelemetryListener()


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = TableBuilder(tmp_path)
    built.commit([add("a"), add("b")])
    built.checkpoint()
    built.commit([remove("a"), add("c")])
    built.commit([add("d")])
    return built


@pytest.mark.usefixtures("answered_ahead")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_scan_is_measured_from_end_to_end(table: TableBuilder, measured: Measured, *, is_async: bool) -> None:
    scanner = LazyDeltaScanner(table.root, listeners=[OpenTelemetryListener(measured.provider)])

    async def taken() -> int:
        return len([file async for file in scanner.scan_files_async()])

    assert (asyncio.run(taken()) if is_async else len(list(scanner.scan_files()))) == 3
    metrics, complete = scanner.metrics, (("outcome", "complete"),)
    points = measured.points()
    (first,) = points.pop("delta.lazy.time_to_first_file_ms").values()
    assert first[0] == 1
    assert points == {
        "delta.lazy.scans": {complete: 1},
        "delta.lazy.commits_scanned": {complete: metrics.commits_read},
        "delta.lazy.files_emitted": {complete: 3},
        "delta.lazy.requests": {complete: metrics.requests.requests},
        "delta.lazy.bytes": {complete: metrics.requests.bytes},
        "delta.lazy.row_groups_read": {complete: metrics.row_groups_read},
        "delta.lazy.row_groups_skipped": {complete: metrics.row_groups_skipped},
        "delta.lazy.remove_set_size": {complete: (1, metrics.seen_keys)},
        "delta.sidecar.row_groups_read": {complete: 0},
        "delta.sidecar.row_groups_skipped": {complete: 0},
        "delta.sidecar.tier": {(*complete, ("tier", 3)): 1},
        "delta.sidecar.fallback_reason": {(*complete, ("reason", "none")): 1},
    }
    assert metrics.commits_read > 0
    assert metrics.row_groups_read > 0


def test_scans_that_do_not_complete_are_measured_too(table: TableBuilder, measured: Measured) -> None:
    listener = OpenTelemetryListener(measured.provider)
    list(LazyDeltaScanner(table.root, LazyScanConfig(limit=1), listeners=[listener]).scan_files())
    broken_off = LazyDeltaScanner(table.root, listeners=[listener]).scan_files()
    next(broken_off)
    broken_off.close()
    broken = FaultStore(open_store(table.root), Fail("*"))
    with pytest.raises(StorageError):
        list(LazyDeltaScanner(table.root, store=broken, listeners=[listener]).scan_files())
    outcomes = measured.points()["delta.lazy.scans"]
    assert outcomes == {(("outcome", "limit"),): 1, (("outcome", "stopped"),): 1, (("outcome", "failed"),): 1}
