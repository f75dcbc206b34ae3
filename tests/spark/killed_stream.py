"""A process that streams into a table, and is killed. Run by test_killed; what it needs comes by stdin."""

from __future__ import annotations

import json
import sys

from tests.spark.conftest import SETTINGS

from delta_sidecar.spark.ingest.pipeline import IngestPipeline
from delta_sidecar.spark.session import spark_session


def main() -> None:
    """Streams until it is killed."""
    given = json.load(sys.stdin)
    spark = spark_session(given["table"], master="local[2]", storage_options=given["options"], settings=SETTINGS)
    stream = spark.readStream.schema(given["schema"]).option("maxFilesPerTrigger", 1).json(given["source"])
    pipeline = IngestPipeline(spark, given["table"], checkpoint_interval=3, storage_options=given["options"])
    pipeline.write_stream(stream, checkpoint_location=given["checkpoints"]).awaitTermination()


if __name__ == "__main__":
    main()
