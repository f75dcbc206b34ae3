"""The arrows between the rooms of the package: who may import whom, and where the heavy parts may appear."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "delta_sidecar"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE

# Small modules beside the rooms, open to every room; what they import themselves.
OPEN = {
    "_arrow": {"errors"},
    "_thrift": set[str](),
    "_threads": set[str](),
    "errors": set[str](),
    "events": {"errors"},
    "options": {"errors"},
}

# Which rooms a room may import. Rooms of one layer do not know each other: the room above joins them.
FORMATS = {"log", "plan", "predicate", "sidecar"}
ENGINE = FORMATS | {"execute", "replay", "store"}
LIBRARY = ENGINE | {"build", "health", "incremental", "maintain", "rows", "scan", "table"}
ROOMS: dict[str, set[str]] = {
    "store": set(),
    "log": set(),
    "plan": set(),
    "predicate": set(),
    "sidecar": {"log", "predicate"},
    "execute": {"plan", "store"},
    "replay": FORMATS,
    "scan": ENGINE,
    "rows": ENGINE | {"scan"},
    "build": ENGINE | {"scan"},
    "health": ENGINE | {"scan"},
    "maintain": ENGINE | {"build", "scan"},
    "incremental": ENGINE | {"scan"},
    "table": ENGINE | {"build", "health", "maintain", "rows", "scan"},
    "connect": LIBRARY,
    "otel": set(),
    "spark": LIBRARY,
    "serve": LIBRARY,
    "synth": {"log", "sidecar", "store"},
    # The commands that run on Spark, or on an engine, import its room when they are called.
    "cli": LIBRARY | {"connect", "spark", "synth"},
    # The public names come from anywhere in the library, never from an extra's room.
    "__init__": LIBRARY,
    "__main__": {"cli"},
}

# Rooms that work on values alone: bytes and batches in, values out.
NO_IO = FORMATS
IO_MODULES = {
    *("obstore", "aiohttp", "fsspec", "httpx", "requests", "urllib3", "http", "socket", "urllib.request"),
    *("glob", "mmap", "os", "pathlib", "shutil", "tempfile", "pyarrow.dataset", "pyarrow.fs"),
    *("asyncio", "concurrent", "multiprocessing", "subprocess", "threading"),
}
IO_CALLS = {"open", "OSFile", "memory_map", "input", "print"}

# Third parties with a home: the rooms that may import them at all.
HOMES: dict[str, set[str]] = {
    "azure": {"store"},
    "click": {"cli"},
    "datafusion": {"connect"},
    "delta": {"spark"},
    "deltalake": {"table"},
    "duckdb": {"build", "connect"},
    "obstore": {"store"},
    "opentelemetry": {"otel"},
    "pandas": {"rows", "table"},
    "polars": {"connect"},
    "py4j": {"spark"},
    "pyspark": {"spark"},
    "rich": {"cli"},
    "sqlglot": set(),  # the tests compare with it
}
# Of these, what plain `pip install delta-sidecar` brings. The others are extras: a module of theirs may
# import them at its top only in a room that is itself about the extra.
ALWAYS_THERE = {"click", "obstore", "rich"}
EXTRA_ROOMS = {"connect", "spark"}


@dataclass(frozen=True)
class Import:
    """One import of a module: what it names, and whether merely importing the module runs it."""

    target: str
    line: int
    on_import: bool


def test_every_room_is_known() -> None:
    found = {room_of(path) for path in modules()} - set(OPEN)
    assert found <= set(ROOMS), "a new room: say in ROOMS what it may import, and in CONTRIBUTING what it is for"


def test_the_table_of_arrows_has_no_cycle() -> None:
    waiting = {room: set(below) & set(ROOMS) for room, below in ROOMS.items()}
    while free := {room for room, below in waiting.items() if not below}:
        waiting = {room: below - free for room, below in waiting.items() if room not in free}
    assert not waiting


def test_arrows_point_down() -> None:
    wrong = [finding for path in modules() for finding in wrong_arrows(path.read_text(), path)]
    assert not wrong, "\n".join(wrong)


def test_third_parties_stay_at_home() -> None:
    wrong = [finding for path in modules() for finding in strays(path.read_text(), path)]
    assert not wrong, "\n".join(wrong)


def test_formats_do_no_io() -> None:
    wrong = [finding for path in modules() if room_of(path) in NO_IO for finding in io(path.read_text(), path)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("log", "import delta_sidecar.store"),
        ("log", "from delta_sidecar import store"),
        ("log", "from delta_sidecar.predicate import bounds"),
        ("log", "from ..replay import keys"),
        ("plan", "def f():\n    from delta_sidecar.log import names"),
        ("store", "if TYPE_CHECKING:\n    from delta_sidecar.plan import nodes"),
        ("replay", "from delta_sidecar import DeltaFile"),
        ("replay", "from delta_sidecar.execute import LocalExecutor"),
    ],
)
def test_an_arrow_upwards_is_found(room: str, source: str) -> None:
    assert list(wrong_arrows(source, SOURCE / room / "module.py"))


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("log", "from delta_sidecar.errors import DeltaSidecarError"),
        ("log", "from delta_sidecar import _arrow, errors"),
        ("log", "from . import names"),
        ("log", "from .._arrow import strings"),
        ("execute", "from delta_sidecar.store import Store"),
    ],
)
def test_an_arrow_downwards_is_fine(room: str, source: str) -> None:
    assert not list(wrong_arrows(source, SOURCE / room / "module.py"))


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("scan", "import pandas as pd"),
        ("store", "import azure.identity"),
        ("store", "from azure.identity import DefaultAzureCredential"),
        ("replay", "def f():\n    import deltalake"),
        ("log", "import obstore"),
        ("rows", "try:\n    import pandas\nexcept ImportError:\n    pandas = None"),
    ],
)
def test_a_stray_third_party_is_found(room: str, source: str) -> None:
    assert list(strays(source, SOURCE / room / "module.py"))


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("store", "def f():\n    from azure.identity import DefaultAzureCredential"),
        ("rows", "if TYPE_CHECKING:\n    import pandas"),
        ("spark", "from pyspark.sql import SparkSession"),
        ("store", "import obstore"),
    ],
)
def test_a_third_party_at_home_is_fine(room: str, source: str) -> None:
    assert not list(strays(source, SOURCE / room / "module.py"))


@pytest.mark.parametrize(
    "source",
    [
        "import pathlib",
        "from os import path",
        "def f():\n    return open('x')",
        "import pyarrow.fs",
        "pa.OSFile('x')",
    ],
)
def test_io_is_found(source: str) -> None:
    assert list(io(source, SOURCE / "log" / "module.py"))


def test_url_parsing_is_no_io() -> None:
    assert not list(io("from urllib.parse import unquote\nimport pyarrow.parquet", SOURCE / "log" / "module.py"))


def modules() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    assert found
    return found


def room_of(path: Path) -> str:
    first, *rest = path.relative_to(SOURCE).parts
    return first if rest else path.stem


def wrong_arrows(source: str, path: Path) -> Iterator[str]:
    """Finds the imports of rooms that the module's room may not know."""
    room = room_of(path)
    allowed = OPEN[room] if room in OPEN else {room, *ROOMS.get(room, set()), *OPEN}
    for found in imports(source, path):
        package, _, inside = found.target.partition(".")
        if package != PACKAGE:
            continue
        target = inside.partition(".")[0] or "__init__"
        if target not in allowed:
            yield f"{path}:{found.line}: {room} imports {target}"


