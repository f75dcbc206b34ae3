"""The writer side, on PySpark with Delta's own connector: the extra `spark`.

    from delta_sidecar.spark import IngestPipeline, spark_session

Tables are written with one time bucket a file, and get a checkpoint and a metadata sidecar every so many commits.
"""

from __future__ import annotations

from delta_sidecar.spark.session.installed import check_installed

check_installed()

from delta_sidecar.spark.build.build import build_sidecar  # noqa: E402 - says first what is missing
from delta_sidecar.spark.ingest.buckets import TimeBucket  # noqa: E402
from delta_sidecar.spark.ingest.pipeline import IngestPipeline, WriteSummary  # noqa: E402
from delta_sidecar.spark.session.session import spark_session  # noqa: E402
from delta_sidecar.spark.trigger.trigger import TriggerOutcome  # noqa: E402

__all__ = ["IngestPipeline", "TimeBucket", "TriggerOutcome", "WriteSummary", "build_sidecar", "spark_session"]
