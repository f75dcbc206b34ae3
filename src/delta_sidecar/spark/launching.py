"""Starting Spark's JVM without its noise.

While it starts, the JVM tells of Ivy, of each jar, of its own host name. That is kept back: it is of interest only if
the start fails, and then the error has it. What the JVM writes later goes to the terminal as ever.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import uuid
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from delta_sidecar.errors import SparkSetupError
from delta_sidecar.spark.java import java_for_spark

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger("delta_sidecar.spark")


def launch(settings: Mapping[str, str]) -> SparkSession:
    """Starts Spark with some settings and gives its session.

    Raises:
        SparkSetupError: There is no Java, or Spark did not start; the message says why, and a note has all that the
            JVM said.
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
    """What a JVM writes: kept until it has written a mark, passed on after it.

    Attributes:
        writing: The JVM's end of the pipe.
        mark: What the JVM is to write as soon as it has started.
    """

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
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
        """Gives what was kept, once the JVM has ended or has had its time to."""
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
    # By its number: that is where the JVM would have written, whatever Python's own stream has become.
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(2, text) :]


def _reason(said: str) -> str:
    """Finds the line that tells why, in what a JVM said."""
    for pattern in (
        r"unresolved dependency: (.*?): not found",
        r"(?:Exception in thread \S+|^Error:|^Caused by:) (.*)",
    ):
        found = re.search(pattern, said, re.MULTILINE)
        if found:
            return found[0].strip()
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else ""
