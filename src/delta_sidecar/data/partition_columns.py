"""Partition values as columns: the text in the log, as a value of the column's type, in every row of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar._arrow import int64s, strings
from delta_sidecar.errors import LogCorruptionError
from delta_sidecar.log.partition_values import read_partition_column

if TYPE_CHECKING:
    from collections.abc import Mapping

import numpy as np


def partition_column(field: pa.Field, values: Mapping[str, str | None], rows: int, file: str) -> pa.Array:
    """The column of a partition value.

    A timestamp that was written without a zone is taken to be in UTC.

    Args:
        field: The column, by its logical name.
        values: The file's partition values.
        rows: How many rows.
        file: The file, for messages.

    Raises:
        LogCorruptionError: The text is no value of the column's type, or there is none.
    """
    if field.name not in values:
        msg = f"the log tells no value of partition column {field.name} for {file}"
        raise LogCorruptionError(msg)
    text = values[field.name]
    if text is None or text == "" or pa.types.is_null(field.type):
        return pa.nulls(rows, field.type)
    one = strings([text])
    if pa.types.is_binary(field.type):
        typed = one.cast(pa.binary())
    else:
        column = read_partition_column(one, field.type)
        if column is None:
            msg = f"the log has {text!r} for partition column {field.name} of {file}, which is no {field.type}"
            raise LogCorruptionError(msg)
        typed = column.values
    return typed.take(int64s(np.zeros(rows, dtype=np.int64)))
