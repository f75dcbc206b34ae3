"""Whether the extra `spark` is installed."""

from __future__ import annotations

import importlib.util

from delta_sidecar.errors import SparkSetupError

INSTALL = "pip install 'delta-sidecar[spark]'"


def check_installed() -> None:
    """Checks that PySpark can be imported.

    Raises:
        SparkSetupError: It cannot; the message says what to install.
    """
    if importlib.util.find_spec("pyspark") is None:
        msg = f"PySpark is not installed: {INSTALL}"
        raise SparkSetupError(msg)
