"""The writer side, on PySpark with Delta's own connector: the extra `spark`.

    from delta_sidecar.spark import IngestPipeline, spark_session

Tables are written with one time bucket a file, and get a checkpoint and a metadata sidecar every so many commits. Read
`ingest/pipeline` first, then `trigger` and `build`; `session` starts Spark, `access` lets it reach the store,
`delta_log` calls Delta's classes.
"""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version

from delta_sidecar.errors import SparkSetupError, to_install

_LEAST_SPARK = (4, 2)


def _check_installed() -> None:
    for name, module in {"PySpark": "pyspark", "delta-spark": "delta"}.items():
        if importlib.util.find_spec(module) is None:
            msg = f"{name} is not installed: {to_install('spark')}"
            raise SparkSetupError(msg)
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        # Spark's own folder on the path, as clusters have it.
        return
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < _LEAST_SPARK:
        least = ".".join(map(str, _LEAST_SPARK))
        msg = f"PySpark is {found}, and {least} or newer is needed: {to_install('spark')}"
        raise SparkSetupError(msg)


_check_installed()

from delta_sidecar.spark.build import build_sidecar  # noqa: E402 - a missing package is named first
from delta_sidecar.spark.ingest.buckets import TimeBucket  # noqa: E402
from delta_sidecar.spark.ingest.pipeline import IngestPipeline, WriteSummary  # noqa: E402
from delta_sidecar.spark.session import spark_session  # noqa: E402
from delta_sidecar.spark.trigger import TriggerOutcome  # noqa: E402

__all__ = ["IngestPipeline", "TimeBucket", "TriggerOutcome", "WriteSummary", "build_sidecar", "spark_session"]
