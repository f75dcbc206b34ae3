from __future__ import annotations

import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.sidecar.made import TEXTS, document_of, manifest, row_group
from tests.sidecar.test_segments import segmented

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.groups import LARGEST_DOCUMENT, RowGroups, SummaryBounds
from delta_sidecar.sidecar.manifest import (
    Manifest,
    SidecarFile,
    SortColumn,
    decode_footer_body,
    decode_manifest,
    encode_body_for_footer,
    encode_groups,
    encode_manifest,
    seal,
)

PATIENTLY = settings(deadline=None, max_examples=60)
PARTS = (SidecarFile("v12.b1.00000-0.parquet", 250), SidecarFile("v12.b1.00001-2.parquet", 450))
IN_PARTS = {
    "files": PARTS,
    "row_groups": RowGroups(
        [
            row_group(0),
            row_group(1, file=1, byte_offset=0, stats_offset=200),
            row_group(2, file=1, byte_offset=100, stats_offset=300),
        ]
    ),
}
SCALARS = st.integers(-(10**38), 10**38) | TEXTS | st.booleans() | st.decimals(-(10**9), 10**9, places=9)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    count = draw(st.integers(0, 5))
    groups = []
    for number in range(count):
        bucket = draw(st.none() | TEXTS)
        flag = draw(st.integers(0, 1))
        groups.append(
            row_group(
                number,
                num_rows=draw(st.integers(5, 2**40)),
                event_hour_min=bucket,
                event_hour_max=bucket,
                null_buckets=draw(st.integers(0, 2)),
                odd_buckets=draw(st.integers(0, 2)),
                first_key=(flag, draw(st.none() | TEXTS), draw(TEXTS), draw(TEXTS)),
                last_key=(flag, draw(st.none() | TEXTS), draw(TEXTS), draw(TEXTS)),
                columns=draw(st.dictionaries(TEXTS, st.builds(SummaryBounds, SCALARS, SCALARS), max_size=2)),
            )
        )
    return manifest(
        count,
        row_groups=RowGroups(groups),
        num_files=sum(group.num_rows for group in groups),
        commit=draw(st.sampled_from([None, manifest().commit])),
        bucket_column=draw(st.none() | TEXTS),
        time_column=draw(st.none() | st.lists(TEXTS, min_size=1).map(tuple)),
        stats_format=draw(TEXTS),
    )


@PATIENTLY
@given(manifests())
def test_manifests_are_read_back(made: Manifest) -> None:
    data = encode_manifest(made)
    assert decode_manifest(data) == made
    assert encode_manifest(decode_manifest(data)) == data
    assert pickle.loads(pickle.dumps(decode_manifest(data))) == made  # noqa: S301 - our own
    body = encode_body_for_footer(made)
    assert decode_footer_body(body, "v12.parquet", made.files[0].size) == made


@pytest.mark.parametrize("indent", [None, 1])
def test_any_layout_is_read(indent: int | None) -> None:
    data = encode_manifest(manifest())
    text = json.dumps(document_of(data) | {"new": {"deep": [1.5, None]}}, indent=indent, sort_keys=True)
    rest = b'" ,' + text[1:].encode() + b"\n "
    read = decode_manifest(b'{"digest":"' + xxh3_128(rest).encode() + rest)
    assert read.runs == manifest().runs
    assert replace(read, listed_row_groups=manifest().listed_row_groups) == manifest()


def test_the_bytes_of_a_manifest() -> None:
    data = encode_manifest(manifest(0, custom={"b": 1.5, "a": None}))
    rest = (
        '","format_version":1,"version":12,'
        '"commit":{"size":1234,"head":"' + xxh3_128(b"commit") + '"},'
        '"protocol":{"minReaderVersion":1,"minWriterVersion":2},'
        '"metadata":{"configuration":{"deltaSidecar.bucketColumn":"_event_hour"},"createdTime":1735689600000,'
        '"format":{"options":{},"provider":"parquet"},"id":"af23","partitionColumns":["_event_hour"],'
        '"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}"},'
        '"sidecar_file":"v12.parquet","sidecar_size_bytes":50,"num_files":0,"num_row_groups":0,'
        '"schema_hash":"' + xxh3_128(b"schema") + '",'
        '"bucket_column":"_event_hour","time_column":["event_time"],'
        '"sort":[{"kind":"bucket","column":["_event_hour"],"type":"string"}],'
        '"summaries":[["event_time"]],"statistics":[["event_time"],["payload","a.b"]],'
        '"stats_format":"spark","custom":{"a":null,"b":1.5},"row_groups":[]}'
    )
    assert data.decode() == '{"digest":"' + xxh3_128(rest.encode()) + rest


