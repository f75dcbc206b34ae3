"""`DeltaTable`: what most users touch.

Read in this order: `delta_table` (the class), `pinned` (a table at one version and its scans), `files` (lists of files
and history), `filters` (conditions in deltalake's notation), `statistics` (of files and of columns),
`facts` (schema, protocol and metadata under deltalake's names), `writing` (what deltalake does).
"""

from delta_sidecar.table.delta_table import DeltaTable

__all__ = ["DeltaTable"]
