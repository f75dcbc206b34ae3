"""The page about the format shows what the code makes."""

from __future__ import annotations

import re

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sidecar.worked_example import COMMIT, PAGE, PLACE, SCHEMA, blocks, example, rows

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.sidecar.groups import LARGEST_DOCUMENT, RowGroup, Segment
from delta_sidecar.sidecar.manifest import (
    FOOTER_KEY,
    MOST_ROW_GROUPS,
    NEWEST_ROW_GROUPS,
    SEGMENT_ROW_GROUPS,
    Manifest,
    decode_footer_body,
    decode_manifest,
    encode_manifest,
)
from delta_sidecar.sidecar.pieces import CHUNKS_KEY, CREATED_BY, piece_footer

TEXT = PAGE.read_text()


def test_the_worked_example_is_what_the_code_makes() -> None:
    shown = {match["name"]: match["text"] for match in PLACE.finditer(TEXT)}
    assert shown == blocks(), "python -m tests.sidecar.worked_example puts it right"


def test_the_worked_example_is_a_sidecar() -> None:
    file, made = example()
    table = pq.read_table(pa.BufferReader(file.data))
    assert [
        {name: row[name] for name in expected} for row, expected in zip(table.to_pylist(), rows(), strict=True)
    ] == rows()
    assert decode_manifest(encode_manifest(made)) == made
    document = pq.read_metadata(pa.BufferReader(file.data)).metadata[FOOTER_KEY.encode()]
    assert decode_footer_body(document, "v12.parquet", len(file.data)) == made
    for group in made.row_groups:
        index = file.data[group.byte_offset : group.byte_offset + group.byte_length]
        statistics = file.data[group.stats_offset : group.stats_offset + group.stats_length]
        assert (xxh3_128(index), xxh3_128(statistics)) == (group.digest, group.stats_digest)
        assert group.stats_footer is None, "a small piece is read whole"


def test_what_the_page_says_of_its_bytes() -> None:
    file, _ = example()
    assert len(COMMIT) == 37
    assert len(piece_footer(file.index[0][1])) - 8 == 1_039 == int.from_bytes(bytes.fromhex("0f040000"), "little")
    assert len(SCHEMA.index) + len(SCHEMA.statistics_schema) == 23
    data = encode_manifest(example()[1])
    assert xxh3_128(data[43:]).encode() == data[11:43]


def test_the_hash_of_the_worked_example_is_that_of_its_text() -> None:
    assert xxh3_128(blocks()["schema text"].encode()) == SCHEMA.schema_hash
    assert f"`{SCHEMA.schema_hash}`" in TEXT


def test_every_column_is_on_the_page() -> None:
    fixed = [field.name for field in [*SCHEMA.index, *SCHEMA.statistics_schema] if "device" not in field.name]
    names = [re.sub("event_time$", "<time>", name).replace("_event_hour", "<bucket>") for name in fixed]
    assert [name for name in names if f"| `{name}` |" not in TEXT] == []


@pytest.mark.parametrize("kind", [Manifest, RowGroup, Segment])
def test_every_member_of_a_manifest_is_on_the_page(kind: type[msgspec.Struct]) -> None:
    fields = [each for each in msgspec.structs.fields(kind) if each.name != "sidecar_size_bytes"]
    shown = [f"| `{each.encode_name}` |" if each.required else f"| *`{each.encode_name}`* |" for each in fields]
    assert [row for row in shown if row not in TEXT] == []
    assert {"| `digest` |", "| `sidecar_size_bytes` |"} <= set(re.findall(r"^\| `\w+` \|", TEXT, re.MULTILINE))


def test_numbers_and_names_on_the_page() -> None:
    text = " ".join(TEXT.split())
    assert f"{MOST_ROW_GROUPS:,} row groups" in text
    assert f"{SEGMENT_ROW_GROUPS:,} row groups" in text
    assert f"{NEWEST_ROW_GROUPS:,} row groups" in text
    assert f"{LARGEST_DOCUMENT // 1024**2} MiB" in text
    assert f"`{CREATED_BY.decode()}`" in text
    assert f"`{CHUNKS_KEY.decode()}`" in text
    assert f"`{FOOTER_KEY}`" in text
