"""One Spark session for the whole run, and places for its tables."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.distribution import SPARK

from delta_sidecar.spark.access import grant
from delta_sidecar.spark.session import hadoop_package, spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.azurite import Azurite

# Where the jars are kept, so that they are fetched once.
IVY = Path(__file__).parents[2] / ".cache" / "ivy"

SETTINGS = {
    "spark.jars.ivy": str(IVY),
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    # A vacuum lists folders in so many tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    # A JVM that lives for minutes spends more on compiling well than that saves. What it has compiled it has to keep:
    # by default there is little room for it at this level, and it would compile the same again and again.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
    # Tables of a few rows are read before a plan has been compiled. Time buckets are tested in both ways.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A Python worker is started anew after each failure, and there are many failures here.
    "spark.python.daemon.module": "tests.spark.warm_workers",
    # Else the JVM waits for minutes at its end, to tell an emulator that is gone.
    "spark.hadoop.fs.azure.metrics.collection.enabled": "false",
}


@dataclass(frozen=True)
class Lake:
    """A place for tables.

    Attributes:
        root: Its address, which Spark and our own store both understand.
        options: The storage options for it.
    """

    root: str
    options: dict[str, str] = field(default_factory=dict, repr=False)

    def url(self, name: str) -> str:
        """The address of a table."""
        return f"{self.root}/{name}"

    def new_url(self, name: str = "table") -> str:
        """The address of a table that nobody else uses."""
        return self.url(f"{name}-{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="session", params=[SPARK])
def spark() -> Iterator[SparkSession]:
    """The session of all tests, whose names say by its parameter that they share it."""
    azure = hadoop_package("hadoop-azure")
    session = spark_session(name="tests", master="local[2,2]", settings=SETTINGS, packages=[azure])
    yield session
    session.stop()


@pytest.fixture(scope="session")
def local_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A local folder."""
    return Lake(str(tmp_path_factory.mktemp("lake")))


@pytest.fixture(scope="session")
def azure_lake(spark: SparkSession, azurite: Azurite) -> Lake:
    """A container of an emulator, which the session has been given access to."""
    root = f"abfs://{azurite.create_container()}@{azurite.account}.dfs.core.windows.net"
    grant(spark, root, azurite.options)
    return Lake(root, azurite.options)


@pytest.fixture(scope="session", params=["local", pytest.param("azure", marks=pytest.mark.azurite)])
def lake(request: pytest.FixtureRequest, spark: SparkSession) -> Lake:  # noqa: ARG001 - the second needs it
    """Each of the two."""
    found: Lake = request.getfixturevalue(f"{request.param}_lake")
    return found
