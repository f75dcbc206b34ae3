"""The one line of an error of Spark's that says most, without the traces of two languages around it, nor secrets."""

from __future__ import annotations

import re

from delta_sidecar.store.redaction import Scrubber

_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] *")
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
    found = _CONDITION.search(text)
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
