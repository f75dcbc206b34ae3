"""How plans run: threads, Arrow and the store."""

from delta_sidecar.execute.local import ExecutionCounts, LocalExecutor

__all__ = ["ExecutionCounts", "LocalExecutor"]
