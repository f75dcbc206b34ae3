"""DuckDB's own reader of Delta tables: installed once into the repository's cache, run in a process of its own.

The extension `delta` is made for one version of DuckDB, an older one than the project sorts with, so both are kept
apart from the environment of the tests. It is loaded from the file in its wheel: DuckDB itself fetches nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.installing import install_once

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "duckdb-delta"
LOCKED = ROOT / "requirements" / "duckdb-delta.txt"

# DuckDB checks the signature of the extension: it is the one that DuckDB's makers publish, whoever made the wheel.
PROGRAM = """
import json, pathlib, sys
import duckdb, duckdb_extension_delta

asked = json.load(sys.stdin)
extensions = pathlib.Path(duckdb_extension_delta.__file__).parent / "extensions"
extension = extensions / f"v{duckdb.__version__}" / "delta.duckdb_extension"
alone = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
with duckdb.connect(config=alone) as connection:
    connection.execute("load '{}'".format(str(extension).replace("'", "''")))
    json.dump(connection.execute(asked["query"], asked["parameters"]).fetchall(), sys.stdout)
"""


def rows(query: str, *parameters: str | float) -> list[tuple[Any, ...]]:
    """Gives the rows of a query, which may use `delta_scan` and `delta_list_files`.

    Args:
        query: The SQL. Its columns are of types that JSON has: numbers, text, truth values, lists and maps of these.
        parameters: What its question marks stand for, such as the path of a table.

    Raises:
        RuntimeError: DuckDB has refused the query.
    """
    # Without `site`, no package of the tests' own environment is seen.
    command = [sys.executable, "-S", "-P", "-c", PROGRAM]
    environment = {**os.environ, "PYTHONPATH": str(installed())}
    asked = json.dumps({"query": query, "parameters": parameters})
    done = subprocess.run(command, input=asked, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        msg = f"DuckDB did not answer: {done.stderr}"
        raise RuntimeError(msg)
    return [tuple(row) for row in json.loads(done.stdout)]


def installed() -> Path:
    """Installs DuckDB and its extension into the cache, unless what is locked is there already."""
    wanted = f"{sys.implementation.cache_tag}\n{LOCKED.read_text()}"

    def install(folder: Path) -> None:
        uv = Path(sysconfig.get_path("scripts")) / "uv"
        flags = ["--quiet", "--no-build", "--python", sys.executable, "--target", str(folder)]
        environment = {"UV_SYSTEM_CERTS": "true", **os.environ}  # as in the Makefile
        command = [str(uv), "pip", "install", *flags, "--require-hashes", "-r", str(LOCKED)]
        subprocess.run(command, check=True, env=environment)
        (folder / "installed.txt").write_text(wanted)

    return install_once(CACHE, lambda: _installed(CACHE) == wanted, install)


def _installed(folder: Path) -> str | None:
    """What an installed folder was made for and from; None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return (folder / "installed.txt").read_text()
    return None
