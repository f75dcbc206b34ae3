"""DuckDB's own sort of the rows of a metadata sidecar, beside which a build is measured.

"The same rows" can be read in two ways, and both are measured:

- `from_checkpoint`, what a build is compared with: DuckDB alone reads the checkpoint, parses the statistics into typed
  columns, sorts, and writes Parquet. A build has to do all of that too, so it is the same work on both sides.
- `sort_alone`: the same columns are in a table of DuckDB's already, and `SELECT ... ORDER BY` of it is read as Arrow.
  It is what no build can do without, and far less than one: nothing is read, parsed, checked or written.

Neither looks whether the columns say all that the log's texts say, or at commits behind the checkpoint. Both have
the memory and the threads of a build, and everybody keeps temporary files where a build does.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.measure import measured
from bench.questions import WrongAnswerError
from bench.readers.ours import NAME
from bench.results import Run, measurement
from bench.shapes import CACHE, Shape, built, link, table, warm
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import duckdb

    from bench.shapes import BenchTable

MEMORY, THREADS = 1 << 30, 2
"""What a build has if nobody says otherwise."""

_ROW_GROUP = 10_000
_TYPES = {"string": "VARCHAR", "timestamp": "TIMESTAMPTZ", "integer": "INTEGER", "long": "BIGINT", "double": "DOUBLE"}
_VECTOR = ("storageType", "pathOrInlineDv", '"offset"', "sizeInBytes", "cardinality")


def measurements(
    progress: Callable[[str], object],
    *,
    shapes: Sequence[Shape] = (Shape(100_000, stats_columns=50), Shape(1_000_000), Shape(10_000_000)),
    runs: int = 2,
    cache: Path = CACHE,
) -> Iterator[dict[str, Any]]:
    """Measures builds and sorts in turns.

    Args:
        progress: Is told what goes on.
        shapes: The tables.
        runs: How often each is done.
        cache: Where tables are kept; what is built here stays nowhere.

    Raises:
        WrongAnswerError: Other files were built or sorted than there are.
    """
    for shape in shapes:
        made = table(shape, cache, sidecar=False)
        warm(made)
        with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as folder:
            copy = Path(folder)
            link(made.path, copy)
            works = (
                ("full build", NAME, build),
                ("read, parse, sort and write", "DuckDB", from_checkpoint),
                ("the sort alone", "DuckDB, sort alone", sort_alone),
            )
            found: dict[str, list[Run]] = {reader: [] for _, reader, _ in works}
            sizes: dict[str, Any] = {}
            for number in range(runs):
                for _, reader, work in works:
                    progress(f"build, {shape.words}: {reader}, {number + 1} of {runs}")
                    done = measured(work, table=str(copy), version=made.log.checkpoint_version)
                    # The checkpoint has the files without those of the commits behind it.
                    if done.answer["files"] != made.log.files:
                        msg = f"{reader}: {done.answer}"
                        raise WrongAnswerError(msg)
                    cpu = done.answer["cpu_seconds"]
                    found[reader].append(Run(seconds=done.seconds, cpu_seconds=cpu, peak_bytes=done.peak_bytes))
                if not sizes:
                    sizes = _sizes(made, copy)
            for question, reader, _ in works:
                of = {"question": "full build", "reader": reader, "extra": sizes if reader == NAME else {}}
                yield _measurement(shape, found[reader], of | {"variant": "" if reader == NAME else question})


def _measurement(shape: Shape, runs: Sequence[Run], of: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(
        measurement(
            runs,
            suite="build",
            shape=shape.words,
            files=shape.files,
            tail=shape.tail,
            stats_columns=shape.stats_columns,
            base="checkpoint",
            **of,
        )
    )
    return found


def _sizes(made: BenchTable, copy: Path) -> dict[str, int]:
    checkpoint = sum(path.stat().st_size for path in (made.path / LOG_FOLDER).glob("*.checkpoint*"))
    sidecar = sum(path.stat().st_size for path in (copy / SIDECAR_FOLDER).iterdir())
    return {"checkpoint_bytes": checkpoint, "sidecar_bytes": sidecar}


def from_checkpoint(table: str, version: int) -> Callable[[], dict[str, Any]]:
    """DuckDB: reads a checkpoint, parses the statistics, sorts the files and writes them as Parquet."""
    return partial(_from_checkpoint, table, version)


def sort_alone(table: str, version: int) -> Callable[[], dict[str, Any]]:
    """DuckDB: sorts files whose columns it has already, and hands them out as Arrow."""
    folder = tempfile.mkdtemp(prefix="delta-sidecar-bench-")
    connection = _connection(folder, f"{folder}/rows.db")
    connection.execute(f"CREATE TABLE files AS {_rows(connection, table, version)}")
    connection.execute("CHECKPOINT")

    def work() -> dict[str, Any]:
        try:
            began = time.process_time()
            batches = connection.sql(f"SELECT * FROM files {_order()}").to_arrow_reader(_ROW_GROUP)  # noqa: S608 - of the bench's own table
            files = sum(batch.num_rows for batch in batches)
            return {"files": files, "cpu_seconds": time.process_time() - began}
        finally:
            connection.close()
            shutil.rmtree(folder)

    return work


def build(table: str, version: int) -> Callable[[], dict[str, Any]]:
    """This library: builds the metadata sidecar, with what it took of the processor."""
    shutil.rmtree(Path(table) / SIDECAR_FOLDER, ignore_errors=True)
    make = built(table, version)

    def work() -> dict[str, Any]:
        began = time.process_time()
        return make() | {"cpu_seconds": time.process_time() - began}

    return work


def _from_checkpoint(table: str, version: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="delta-sidecar-bench-") as folder:
        began = time.process_time()
        connection = _connection(folder)
        target = f"{folder}/sorted.parquet"
        settings = f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {_ROW_GROUP}"
        sql = f"COPY ({_rows(connection, table, version)} {_order()}) TO '{target}' ({settings})"
        (files,) = connection.execute(sql).fetchone() or (0,)
        connection.close()
        taken = time.process_time() - began
        return {"files": files, "cpu_seconds": taken, "bytes": Path(target).stat().st_size}


def _connection(folder: str, path: str = ":memory:") -> duckdb.DuckDBPyConnection:
    import duckdb

    config = {"memory_limit": f"{MEMORY}B", "threads": THREADS, "temp_directory": folder}
    return duckdb.connect(path, config=config | {"preserve_insertion_order": False})


def _rows(connection: duckdb.DuckDBPyConnection, table: str, version: int) -> str:
    """The columns of a sidecar's rows, out of a checkpoint."""
    source = f"'{table}/_delta_log/{version:020}.checkpoint.parquet'"
    found = connection.execute(f"SELECT metaData.schemaString FROM {source} WHERE metaData.id IS NOT NULL").fetchone()  # noqa: S608 - of the bench's own table
    stats = connection.execute(f"SELECT add.stats FROM {source} WHERE add.path IS NOT NULL LIMIT 1").fetchone()  # noqa: S608 - of the bench's own table
    if found is None or stats is None:
        msg = f"{source} is empty"
        raise WrongAnswerError(msg)
    kinds = {field["name"]: field["type"] for field in json.loads(found[0])["fields"]}
    columns = {name: _TYPES[kinds[name]] for name in json.loads(stats[0])["nullCount"]}
    form = {"numRecords": "BIGINT", "tightBounds": "BOOLEAN", "minValues": columns, "maxValues": columns}
    form |= {"nullCount": dict.fromkeys(columns, "BIGINT")}
    chosen = ["add.path AS path", "add.size AS size", "add.modificationTime AS modification_time"]
    chosen += ["add.partitionValues['_event_hour'] AS bucket", "add.tags", "add.baseRowId"]
    chosen += ["add.defaultRowCommitVersion", "add.clusteringProvider"]
    chosen += [f'add.deletionVector.{name} AS "dv.{name.strip(chr(34))}"' for name in _VECTOR]
    chosen += ["stats.numRecords AS num_records", "stats.tightBounds AS tight_bounds"]
    sides = {"min": "minValues", "max": "maxValues", "null_count": "nullCount"}
    chosen += [f'stats.{side}."{name}" AS "{short}.{name}"' for name in columns for short, side in sides.items()]
    parsed = f"SELECT add, json_transform(add.stats, '{json.dumps(form)}') AS stats FROM {source}"  # noqa: S608 - of the bench's own table
    return f"SELECT {', '.join(chosen)} FROM ({parsed} WHERE add.path IS NOT NULL)"  # noqa: S608 - of the bench's own table


def _order() -> str:
    vector = """ "dv.storageType" || "dv.pathOrInlineDv" || coalesce('@' || "dv.offset", '')"""
    return f"ORDER BY bucket NULLS FIRST, path, {vector} NULLS FIRST"
