"""What `may_match` decides by the bounds of a column."""

# ruff: noqa: ANN401 - literals and bounds of every type
from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.predicate.files import Known
from tests.predicate.keeping import keeps, keeps_exactly, kept

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import ColumnBounds, may_match, parse

INT64_MOST = 2**63 - 1
INT = pa.int32()


WHOLE_NUMBERS = [
    ("c = 9", False),
    ("c = 10", True),
    ("c = 20", True),
    ("c = 21", False),
    ("c < 10", False),
    ("c < 11", True),
    ("c <= 9", False),
    ("c <= 10", True),
    ("c > 20", False),
    ("c > 19", True),
    ("c >= 21", False),
    ("c >= 20", True),
    ("c != 15", True),
    ("NOT (c >= 10)", False),
    ("NOT (c <= 20)", False),
    ("NOT (c = 9)", True),
    ("NOT (c != 9)", False),
    ("c = 9.5", False),
    ("c = 15.5", False),
    ("NOT (c = 15.5)", True),
    ("c > 1e20", False),
    ("c < 1e20", True),
    ("c IN (1, 5, 25)", False),
    ("c IN (1, 5, 15, 25)", True),
    ("c IN (1, NULL)", False),
    ("c NOT IN (10, 20)", True),
    ("c BETWEEN 1 AND 9", False),
    ("c NOT BETWEEN 10 AND 20", False),
    ("c NOT BETWEEN 11 AND 20", True),
    ("c = 15 AND c < 10", False),
    ("c = 1 OR c = 15", True),
    ("c = 1 OR c = 2", False),
    ("NOT (c = 15 OR c < 10)", True),
    ("NOT (c >= 10 OR c = 3)", False),
    ("NOT (c >= 10 AND c <= 20)", False),
    ("c IS NULL", True),
    ("c IS NOT NULL", True),
    ("TRUE", True),
    ("FALSE", False),
    ("NULL", False),
    ("NOT NULL", False),
    ("c = NULL", False),
    ("NOT (c = NULL)", False),
    ("NULL OR c = 15", True),
]


def test_whole_numbers(subtests: pytest.Subtests) -> None:
    for text, expected in WHOLE_NUMBERS:
        with subtests.test(text):
            assert keeps(text, INT, 10, 20) is expected


@pytest.mark.parametrize(
    "text", ["c = 5", "c < 5", "c > 5", "c != 5", "c IN (5, 6)", "c IS NULL", "c IS NOT NULL", "NOT (c = 5)"]
)
def test_what_is_not_known_is_kept(text: str) -> None:
    assert keeps(text, INT)
    assert kept(text, INT, None, 3) == [True] * 3
    assert kept(text, INT, ColumnBounds(None, None, None, None), 3) == [True] * 3
    assert kept(text, INT, None, 0) == []


def test_one_known_bound_is_enough_on_its_side() -> None:
    assert not keeps("c = 9", INT, 10, None)
    assert keeps("c = 11", INT, 10, None)
    assert not keeps("c IN (8, 9)", INT, 10, None)
    assert not keeps("c >= 21", INT, None, 20)
    assert keeps("c <= 9", INT, None, 20)
    assert not keeps("c IN (21, 22)", INT, None, 20)


@pytest.mark.parametrize("tight", [True, False, None])
def test_null_counts(tight: bool | None) -> None:  # noqa: FBT001
    def keeping(text: str, null_count: int | None, num_records: int | None) -> bool:
        return keeps(text, INT, null_count=null_count, num_records=num_records, tight=tight)

    assert not keeping("c IS NULL", 0, 5)
    assert not keeping("c IS NULL", 0, None)
    assert keeping("c IS NULL", 1, 5)
    assert keeping("c IS NULL", None, 5)
    for text in (
        "c IS NOT NULL",
        "c = 1",
        "c != 1",
        "c IN (1, 2)",
        "NOT (c IN (1, 2))",
        "NOT (c = 1)",
        "c = 2.5 OR c != 2.5",
    ):
        assert not keeping(text, 5, 5)
        assert keeping(text, 4, 5)
        assert keeping(text, 5, None)
        assert keeping(text, None, 5)
    # An empty file, and counts that cannot be, say nothing.
    for null_count, num_records in ((0, 0), (-1, 5), (6, 5), (-1, -1), (0, -1)):
        assert keeping("c IS NOT NULL", null_count, num_records)
        assert keeping("c IS NULL", null_count, num_records)


