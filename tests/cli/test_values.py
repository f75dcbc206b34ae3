"""Values as text: nothing is lost, whatever the type, and a slice has just its own."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from delta_sidecar.cli.table import json_texts, plain_texts
from delta_sidecar.errors import OptionError, UnreadableFileError

MAP = pa.map_(pa.int32(), pa.string())
CASES: list[tuple[list[Any], pa.DataType, list[str | None], list[Any]]] = [
    (
        [1.0, 0.1, -0.0, 1e300, None],
        pa.float64(),
        ["1.0", "0.1", "-0.0", "1e+300", None],
        [1.0, 0.1, -0.0, 1e300, None],
    ),
    ([float("inf"), float("-inf")], pa.float64(), ["Infinity", "-Infinity"], ["Infinity", "-Infinity"]),
    ([0.1, float("nan")], pa.float32(), ["0.1", "NaN"], [0.1, "NaN"]),
    ([Decimal("0.0000000001")], pa.decimal128(38, 10), ["0.0000000001"], [1e-10]),
    ([-(2**63), None], pa.int64(), [str(-(2**63)), None], [-(2**63), None]),
    ([dt.time(10), dt.time(10, 0, 0, 5)], pa.time64("us"), ["10:00:00", "10:00:00.000005"], None),
    ([1], pa.timestamp("ns"), ["1970-01-01T00:00:00.000000001"], None),
    ([0], pa.timestamp("us", "Europe/Berlin"), ["1970-01-01T00:00:00Z"], None),
    (
        [-62135596800000000, 253402300799999999],
        pa.timestamp("us"),
        ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"],
        None,
    ),
    ([dt.timedelta(seconds=-1.5), dt.timedelta()], pa.duration("us"), ["PT-1.5S", "PT0S"], None),
    ([pa.MonthDayNano([1, 2, 3_000_000_000])], pa.month_day_nano_interval(), ["P1M2DT3S"], None),
    ([b"\x00\xff", b""], pa.binary(), ["AP8=", ""], None),
    (["a", "", None], pa.large_string(), ["a", "", None], None),
    (["a", None], pa.dictionary(pa.int8(), pa.string()), ["a", None], None),
    ([None], pa.null(), [None], [None]),
    ([[1, None], None, []], pa.list_(pa.int8()), ["[1,null]", None, "[]"], [[1, None], None, []]),
    ([[1, 2], None], pa.list_(pa.int8(), 2), ["[1,2]", None], [[1, 2], None]),
    ([[(1, "x")], None, []], MAP, ['{"1":"x"}', None, "{}"], [{"1": "x"}, None, {}]),
    ([{"%s": 1}, None], pa.struct([("%s", pa.int8())]), ['{"%s":1}', None], [{"%s": 1}, None]),
    ([{}, None], pa.struct([]), ["{}", None], [{}, None]),
    ([[{"m": [(1, None)]}]], pa.list_(pa.struct([("m", MAP)])), ['[{"m":{"1":null}}]'], [[{"m": {"1": None}}]]),
]


@pytest.mark.parametrize(("values", "kind", "plain", "in_json"), CASES, ids=[str(case[1]) for case in CASES])
def test_values_are_written_whole(
    values: list[Any], kind: pa.DataType, plain: list[str | None], in_json: list[Any] | None
) -> None:
    column = pa.array(values, kind)
    expected = plain if in_json is None else in_json
    assert plain_texts(column) == plain
    assert [json.loads(text) for text in json_texts(column)] == expected
    twice = pa.concat_arrays([column, column])
    for start in range(len(column)):
        assert plain_texts(twice.slice(start, len(column))) == plain[start:] + plain[:start]
        assert [json.loads(text) for text in json_texts(twice.slice(start))][-len(expected) :] == expected


def test_a_text_in_json_cannot_steer_a_terminal() -> None:
    (text,) = json_texts(pa.array(["\x1b[2J\x9b2J\x7f\u2028"]))
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text) == "\x1b[2J\x9b2J\x7f\u2028"


def test_what_has_no_text_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(OptionError, match="sparse_union"):
        plain_texts(union)
    offsets = pa.py_buffer(np.array([0, 1], dtype=np.int32))
    torn = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
    with pytest.raises(UnreadableFileError, match="not UTF-8"):
        json_texts(torn)
