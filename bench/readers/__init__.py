"""The readers that are compared, a module each. `reader` says what a reader is; the others are in any order.

A reader is asked a question (`bench.questions.asked`) of a table with one of its bases, and answers in a process of its
own. It says how many files it found and what their sizes add up to; of few files also a digest of the paths, and with
a limit the paths themselves.
"""

from __future__ import annotations

from bench.readers.reader import Reader

__all__ = ["Reader"]
