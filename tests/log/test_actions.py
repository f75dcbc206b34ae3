from __future__ import annotations

import json
from dataclasses import fields

import pytest

from delta_sidecar import DeltaFile
from delta_sidecar.errors import InvalidMetadataError, UnsupportedFeatureError, UnsupportedProtocolVersionError
from delta_sidecar.log.actions import ADD_FIELDS, Metadata, Protocol, line_action
from delta_sidecar.log.names import last_checkpoint_version, read_checksum
from delta_sidecar.log.schema import READER_FEATURES, check_readable
from delta_sidecar.replay.tail import commit_schema


def test_a_protocol_of_json_or_arrow() -> None:
    action = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["a"], "writerFeatures": ["a", "b"]}
    assert Protocol.from_action(action, "x") == Protocol(3, 7, ("a",), ("a", "b"))
    assert Protocol.from_action({"minReaderVersion": 1, "readerFeatures": None}, "x") == Protocol(1, 0)


@pytest.mark.parametrize("action", [None, [], "x", {}, {"minReaderVersion": "1"}, {"minReaderVersion": 1.5}])
def test_a_protocol_that_makes_no_sense_is_refused_with_its_source(action: object) -> None:
    with pytest.raises(InvalidMetadataError, match="commit 7"):
        Protocol.from_action(action, "commit 7")


def test_metadata_of_json_or_arrow() -> None:
    as_json = {
        "id": "i",
        "schemaString": "{}",
        "partitionColumns": ["p"],
        "configuration": {"a": "b"},
        "name": "n",
        "description": "d",
        "createdTime": 5,
        "format": {"provider": "parquet", "options": {}},
    }
    expected = Metadata("i", "{}", ("p",), {"a": "b"}, "n", "d", 5)
    assert Metadata.from_action(as_json, "x") == expected
    as_arrow = {**as_json, "configuration": [("a", "b"), ("none", None)]}
    assert Metadata.from_action(as_arrow, "x") == expected
    assert Metadata.from_action({"schemaString": "{}"}, "x") == Metadata("", "{}")


@pytest.mark.parametrize(
    "action", [None, 7, {}, {"schemaString": 7}, {"schemaString": "{}", "format": {"provider": "csv"}}]
)
def test_metadata_that_makes_no_sense_is_refused_with_its_source(action: object) -> None:
    with pytest.raises(InvalidMetadataError, match="commit 7"):
        Metadata.from_action(action, "commit 7")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"other":1}', "[" * 100_000])
def test_a_line_without_the_action_is_refused(text: str) -> None:
    with pytest.raises(InvalidMetadataError, match="commit 7"):
        line_action(text, "protocol", "commit 7")


def test_the_schema_of_a_commit_has_partition_values_only_for_partitioned_tables() -> None:
    assert commit_schema().field("add").type.get_field_index("partitionValues") == -1
    values = commit_schema(("a", "b.c")).field("add").type.field("partitionValues").type
    assert [field.name for field in values] == ["a", "b.c"]


def readable(reader: int, *features: str, writer: tuple[str, ...] = ()) -> None:
    check_readable(Protocol(reader, 7, features or None, writer), "the table")


def test_known_protocols_may_be_read() -> None:
    for reader in (0, 1, 2, 3):
        readable(reader)
    readable(3, *READER_FEATURES)
    readable(3, writer=("futureWriterFeature", "rowTracking"))
    readable(2, "somethingUnknown")


@pytest.mark.parametrize("reader", [4, 5, 100])
def test_unknown_versions_are_refused(reader: int) -> None:
    with pytest.raises(UnsupportedProtocolVersionError, match=f"the table.*version {reader}"):
        readable(reader)


@pytest.mark.parametrize(
    "feature", ["adaptiveMetadata", "catalogManaged", "catalogOwned", "catalogOwned-preview", "x", "DeletionVectors"]
)
def test_unknown_features_are_refused_by_name(feature: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"the table.*{feature}") as refused:
        readable(3, "deletionVectors", feature)
    assert refused.value.features == (feature,)


def test_all_unknown_features_are_named_in_order() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"catalogManaged, zeta.*catalog") as refused:
        readable(3, "zeta", "catalogManaged")
    assert refused.value.features == ("catalogManaged", "zeta")


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (b'{"version":0}', 0),
        (b'\n {"version" : 12, "size": 5, "parts": 2}\n', 12),
        (b'{"version":-1}', None),
        (b'{"version":1.0}', None),
        (b'{"version":true}', None),
        (b'{"version":"1"}', None),
        (b"{}", None),
        (b"", None),
        (b"\xff", None),
        (b"[1]", None),
        (b"[" * 100_000, None),
        (b'{"version":' + b"9" * 5_000 + b"}", None),
    ],
)
def test_the_last_checkpoint(data: bytes, version: int | None) -> None:
    assert last_checkpoint_version(data) == version


def test_a_checksum_file() -> None:
    table = b'"metadata":{"id":"i","partitionColumns":[],"schemaString":"{}"},"protocol":{"minReaderVersion":1}'
    data = b'{"tableSizeBytes":5,"numFiles":2,' + table + b"}"
    checksum = read_checksum(data)
    assert checksum is not None
    assert (checksum.protocol, checksum.metadata) == (Protocol(1, 0), Metadata("i", "{}"))
    assert (checksum.num_files, checksum.num_bytes) == (2, 5)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (7, 7),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (-1, None),
        ("7", None),
        (True, None),
        (7.0, None),
        (None, None),
    ],
)
def test_what_a_checksum_file_counts(value: object, number: int | None) -> None:
    fields = {
        "protocol": {"minReaderVersion": 1},
        "metadata": {"id": "i", "schemaString": "{}", "partitionColumns": []},
    }
    for name, place in (("numFiles", "num_files"), ("tableSizeBytes", "num_bytes")):
        checksum = read_checksum(json.dumps({**fields, name: value}).encode())
        assert getattr(checksum, place) == number
        assert type(getattr(checksum, place)) is not bool


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"null",
        b"{}",
        b'{"protocol":{"minReaderVersion":1}}',
        b'{"metadata":{"schemaString":"{}"}}',
        b'{"protocol":null,"metadata":{"schemaString":"{}"}}',
        b'{"protocol":{"minReaderVersion":1},"metadata":[]}',
        b'{"protocol":{"minReaderVersion":1},"metadata":{"schemaString":"{}"}}',
    ],
)
def test_a_checksum_file_without_both_is_none(fields: bytes) -> None:
    assert read_checksum(fields) is None


def test_a_file_has_what_an_add_action_has() -> None:
    names = [field.name for field in fields(DeltaFile)]
    assert names == [ADD_FIELDS[0].column, "raw_path", *(field.column for field in ADD_FIELDS[1:])]