def strays(source: str, path: Path) -> Iterator[str]:
    """Finds third parties outside their home, and extras that importing a module would import."""
    room = room_of(path)
    for found in imports(source, path):
        name = found.target.partition(".")[0]
        if name not in HOMES:
            continue
        if room not in HOMES[name]:
            yield f"{path}:{found.line}: {room} imports {name}; its home: {sorted(HOMES[name])}"
        elif found.on_import and name not in ALWAYS_THERE and room not in EXTRA_ROOMS:
            yield f"{path}:{found.line}: {name} is an extra: import it in the function that uses it"


def io(source: str, path: Path) -> Iterator[str]:
    """Finds imports and calls that touch files, the network or other threads."""
    for found in imports(source, path):
        parts = found.target.split(".")
        if {".".join(parts[: end + 1]) for end in range(len(parts))} & IO_MODULES:
            yield f"{path}:{found.line}: imports {found.target}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if name in IO_CALLS:
                yield f"{path}:{node.lineno}: calls {name}"


def imports(source: str, path: Path) -> Iterator[Import]:
    """Every import of a module, by its absolute name; `from x import y` counts as `x.y`."""
    package = (PACKAGE, *path.relative_to(SOURCE).parent.parts)
    yield from _imports(ast.parse(source), package, on_import=True)


def _imports(node: ast.AST, package: tuple[str, ...], *, on_import: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, on_import)
    elif isinstance(node, ast.ImportFrom):
        start = package[: len(package) - node.level + 1] if node.level else ()
        origin = ".".join((*start, *([node.module] if node.module else [])))
        for alias in node.names:
            inside = origin != PACKAGE or (SOURCE / alias.name).is_dir() or alias.name in {*OPEN, *ROOMS}
            yield Import(f"{origin}.{alias.name}" if inside else origin, node.lineno, on_import)
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        for child in node.body:
            yield from _imports(child, package, on_import=False)
        for other in node.orelse:
            yield from _imports(other, package, on_import=on_import)
    else:
        deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for part in ast.iter_child_nodes(node):
            yield from _imports(part, package, on_import=on_import and not deferred)
