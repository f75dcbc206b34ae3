"""DuckDB's extension `delta`, which has delta-kernel-rs in it, in an environment of its own.

It runs without the project's packages: nothing but the standard library is imported at the top.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import ROOT, Measurement, limit_memory, measured_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.readers.reader import Reader

NAME = "DuckDB delta"
_QUESTIONS = frozenset({"first file", "last hour, paths", "all files"})


def readers() -> list[Reader]:
    """Its table function `delta_list_files`, the only way to its list of files; neither limits nor filters reach it.

    It has no sizes of files, so they are not compared.
    """
    from tests.duckdb_delta import install

    from bench.readers.reader import Reader

    return [Reader(NAME, partial(_answer, packages=str(install())), questions=_QUESTIONS)]


def version() -> str:
    """The version of DuckDB that the extension is for, which is not that of the project."""
    locked = (ROOT / "requirements" / "duckdb-delta.txt").read_text(encoding="utf-8")
    return next(line.split()[0].partition("==")[2] for line in locked.splitlines() if line.startswith("duckdb=="))


def listed(path: str, ask: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Lists files; arguments as for an answer."""
    # It takes gigabytes for a million files.
    limit_memory()
    import duckdb
    import duckdb_extension_delta  # type: ignore[import-not-found]  # it is where this runs

    extensions = Path(duckdb_extension_delta.__file__).parent / "extensions"
    extension = extensions / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    connection.execute("load '{}'".format(str(extension).replace("'", "''")))
    few = ask["kind"] != "all" or ask["limit"] is not None
    bucket = "partitions['_event_hour']"
    where = {
        "all": "",
        "hour": f"where {bucket} = '{ask['hour']}'",
        "day": f"where {bucket} between '{ask['day']}00' and '{ask['day']}23'",
    }
    limit = "" if ask["limit"] is None else f"limit {ask['limit']}"
    query = f"from delta_list_files(?) {where[ask['kind']]} {limit}"

    def work() -> dict[str, Any]:
        if few:
            paths = [name for (name,) in connection.execute(f"select data_file {query}", [path]).fetchall()]
            return {"files": len(paths), "listed": [name[name.index("_event_hour=") :] for name in paths]}
        # Every column is looked at, as of a batch.
        sums = "count(*), sum(length(data_file)), sum(cardinality), count(partitions)"
        found = connection.execute(f"select {sums} {query}", [path]).fetchone()
        return {"files": found[0] if found else 0}

    return work


def _answer(path: str, ask: dict[str, Any], packages: str) -> Measurement:
    # Without `site`, no package of the project's own environment is seen.
    environment = {"PYTHONPATH": f"{packages}:{ROOT}"}
    return measured_by([sys.executable, "-S", "-P"], listed, {"path": path, "ask": ask}, environment)
