from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.sidecar.made import INSTANT

from delta_sidecar._arrow import scalar
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.manifest import SortColumn
from delta_sidecar.sidecar.order import bound_scalar, key_scalars, partition_scalar

MOMENT = dt.datetime(2025, 1, 2, 3, 4, 5, 678000, dt.UTC)


SORT = (
    SortColumn("bucket", ("_event_hour",), "string"),
    SortColumn("partition", ("day",), "date"),
    SortColumn("lower_bound", ("event_time",), "timestamp"),
)


def test_a_key_as_typed_values() -> None:
    key = (1, "2025010203", "2025-01-02", "2025-01-02T03:04:05.678Z", "p", "")
    assert key_scalars(key, SORT) == (
        pa.scalar(1, pa.int8()),
        pa.scalar("2025010203"),
        pa.scalar(dt.date(2025, 1, 2)),
        pa.scalar(MOMENT, INSTANT),
        pa.scalar("p"),
        pa.scalar(""),
    )
    kinds = [pa.int8(), pa.string(), pa.date32(), INSTANT, pa.string(), pa.string()]
    assert [value.type for value in key_scalars((0, None, "no day", None, "p", "u"), SORT)] == kinds
    assert [value.is_valid for value in key_scalars((0, None, "no day", None, "p", "u"), SORT)] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("key", [(1, "p", ""), (1, "a", "b", "c", "d", "p", "")])
def test_a_key_of_another_length(key: tuple[Any, ...]) -> None:
    with pytest.raises(SidecarError, match="out of form"):
        key_scalars(key, SORT)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("x", pa.string(), "x"),
        ("", pa.string(), None),
        ("-7", pa.int8(), -7),
        ("200", pa.int8(), None),
        ("1.5", pa.int64(), None),
        ("1.5", pa.float32(), 1.5),
        ("nan", pa.float64(), None),
        ("12.50", pa.decimal128(7, 2), Decimal("12.50")),
        ("true", pa.bool_(), True),
        ("2025-01-02", pa.date32(), dt.date(2025, 1, 2)),
        ("2025-13-02", pa.date32(), None),
        ("2025-01-02 03:04:05.678", pa.timestamp("us"), MOMENT.replace(tzinfo=None)),
        ("2025-01-02 03:04:05.678", INSTANT, MOMENT),
        ("2025-01-02T03:04:05.678000Z", INSTANT, MOMENT),
        ("2025-01-02T05:04:05.678+02:00", INSTANT, MOMENT),
        ("soon", INSTANT, None),
        (None, INSTANT, None),
        ("x", pa.binary(), None),
    ],
)
def test_partition_values(text: str | None, kind: pa.DataType, expected: object) -> None:
    assert partition_scalar(text, kind) == scalar(expected, kind)


def test_a_partition_value_is_a_text() -> None:
    with pytest.raises(SidecarError, match="no text"):
        partition_scalar(5, pa.int64())


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("x", pa.string(), "x"),
        ("", pa.string(), ""),
        (-7, pa.int8(), -7),
        (2**63 - 1, pa.int64(), 2**63 - 1),
        (Decimal("1.5"), pa.float32(), 1.5),
        (3, pa.float64(), 3.0),
        ("NaN", pa.float64(), None),
        ("-Infinity", pa.float64(), -math.inf),
        (10**37, pa.decimal128(38, 0), Decimal(10**37)),
        (Decimal("1E+2"), pa.decimal128(7, 2), Decimal(100)),
        (False, pa.bool_(), False),
        ("2025-01-02", pa.date32(), dt.date(2025, 1, 2)),
        ("2025-01-02T03:04:05.678Z", INSTANT, MOMENT),
        ("2025-01-02T03:04:05.678", pa.timestamp("us"), MOMENT.replace(tzinfo=None)),
        (None, pa.int64(), None),
    ],
)
def test_bounds(value: object, kind: pa.DataType, expected: object) -> None:
    assert bound_scalar(value, kind) == scalar(expected, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, pa.string()),
        ("5", pa.int64()),
        (True, pa.int64()),
        (1, pa.bool_()),
        ("true", pa.bool_()),
        (200, pa.int8()),
        (2**63, pa.int64()),
        (10**400, pa.float64()),
        (Decimal("1.5"), pa.int32()),
        (10**38, pa.decimal128(38, 0)),
        (Decimal("0.001"), pa.decimal128(7, 2)),
        ("soon", pa.date32()),
        ("soon", INSTANT),
        (5, INSTANT),
        ("x", pa.float64()),
        ([], pa.string()),
        ("x", pa.binary()),
    ],
)
def test_what_is_no_bound(value: object, kind: pa.DataType) -> None:
    with pytest.raises(SidecarError, match="a bound of the manifest"):
        bound_scalar(value, kind)
