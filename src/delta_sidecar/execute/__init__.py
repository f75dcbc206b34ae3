"""How plans run: threads, Arrow and the store."""

from delta_sidecar.execute.local import LocalExecutor, open_executor

__all__ = ["LocalExecutor", "open_executor"]
