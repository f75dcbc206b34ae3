"""The deleted rows of data files: their deletion vectors, fetched when a file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar._arrow import booleans
from delta_sidecar.errors import DeletionVectorError, StorageError, UnreadableFileError
from delta_sidecar.log.deletion_vectors import deleted_rows, inline_bytes, stored_range

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.data.places import Places
    from delta_sidecar.log.deletion_vectors import DeletionVector


def load_deleted_rows(vector: DeletionVector, places: Places, file: str, num_rows: int) -> NDArray[np.int64]:
    """Numbers of the deleted rows of a data file, in order.

    Args:
        vector: Where they are written.
        places: Where files are.
        file: The data file, for messages.
        num_rows: How many rows it has.

    Raises:
        DeletionVectorError: They cannot be fetched, or are damaged.
    """
    try:
        path = vector.file_path()
        if path is None:
            return deleted_rows(vector, inline_bytes(vector), num_rows=num_rows)
        store, at = places.find(path)
        return deleted_rows(vector, bytes(store.get_range(at, *stored_range(vector))), num_rows=num_rows)
    except (DeletionVectorError, StorageError, UnreadableFileError) as error:
        msg = f"the deletion vector of {file} cannot be read, so that its rows are not given: {error}"
        raise DeletionVectorError(msg) from error


def kept_rows(deleted: NDArray[np.int64], first: int, rows: int) -> pa.BooleanArray | None:
    """Which of some rows are not deleted.

    Args:
        deleted: Numbers of deleted rows of the file, in order.
        first: The number of the first of the rows.
        rows: How many.

    Returns:
        One boolean a row; None where none is deleted.
    """
    start, end = np.searchsorted(deleted, [first, first + rows])
    if start == end:
        return None
    kept = np.ones(rows, dtype=np.bool_)
    kept[deleted[start:end] - first] = False
    return booleans(kept)
