from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.sidecar.made import manifest, row_group

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.groups import RowGroup, Segment, SummaryBounds
from delta_sidecar.sidecar.manifest import (
    Manifest,
    SidecarFile,
    decode_footer_body,
    decode_manifest,
    decode_segment,
    encode_body_for_footer,
    encode_groups,
    encode_manifest,
)

GROUPS = [row_group(number, null_buckets=number) for number in range(9)]


def segmented(groups: list[RowGroup] = GROUPS, each: int = 3, newest: int = 2) -> tuple[Manifest, bytes]:
    """A manifest with segments, and the file with them."""
    data, segments = b"", []
    for start in range(0, len(groups) - newest, each):
        run = tuple(groups[start : min(start + each, len(groups) - newest)])
        text = encode_groups(run)
        segments.append(
            Segment(
                file=1,
                byte_offset=len(data),
                byte_length=len(text),
                digest=xxh3_128(text),
                first_index=start,
                num_row_groups=len(run),
                num_rows=sum(group.num_rows for group in run),
                first_key=run[0].first_key,
                last_key=run[-1].last_key,
                event_hour_min=run[0].event_hour_min,
                event_hour_max=run[-1].event_hour_max,
                null_buckets=sum(group.null_buckets for group in run),
                columns={"event_time": SummaryBounds("a", "b")},
            )
        )
        data += text
    files = [SidecarFile("v12.parquet", len(groups) * 200 + 50), SidecarFile("v12.segments.json", len(data))]
    made = manifest(len(groups), files=files, row_groups=groups[len(groups) - newest :], segments=segments)
    return made, data


def part(data: bytes, segment: Segment) -> bytes:
    return data[segment.byte_offset : segment.byte_offset + segment.byte_length]


def test_a_manifest_with_segments() -> None:
    made, data = segmented()
    text = encode_manifest(made)
    read = decode_manifest(text)
    assert read == made
    assert read.num_row_groups == 9
    assert list(read.row_groups) == GROUPS[7:], "the newest ones are in the manifest itself"
    assert [segment.num_rows for segment in read.segments] == [30, 30, 10]
    assert [segment.event_hour_min for segment in read.segments] == ["2025010100", "2025010103", "2025010106"]
    assert [segment.null_buckets for segment in read.segments] == [3, 12, 6]
    assert [segment.odd_buckets for segment in read.segments] == [0, 0, 0]
    assert [segment.columns["event_time"] for segment in read.segments] == [SummaryBounds("a", "b")] * 3
    assert read.runs == (*read.segments, *GROUPS[7:])
    found = [group for segment in read.segments for group in decode_segment(part(data, segment), segment, read)]
    assert found == GROUPS[:7]


def test_a_footer_names_the_segments() -> None:
    made, _ = segmented()
    read = decode_footer_body(encode_body_for_footer(made), "v12.parquet", made.sidecar_size_bytes)
    assert read == made
    assert [file.name for file in read.files] == ["v12.parquet", "v12.segments.json"]


@pytest.mark.parametrize("place", range(3))
def test_a_damaged_segment_is_refused(place: int) -> None:
    made, data = segmented()
    segment = made.segments[place]
    whole = part(data, segment)
    for damaged in (
        whole[:-1],
        whole + b" ",
        b"",
        whole.replace(b"10", b"11", 1),
        part(data, made.segments[place - 1]),
    ):
        with pytest.raises(SidecarError, match="does not have its digest"):
            decode_segment(damaged, segment, made)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_row_groups": 2},
        {"num_rows": 29},
        {"null_buckets": 2},
        {"odd_buckets": 1},
        {"first_key": (1, "x", "p", "")},
        {"last_key": (1, "x", "p", "")},
    ],
)
def test_a_segment_that_is_not_what_the_manifest_says(changes: dict[str, Any]) -> None:
    made, data = segmented()
    segment = made.segments[0]
    with pytest.raises(SidecarError, match="not what the manifest says"):
        decode_segment(part(data, segment), replace(segment, **changes), made)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b"[{}]",
        b"[1]",
        b"null",
        b"[" * 100_000,
        b"\xff",
        b'["\\ud800"]',
        encode_groups((row_group(1), row_group(2))),
        encode_groups((row_group(0), row_group(2))),
        encode_groups((row_group(0, byte_offset=10**9),)),
        encode_groups((row_group(0, file=1),)),
        encode_groups((row_group(0, first_key=(1, "p", "")),)),
        encode_groups((row_group(0), row_group(1, byte_offset=50))),
    ],
)
def test_a_segment_with_wrong_content_is_refused(text: bytes) -> None:
    made, _ = segmented()
    segment = replace(made.segments[0], byte_length=len(text), digest=xxh3_128(text))
    with pytest.raises(SidecarError):
        decode_segment(text, segment, made)
