"""Strict mode: commits may hold `add`, `remove` and `commitInfo`, and anything else trips."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import StrictModeError
from delta_sidecar.plan import FILE_LABEL, Filter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from delta_sidecar.plan import Plan, ScanJson

ALLOWED = ("add", "remove", "commitInfo")
"""Actions that strict mode takes."""

_KNOWN = ("metaData", "protocol", "txn", "domainMetadata", "cdc", "sidecar", "checkpointMetadata")
_PRESENT = pa.struct([])


@dataclass(frozen=True, slots=True)
class FeatureTripwire:
    """Lets blocks of commits through as they are, up to the first one with an action that strict mode does not take.

    It has no state; as a filter it stands in front of what takes the actions.
    """

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Takes a block of one commit.

        Raises:
            StrictModeError: There is something else in it.
        """
        allowed = _present(batch, ALLOWED)
        if not allowed.all():
            version = batch.column(FILE_LABEL)[0].as_py()
            found = next((name for name in _KNOWN if _present(batch, (name,)).any()), "an unknown action")
            msg = f"commit {version} has {found}, and strict mode takes only {', '.join(ALLOWED)}"
            raise StrictModeError(msg, found, version)
        return batch


@dataclass(slots=True)
class StrictMode:
    """Whether commits are watched; once something has tripped and the scan goes on, they are not any more.

    Attributes:
        armed: Whether they are.
        fallback: Whether a scan may go on.
    """

    armed: bool
    fallback: bool

    def watch(self, plan: ScanJson) -> Plan:
        """A plan of commits with the wire in it, while it is armed."""
        if not self.armed:
            return plan
        others = (name for name in (*ALLOWED, *_KNOWN) if name not in plan.schema.names)
        schema = pa.schema([*plan.schema, *(pa.field(name, _PRESENT) for name in others)])
        return Filter(replace(plan, schema=schema), FeatureTripwire())

    def disarm(self, table: str, error: StrictModeError) -> None:
        """Something has tripped.

        Raises:
            StrictModeError: The scan may not go on.
        """
        if not self.fallback:
            msg = f"{table}: {error}. Scan it without strict mode, or with enable_fallback."
            raise StrictModeError(msg, error.action, error.version) from error
        self.armed = False


def _present(batch: pa.RecordBatch, names: tuple[str, ...]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.logical_or.reduce([valid_mask(batch.column(name)) for name in names])
    return found
