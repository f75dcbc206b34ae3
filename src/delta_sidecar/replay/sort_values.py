"""Values that files are put in order by: typed partition values, and what tells deletion vectors apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar
from delta_sidecar.log.deletion_vectors import unique_ids
from delta_sidecar.log.partition_values import PartitionTexts, read_known_values

if TYPE_CHECKING:
    from delta_sidecar.log.partition_values import PartitionColumn


def typed(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Partition values for comparing: a text that is no value of the type counts as null, and so does NaN.

    What a text counts as does not depend on the other texts.
    """
    column: PartitionColumn | None
    _, column = read_known_values(PartitionTexts(texts, np.ones(len(texts), dtype=np.bool_)), kind)
    return pa.nulls(len(texts), kind) if column is None else without_nan(column.values)


def without_nan(values: pa.Array) -> pa.Array:
    """The same values, null in the place of NaN: that is neither before nor after anything."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), scalar(None, values.type), values)


def vector_ids(descriptors: pa.StructArray) -> pa.StringArray:
    """What tells deletion vectors apart; the empty text without one. It does not depend on the other files."""
    ids = unique_ids(descriptors)
    return pc.fill_null(pa.nulls(len(descriptors), pa.string()) if ids is None else ids, scalar("", pa.string()))
