"""Row groups: sorted rows cut into groups, and the summary of each for the manifest."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, int64s, numbers_of, scalar, valid_mask
from delta_sidecar.build.live_rows import joined
from delta_sidecar.log.values import ARROW, value_text
from delta_sidecar.sidecar.groups import LARGEST, RowSummary, SummaryBounds
from delta_sidecar.sidecar.manifest import Totals
from delta_sidecar.sidecar.names import column_name
from delta_sidecar.sidecar.order import partition_column
from delta_sidecar.sidecar.rows import bound_column, untold_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from delta_sidecar.build.planned_layout import PlannedLayout
    from delta_sidecar.sidecar.groups import JsonScalar, Key


def cut(batches: Iterable[pa.RecordBatch], rows_per_group: int) -> Iterator[pa.RecordBatch]:
    """Cuts sorted rows into groups. Those of complete rows and of others have each a last one with fewer rows."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        for part in _of_one_kind(batch):
            if held and _is_complete(held[0]) != _is_complete(part):
                yield joined(held)
                held, rows = [], 0
            held.append(part)
            rows += part.num_rows
            while rows >= rows_per_group:
                last = held.pop()
                extra = rows - rows_per_group
                yield joined([*held, last.slice(0, last.num_rows - extra)])
                held, rows = [last.slice(last.num_rows - extra)] if extra else [], extra
    if held:
        yield joined(held)


def summary_of(group: pa.RecordBatch, layout: PlannedLayout) -> RowSummary:
    """The summary of a row group, from its rows in order."""
    low, high, nulls, odd = _buckets(group, layout)
    return RowSummary(
        num_rows=group.num_rows,
        first_key=_key(group, 0, layout),
        last_key=_key(group, group.num_rows - 1, layout),
        event_hour_min=low,
        event_hour_max=high,
        null_buckets=nulls,
        odd_buckets=odd,
        columns=_bounds(group, layout),
    )


def totals_of(group: pa.RecordBatch) -> Totals:
    """The sums over the files of a row group."""
    size, records, deleted = (group.column(name) for name in ("size", "num_records", "dv.cardinality"))
    totals = Totals(*_sum_and_largest(size), *_sum_and_largest(records))
    has_vector = valid_mask(group.column("dv.storageType"))
    if totals.rows is None or not has_vector.any():
        return totals
    hidden = numbers_of(pc.fill_null(deleted, scalar(0, pa.int64())))
    is_known = bool((valid_mask(deleted) | ~has_vector).all()) and hidden.min() >= 0
    rows = _sum_and_largest(int64s(numbers_of(records) - hidden)) if is_known else (None, None)
    return Totals(totals.bytes, totals.largest, *rows)


def json_value(value: pa.Scalar) -> JsonScalar | None:
    """A bound as Delta's statistics write it, to the last digit."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_timestamp(kind):
        return _moment(value)
    found: Any = value.as_py()
    if isinstance(found, dt.date):
        return found.isoformat()
    if isinstance(found, float):
        if not np.isfinite(found):
            return "NaN" if np.isnan(found) else "Infinity" if found > 0 else "-Infinity"
        return Decimal(repr(found))
    result: JsonScalar = found
    return result


def _sum_and_largest(column: pa.Array) -> tuple[int | None, int | None]:
    """None and None where a value is missing, or negative."""
    values = numbers_of(column) if not column.null_count else None
    if values is None or (len(values) and values.min() < 0):
        return None, None
    # In halves, for the sum of numbers that are no sizes at all may not fit.
    total = (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
    return (total if total <= LARGEST else None), int(values.max(initial=0))


def _of_one_kind(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The incomplete rows of sorted ones, then the complete ones."""
    complete = int(np.count_nonzero(numbers_of(batch.column("#complete"))))
    incomplete = batch.num_rows - complete
    if incomplete:
        yield batch.slice(0, incomplete)
    if complete:
        yield batch.slice(incomplete)


def _is_complete(batch: pa.RecordBatch) -> bool:
    return bool(batch.column("#complete")[0].as_py())


def _key(group: pa.RecordBatch, row: int, layout: PlannedLayout) -> Key:
    values: list[JsonScalar | None] = []
    for number, value in enumerate(layout.order.sort):
        typed = group.column(f"#{number}")[row]
        if value.kind == "lower_bound":
            values.append(json_value(typed))
        else:
            text = partition_column(group, value, layout.schema)[row].as_py()
            values.append(text if typed.is_valid else None)
    path, vector = (group.column(name)[row].as_py() for name in ("path", "#vector"))
    return (group.column("#complete")[row].as_py(), *values, path, vector)


def _buckets(group: pa.RecordBatch, layout: PlannedLayout) -> tuple[str | None, str | None, int, int]:
    """Raw texts of the lowest and highest bucket, rows without one, and rows with one that is no value."""
    schema = layout.schema
    if schema.bucket is None:
        return None, None, 0, 0
    texts, typed = group.column(schema.bucket_column), group.column("#0")
    without = typed.null_count
    empty = ~valid_mask(texts) | bits_of(pc.equal(texts, scalar("", pa.string())))
    is_known = ~_untold(group.column("untold"), schema.bucket)
    nulls = int(np.count_nonzero(empty & is_known & ~valid_mask(typed)))
    low = high = None
    if without < group.num_rows:
        # Nulls come first.
        low, high = texts[without].as_py(), texts[group.num_rows - 1].as_py()
    return low, high, nulls, without - nulls


def _untold(column: pa.StringArray, physical: str) -> np.ndarray:
    if column.null_count == len(column):
        return np.zeros(len(column), dtype=np.bool_)
    return np.array([physical in untold_names(text) for text in column.to_pylist()], dtype=np.bool_)


def _bounds(group: pa.RecordBatch, layout: PlannedLayout) -> dict[str, SummaryBounds]:
    if not _is_complete(group):
        return {}
    found = {}
    for path in layout.order.summaries:
        low, high = pc.min(bound_column(group, "min", path)), pc.max(bound_column(group, "max", path))
        lower, upper = json_value(low), json_value(high)
        if lower is not None and upper is not None:
            found[column_name(path)] = SummaryBounds(lower, upper)
    return found


def _moment(value: pa.TimestampScalar) -> str:
    # Arrow writes moments that Python's datetime cannot hold.
    text: str = value_text(pa.repeat(value, 1), ARROW)[0].as_py().strip('"')
    return text.replace("000Z", "Z") if text.endswith("Z") else text.removesuffix("000")
