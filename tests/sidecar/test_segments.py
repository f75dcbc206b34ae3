from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.sidecar.made import manifest, row_group

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.groups import RowGroup, RowGroups, Segment, Segments, SummaryBounds
from delta_sidecar.sidecar.manifest import (
    Manifest,
    SidecarFile,
    decode_manifest,
    decode_segment,
    encode_manifest,
    encode_segment,
)

GROUPS = [row_group(number, null_buckets=number) for number in range(7)]


def segmented(groups: list[RowGroup] = GROUPS, each: int = 3) -> tuple[Manifest, bytes]:
    """A manifest in two levels, and its segments file."""
    data, segments = b"", []
    for start in range(0, len(groups), each):
        run = groups[start : start + each]
        text = encode_segment(run)
        segments.append(
            Segment(
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
                odd_buckets=0,
                columns={"event_time": SummaryBounds("a", "b")},
            )
        )
        data += text
    file = SidecarFile("v12.segments.json", len(data))
    made = manifest(len(groups), row_groups=RowGroups(), segments_file=file, segments=Segments(segments))
    return made, data


def part(data: bytes, segment: Segment) -> bytes:
    return data[segment.byte_offset : segment.byte_offset + segment.byte_length]


def test_a_manifest_in_two_levels() -> None:
    made, data = segmented()
    text = encode_manifest(made)
    read = decode_manifest(text)
    assert read == made
    assert read.num_row_groups == 7
    assert len(read.row_groups) == 0
    assert b'"row_groups"' not in text
    assert [segment.num_rows for segment in read.segments] == [30, 30, 10]
    assert [segment.event_hour_min for segment in read.segments] == ["2025010100", "2025010103", "2025010106"]
    assert [segment.null_buckets for segment in read.segments] == [3, 12, 6]
    assert [segment.odd_buckets for segment in read.segments] == [0, 0, 0]
    assert [segment.columns["event_time"] for segment in read.segments] == [SummaryBounds("a", "b")] * 3
    found = [group for segment in read.segments for group in decode_segment(part(data, segment), segment, read)]
    assert found == GROUPS


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
        encode_segment([row_group(1), row_group(2)]),
        encode_segment([row_group(0), row_group(2)]),
        encode_segment([row_group(0, byte_offset=10**9)]),
        encode_segment([row_group(0, file=1)]),
        encode_segment([row_group(0, first_key=(1, "p", ""))]),
        encode_segment([row_group(0), row_group(1, byte_offset=50)]),
    ],
)
def test_a_segment_with_wrong_content_is_refused(text: bytes) -> None:
    made, _ = segmented()
    segment = replace(made.segments[0], byte_length=len(text), digest=xxh3_128(text))
    with pytest.raises(SidecarError):
        decode_segment(text, segment, made)
