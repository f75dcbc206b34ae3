"""Sessions of Spark that read and write Delta tables."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql import SparkSession

from delta_sidecar.spark.access import grant
from delta_sidecar.spark.java import java_for_spark
from delta_sidecar.store.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def spark_session(
    table_url: str | os.PathLike[str] | None = None,
    *,
    name: str = "delta-sidecar",
    master: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    packages: Iterable[str] = (),
) -> SparkSession:
    """Gives a session that reads and writes Delta tables."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    all_packages = [delta_package(), *packages]
    kind = parse_address(table_url).kind if table_url is not None else "local"
    if kind == "azure":
        all_packages.append(f"org.apache.hadoop:hadoop-azure:{hadoop_version()}")
    builder: Any = SparkSession.builder
    builder = builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    values = {
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        "spark.jars.packages": ",".join(all_packages),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    } | dict(settings or {})
    for key, value in values.items():
        builder = builder.config(key, value)
    with java_for_spark():
        spark: SparkSession = builder.getOrCreate()
    if table_url is not None:
        grant(spark, table_url, storage_options)
    return spark


def delta_package() -> str:
    """Gives the Maven name of Delta's connector for the installed Spark."""
    spark = ".".join(pyspark.__version__.split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}"


def hadoop_version() -> str:
    """Gives the version of Hadoop that comes with the installed Spark."""
    jars = Path(pyspark.__file__).parent / "jars"
    found = next(jars.glob("hadoop-client-api-*.jar"), None)
    return found.stem.removeprefix("hadoop-client-api-") if found else ""
