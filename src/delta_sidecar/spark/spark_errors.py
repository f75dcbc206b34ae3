"""Errors of Spark and Delta as errors of this library: in one line, without secrets or the traces of two languages."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from delta import exceptions as delta
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from delta_sidecar import errors
from delta_sidecar.errors import BuildError, DeltaSidecarError, IngestError, SchemaMismatchError
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delta_sidecar.spark.ingest.buckets import TimeBucket


logger = logging.getLogger("delta_sidecar.spark")

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""Errors that Spark and Delta raise in Python; the last is what is left when the JVM is gone."""

CONFLICTS = (
    delta.DeltaConcurrentModificationException,
    delta.ConcurrentAppendException,
    delta.ConcurrentDeleteDeleteException,
    delta.ConcurrentDeleteReadException,
    delta.ConcurrentTransactionException,
    delta.ConcurrentWriteException,
    delta.MetadataChangedException,
    delta.ProtocolChangedException,
)
"""Errors that Delta raises where another writer was faster; in Python they have no base of their own."""

_AGAIN = "Nothing of it is in the table; it can be run again"


def ingest_failure(error: Exception, table: str, bucket: TimeBucket) -> IngestError:
    """The error for what Spark or Delta raised. Nothing of the batch has been committed."""
    if isinstance(error, ConnectionError):
        msg = (
            f"{table}: the JVM of Spark is gone, and with it the batch. Whether it is in the table is not known: with "
            "a batch id it can be run again"
        )
        return IngestError(msg)
    if condition_of(error).startswith("DELTA_VIOLATE_CONSTRAINT") and "Generated Column" in str(error):
        msg = (
            f"{table}: the batch brings a column {bucket.column} whose values are not the time buckets of "
            f"{bucket.timestamp_column}: leave it out, Delta makes it. {_AGAIN}"
        )
        return SchemaMismatchError(msg)
    return IngestError(f"{table}: the batch was not written: {line_of(error)}. {_AGAIN}")


@contextmanager
def build_failures(table: str) -> Iterator[None]:
    """Raises errors of Spark, Delta or a task of a build as errors of this library."""
    try:
        yield
    except SPARK_ERRORS as error:
        # The rest of what the JVM says may hold anything.
        logger.debug("%s: %s", table, Scrubber().scrub(str(error)))
        raise build_failure(error, table) from None


def build_failure(error: Exception, table: str) -> DeltaSidecarError:
    """The error for what Spark raised: the one that a task raised, else a `BuildError`."""
    if isinstance(error, ConnectionError):
        msg = f"{table}: the JVM of Spark is gone, and with it the build. Nothing was published: build it again"
        return BuildError(msg)
    text = str(error)
    for name, message in _OURS.findall(text)[-1:]:
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, DeltaSidecarError):
            return kind(Scrubber().scrub(message))
    msg = f"{table}: Spark could not build the metadata sidecar: {error_line(text)}. Nothing was published"
    return BuildError(msg)


_OURS = re.compile(r"^(?:.*\s)?delta_sidecar\.errors\.([A-Za-z]+): (.*)$", re.MULTILINE)


def condition_of(error: Exception) -> str:
    """The name that Spark or Delta gives to what went wrong; empty where it has none."""
    found = _CONDITION.search(str(error))
    return found[1] if found else ""


def line_of(error: Exception) -> str:
    """The line of an error that says most; that of its cause too, where the error itself says nothing."""
    if isinstance(error, ConnectionError):
        return "the JVM of Spark is gone"
    line = error_line(str(error))
    if condition_of(error).startswith(_SILENT):
        deepest = error
        while (cause := getattr(deepest, "_cause", None)) is not None:
            deepest = cause
        line = f"{line}: {error_line(str(deepest))}" if deepest is not error else line
    return line


# These say that something went wrong; what it is says their cause.
_SILENT = ("FAILED_READ_FILE", "INCONSISTENT_BEHAVIOR", "STREAM_FAILED")

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] *")
_TRACEBACK = "Traceback (most recent call last)"
# The last line of a traceback: the class of the error and what it says. Every other line is indented.
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$", re.MULTILINE)
_LONGEST = 400


def error_line(text: str, scrubber: Scrubber | None = None) -> str:
    """Finds the line that says most in the text of an error of Spark, Delta or Py4J."""
    # Behind a traceback of Python's there may be one of Java's.
    trace = text[text.rindex(_TRACEBACK) :].partition("\n\tat ")[0] if _TRACEBACK in text else ""
    raised = _RAISED.findall(trace)
    found = _CONDITION.search(text)
    if raised:
        text = raised[-1]
        if "No module named 'delta_sidecar" in text:
            text += ": install delta-sidecar on the executors"
    elif found:
        text = text[found.start() :]
    else:
        # The call comes first; what follows is what it raised.
        text = re.sub(r"^An error occurred while calling [^\n]*\n: ", "", text)
        causes = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
        text = causes[-1] if causes else text
    line = text.strip().partition("\n")[0].strip().rstrip(".:")
    return (scrubber or Scrubber()).scrub(line)[:_LONGEST]