def test_the_list_of_row_groups_comes_last_and_stays_bytes() -> None:
    data = encode_manifest(segmented()[0])
    assert list(json.loads(data))[-2:] == ["segments", "row_groups"]
    opened = decode_manifest(data)
    assert bytes(opened.listed_row_groups) == data[-len(bytes(opened.listed_row_groups)) - 1 : -1]
    assert "_lists" not in vars(opened)
    assert opened.row_groups is opened.row_groups, "they are decoded once"
    assert replace(opened, sidecar_size_bytes=1).files[0].size == 1, "nothing of the one before is kept"


def test_what_an_ingestion_keeps_is_carried() -> None:
    kept = {"offsets": {"topic": [1, 2**62]}, "share": Decimal("0.10"), "none": None, "": [{}]}
    made = decode_manifest(encode_manifest(manifest(custom=kept)))
    assert made.custom == kept
    assert b'"share":0.10' in encode_manifest(made)
    assert b"custom" not in encode_manifest(manifest(custom={}))


def test_a_row_group_in_a_manifest() -> None:
    (group, *_) = json.loads(encode_manifest(manifest()))["row_groups"]
    assert group == {
        "index": 0,
        "byte_offset": 0,
        "byte_length": 100,
        "num_rows": 10,
        "event_hour_min": "2025010100",
        "event_hour_max": "2025010100",
        "digest": xxh3_128(b"i0"),
        "stats_offset": 100,
        "stats_length": 100,
        "stats_digest": xxh3_128(b"s0"),
        "stats_footer": {"length": 60, "digest": xxh3_128(b"f0")},
        "first_key": [1, "2025010100", "_event_hour=2025010100/a.parquet", ""],
        "last_key": [1, "2025010100", "_event_hour=2025010100/ü.parquet", "u1"],
        "columns": {"event_time": {"min": "2025-01-01T00:00:00.000Z", "max": "2025-01-02T00:00:00.000Z"}},
    }


def test_a_sidecar_in_parts() -> None:
    made = manifest(**IN_PARTS)
    data = encode_manifest(made)
    assert decode_manifest(data) == made
    assert [group.file for group in decode_manifest(data).row_groups] == [0, 1, 1]
    document = json.loads(data)
    assert document["files"] == [{"name": each.name, "size": each.size} for each in PARTS[1:]]
    assert (document["sidecar_file"], document["sidecar_size_bytes"]) == ("v12.b1.00000-0.parquet", 250)
    assert ["file" in group for group in document["row_groups"]] == [False, True, True]
    assert decode_footer_body(encode_body_for_footer(made), PARTS[0].name, PARTS[0].size) == made


def test_columns_over_all_row_groups() -> None:
    groups = decode_manifest(
        encode_manifest(
            manifest(
                row_groups=RowGroups(
                    [
                        row_group(0, columns={"a": SummaryBounds(1, 2)}),
                        row_group(
                            1,
                            columns={
                                "a": SummaryBounds(Decimal("1.50"), Decimal("0.25")),
                                "b": SummaryBounds("x", "y"),
                            },
                        ),
                        row_group(
                            2, event_hour_min=None, event_hour_max=None, null_buckets=4, odd_buckets=6, columns={}
                        ),
                    ]
                )
            )
        )
    ).row_groups
    assert [group.num_rows for group in groups] == [10, 10, 10]
    assert [(group.event_hour_min, group.event_hour_max) for group in groups] == [
        ("2025010100", "2025010100"),
        ("2025010101", "2025010101"),
        (None, None),
    ]
    assert [(group.null_buckets, group.odd_buckets) for group in groups] == [(0, 0), (0, 0), (4, 6)]
    assert groups[0].columns == {"a": SummaryBounds(1, 2)}
    assert groups[1].columns == {"a": SummaryBounds(Decimal("1.50"), Decimal("0.25")), "b": SummaryBounds("x", "y")}
    assert groups[-1] == groups[2] == list(groups)[2] == groups[2:][0]
    assert groups[2].columns == {}


