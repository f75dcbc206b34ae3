"""Ctrl-C that works in the middle of a native call too."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from delta_sidecar.cli.ending import INTERRUPTED

if TYPE_CHECKING:
    from types import FrameType

# How long Python has to take notice, and then to clean up and end the program by itself.
_GRACE = 0.5
_CLEAN_UP = 5.0


class InterruptWatch:
    """Ends the process after Ctrl-C if Python does not.

    Python raises KeyboardInterrupt between two of its own steps. While the main thread is inside of a native call, such
    as a request that gets no answer, there is no next step; the operating system's signal arrives all the same.
    """

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self._writing = -1
            return
        self._taken = threading.Event()
        self._handler = signal.getsignal(signal.SIGINT)
        if self._handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._take)
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(
            target=_watch, args=(reading, self._taken), name="delta-sidecar-interrupts", daemon=True
        ).start()

    def __exit__(self, *_: object) -> None:
        if self._writing >= 0:
            signal.set_wakeup_fd(self._before)
            os.close(self._writing)
            if self._handler is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._taken.set()
        signal.default_int_handler(number, frame)


def _watch(reading: int, taken: threading.Event) -> None:
    while arrived := os.read(reading, 1):
        if arrived[0] == signal.SIGINT:
            # Not taken when this comes back: Python is stuck. Else it may have files to remove.
            if taken.wait(_GRACE):
                threading.Event().wait(_CLEAN_UP)
            _end()
    os.close(reading)


def _end() -> NoReturn:
    if sys.stderr.isatty():
        # The progress line is erased, and the cursor that it hid is shown.
        os.write(sys.stderr.fileno(), b"\r\x1b[2K\x1b[?25h")
    os._exit(INTERRUPTED)
