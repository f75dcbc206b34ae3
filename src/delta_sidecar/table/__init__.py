"""`DeltaTable`: what most users touch."""

from delta_sidecar.table.delta_table import DeltaTable

__all__ = ["DeltaTable"]
