"""Keys of logical files: (canonical path, deletion vector id), as one byte string that cannot be ambiguous."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar, strings
from delta_sidecar.log.deletion_vectors import unique_ids
from delta_sidecar.log.paths import canonical_paths

if TYPE_CHECKING:
    from collections.abc import Mapping


def file_keys(fields: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """The key of each file action, from its `path` and, where there, its `deletionVector`.

    The path's length in bytes goes before it, so that no path and id together look like another path and id.
    """
    path = canonical_paths(fields["path"])
    vector = fields.get("deletionVector")
    ids = None if vector is None else unique_ids(vector)
    empty = scalar("", pa.string())
    length = pc.binary_length(path).cast(pa.string())
    tail = empty if ids is None else pc.fill_null(ids, empty)
    return pc.binary_join_element_wise(length, path, tail, scalar(":", pa.string())).cast(pa.binary())


def key_paths(keys: pa.BinaryArray) -> pa.StringArray:
    """The canonical paths in keys."""
    parts = (key.partition(b":") for key in keys.to_pylist())
    return strings(rest[: int(length)].decode() for length, _, rest in parts)
