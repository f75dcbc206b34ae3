"""What grows with a table: time, memory, requests and bytes of a scan, and the manifest, up to a billion files.

Tables up to ten million files are real logs. Larger ones are simulated: the log and the newest row groups are those of
a real table, and the row groups before them are entries of the manifest alone, each as large as a real one, pointing
into a part of the data file that nobody has written. A scan of the newest hours cannot tell the difference: it reads
the same bytes as in a real one. `extra` says of each measurement whether it was simulated.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from bench.cloud import OURS, check_answer, ours
from bench.logs import CACHE, FIRST_FILE, LAST_HOUR, made_log, measurement, run
from bench.measure import measured
from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build.publish import Levels, publish_manifest, put_row_groups
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER
from delta_sidecar.sidecar.groups import LARGEST_DOCUMENT, RowGroup, SummaryBounds
from delta_sidecar.sidecar.layout import PlannedLayout, SidecarLayout
from delta_sidecar.sidecar.manifest import Manifest, decode_manifest, decode_segment
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.logs import MadeLog
    from delta_sidecar.synth import TelemetryLog

MODEL_FILES = 100_000
LAST_DAY, MANIFEST = "last day", "manifest decoded"
GROWING = ("seconds", "cpu_seconds", "peak_bytes", "requests", "bytes", "manifest_bytes")
MANIFEST_BUDGET = 100_000
_HOUR = "%Y%m%d%H"


class Table(NamedTuple):
    """A table of one size."""

    files: int  # in its sidecar
    path: Path
    log: TelemetryLog  # of a simulated one that of its model
    model: Path  # the real table that a simulated one is made of; of a real one itself
    simulated: bool


def measurements(
    progress: Callable[[str], object],
    *,
    files: Sequence[int] = (100_000, 1_000_000, 10_000_000),
    simulated: Sequence[int] = (1_000_000, 100_000_000, 1_000_000_000),
    others: Sequence[tuple[TelemetryLog, Path]] = (),
    runs: int = 5,
    cache: Path = CACHE,
) -> Iterator[dict[str, Any]]:
    """Measures scans of tables of growing size.

    Args:
        progress: Is told what is done, in words.
        files: Sizes of real tables.
        simulated: Sizes of simulated ones. One that is real too shows whether a simulation is to be believed.
        others: Real tables that are there already, with a metadata sidecar, such as one that has no checkpoint.
        runs: How often each question is asked, in turns.
        cache: Where tables are kept.

    Raises:
        WrongAnswerError: A scan has found other files than there are.
    """
    with tempfile.TemporaryDirectory(dir=_made(cache)) as folder:
        tables = []
        for count in files:
            progress(f"making a log of {count:,} files")
            made = made_log(count, cache)
            tables.append(Table(count, made.sidecar, made.log, made.sidecar, simulated=False))
        tables += [Table(log.files, path, log, path, simulated=False) for log, path in others]
        for count in simulated:
            progress(f"simulating {count:,} files")
            tables.append(simulate(made_log(min(MODEL_FILES, count // 2), cache), count, Path(folder, str(count))))
        yield from _measured(tables, progress, runs)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The exponent e of y = c * x**e that fits best: the slope of a line through the logarithms.

    Raises:
        ValueError: A value is not positive, or all x are equal.
    """
    logs = [(math.log(x), math.log(y)) for x, y in points]
    middle_x, middle_y = (sum(axis) / len(logs) for axis in zip(*logs, strict=True))
    squares = math.fsum((x - middle_x) ** 2 for x, _ in logs)
    if not squares:
        msg = "a line needs two points"
        raise ValueError(msg)
    return math.fsum((x - middle_x) * (y - middle_y) for x, y in logs) / squares


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _measured(tables: Sequence[Table], progress: Callable[[str], object], runs: int) -> Iterator[dict[str, Any]]:
    for question in (FIRST_FILE, LAST_HOUR, LAST_DAY, MANIFEST):
        done: dict[Table, list[dict[str, Any]]] = {table: [] for table in tables}
        for number in range(runs):
            for table in tables:
                progress(f"growth, {question}, {table.files:,} files, run {number + 1}")
                done[table].append(_run(question, table))
        found = [_measurement(question, table, done[table]) for table in tables]
        exponents = {name: _exponent_of(name, found) for name in GROWING}
        for each in found:
            each["extra"]["exponents"] = exponents
        yield from found


def _run(question: str, table: Table) -> dict[str, Any]:
    if question == MANIFEST:
        one = measured(decoded, path=str(_manifest(table.path)))
        return run(one.seconds, one.peak_bytes, one.answer)
    one = measured(ours, table=str(table.path), options={}, predicate=_predicate(question, table.log))
    hours = {FIRST_FILE: 0, LAST_HOUR: 1, LAST_DAY: 24}[question]
    check_answer(f"{question} of {table.path}", one.answer, _newest(table.log, hours), limit=1 if hours == 0 else None)
    return run(one.seconds, one.peak_bytes, one.answer)


