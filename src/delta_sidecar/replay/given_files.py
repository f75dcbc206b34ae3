"""Which files a metadata sidecar came past before it broke off, told of files from any part of the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from delta_sidecar.sidecar.keys import key_scalars, within

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.replay.recent import Recent
    from delta_sidecar.replay.sidecar_order import SidecarOrder
    from delta_sidecar.sidecar.groups import Key
    from delta_sidecar.sidecar.manifest import SortColumn


@dataclass(frozen=True, slots=True)
class GivenUpTo:
    """Those up to `recent.after` in the order of buckets; none without it."""

    recent: Recent

    def __call__(self, files: pa.RecordBatch) -> NDArray[np.bool_]:
        """Tells of each file whether it is one of them."""
        after = self.recent.after
        if after is None:
            return np.zeros(files.num_rows, dtype=np.bool_)
        return ~self.recent.is_after(files, after)


@dataclass(frozen=True, slots=True)
class KeysBetween:
    """Those whose key lies between that of a row group and the end that reading began at.

    Attributes:
        order: The order of the metadata sidecar.
        sort: The same, as its manifest has it.
        near: The row group's last or first key, which is not one of them.
        far: The sidecar's last or first key, which is.
        logical: Logical names of the partition columns, by physical name.
        above: Whether the end that reading began at is the upper one.
    """

    order: SidecarOrder
    sort: tuple[SortColumn, ...]
    near: Key
    far: Key
    logical: Mapping[str, str] = field(hash=False)
    above: bool

    def __call__(self, files: pa.RecordBatch) -> NDArray[np.bool_]:
        """Tells of each file whether it is one of them. Their statistics must be there."""
        columns = self.order.of_files(files, self.logical)
        near, far = key_scalars(self.near, self.sort), key_scalars(self.far, self.sort)
        between = within(near, far, columns) if self.above else within(far, near, columns)
        return between & ~within(near, near, columns)