def test_not_equal_drops_only_a_single_value() -> None:
    assert not keeps("c != 5", INT, 5, 5)
    assert not keeps("c NOT IN (4, 5, 6)", INT, 5, 5, tight=False)
    assert keeps("c NOT IN (4, 6)", INT, 5, 5)
    assert keeps("c != 5", INT, 5, 6)
    assert not keeps("c != 1.50", pa.decimal128(9, 2), Decimal("1.50"), Decimal("1.50"))
    assert not keeps("NOT c", pa.bool_(), True, True)  # noqa: FBT003
    day = dt.date(2026, 2, 8)
    assert not keeps("c != '2026-02-08'", pa.date32(), day, day)
    # Bounds of these may be rounded or cut, so equal bounds are not one value.
    moment = dt.datetime(2026, 2, 8, tzinfo=dt.UTC)
    assert keeps("c != '2026-02-08'", pa.timestamp("us", "UTC"), moment, moment)
    assert keeps("c != 'x'", pa.string(), "x", "x")
    assert keeps("c != X'00'", pa.binary(), b"\0", b"\0")
    assert keeps("c != 1", pa.float64(), 1.0, 1.0)
    assert keeps("c NOT LIKE 'x%'", pa.string(), "x", "x")


def test_like_prunes_by_its_prefix() -> None:
    def keeping(text: str, lower: str, upper: str) -> bool:
        return keeps(text, pa.string(), lower, upper)

    assert keeping("c LIKE 'dev%'", "dev1", "dev9")
    assert keeping("c LIKE 'dev%'", "a", "z")
    assert keeping("c LIKE 'dev%'", "dev\U0010ffff\U0010ffff", "z")
    assert not keeping("c LIKE 'dev%'", "dew", "z")
    assert not keeping("c LIKE 'dev%'", "a", "deu")
    assert keeping("c LIKE 'dev%'", "a", "de")
    assert not keeping("c LIKE 'dev_x%y'", "a", "deu")
    assert not keeping("c LIKE 'de\\%v%'", "dea", "z")
    assert keeping("c LIKE '%dev'", "x", "z")
    assert not keeping("c LIKE 'plain'", "q", "z")
    assert keeping("c NOT LIKE 'dev%'", "dev1", "dev9")
    assert keeping("c LIKE '\U0010ffff%'", "a", "\U0010ffff\U0010ffff")


def test_exact_values_decide() -> None:
    values = ["a", "b", None, ""]
    text = pa.string()
    assert keeps_exactly("c = 'a'", text, values) == [True, False, False, False]
    assert keeps_exactly("c = 'ab'", text, values) == [False] * 4
    assert keeps_exactly("c != 'a'", text, values) == [False, True, False, True]
    assert keeps_exactly("c NOT IN ('a', 'x', 'b')", text, values) == [False, False, False, True]
    assert keeps_exactly("c NOT IN ('a', NULL)", text, values) == [False] * 4
    assert keeps_exactly("c LIKE '_'", text, values) == [True, True, False, False]
    assert keeps_exactly("c NOT LIKE 'a%'", text, values) == [False, True, False, True]
    assert keeps_exactly("c IS NULL", text, values) == [False, False, True, False]
    assert keeps_exactly("c IS NOT NULL", text, values) == [True, True, False, True]
    assert keeps_exactly("NOT (c > 'a')", text, values) == [True, False, False, True]
    assert keeps_exactly("c > 1.5", pa.float64(), [1.0, 2.0, math.nan, None]) == [False, True, True, False]
    assert keeps_exactly("NOT (c > 1.5)", pa.float64(), [1.0, 2.0, math.nan, None]) == [True, False, True, False]
    assert keeps_exactly("c != 2", pa.float64(), [1.0, 2.0, math.nan, None]) == [True, False, True, False]
    assert keeps_exactly("c IN (-0.0, 9)", pa.float64(), [0.0, 2.0]) == [True, False]
    assert keeps_exactly("c NOT IN (1, 3, 5)", pa.int64(), [1, 2, 5, None]) == [False, True, False, False]
    moments = [dt.datetime(2026, 2, 8, tzinfo=dt.UTC)]
    assert keeps_exactly("c > '2026-02-08'", pa.timestamp("us", "UTC"), moments) == [False]


