"""Whether the extra `spark` is installed."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version

from delta_sidecar.errors import SparkSetupError, to_install

INSTALL = to_install("spark")

_LEAST_SPARK = (4, 2)


def check_installed() -> None:
    """Checks that PySpark and Delta's package can be imported, in versions that fit.

    Raises:
        SparkSetupError: One cannot; the message says what to install.
    """
    for name, module in {"PySpark": "pyspark", "delta-spark": "delta"}.items():
        if importlib.util.find_spec(module) is None:
            msg = f"{name} is not installed: {INSTALL}"
            raise SparkSetupError(msg)
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        # Spark's own folder on the path, as clusters have it.
        return
    numbers = tuple(map(int, re.findall(r"\d+", found)[:2]))
    if numbers < _LEAST_SPARK:
        msg = f"PySpark is {found}, and {'.'.join(map(str, _LEAST_SPARK))} or newer is needed: {INSTALL}"
        raise SparkSetupError(msg)