def _measurement(question: str, table: Table, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    extra: dict[str, Any] = {"simulated": table.simulated, "manifest_bytes": _manifest(table.path).stat().st_size}
    if question == MANIFEST:
        extra |= limits(table)
    found = {FIRST_FILE: 1, LAST_HOUR: len(_newest(table.log, 1)), LAST_DAY: len(_newest(table.log, 24))}
    about: dict[str, Any] = {"suite": "growth", "files": table.files, "base": "sidecar", "question": question}
    about |= {"reader": OURS, "variant": "simulated" if table.simulated else "", "extra": extra}
    return measurement(runs, files_found=found.get(question), **about)


def _exponent_of(name: str, found: Sequence[dict[str, Any]]) -> float | None:
    values = [(each["files"], each["extra"].get(name, each["median"].get(name))) for each in found]
    known = [(float(x), float(y)) for x, y in values if y]
    return round(exponent(known), 4) if len({x for x, _ in known}) > 1 else None


def _predicate(question: str, log: TelemetryLog) -> str | None:
    first = log.newest_hour if question == LAST_HOUR else _shifted(log.newest_hour, -23)
    return None if question == FIRST_FILE else f"_event_hour >= '{first}'"


def _newest(log: TelemetryLog, hours: int) -> list[str]:
    return [path for back in range(max(1, hours)) for path in log.live_paths(_shifted(log.newest_hour, -back))]


def decoded(path: str) -> Callable[[], dict[str, Any]]:
    """Decodes a manifest and the lists in it."""
    data = Path(path).read_bytes()

    def work() -> dict[str, Any]:
        before = time.process_time()
        runs = decode_manifest(data).runs
        return {"cpu_seconds": time.process_time() - before, "bytes": len(data), "runs": len(runs)}

    return work


# Simulation.


def simulate(model: MadeLog, files: int, table: Path) -> Table:
    """Makes a table whose newest files are those of another one, and of whose older ones only the manifest tells."""
    manifest = decode_manifest(_manifest(model.sidecar).read_bytes())
    whole = [group for group in manifest.row_groups if group.num_rows == manifest.row_groups[0].num_rows]
    older = (files - manifest.num_files) // whole[0].num_rows
    shutil.copytree(model.sidecar, table, copy_function=_linked)
    _manifest(table).unlink()
    data = table / SIDECAR_FOLDER / manifest.sidecar_file
    groups, size = _grown(manifest, whole, older, data.stat().st_size)
    # A hole in the file takes no room on the disk. The old one may be shared.
    data.unlink()
    shutil.copyfile(model.sidecar / SIDECAR_FOLDER / manifest.sidecar_file, data)
    os.truncate(data, size)
    store = open_store(table)
    rows = sum(group.num_rows for group in groups)
    facts = replace(manifest, num_files=rows, sidecar_size_bytes=size, totals=None)
    layout = SidecarLayout.of(manifest, data.name)
    planned = PlannedLayout(layout.schema, layout.order, "as in the model")
    with tempfile.TemporaryDirectory() as folder:
        publish_manifest(store, put_row_groups(store, Path(folder), facts, tuple(groups), planned, Levels()))
    return Table(rows, table, model.log, model.sidecar, simulated=True)


def _grown(manifest: Manifest, whole: Sequence[RowGroup], older: int, size: int) -> tuple[list[RowGroup], int]:
    """The row groups of a manifest behind as many older ones, and the size of the file that has all of them."""
    groups: list[RowGroup] = []
    newest = manifest.row_groups[0].event_hour_min or ""
    span = 1 + _hours_between(whole[0].event_hour_min or "", whole[0].event_hour_max or "")
    for index in range(older):
        like = whole[index % len(whole)]
        low = _shifted(newest, -(older - index) * span)
        high = _shifted(low, span - 1)
        groups.append(
            replace(
                like,
                index=index,
                byte_offset=size,
                stats_offset=size + like.byte_length,
                digest=xxh3_128(b"index %d" % index),
                stats_digest=xxh3_128(b"statistics %d" % index),
                event_hour_min=low,
                event_hour_max=high,
                first_key=_moved(like.first_key, low),
                last_key=_moved(like.last_key, high),
                columns={name: SummaryBounds(_moment(low), _moment(high, last=True)) for name in like.columns},
            )
        )
        size += like.byte_length + like.stats_length
    groups += [replace(group, index=older + group.index) for group in manifest.row_groups]
    return groups, size


def _moved(key: tuple[Any, ...], hour: str) -> tuple[Any, ...]:
    """A key of a file in another hour: its bucket, and its path that starts with it."""
    complete, old, path, vector = key
    return complete, hour, path.replace(old, hour, 1), vector


def _moment(hour: str, *, last: bool = False) -> str:
    return f"{hour[:4]}-{hour[4:6]}-{hour[6:8]}T{hour[8:]}:{'59:59.999' if last else '00:00.000'}Z"


def _shifted(hour: str, hours: int) -> str:
    moment = dt.datetime.strptime(hour, _HOUR).replace(tzinfo=dt.UTC) + dt.timedelta(hours=hours)
    # A year before 1000 has four digits too.
    return f"{moment.year:04}{moment:%m%d%H}"


def _hours_between(first: str, last: str) -> int:
    begin, end = (dt.datetime.strptime(each, _HOUR).replace(tzinfo=dt.UTC) for each in (first, last))
    return int((end - begin).total_seconds()) // 3600


def _linked(source: str, target: str) -> None:
    os.link(source, target)


def _manifest(table: Path) -> Path:
    (path,) = (table / SIDECAR_FOLDER).glob("v*.manifest.json")
    return path


# What holds, and what breaks first.

_DAYS = {"newest day": 0, "a day a month ago": 30, "a day a year ago": 365}
_LARGEST_OBJECT = 5 * 2**40  # of S3; those of Azure are larger


def limits(table: Table) -> dict[str, Any]:
    """Sizes of a table's metadata beside what they may be, and what days of different age take.

    `limits` come in the order in which they are reached when the table grows on, each with the number of files where it
    is. Its `kind` is "budget" where nothing fails there, and "error" where something does.
    """
    manifest = decode_manifest(_manifest(table.path).read_bytes())
    own = decode_manifest(_manifest(table.model).read_bytes())
    checkpoint = sum(path.stat().st_size for path in (table.model / LOG_FOLDER).glob("*.checkpoint.parquet"))
    factor = manifest.num_files / own.num_files
    pieces = sum(group.byte_length + group.stats_length for group in _all_groups(table.model))
    # The footer holds the manifest, whose size is no multiple of the number of files.
    footer = own.sidecar_size_bytes - pieces - _manifest(table.model).stat().st_size
    segments = memoryview(manifest.listed_segments).nbytes if manifest.segments else 0
    reached = [
        ("segments in the manifest", segments, MANIFEST_BUDGET, "budget"),
        ("segments in the manifest", segments, LARGEST_DOCUMENT, "error"),
        ("combined Parquet footer", int(footer * factor), 2**31 - 1, "error"),
        ("data file as one object", manifest.sidecar_size_bytes, _LARGEST_OBJECT, "error"),
        ("V1 checkpoint as one object", int(checkpoint * factor), _LARGEST_OBJECT, "error"),
    ]
    found = [
        {"what": what, "bytes": size, "limit": limit, "kind": kind, "at_files": int(table.files * limit / size)}
        for what, size, limit, kind in reached
        if size
    ]
    return {
        "row_groups": manifest.num_row_groups,
        "segments": len(manifest.segments),
        "row_group_list_bytes": _bytes_of_lists(manifest),
        "limits": sorted(found, key=lambda each: each["at_files"]),
        "days": {name: _day(table, back) for name, back in _DAYS.items()},
    }


def _bytes_of_lists(manifest: Manifest) -> int:
    inline = memoryview(manifest.listed_row_groups).nbytes
    return inline + sum(segment.byte_length for segment in manifest.segments)


def _all_groups(table: Path) -> list[RowGroup]:
    manifest, store = decode_manifest(_manifest(table).read_bytes()), open_store(table)
    found: list[RowGroup] = []
    for segment in manifest.segments:
        start = segment.byte_offset
        data = store.get_range(SIDECAR_FOLDER + manifest.files[segment.file].name, start, start + segment.byte_length)
        found += decode_segment(bytes(data), segment, manifest)
    return [*found, *manifest.row_groups]


def _day(table: Table, back: int) -> dict[str, Any]:
    """What a scan for one day is going to take, by the manifest: what is in its segments is not known before."""
    low, high = (_shifted(table.log.newest_hour, -24 * back - hours) for hours in (23, 0))
    config = LazyScanConfig(predicate=f"_event_hour >= '{low}' AND _event_hour <= '{high}'")
    with LazyDeltaScanner(str(table.path), config) as scanner:
        found = scanner.explain()
    if found.base is None:
        msg = f"a scan of {table.path} does without its sidecar"
        raise RuntimeError(msg)
    return {
        "segments": found.base.segments,
        "row_groups_at_most": found.base.row_groups - found.base.row_groups_pruned,
        "requests_to_open": found.opening.requests,
        "requests_about": found.expected.requests_about,
        "trips_about": found.expected.trips_about,
    }