@pytest.mark.parametrize(
    "type_", [pa.int64(), pa.string(), pa.decimal128(30, 2), pa.float64(), pa.float32(), pa.date32(), pa.binary()]
)
def test_long_lists_find_every_member_and_nothing_else(type_: pa.DataType) -> None:
    def value(n: int) -> Any:
        text = f"{n:06}"
        return {"string": text, "binary": text.encode(), "date32[day]": dt.date(1970, 1, 1) + dt.timedelta(n)}.get(
            str(type_), n
        )

    members = [value(n) for n in range(0, 20_000, 4)]
    lower = pa.array([value(n) for n in range(20_000)]).cast(type_)
    keep = np.array(kept([("c", "in", members)], type_, ColumnBounds(lower, lower, None, None), 20_000))
    assert keep[::4].all()
    # A value beside a cut string bound can be dropped only where it does not begin with it; here all have one length.
    assert not keep[1::4].any()
    assert not keep[2::4].any()
    spread = ColumnBounds(lower[:-2], lower[2:], None, None)
    keep = np.array(kept([("c", "in", members)], type_, spread, 19_998))
    assert keep[::4].all()
    assert keep[2::4].all()
    assert not keep[1::4].any()


def test_unknown_rows_among_known_ones() -> None:
    lower = pa.array([10, None, 30, None], pa.int64())
    upper = pa.array([20, 20, None, None], pa.int64())
    bounds = ColumnBounds(lower, upper, None, None)
    assert kept("c = 25", pa.int64(), bounds, 4) == [False, False, False, True]
    assert kept("c IN (25, 26, 5)", pa.int64(), bounds, 4) == [False, True, False, True]
    assert kept("c IN (15, 35)", pa.int64(), bounds, 4) == [True] * 4


def test_slices_and_chunks_are_read_from_their_own_start() -> None:
    values = pa.array([1, 2, 3, 4, None, 6], pa.int64())
    nulls = pa.array([0, 0, 1, 0, 0, 1], pa.int64())
    sliced = ColumnBounds(values.slice(2), values.slice(2), nulls.slice(2), None)
    assert kept("c = 4", pa.int64(), sliced, 4) == [False, True, True, False]
    assert kept("c IS NULL", pa.int64(), sliced, 4) == [True, False, False, True]
    assert kept("c IN (3, 6)", pa.int64(), sliced, 4) == [True, False, True, True]
    flags = pa.array([True, False, True, False, True], pa.bool_()).slice(1)
    assert kept("c", pa.bool_(), ColumnBounds(flags, flags, None, None, exact=True), 4) == [False, True, False, True]
    chunked = pa.chunked_array([values.slice(2, 1), values.slice(3)])
    assert kept("c = 4", pa.int64(), ColumnBounds(chunked, chunked, None, None), 4) == [False, True, True, False]
    texts = pa.array(["a", "b", "c"]).slice(1)
    assert kept("c = 'c'", pa.string(), ColumnBounds(texts, texts, None, None), 2) == [False, True]


def test_an_unbound_predicate_is_refused() -> None:
    with pytest.raises(PredicateError, match="bound"):
        may_match(parse("c = 1"), Known(1, {}))


def test_a_void_column_matches_nothing_but_null() -> None:
    assert kept("c = 1", pa.null(), None, 2) == [False, False]
    assert kept("c IS NULL", pa.null(), None, 2) == [True, True]
