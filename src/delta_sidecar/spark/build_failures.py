"""What Spark says when a build fails, as errors of this library: in one line, without secrets."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from delta_sidecar import errors
from delta_sidecar.errors import BuildError, DeltaSidecarError
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 400
_OURS = re.compile(r"^(?:.*\s)?delta_sidecar\.errors\.([A-Za-z]+): (.*)$", re.MULTILINE)
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] *")


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
    except (PySparkException, Py4JError) as error:
        # What the JVM says besides may hold anything.
        raise failure_of(error, table) from None


def failure_of(error: Exception, table: str) -> DeltaSidecarError:
    """The error for what Spark raised."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, DeltaSidecarError):
            return kind(Scrubber().scrub(message))
    msg = f"{table}: Spark could not build the metadata sidecar: {_line(text)}. Nothing was published"
    return BuildError(msg)


def _line(text: str) -> str:
    """The line that says most, without the traces around it."""
    found = _CONDITION.search(text)
    if found:
        text = text[found.start() :]
    else:
        # What is told first is the call; what follows is what it raised.
        text = re.sub(r"^An error occurred while calling [^\n]*\n: ", "", text)
        causes = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
        text = causes[-1] if causes else text
    line = text.strip().partition("\n")[0].strip().rstrip(".:")
    return Scrubber().scrub(line[:_LONGEST])
