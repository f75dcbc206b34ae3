"""What Spark and Delta say when a batch cannot be written, in one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from delta import exceptions as delta
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from delta_sidecar.errors import IngestError, SchemaMismatchError
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    from delta_sidecar.spark.ingest.buckets import TimeBucket


SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What Spark and Delta raise in Python; the last is what is left when the JVM is gone."""

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
"""What Delta raises where another writer was faster; in Python they have no base of their own."""

BAD_TIMESTAMP = "delta-sidecar: a row has no time bucket"
"""What the plan of a write raises where a row came in without a time bucket after all."""

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] *")


def condition_of(error: Exception) -> str | None:
    """The name that Spark or Delta gives to what went wrong; None where it has none."""
    found = _CONDITION.search(str(error))
    return found[1] if found else None


def is_bad_timestamp(error: Exception) -> bool:
    """Whether the plan of a write met a row without a time bucket."""
    return BAD_TIMESTAMP in str(error)


def ingest_failure(error: Exception, table: str, bucket: TimeBucket) -> IngestError:
    """The error for what Spark or Delta raised. Nothing of the batch has been committed."""
    if isinstance(error, ConnectionError):
        msg = (
            f"{table}: the JVM of Spark is gone, and with it the batch. Whether it is in the table is not known: with "
            "a batch id it can be run again"
        )
        return IngestError(msg)
    condition = condition_of(error) or ""
    if condition.startswith("DELTA_VIOLATE_CONSTRAINT") and "Generated Column" in str(error):
        msg = (
            f"{table}: the batch brings a column {bucket.column} whose values are not the time buckets of "
            f"{bucket.timestamp_column}: leave it out, Delta makes it. {_AGAIN}"
        )
        return SchemaMismatchError(msg)
    return IngestError(f"{table}: the batch was not written: {line_of(error)}. {_AGAIN}")


_AGAIN = "Nothing of it is in the table; it can be run again"


def line_of(error: Exception) -> str:
    """The line that says most, without the traces around it."""
    if isinstance(error, ConnectionError):
        return "the JVM of Spark is gone"
    line = error_line(str(error))
    if (condition_of(error) or "").startswith(_SILENT):
        deepest = error
        while (cause := getattr(deepest, "_cause", None)) is not None:
            deepest = cause
        line = f"{line}: {error_line(str(deepest))}" if deepest is not error else line
    return line


# These say that something went wrong; what it is says their cause.
_SILENT = ("FAILED_READ_FILE", "INCONSISTENT_BEHAVIOR", "STREAM_FAILED")


# The one line of an error of Spark's that says most, without the traces of two languages around it, nor secrets.


_ERROR_LINES_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] *")
_TRACEBACK = "Traceback (most recent call last)"
# The last line of a traceback: the class of the error and what it says. Every other line is indented.
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$", re.MULTILINE)
_LONGEST = 400


def error_line(text: str) -> str:
    """Finds the line.

    Args:
        text: What an error of Spark, Delta or Py4J says.
    """
    # Behind a traceback of Python's there may be one of Java's.
    trace = text[text.rindex(_TRACEBACK) :].partition("\n\tat ")[0] if _TRACEBACK in text else ""
    raised = _RAISED.findall(trace)
    found = _ERROR_LINES_CONDITION.search(text)
    if raised:
        text = raised[-1]
        if "No module named 'delta_sidecar" in text:
            text += ": install delta-sidecar on the executors"
    elif found:
        text = text[found.start() :]
    else:
        # What is told first is the call; what follows is what it raised.
        text = re.sub(r"^An error occurred while calling [^\n]*\n: ", "", text)
        causes = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
        text = causes[-1] if causes else text
    line = text.strip().partition("\n")[0].strip().rstrip(".:")
    return Scrubber().scrub(line)[:_LONGEST]
