"""Runs plans: threads, Arrow and the store.

Read in this order: `local` (the executor), `fetch` (requests in threads, small files ahead of need), `json`,
`lanes` (streams made by threads, taken in order), `parquet/`, `pieces` (row groups out of byte ranges).
"""

from delta_sidecar.execute.local import LocalExecutor, open_executor

__all__ = ["LocalExecutor", "open_executor"]
