"""The worked example of `docs/reference/sidecar-format.md`: three files in two row groups.

`python -m tests.sidecar.worked_example` puts it into the page anew.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.sidecar.made import INSTANT, DataFile, data_file

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.sidecar.groups import RowGroup, SummaryBounds
from delta_sidecar.sidecar.manifest import (
    NO_ROW_GROUPS,
    CommitMark,
    Manifest,
    SortColumn,
    Totals,
    Witness,
    encode_body_for_footer,
    encode_manifest,
    with_row_groups,
)
from delta_sidecar.sidecar.pieces import piece_footer, read_piece_footer
from delta_sidecar.sidecar.schema import SidecarSchema, type_name

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sidecar-format.md"
COMMIT = b'{"commitInfo":{"operation":"WRITE"}}\n'
CHECKSUM = b'{"txnId":"b0e5","tableSizeBytes":6000,"numFiles":3}\n'
SCHEMA = SidecarSchema("_event_hour", (), ("event_time",), {("event_time",): INSTANT, ("device",): pa.string()})
TABLE_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("event_time", "timestamp"), ("device", "string"), ("_event_hour", "string"))
    ],
}
FILES: list[dict[str, Any]] = [
    {"path": "_event_hour=2025010100/a.parquet", "size": 1_000, "_event_hour": "2025010100", "num_records": 10},
    {"path": "_event_hour=2025010100/b.parquet", "size": 2_000, "_event_hour": "2025010100", "num_records": 20},
    {"path": "_event_hour=2025010101/c.parquet", "size": 3_000, "_event_hour": "2025010101", "num_records": 30},
]
PLACE = re.compile(r"(<!-- example: (?P<name>[a-z ]+) -->\n\n```[a-z]*\n)(?P<text>.*?)(```\n)", re.DOTALL)


def rows() -> list[dict[str, Any]]:
    """The rows, in order: what is not told is null."""
    found = []
    for hour, file in zip((0, 0, 1), FILES, strict=True):
        start = dt.datetime(2025, 1, 1, hour, tzinfo=dt.UTC)
        bounds = {"min.event_time": start, "max.event_time": start + dt.timedelta(minutes=59)}
        device = {"min.device": "d1", "max.device": "d7", "null_count.device": 0}
        found.append(file | bounds | device | {"null_count.event_time": 0, "modification_time": 1735693200000})
    return found


def batch(schema: pa.Schema, part: list[dict[str, Any]]) -> pa.RecordBatch:
    """Some rows as a batch."""
    columns = [pa.array([row.get(field.name) for row in part], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


GROUPS = [rows()[:2], rows()[2:]]


def file_of(document: str) -> DataFile:
    """The data file, with a document in its footer."""
    groups = [(batch(SCHEMA.index, part), batch(SCHEMA.statistics_schema, part)) for part in GROUPS]
    return data_file(SCHEMA, groups, {"delta-sidecar": document})


def manifest_of(file: DataFile) -> Manifest:
    """The manifest of the data file."""
    made = Manifest(
        format_version=1,
        version=12,
        sidecar_file="v12.parquet",
        sidecar_size_bytes=len(file.data),
        num_files=3,
        num_row_groups=0,
        schema_hash=SCHEMA.schema_hash,
        commit=CommitMark(len(COMMIT), xxh3_128(COMMIT[:4096])),
        protocol={"minReaderVersion": 1, "minWriterVersion": 2},
        metadata={
            "id": "7f9a",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(TABLE_SCHEMA, separators=(",", ":")),
            "partitionColumns": ["_event_hour"],
            "configuration": {},
        },
        bucket_column="_event_hour",
        time_column=("event_time",),
        sort=(SortColumn("bucket", ("_event_hour",), "string"),),
        summaries=(("event_time",),),
        statistics=(("event_time",), ("device",)),
        stats_format="spark",
        totals=Totals(bytes=6_000, largest=3_000, rows=60, most_rows=30),
        witness=(Witness(f"{12:020}.crc", len(CHECKSUM), xxh3_128(CHECKSUM[:4096])),),
        listed_row_groups=NO_ROW_GROUPS,
    )
    return with_row_groups(made, tuple(group_of(number, file) for number in range(len(GROUPS))))


def group_of(number: int, file: DataFile) -> RowGroup:
    """What the manifest tells of a row group."""
    (index_at, index), (stats_at, stats) = file.index[number], file.statistics[number]
    part = GROUPS[number]
    hour = part[0]["_event_hour"]
    return RowGroup(
        index=number,
        byte_offset=index_at,
        byte_length=len(index),
        num_rows=len(part),
        digest=xxh3_128(index),
        stats_offset=stats_at,
        stats_length=len(stats),
        stats_digest=xxh3_128(stats),
        first_key=(1, hour, part[0]["path"], ""),
        last_key=(1, hour, part[-1]["path"], ""),
        event_hour_min=hour,
        event_hour_max=hour,
        columns={"event_time": SummaryBounds(*(_instant(part[0][f"{side}.event_time"]) for side in ("min", "max")))},
    )


def example() -> tuple[DataFile, Manifest]:
    """The data file, with its document in its footer, and its manifest."""
    document = encode_body_for_footer(manifest_of(file_of(""))).decode()
    file = file_of(document)
    return file, manifest_of(file)


def blocks() -> dict[str, str]:
    """The texts of the page, by name."""
    file, manifest = example()
    data = encode_manifest(manifest)
    return {
        "layout": _layout(file, manifest),
        "beginning": dump(file.data, 0, 32),
        "seam": dump(file.data, file.index[1][0] - 16, 32),
        "statistics seam": dump(file.data, file.statistics[0][0] - 16, 32),
        "chunks": _chunks(file),
        "footer seam": dump(file.data, _footer_at(file) - 16, 48),
        "end": dump(file.data, len(file.data) - 48, 48),
        "manifest bytes": dump(data, 0, 80),
        "manifest": _readable(data),
        "offsets": _offsets(file),
        "key": dump(file.data, file.data.rfind(b"\x18\x0ddelta-sidecar\x18"), 48),
        "schema text": _schema_text(),
    }


def dump(data: bytes, start: int, length: int) -> str:
    """Bytes as hexadecimal digits and characters, sixteen a line."""
    lines = []
    for at in range(start, start + length, 16):
        part = data[at : min(at + 16, start + length)]
        digits = " ".join(f"{byte:02x}" for byte in part)
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{at:6}  {digits:47}  {shown}\n")
    return "".join(lines)


def _instant(value: dt.datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _footer_at(file: DataFile) -> int:
    offset, piece = file.statistics[-1]
    return offset + len(piece)


def _layout(file: DataFile, manifest: Manifest) -> str:
    lines = ["  from    to  what\n"]
    placed = [(*each, f"index piece of row group {number}") for number, each in enumerate(file.index)]
    placed += [(*each, f"statistics piece of row group {number}") for number, each in enumerate(file.statistics)]
    lines += [f"{at:6}{at + len(piece):6}  {what}\n" for at, piece, what in placed]
    lines.append(f"{_footer_at(file):6}{len(file.data):6}  combined footer, its length, PAR1\n")
    assert manifest.files[0].size == len(file.data)
    return "".join(lines)


def _chunks(file: DataFile) -> str:
    found = read_piece_footer(piece_footer(file.statistics[0][1])).ranges
    return "".join(f"{each.start:5}{each.end:6}  {each.digest}  {name}\n" for name, each in found.items())


def _readable(document: bytes) -> str:
    text = json.dumps(json.loads(document), indent=2, ensure_ascii=False) + "\n"
    flat = re.compile(r"([\[{])\n\s+([^\[\]{}]*?)\n\s+([\]}])(,?\n)")
    return flat.sub(lambda match: match[1] + re.sub(r"\n\s+", " ", match[2]) + match[3] + match[4], text)


def _offsets(file: DataFile) -> str:
    metadata = pq.read_metadata(io.BytesIO(file.data))
    lines = ["row group  column       in its piece  in the file\n"]
    for number in range(2):
        for name, (at, piece) in (("path", file.index[number]), ("tags", file.statistics[number])):
            own = read_piece_footer(piece_footer(piece)).ranges[name].start
            group = metadata.row_group(number)
            found = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
            assert found[name].data_page_offset == at + own
            lines.append(f"{number:9}  {name:11}{own:14}{at + own:13}\n")
    return "".join(lines)


def _schema_text() -> str:
    columns = sorted((field.name, type_name(field.type)) for field in [*SCHEMA.index, *SCHEMA.statistics_schema])
    return "delta-sidecar 1\n" + "".join(f"{name}\t{kind}\n" for name, kind in columns)


if __name__ == "__main__":
    made = blocks()
    PAGE.write_text(PLACE.sub(lambda match: match[1] + made[match["name"]] + match[4], PAGE.read_text()))
