"""The values of a run of the benchmark, and the JSON file that holds them."""

from __future__ import annotations

import datetime as dt
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FORMAT = 1

Suite: TypeAlias = Literal[
    "files",
    "tails",
    "columns",
    "removes",
    "ladder",
    "rows",
    "build",
    "startup",
    "ingestion",
    "cloud",
    "growth",
]


class Run(Struct, frozen=True, kw_only=True):
    """What one answer took; None where that is not known."""

    seconds: float
    first_seconds: float | None = None  # until the first file, row or batch
    cpu_seconds: float | None = None
    peak_bytes: float  # memory above what it was after the imports
    requests: float | None = None
    bytes: float | None = None
    trips: float | None = None  # requests that had to wait for one another


class Spread(Struct, frozen=True):
    """The least and the most of the runs."""

    seconds: tuple[float, float]


class Measurement(Struct, frozen=True, kw_only=True):
    """A reader's runs of one question on one table."""

    suite: Suite
    shape: str  # the table in words
    files: int
    tail: int = 0
    stats_columns: int = 0
    removes: int = 0
    base: str = ""  # what the log's replay ends on, such as `sidecar` or `checkpoint`
    question: str
    reader: str
    variant: str = ""  # of the reader, such as `warm` or `L3`
    runs: list[Run]
    median: Run
    spread: Spread
    files_found: int | None = None
    extra: dict[str, Any] = {}


class Budget(Struct, frozen=True, kw_only=True):
    """What something may cost, beside what it did."""

    what: str
    unit: Literal["x", "bytes", "requests"]
    limit: float
    at_least: bool
    measured: float
    met: bool
    detail: str  # the two figures that a ratio is of


class Machine(Struct, frozen=True):
    """What the figures were made on."""

    cores: int
    memory_bytes: int
    system: str
    python: str
    cpu: str


class Results(Struct, frozen=True, kw_only=True):
    """Everything that a run has found."""

    format: int = FORMAT
    made: str
    machine: Machine
    versions: dict[str, str]
    suites: list[str]
    notes: list[str] = []
    measurements: list[Measurement]
    budgets: list[Budget] = []

    def as_dict(self) -> dict[str, Any]:
        """As the JSON file has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def save(self, path: Path) -> None:
        """Writes the JSON file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load(path: Path) -> Results:
    """Reads a JSON file.

    Raises:
        msgspec.ValidationError: It is not one of a benchmark.
    """
    return msgspec.json.decode(path.read_bytes(), type=Results)


def measurement(runs: Sequence[Run], **of: Any) -> Measurement:  # noqa: ANN401 - the fields of a measurement
    """Puts runs together; `of` has the fields of a measurement that runs do not decide."""
    seconds = [run.seconds for run in runs]
    return Measurement(**of, runs=list(runs), median=median_of(runs), spread=Spread((min(seconds), max(seconds))))


def median_of(runs: Sequence[Run]) -> Run:
    """The median of every figure by itself."""
    fields: dict[str, float | None] = {}
    for name in Run.__struct_fields__:
        values = [value for run in runs if (value := getattr(run, name)) is not None]
        fields[name] = median(values) if values else None
    return msgspec.convert(fields, Run)


def from_dicts(found: Iterable[dict[str, Any]]) -> Iterable[Measurement]:
    """The measurements of a module that gives them as dicts.

    Raises:
        msgspec.ValidationError: One has not the fields of a measurement.
    """
    return (msgspec.convert(each, Measurement) for each in found)


def machine() -> Machine:
    """This machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    system = f"{platform.system()} {platform.machine()}"
    return Machine(os.cpu_count() or 1, memory, system, platform.python_version(), _cpu())


def now() -> str:
    """The time, as a file says when it was made."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


_PACKAGES = (
    "delta-sidecar",
    "pyarrow",
    "obstore",
    "deltalake",
    "duckdb",
    "polars",
    "datafusion",
    "pyspark",
    "delta-spark",
)


def versions() -> dict[str, str]:
    """The versions of what is installed here and compared."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "")