def test_no_digit_of_a_number_is_lost() -> None:
    sort = (SortColumn("lower_bound", ("n",), "decimal(38,9)"),)
    exact = Decimal("12345678901234567890123456789.123456789")
    key = (1, exact, "p", "")
    made = manifest(
        1,
        sort=sort,
        row_groups=RowGroups([row_group(0, first_key=key, last_key=key, columns={"n": SummaryBounds(exact, -exact)})]),
    )
    read = decode_manifest(encode_manifest(made))
    assert read == made
    assert b"12345678901234567890123456789.123456789" in encode_manifest(made)


@pytest.mark.parametrize("number", [1e-7, 1e22, -0.0, 0.1, 1.7976931348623157e308, 5e-324])
def test_floats_are_written_with_all_their_digits(number: float) -> None:
    made = manifest(1, row_groups=RowGroups([row_group(0, columns={"n": SummaryBounds(Decimal(repr(number)), 1)})]))
    (group,) = decode_manifest(encode_manifest(made)).row_groups
    assert str(float(group.columns["n"].min)) == str(number)


def test_numbers_that_are_none_are_not_written() -> None:
    for value in (float("nan"), float("inf"), 0.5, Decimal("NaN"), Decimal("-Infinity")):
        odd = row_group(0, columns={"n": SummaryBounds(value, 1)})  # type: ignore[arg-type]
        with pytest.raises(SidecarError):
            encode_manifest(manifest(1, row_groups=RowGroups([odd])))
        with pytest.raises(SidecarError):
            encode_groups((odd,))


def test_unknown_members_are_ignored() -> None:
    document = document_of(encode_manifest(manifest()))
    document["new"] = {"deep": [1.5, None]}
    for group in document["row_groups"]:
        group["new"] = [1]
    assert decode_manifest(seal(document)).runs == manifest().runs


def test_a_manifest_of_another_version() -> None:
    data = encode_manifest(manifest())
    assert decode_manifest(data, version=12) == manifest()
    with pytest.raises(SidecarError, match="version 12") as caught:
        decode_manifest(data, version=11)
    assert caught.value.code == "other_version"


def test_the_document_in_a_footer_belongs_to_its_file() -> None:
    body = encode_body_for_footer(manifest())
    assert b"sidecar_size_bytes" not in body
    with pytest.raises(SidecarError, match="another file"):
        decode_footer_body(body, "v12.b1.00000-0.parquet", 650)
    with pytest.raises(SidecarError, match="outside of its file"):
        _ = decode_footer_body(body, "v12.parquet", 599).row_groups
    with pytest.raises(SidecarError, match="sidecar_size_bytes"):
        decode_manifest(body)
    with pytest.raises(SidecarError, match="another file"):
        decode_footer_body(encode_manifest(manifest(**IN_PARTS)), "v12.b1.00000-0.parquet", 250)


def test_every_flipped_byte_is_found() -> None:
    data = encode_manifest(manifest(2))
    for place in range(len(data)):
        for mask in (0x01, 0x02, 0x20, 0x80, data[place] ^ 0x20, data[place] ^ 0x22):
            changed = bytearray(data)
            changed[place] ^= mask
            if changed == data:
                continue
            with pytest.raises(SidecarError):
                decode_manifest(bytes(changed))


def test_every_cut_is_found() -> None:
    data = encode_manifest(manifest(1))
    for end in range(len(data)):
        with pytest.raises(SidecarError):
            decode_manifest(data[:end])


def test_a_manifest_that_is_too_large_is_not_read() -> None:
    for data in (encode_manifest(manifest(stats_format="x" * LARGEST_DOCUMENT)), b"[" * 40_000_000):
        with pytest.raises(SidecarError, match="more than"):
            decode_manifest(data)
