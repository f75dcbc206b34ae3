"""Which files are kept, by what is known of one column."""
# ruff: noqa: ANN401 - literals and bounds of every type

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.predicate.files import Known

from delta_sidecar.predicate import ColumnBounds, bind, may_match, parse


def keeps(
    source: Any,
    type_: pa.DataType,
    lower: Any = None,
    upper: Any = None,
    *,
    null_count: int | None = None,
    num_records: int | None = None,
    tight: bool | None = None,
    bounds_type: pa.DataType | None = None,
) -> bool:
    """Whether one file with these statistics of column c is kept."""
    stored = bounds_type or type_
    bounds = ColumnBounds(
        lower=pa.array([lower], stored),
        upper=pa.array([upper], stored),
        null_count=pa.array([null_count], pa.int64()),
        num_records=pa.array([num_records], pa.int64()),
        tight=pa.array([tight], pa.bool_()),
    )
    return kept(source, type_, bounds, 1)[0]


def keeps_exactly(
    source: Any, type_: pa.DataType, values: list[Any], zoneless: list[bool | None] | None = None
) -> list[bool]:
    """Which files with these partition values of column c are kept."""
    array = pa.array(values, type_)
    flags = None if zoneless is None else pa.array(zoneless, pa.bool_())
    return kept(source, type_, ColumnBounds(array, array, None, None, exact=True, zoneless=flags), len(values))


def kept(source: Any, type_: pa.DataType, bounds: ColumnBounds | None, rows: int) -> list[bool]:
    predicate = bind(parse(source), pa.schema([("c", type_)]))
    known = Known(rows, {} if bounds is None else {("c",): bounds})
    mask = may_match(predicate, known)
    assert isinstance(mask, pa.BooleanArray)
    assert mask.null_count == 0
    return [bool(value) for value in mask.to_pylist()]
