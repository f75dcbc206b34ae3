"""What happens, event by event, on stderr."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from delta_sidecar.cli.rendering import printable
from delta_sidecar.events import Event, JsonLines, event_of, logger

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def logging_to_stderr(*, as_json: bool) -> Iterator[None]:
    """Has every event written to stderr, as a line of text or of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else _TextLines())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = event_of(record)
        text = record.getMessage() if event is None else _told(event)
        return f"{record.levelname.lower():<8}{printable(text)}"


def _told(event: Event) -> str:
    fields = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in event.fields().items())
    return f"{event.name:<18} {' '.join(fields)}"
