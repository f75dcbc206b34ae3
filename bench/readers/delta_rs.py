"""deltalake (delta-rs): loads the table, then lists. It gives nothing before it has everything.

It is made to hold a table for many questions; here it is asked one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.measure import Measurement, measured
from bench.questions import digest
from bench.readers.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "deltalake"
_QUESTIONS = frozenset({"first file", "last hour, paths", "all files"})


def readers() -> list[Reader]:
    """Its one way. Files of more than a partition value, or by statistics, it lists for itself only."""
    return [Reader(NAME, partial(_answer), questions=_QUESTIONS)]


def listed(path: str, ask: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Lists files; arguments as for an answer."""
    # pyarrow imports it once it is given a table, which is no work of deltalake's.
    import pandas as pd  # type: ignore[import-untyped]  # noqa: F401
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    def work() -> dict[str, Any]:
        table = DeltaTable(path)
        files = pa.table(table.get_add_actions(flatten=True))
        if ask["kind"] == "hour":
            files = files.filter(pc.equal(files["partition._event_hour"], ask["hour"]))
        if ask["limit"] is not None:
            files = files.slice(0, ask["limit"])
        few = ask["kind"] != "all" or ask["limit"] is not None
        paths = files["path"].to_pylist() if few else None
        return {
            "files": files.num_rows,
            "size": pc.sum(files["size_bytes"]).as_py(),
            "paths": None if paths is None else digest(paths),
            "listed": paths,
        }

    return work


def _answer(path: str, ask: dict[str, Any]) -> Measurement:
    return measured(listed, path=path, ask=ask)
