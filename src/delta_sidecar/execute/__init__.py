"""How plans run: threads, Arrow and the store."""

from delta_sidecar.execute.local import LocalExecutor
from delta_sidecar.execute.work import ExecutionCounts

__all__ = ["ExecutionCounts", "LocalExecutor"]
