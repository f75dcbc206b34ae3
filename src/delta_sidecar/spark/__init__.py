"""The writer side, on PySpark with Delta's own connector."""

from __future__ import annotations

from delta_sidecar.spark.installed import check_installed

check_installed()
