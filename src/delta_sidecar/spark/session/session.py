"""Sessions of Spark that read and write Delta tables."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_sidecar.errors import OptionError, SparkSetupError, to_install
from delta_sidecar.spark.session.access import grant, grant_path, hadoop_configuration, hadoop_url, spark_path
from delta_sidecar.spark.session.launch import launch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_DELTA_LOG = "org.apache.spark.sql.delta.DeltaLog"


def spark_session(
    table_url: str | os.PathLike[str] | None = None,
    *,
    name: str = "delta-sidecar",
    master: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    packages: Iterable[str] = (),
    others: Iterable[str | os.PathLike[str]] = (),
) -> SparkSession:
    """Returns a session of Spark that reads and writes Delta tables: the one that runs, or a new one.

    A new one finds a Java, fetches Delta's jars with Spark's own Ivy, has neither a web page nor a progress bar, and
    logs errors alone. Credentials are set once it runs; they are on no command line.

    Args:
        table_url: A table that the session is for; it decides which jars and credentials are needed.
        name: The application's name, of a new session.
        master: Where a new session runs, such as `local[4]`; None for what Spark's own configuration says, which is
            `local[*]` if it says nothing.
        storage_options: The table's storage options.
        settings: Settings of Spark for a new session; they hold before ours.
        packages: More jars for a new session, by their Maven names (`group:artifact:version`).
        others: More addresses that the session is to reach, such as where the rows come from.

    Raises:
        SparkSetupError: There is no Java, a package is missing, Spark does not start, or the session that runs does
            not have what the table needs.
        OptionError: A setting is a credential, or the address or an option cannot be understood.
    """
    settings, others = dict(settings or {}), tuple(others)
    _refuse_credentials(settings)
    # A bad address or option is refused before the JVM starts.
    urls = [hadoop_url(table_url, storage_options)] if table_url is not None else []
    urls += [spark_path(each, storage_options) for each in others]
    spark = _running()
    if spark is None:
        spark = _start(urls, name, master, settings, packages)
    check_session(spark)
    for url in urls:
        _check_file_system(spark, url)
    for other in others:
        grant_path(spark, other, storage_options)
    if table_url is not None:
        grant(spark, table_url, storage_options)
    return spark


def delta_package() -> str:
    """Returns the Maven name of Delta's connector for the installed Spark."""
    try:
        delta = version("delta-spark")
    except PackageNotFoundError:
        msg = f"delta-spark is not installed: {to_install('spark')}"
        raise SparkSetupError(msg) from None
    spark = ".".join(pyspark.__version__.split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{delta}"


def hadoop_package(artifact: str) -> str:
    """Returns the Maven name of a part of Hadoop, such as `hadoop-azure`, in the version that Spark comes with."""
    found = next(_jars().glob("hadoop-client-api-*.jar"), None)
    if found is None:
        msg = f"there is no Hadoop among Spark's jars in {_jars()}: install Spark with it ({to_install('spark')})"
        raise SparkSetupError(msg)
    return f"org.apache.hadoop:{artifact}:{found.stem.removeprefix('hadoop-client-api-')}"


# The packages of address schemes besides Delta's. Hadoop knows local folders by itself.
_ARTIFACTS = {"abfs": "hadoop-azure", "abfss": "hadoop-azure", "s3a": "hadoop-aws"}

_ADVICE = {scheme: f"start it with the package org.apache.hadoop:{name}" for scheme, name in _ARTIFACTS.items()} | {
    "gs": "Google's connector is none of ours: start the session with it, by `packages` or the setting spark.jars, and "
    "with its credentials",
}

# Spark replaces the values of such settings where it shows them. Its own pattern has no name of Azure's in it.
_REDACTED = r"(?i)secret|password|passphrase|token|access[.]?key|account[.]key|[.]sas[.]|client-provided-key"

# Credentials of file systems, spelled as a setting of Spark.
_CREDENTIAL = re.compile(r"\bfs\.(?:azure|s3a|s3n?|gs|adl)\..*(?:key|secret|token|password|sas)(?!.*(?:provider|file))")


def _refuse_credentials(settings: Mapping[str, str]) -> None:
    for name in settings:
        if _CREDENTIAL.search(name):
            msg = (
                f"the setting {name} is a credential, and settings are on the JVM's command line for everybody to see: "
                "give it as a storage option"
            )
            raise OptionError(msg)


def _running() -> SparkSession | None:
    if SparkContext._active_spark_context is None:  # noqa: SLF001 - there is no public way to ask
        return None
    active: SparkSession | None = SparkSession.getActiveSession()
    return active or SparkSession.builder.getOrCreate()


def _start(
    urls: Iterable[str],
    name: str,
    master: str | None,
    settings: dict[str, str],
    packages: Iterable[str],
) -> SparkSession:
    needed = [] if _bundled("delta-spark") else [delta_package()]
    artifacts = (_ARTIFACTS.get(url.partition(":")[0]) for url in urls)
    needed += [hadoop_package(artifact) for artifact in artifacts if artifact is not None and not _bundled(artifact)]
    extensions = [DELTA_EXTENSION, *settings.pop("spark.sql.extensions", "").split(",")]
    values = {
        "spark.app.name": name,
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        "spark.jars.packages": ",".join(dict.fromkeys([*needed, *packages])),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.redaction.regex": _REDACTED,
        # Spark's own default is a type that most other readers cannot read before 1677 and after 2262.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": (Path(tempfile.gettempdir()) / "spark-warehouse").as_uri(),
        **({"spark.master": master} if master is not None else {}),
        **settings,
        "spark.sql.extensions": ",".join(dict.fromkeys(filter(None, map(str.strip, extensions)))),
    }
    values = {key: value for key, value in values.items() if value}
    if values.get("spark.master", "local").startswith("local"):
        # Workers of this machine are of this Python; those of others are not.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return launch(values)


def check_session(spark: SparkSession) -> None:
    """Raises SparkSetupError for a running session of Spark Connect, or without Delta: it cannot be added any more."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        msg = "a session of Spark Connect has no way to Delta's own log: run this where Spark's driver runs"
        raise SparkSetupError(msg)
    needed = {"spark.sql.extensions": DELTA_EXTENSION, "spark.sql.catalog.spark_catalog": DELTA_CATALOG}
    for name, value in needed.items():
        if value not in map(str.strip, (spark.conf.get(name, "") or "").split(",")):
            msg = (
                f"a session of Spark is running without Delta: its setting {name} lacks {value}. Start it with that, "
                "or stop it and have delta_sidecar.spark.spark_session start one"
            )
            raise SparkSetupError(msg)
    is_loadable = jvm.org.apache.spark.util.Utils.classIsLoadable
    if not is_loadable(DELTA_EXTENSION):
        # Spark itself goes on without an extension that it does not find.
        msg = f"Spark's JVM was started without Delta's jar: start it with the package {delta_package()}"
        raise SparkSetupError(msg)
    if not is_loadable(_DELTA_LOG):
        msg = f"the session of Spark has a Delta without the class {_DELTA_LOG}, such as Databricks': not supported"
        raise SparkSetupError(msg)


def _check_file_system(spark: SparkSession, url: str) -> None:
    scheme = url.partition(":")[0]
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop_configuration(spark))
    except Exception as error:
        if not isinstance(error, PySparkException) and type(error).__name__ != "Py4JJavaError":
            raise
        advice = _ADVICE.get(scheme, "start it with a connector for it")
        msg = f"the session of Spark has no file system for {scheme}:// addresses: {advice}"
        raise SparkSetupError(msg) from None


def _bundled(artifact: str) -> bool:
    """True if Spark's own folder has a jar already, as in images that are made with it."""
    return any(_jars().glob(f"{artifact}[-_]*.jar"))


def _jars() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
