"""Tables whose tail removes nearly all files of their checkpoint, under long paths."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.builder import add, commit_info, metadata, protocol, remove
from tests.builder.actions import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LEFT = 20_000
_GROUP = 50_000
_REPEAT = 7 * 24
_STRINGS = pa.map_(pa.string(), pa.string())
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)


@dataclass(frozen=True)
class Live:
    """What a table comes to: how many files are live, and the sum of their sizes, which are all different."""

    files: int
    size: int


def write_many_removes(root: Path, commits: int, removes: int) -> Live:
    """Writes a table of a checkpoint and of commits that remove so many of its files each.

    Every commit adds a file, and adds one again that it removes.
    """
    log = root / "_delta_log"
    log.mkdir(parents=True)
    files = _LEFT + commits * removes
    _write_checkpoint(log / f"{0:020}.checkpoint.parquet", files)
    _write_commit(log, 0, map(dump, _TABLE))
    live = list(range(_LEFT))
    for commit in range(commits):
        removed = range(_LEFT + commit * removes, _LEFT + (commit + 1) * removes)
        first, last = dump(_added(removed[0])), dump(_added(files + commit))
        _write_commit(log, commit + 1, chain([dump(commit_info()), first], _remove_lines(removed), [last]))
        live += [removed[0], files + commit]
    return Live(len(live), sum(live))


_TABLE = (
    protocol(),
    metadata({"id": "long", "region": "string", "hour": "string"}, ["region", "hour"]),
)


def _write_commit(log: Path, version: int, lines: Iterable[str]) -> None:
    with (log / f"{version:020}.json").open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _remove_lines(numbers: range) -> Iterator[str]:
    """Lines that remove files: all but the path comes again and again, so it is dumped once."""
    around = [dump(remove("PATH", partition_values=_values(number))).split("PATH") for number in range(_REPEAT)]
    for number in numbers:
        before, after = around[number % _REPEAT]
        yield f"{before}{_path(number)}{after}"


def _write_checkpoint(path: Path, files: int) -> None:
    strings = pa.list_(pa.field("element", pa.string()))
    table = {**_TABLE[1]["metaData"], "configuration": []}
    table["format"] = {"provider": "parquet", "options": []}
    schema = pa.schema(
        [
            ("add", _ADD),
            ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
            (
                "metaData",
                pa.struct(
                    [
                        ("id", pa.string()),
                        ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
                        ("schemaString", pa.string()),
                        ("partitionColumns", strings),
                        ("configuration", _STRINGS),
                        ("createdTime", pa.int64()),
                    ]
                ),
            ),
        ]
    )
    with pq.ParquetWriter(path, schema, store_schema=False) as writer:
        writer.write_table(pa.Table.from_pylist([_TABLE[0], {"metaData": table}], schema=schema))
        for start in range(0, files, _GROUP):
            adds = _adds(range(start, min(files, start + _GROUP)))
            others = [pa.nulls(len(adds), field.type) for field in schema][1:]
            writer.write_table(pa.Table.from_arrays([adds, *others], schema=schema))


def _adds(numbers: range) -> pa.StructArray:
    """As a column what `_added` gives of each file."""
    values = [list(_values(number).items()) for number in range(_REPEAT)]
    one = _added(0)["add"]
    columns = {
        "path": [_path(number) for number in numbers],
        "partitionValues": [values[number % _REPEAT] for number in numbers],
        "size": numbers,
        **{name: pa.repeat(one[name], len(numbers)) for name in ("modificationTime", "dataChange", "stats")},
    }
    return pa.StructArray.from_arrays([pa.array(columns[field.name], field.type) for field in _ADD], fields=list(_ADD))


def _added(number: int) -> dict[str, Any]:
    return add(_path(number), partition_values=_values(number), size=number, stats='{"numRecords":1000}')


def _values(number: int) -> dict[str, str]:
    """Partition values, which repeat."""
    return {"region": f"eu-west-{number % 7}", "hour": f"20260210{number % 24:02}"}


def _path(number: int) -> str:
    """A path of about 120 characters."""
    # As by a hash, so that neighbours have nothing in common.
    text = f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}"
    name = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    folder = f"region=eu-west-{number % 7}/hour=20260210{number % 24:02}"
    return f"{folder}/part-{number % 100_000:05}-{name}.c000.rewritten-{number % 9_000:04}.zstd.parquet"
