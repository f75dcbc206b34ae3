"""Events of scans as OpenTelemetry metrics; needs the extra `otel`.

    scanner = LazyDeltaScanner(url, listeners=[OpenTelemetryListener()])

The measurements go to the meter provider of the process, or to another one. One listener serves any number of
scanners and threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.errors import OptionError, to_install
from delta_sidecar.events import Event, FallbackTriggered, FirstFileFound, ScanEnded

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider

_PREFIX = "delta.lazy."
_SIDECAR_PREFIX = "delta.sidecar."

# A bucket's upper bound each. The SDK's own end at ten thousand, where a busy tail only begins.
_MILLISECONDS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
_KEYS = (0, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)


class OpenTelemetryListener:
    """Records events of scans in OpenTelemetry, as the instruments `delta.lazy.*`.

    Figures of a scan as a whole are recorded when it ends, with its `outcome` as attribute, however it ends.
    """

    def __init__(self, meter_provider: MeterProvider | None = None, *, with_table: bool = False) -> None:
        """Makes the instruments.

        Args:
            meter_provider: Where the measurements go; None for the provider of the process, which may be set later.
            with_table: Whether measurements have the table's address as attribute `table`. Each table is then a time
                series of its own, for as long as the process lives.

        Raises:
            OptionError: The extra is not installed.
        """
        meter = _meter(meter_provider)
        self._with_table = with_table
        self._scans = meter.create_counter(_PREFIX + "scans", "{scan}", "Scans that ended")
        # By the field of `ScanEnded` that they count.
        self._counters = {
            field: meter.create_counter(_PREFIX + field, unit, description)
            for field, unit, description in (
                ("commits_scanned", "{commit}", "Commits of which something was read"),
                ("files_emitted", "{file}", "Files given out"),
                ("requests", "{request}", "Requests to the store"),
                ("bytes", "By", "Bytes that the requests moved"),
                ("row_groups_read", "{row_group}", "Row groups of the base of which rows were used"),
                ("row_groups_skipped", "{row_group}", "Row groups of the base that were passed over"),
            )
        }
        self._counters |= {
            f"sidecar_{field}": meter.create_counter(_SIDECAR_PREFIX + field, "{row_group}", description)
            for field, description in (
                ("row_groups_read", "Row groups of metadata sidecars that were decoded"),
                ("row_groups_skipped", "Row groups of metadata sidecars that were passed over"),
            )
        }
        self._tiers = meter.create_counter(
            _SIDECAR_PREFIX + "tier", "{scan}", "Scans that ended, by the tier of their base"
        )
        self._reasons = meter.create_counter(
            _SIDECAR_PREFIX + "fallback_reason", "{scan}", "Scans that ended on less than a whole metadata sidecar"
        )
        self._fallbacks = meter.create_counter(
            _PREFIX + "fallback_triggered", "{fallback}", "Times that strict mode gave way to the standard chain"
        )
        self._keys = meter.create_histogram(
            _PREFIX + "remove_set_size",
            "{key}",
            "Keys that a scan remembered",
            explicit_bucket_boundaries_advisory=_KEYS,
        )
        self._first = meter.create_histogram(
            _PREFIX + "time_to_first_file_ms",
            "ms",
            "Time from the start of a scan to its first file",
            explicit_bucket_boundaries_advisory=_MILLISECONDS,
        )

    def __call__(self, event: Event) -> None:
        """Records an event."""
        attributes = {"table": event.table} if self._with_table else {}
        if isinstance(event, FirstFileFound):
            self._first.record(event.milliseconds, attributes)
        elif isinstance(event, FallbackTriggered):
            self._fallbacks.add(1, attributes)
        elif isinstance(event, ScanEnded):
            attributes["outcome"] = event.outcome
            self._scans.add(1, attributes)
            for field, counter in self._counters.items():
                counter.add(getattr(event, field), attributes)
            self._keys.record(event.remove_set_size, attributes)
            if event.sidecar_tier is not None:
                self._tiers.add(1, attributes | {"tier": event.sidecar_tier})
            if event.sidecar_fallback_reason is not None:
                self._reasons.add(1, attributes | {"reason": event.sidecar_fallback_reason})


def _meter(provider: MeterProvider | None) -> Meter:
    try:
        from opentelemetry.metrics import get_meter
    except ImportError as error:
        msg = f"OpenTelemetry is not installed: {to_install('otel')}"
        raise OptionError(msg) from error
    return get_meter("delta_sidecar", meter_provider=provider)
