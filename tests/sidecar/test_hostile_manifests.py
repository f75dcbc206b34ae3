"""Manifests whose digest holds but whose content is wrong: each is refused with a reason."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sidecar.made import document_of, manifest
from tests.sidecar.test_manifest import IN_PARTS
from tests.sidecar.test_segments import segmented

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.errors import SidecarError
from delta_sidecar.sidecar.manifest import (
    decode_footer_body,
    decode_manifest,
    encode_body_for_footer,
    encode_manifest,
    seal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_sidecar.sidecar.groups import Run

Change = tuple[tuple[str | int, ...], Any]
WHOLE = document_of(encode_manifest(manifest()))
PARTS = document_of(encode_manifest(manifest(**IN_PARTS)))
HEX = "0" * 32
SEGMENTED = document_of(encode_manifest(segmented()[0]))
NO_NUMBERS = [None, True, False, -1, 2**63, 10**30, 1.5, "1", [], {}]
NO_NAMES = [
    *(
        "../v12.parquet",
        "/v12.parquet",
        "x/v12.parquet",
        "v12.parquet\n",
        "v12.parquet\0",
        "v13.parquet",
        "v012.parquet",
    ),
    *(
        "",
        "..",
        "v12.manifest.json",
        "v12.segments.json",
        "C:\\v12.parquet",
        "https://host/v12.parquet",
        "\u202ev12.parquet",
    ),
]
GROUP, SEGMENT = ("row_groups", 1), ("segments", 1)


def changed(document: dict[str, Any], *changes: Change) -> dict[str, Any]:
    """The document with other values in some places."""
    document = copy.deepcopy(document)
    for path, value in changes:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    return document


def without(document: dict[str, Any], *path: str | int) -> dict[str, Any]:
    document = copy.deepcopy(document)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return document


def cases() -> list[tuple[str, dict[str, Any]]]:
    numbers = ["version", "format_version", "sidecar_size_bytes", "num_files", "num_row_groups"]
    in_group = ["index", "byte_offset", "byte_length", "num_rows", "null_buckets", "odd_buckets", "stats_offset"]
    found = [(f"{name} is {value!r}", changed(WHOLE, ((name,), value))) for name in numbers for value in NO_NUMBERS]
    found += [
        (f"{name} of a row group is {value!r}", changed(WHOLE, ((*GROUP, name), value)))
        for name in [*in_group, "stats_length", "file"]
        for value in NO_NUMBERS
    ]
    found += [
        (f"the length of a footer is {value!r}", changed(WHOLE, ((*GROUP, "stats_footer", "length"), value)))
        for value in [*NO_NUMBERS, 7, 97, 100]
    ]
    found += [
        (f"sidecar_file is {value!r}", changed(WHOLE, (("sidecar_file",), value))) for value in [*NO_NAMES, 1, None]
    ]
    found += [
        (f"a file is called {value!r}", changed(PARTS, (("files", 0, "name"), value)))
        for value in [*NO_NAMES, PARTS["sidecar_file"], 1, None]
    ]
    found += [
        (f"the file of segments is called {value!r}", changed(SEGMENTED, (("files", 0, "name"), value)))
        for value in ["../v12.segments.json", "v13.segments.json", "v12.parquet", "v12.b.00000-0.parquet", None]
    ]
    digests = [("schema_hash",), ("commit", "head"), (*GROUP, "digest"), (*GROUP, "stats_digest")]
    found += [
        (f"{'.'.join(map(str, path))} is {value!r}", changed(WHOLE, (path, value)))
        for path in [*digests, (*GROUP, "stats_footer", "digest")]
        for value in [None, "", HEX[1:], HEX + "0", 0, [HEX]]
    ]
    keys = [None, [], "key", [1, "b", "p"], [1, "b", "p", "", ""], [2, "b", "p", ""], [True, "b", "p", ""]]
    keys += [[1, 5, "p", ""], [1, "b", None, ""], [1, "b", "p", None], [1.0, "b", "p", ""], {"1": 1}, [0, "b", "p", ""]]
    found += [
        (f"{name} is {key!r}", changed(WHOLE, ((*GROUP, name), key)))
        for name in ("first_key", "last_key")
        for key in keys
    ]
    found += [
        (f"columns are {value!r}", changed(WHOLE, ((*GROUP, "columns"), value)))
        for value in [
            None,
            [],
            "x",
            {"a": None},
            {"a": []},
            {"a": {"min": 1}},
            {"a": {"max": 1}},
            {"a": {"min": None, "max": 1}},
            {"a": {"min": [1], "max": 1}},
            {"a": {"min": {}, "max": {}}},
            {"a": {"x": 1}},
            {"a": {}},
        ]
    ]
    found += [
        (f"{name} is {value!r}", changed(WHOLE, ((*GROUP, name), value)))
        for name in ("event_hour_min", "event_hour_max")
        for value in [None, 5, [], True]
    ]
    found += [(f"the manifest has no {name}", without(WHOLE, name)) for name in WHOLE if name not in OPTIONAL]
    for document, path in ((WHOLE, GROUP), (SEGMENTED, SEGMENT)):
        names = [name for name in document[path[0]][1] if name not in OPTIONAL]
        found += [(f"{path[0]} have no {name}", without(document, *path, name)) for name in names]
    found += [
        (f"{name} of a segment is {value!r}", changed(SEGMENTED, ((*SEGMENT, name), value)))
        for name in ["file", "first_index", "num_row_groups", "byte_offset", "byte_length", "num_rows", "odd_buckets"]
        for value in NO_NUMBERS
    ]
    wrong = [None, 5, "x", {}, [5], [None], ["x"], [[]]]
    found += [
        (f"{name} is {value!r}", changed(WHOLE, ((name,), value)))
        for name in ("row_groups", "sort", "summaries", "statistics")
        for value in wrong
    ]
    found += [
        (f"{name} are {value!r}", changed(document, ((name,), value)))
        for name, document in [("files", PARTS), ("files", SEGMENTED), ("segments", SEGMENTED)]
        for value in [*wrong, []]
    ]
    found += [(f"custom is {value!r}", changed(WHOLE, (("custom",), value))) for value in [None, 5, "x", []]]
    found += [
        (f"time_column is {value!r}", changed(WHOLE, (("time_column",), value))) for value in [5, "x", [], [5], {}]
    ]
    found += [(f"bucket_column is {value!r}", changed(WHOLE, (("bucket_column",), value))) for value in [5, [], True]]
    found += [(f"stats_format is {value!r}", changed(WHOLE, (("stats_format",), value))) for value in [5, [], None]]
    found += [(f"commit is {value!r}", changed(WHOLE, (("commit",), value))) for value in [5, [], "x", {}, {"size": 1}]]
    found += [
        (f"witness is {value!r}", changed(WHOLE, (("witness",), value)))
        for value in [None, 5, {}, [5], [{}], [{"name": 5, "size": 1, "digest": "0" * 32}], [{"name": "a", "size": 1}]]
    ]
    found += [
        (f"totals are {value!r}", changed(WHOLE, (("totals",), value)))
        for value in [5, [], {"bytes": -1}, {"rows": "x"}, {"largest": 2**63}, {"most_rows": 1.5}]
    ]
    found += [(f"protocol is {value!r}", changed(WHOLE, (("protocol",), value))) for value in [None, [], {}, 5]]
    found += [(f"metadata is {value!r}", changed(WHOLE, (("metadata",), value))) for value in [None, [], {}, 5]]
    found += [(f"metadata has no {name}", without(WHOLE, "metadata", name)) for name in ("id", "schemaString")]
    return found


def shapes() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """The cases by what they change."""
    found = {"by hand": [(name, changed(document, *changes)) for name, document, *changes in BY_HAND]}
    for name, document in cases():
        found.setdefault(re.split(" is | are | have | no ", name)[0], []).append((name, document))
    return found


OPTIONAL = {"commit", "bucket_column", "time_column", "witness", "totals", "columns", "null_buckets", "stats_footer"}
LAST = ("segments", -1, "byte_length")
BY_HAND: list[Any] = [
    ("format 2", WHOLE, (("format_version",), 2)),
    ("format 0", WHOLE, (("format_version",), 0)),
    ("an index piece over another", WHOLE, ((*GROUP, "byte_offset"), 150)),
    ("an index piece over its statistics", WHOLE, ((*GROUP, "byte_length"), 101)),
    ("statistics over the next index piece", WHOLE, ((*GROUP, "stats_length"), 101)),
    ("statistics outside of the file", WHOLE, ((*GROUP, "stats_offset"), 551)),
    ("a piece outside of the file", WHOLE, (("sidecar_size_bytes",), 599)),
    ("a piece that is too short", WHOLE, ((*GROUP, "byte_length"), 11)),
    ("a piece at the end of all numbers", WHOLE, ((*GROUP, "byte_offset"), 2**63 - 1)),
    ("a file that is not named", WHOLE, ((*GROUP, "file"), 1)),
    ("a file that is not named, in parts", PARTS, ((*GROUP, "file"), 2)),
    ("a piece in a file that is too small", PARTS, (("row_groups", 2, "file"), 0)),
    ("numbers in another order", WHOLE, (("row_groups", 0, "index"), 1), (("row_groups", 1, "index"), 0)),
    ("a row group without rows", WHOLE, ((*GROUP, "num_rows"), 0), (("num_files",), 20)),
    ("more null buckets than rows", WHOLE, ((*GROUP, "null_buckets"), 11)),
    ("more odd and null buckets than rows", WHOLE, ((*GROUP, "null_buckets"), 6), ((*GROUP, "odd_buckets"), 5)),
    ("too few files", WHOLE, (("num_files",), 29)),
    ("too many files", WHOLE, (("num_files",), 31)),
    ("too few row groups", WHOLE, (("num_row_groups",), 2)),
    ("files that name the first one again", PARTS, (("sidecar_file",), PARTS["files"][0]["name"])),
    ("a row group in the file of segments", SEGMENTED, ((*GROUP, "file"), 1)),
    ("a segment in the data file", SEGMENTED, ((*SEGMENT, "file"), 0)),
    ("a segment in a file that is not named", SEGMENTED, ((*SEGMENT, "file"), 2)),
    ("a segment that is larger than any", SEGMENTED, (("files", 0, "size"), 2**40), (LAST, 2**25 + 1)),
    ("row groups that do not follow the segments", SEGMENTED, (("row_groups", 0, "index"), 0)),
    ("too few row groups beside segments", SEGMENTED, (("num_row_groups",), 8)),
    ("a sum of buckets that no number holds", WHOLE, ((*GROUP, "null_buckets"), 2**63 - 1)),
    ("an unknown order", WHOLE, (("sort", 0, "kind"), "random")),
    ("an order by a list", WHOLE, (("sort", 0, "kind"), ["bucket"])),
    ("an order of an unknown type", WHOLE, (("sort", 0, "type"), "void")),
    ("an order of no type", WHOLE, (("sort", 0, "type"), None)),
    ("an order by no column", WHOLE, (("sort", 0, "column"), [])),
    ("an order with more values than keys have", WHOLE, (("sort",), WHOLE["sort"] * 2)),
    ("a key of another type", WHOLE, (("sort", 0), {"kind": "lower_bound", "column": ["n"], "type": "long"})),
    ("features that are no list", WHOLE, (("protocol", "readerFeatures"), "x")),
    ("features that are no names", WHOLE, (("protocol", "readerFeatures"), [1])),
    ("a reader version that is a truth", WHOLE, (("protocol", "minReaderVersion"), True)),
    ("a writer version that is a fraction", WHOLE, (("protocol", "minWriterVersion"), 2.5)),
    ("partition columns that are no names", WHOLE, (("metadata", "partitionColumns"), [1])),
    ("partition columns that are no list", WHOLE, (("metadata", "partitionColumns"), "x")),
    ("properties that are no texts", WHOLE, (("metadata", "configuration"), {"a": 1})),
    ("properties that are no object", WHOLE, (("metadata", "configuration"), [])),
    ("an id that is no text", WHOLE, (("metadata", "id"), 5)),
    ("a segment outside of its file", SEGMENTED, (LAST, SEGMENTED["segments"][-1]["byte_length"] + 1)),
    ("a segment that begins with another row group", SEGMENTED, ((*SEGMENT, "first_index"), 4)),
    ("a segment without row groups", SEGMENTED, ((*SEGMENT, "num_row_groups"), 0)),
    ("a segment of another size", SEGMENTED, ((*SEGMENT, "num_rows"), 29)),
    ("segments over one another", SEGMENTED, ((*SEGMENT, "byte_offset"), SEGMENTED["segments"][1]["byte_offset"] - 1)),
    ("a segment that is there twice", SEGMENTED, (("segments",), SEGMENTED["segments"] * 2)),
]


@pytest.mark.parametrize("documents", [pytest.param(documents, id=shape) for shape, documents in shapes().items()])
def test_a_manifest_with_wrong_content_is_refused(
    documents: list[tuple[str, dict[str, Any]]], subtests: pytest.Subtests
) -> None:
    for name, document in documents:
        with subtests.test(name):
            data = seal(document)
            with pytest.raises(SidecarError) as caught:
                read_whole(data)
            assert str(caught.value).startswith("the manifest ")
            assert len(str(caught.value)) < 200
            with pytest.raises(SidecarError, match=r"^the manifest "):
                decode_manifest(b" " + data)


def read_whole(data: bytes) -> tuple[Run, ...]:
    return decode_manifest(data).runs


def test_row_groups_are_looked_at_when_they_are_asked_for() -> None:
    for name in ("row_groups", "segments"):
        made = decode_manifest(seal(changed(SEGMENTED, ((name,), "x"))))
        assert made.num_files == 90
        for _ in range(2):
            with pytest.raises(SidecarError, match="cannot be read"):
                _ = made.row_groups


def sealed_text(body: bytes) -> bytes:
    rest = b'",' + body[1:]
    return b'{"digest":"' + xxh3_128(rest).encode() + rest


TEXT = b"{" + seal(WHOLE)[45:]
VERSION = b'"version":12'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (VERSION, b'"version":13,"version":12'),
        (VERSION, b'"digest":"0","version":12'),
        (b'"index":1,', b'"index":7,"index":1,'),
        (b'"length":60', b'"length":5000,"length":60'),
        (b'"row_groups":[', b'"row_groups":[],"row_groups":['),
        (b'"minReaderVersion":1', b'"minReaderVersion":[],"minReaderVersion":1'),
        (b'"min":"', b'"min":null,"min":"'),
    ],
)
def test_of_a_member_that_is_there_twice_the_last_counts(old: bytes, new: bytes) -> None:
    twice = TEXT.replace(old, new, 1)
    assert twice.count(new) == 1
    made = decode_manifest(sealed_text(twice))
    assert made.runs == manifest().runs
    assert (made.version, made.protocol) == (12, manifest().protocol)


def test_a_first_member_of_a_wrong_type_is_refused_all_the_same() -> None:
    for old, new in ((VERSION, b'"version":"x","version":12'), (VERSION, b'"version":12,"version":13')):
        with pytest.raises(SidecarError):
            decode_manifest(sealed_text(TEXT.replace(old, new)))


@pytest.mark.parametrize("member", [b"NaN", b"[1,]", b'"\\ud800"', b'"\n"', b"[" * 100_000 + b"]" * 100_000, b"01"])
def test_an_unknown_member_is_json_too(member: bytes) -> None:
    with pytest.raises(SidecarError, match="cannot be read"):
        decode_manifest(sealed_text(TEXT.replace(VERSION, b'"x":' + member + b',"version":12')))


@pytest.mark.parametrize(
    "body",
    [
        TEXT.replace(b'"num_files":30', b'"num_files":NaN'),
        TEXT.replace(b'"num_files":30', b'"num_files":Infinity'),
        TEXT.replace(b'"num_files":30', b'"num_files":30.0'),
        TEXT.replace(b'"num_files":30', b'"num_files":3e1'),
        TEXT.replace(b'"num_files":30', b'"num_files":030'),
        TEXT.replace(b'"num_files":30', b'"num_files":' + b"9" * 5_000),
        TEXT.replace(b'"version":12', b'"custom":{"x":1e999999999},"version":12'),
        TEXT.replace(b'"version":12', b'"custom":{"x":1e-999999999},"version":12'),
        TEXT.replace(b'"version":12', b'"custom":{"x":1e99999999999999999999},"version":12'),
        TEXT.replace(b'"version":12', b'"custom":{"x":0.' + b"1" * 5_000 + b'},"version":12'),
        TEXT.replace(b'"version":12', b'"x":-Infinity,"version":12'),
        TEXT.replace(b'"version":12', b'"x":"\\ud800","version":12'),
        TEXT.replace(b'"version":12', b'"x":"\\ud800\\u0041","version":12'),
        TEXT.replace(b'"version":12', b'"\\udfff":1,"version":12'),
        TEXT.replace(b'"version":12', b'"custom":{"x":"\xed\xa0\x80"},"version":12'),
        TEXT.replace(b'"version":12', b'"custom":{"x":"\xff"},"version":12'),
        TEXT.replace(b'"version":12', b'"x":"\n","version":12'),
        TEXT.replace(b'"version":12', b'"x":"\0","version":12'),
        TEXT.replace(b'"version":12', b'"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"version":12'),
        TEXT.replace(b'"version":12', b'"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b',"version":12'),
        TEXT.replace(b'"version":12', b'"x":' + b"[" * 2_000_000),
        TEXT + TEXT,
        TEXT + b"}",
        TEXT[:-1],
        b"{}",
        b"{",
        b"[]",
    ],
    ids=lambda body: f"{len(body)} bytes, {xxh3_128(body)[:8]}",
)
def test_text_that_is_no_manifest_is_refused(body: bytes) -> None:
    assert body != TEXT
    for data in (sealed_text(body), body, b" " + sealed_text(body)):
        with pytest.raises(SidecarError) as caught:
            read_whole(data)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{}",
        b"null",
        b"[]",
        b'"x"',
        b"1",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\0}\0",
        b"PAR1",
        b'{"digest":1}',
        b'{"digest":"' + b"0" * 32,
    ],
)
def test_bytes_that_are_no_manifest_are_refused(data: bytes) -> None:
    for read in (read_whole, as_footer):
        with pytest.raises(SidecarError):
            read(data)


def as_footer(data: bytes) -> object:
    return decode_footer_body(data, "v12.parquet", 650).runs


def test_the_digest_comes_first() -> None:
    document = json.loads(encode_manifest(manifest()))
    with pytest.raises(SidecarError, match="digest"):
        decode_manifest(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
    for digest in (HEX, document["digest"].upper(), document["digest"][:-1], None, 5):
        with pytest.raises(SidecarError, match="digest"):
            decode_manifest(json.dumps(document | {"digest": digest}, separators=(",", ":")).encode())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def places(document: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items: list[tuple[str | int, object]] = []
    if isinstance(document, dict):
        items = list(document.items())
    elif isinstance(document, list):
        items = list(enumerate(document))
    return [*([path] if path else []), *(each for step, item in items for each in places(item, (*path, step)))]


def check(read: Callable[[bytes], object], data: bytes) -> None:
    with contextlib.suppress(SidecarError):
        read(data)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_any_other_value_anywhere_is_read_or_refused(data: st.DataObject) -> None:
    document = data.draw(st.sampled_from([WHOLE, PARTS, SEGMENTED]))
    changes = data.draw(st.lists(st.tuples(st.sampled_from(places(document)), VALUES), min_size=1, max_size=2))
    other = document
    for change in changes:
        with contextlib.suppress(LookupError, TypeError):
            other = changed(other, change)
    if not has_names_only(other):
        return
    check(read_whole, seal(other))
    check(as_footer, seal(other))


def has_names_only(value: object) -> bool:
    """Whether the members of all objects have texts for names: a place in a list may be one in an object by now."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and has_names_only(each) for key, each in value.items())
    return all(map(has_names_only, value)) if isinstance(value, list) else True


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_refused(data: bytes) -> None:
    for read in (read_whole, as_footer):
        for each in (data, sealed_text(b"{" + data), encode_body_for_footer(manifest(1))[:100] + data):
            with pytest.raises(SidecarError):
                read(each)
