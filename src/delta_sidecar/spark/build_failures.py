"""What Spark says when a build fails, as errors of this library: in one line, without secrets."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from delta_sidecar import errors
from delta_sidecar.errors import BuildError, DeltaSidecarError
from delta_sidecar.spark.error_lines import error_line
from delta_sidecar.spark.failures import SPARK_ERRORS
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    from collections.abc import Iterator


logger = logging.getLogger("delta_sidecar.spark")

_OURS = re.compile(r"^(?:.*\s)?delta_sidecar\.errors\.([A-Za-z]+): (.*)$", re.MULTILINE)


@contextmanager
def told_in_our_words(table: str) -> Iterator[None]:
    """Raises what Spark, Delta or a task raises as an error of this library.

    Args:
        table: The table, for messages.

    Raises:
        DeltaSidecarError: A task raised it.
        BuildError: Anything else.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        # What the JVM says besides may hold anything.
        logger.debug("%s: %s", table, Scrubber().scrub(str(error)))
        raise failure_of(error, table) from None


def failure_of(error: Exception, table: str) -> DeltaSidecarError:
    """The error for what Spark raised."""
    if isinstance(error, ConnectionError):
        msg = f"{table}: the JVM of Spark is gone, and with it the build. Nothing was published: build it again"
        return BuildError(msg)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, DeltaSidecarError):
            return kind(Scrubber().scrub(message))
    msg = f"{table}: Spark could not build the metadata sidecar: {error_line(text)}. Nothing was published"
    return BuildError(msg)
