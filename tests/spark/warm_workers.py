"""The daemon of Spark's Python workers, which has imported what each of them would import anew after a failure."""

from __future__ import annotations

import pandas as pd
import pyspark.worker
from pyspark.daemon import manager

import delta_sidecar.spark.build

__all__ = ["delta_sidecar", "pd", "pyspark"]

if __name__ == "__main__":
    manager()
