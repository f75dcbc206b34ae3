from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.builder import canonical_path

from delta_sidecar.log.actions import DELETION_VECTOR
from delta_sidecar.log.deletion_vectors import DeletionVector
from delta_sidecar.log.identity import canonical_paths, decode_paths, file_keys, is_absolute, unique_ids

PATIENTLY = settings(deadline=None)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
RAW = st.one_of(TEXT.map(quote), TEXT, st.text("%0123456789abcdefABCDEF/g", max_size=12))


def strings(*values: str | None) -> pa.StringArray:
    return pa.array(values, pa.string())


def plainly_decoded(raw: str) -> str:
    decoded = unquote(raw, errors="surrogateescape")
    try:
        decoded.encode()
    except UnicodeEncodeError:
        return raw
    return decoded


@pytest.mark.parametrize(
    ("raw", "decoded"),
    [
        ("a.parquet", "a.parquet"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("p=%25", "p=%"),
        ("%2525", "%25"),
        ("%c3%A4", "ä"),
        ("100%", "100%"),
        ("%zz%20", "%zz "),
        ("%2", "%2"),
        ("a%FFb%20", "a%FFb%20"),
        ("%F0%9F%A6%86", "🦆"),
        ("ä%20", "ä "),
        ("%00", "\0"),
    ],
)
def test_decoding(raw: str, decoded: str) -> None:
    assert decode_paths(strings(raw)).to_pylist() == [decoded]
    assert decode_paths(strings("x%20y", raw, "plain")).to_pylist() == ["x y", decoded, "plain"]


@PATIENTLY
@given(st.lists(RAW, max_size=6))
@example(["a%", "20b"])
@example(["%2", "5%41"])
@example(["%25", "41", "%41"])
@example(["%2541%41"])
def test_a_path_is_decoded_alike_whatever_stands_beside_it(raws: list[str]) -> None:
    expected = [plainly_decoded(raw) for raw in raws]
    assert decode_paths(strings(*raws)).to_pylist() == expected
    for raw, decoded in zip(raws, expected, strict=True):
        assert decode_paths(strings(raw)).to_pylist() == [decoded]


@PATIENTLY
@given(st.lists(RAW, min_size=2, max_size=6), st.data())
def test_a_slice_is_decoded_like_its_own_array(raws: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(raws) - 1))
    assert decode_paths(strings(*raws).slice(start)).to_pylist() == decode_paths(strings(*raws[start:])).to_pylist()


@PATIENTLY
@given(TEXT)
def test_encoded_paths_come_back(path: str) -> None:
    assert decode_paths(strings(quote(path))).to_pylist() == [path]


@pytest.mark.parametrize("raw", ["/p/q r", "file:/p/q%20r", "file:///p/q r", "file://localhost/p/q%20r", "/p/q%20r"])
def test_one_file_has_one_canonical_path(raw: str) -> None:
    assert canonical_paths(strings(raw)).to_pylist() == ["/p/q r"]


@pytest.mark.parametrize(
    "raw", ["p", "./p", "s3://b/p", "abfss://c@a.dfs.core.windows.net/p", "files:/p", "file", "xfile:/p"]
)
def test_other_paths_stay_apart(raw: str) -> None:
    assert canonical_paths(strings(raw, "file:/p")).to_pylist() == [canonical_path(raw), "/p"]


@pytest.mark.parametrize(
    ("path", "absolute"),
    [("a", False), ("a:b", False), ("a/b:/c", False), ("/a", True), ("s3://a", True), ("file:/a", True), ("", False)],
)
def test_absolute_paths(path: str, *, absolute: bool) -> None:
    assert is_absolute(path) is absolute


VECTORS = st.none() | st.fixed_dictionaries(
    {
        "storageType": st.sampled_from("uip"),
        "pathOrInlineDv": st.text("ab@1:", max_size=4),
        "offset": st.none() | st.integers(0, 12),
        "sizeInBytes": st.just(1),
        "cardinality": st.just(1),
    }
)


def keys(paths: list[str], vectors: list[dict[str, Any] | None]) -> list[bytes]:
    fields = {"path": strings(*paths), "deletionVector": pa.array(vectors, DELETION_VECTOR)}
    found: list[bytes] = file_keys(fields).to_pylist()
    return found


@PATIENTLY
@given(st.lists(st.tuples(st.text("a:1@%20/", max_size=6), VECTORS), min_size=1, max_size=8))
def test_keys_are_equal_just_where_path_and_vector_are(files: list[tuple[str, dict[str, Any] | None]]) -> None:
    found = keys([path for path, _ in files], [vector for _, vector in files])
    identities = [
        (
            canonical_path(path),
            None if vector is None else (vector["storageType"] + vector["pathOrInlineDv"], vector["offset"]),
        )
        for path, vector in files
    ]
    # `u` + `a@1` without an offset reads like `u` + `a` with the offset 1, by the protocol's own definition.
    plain = [
        (path, None if vector is None else vector[0] + ("" if vector[1] is None else f"@{vector[1]}"))
        for path, vector in identities
    ]
    for one, first in enumerate(found):
        for other, second in enumerate(found):
            assert (first == second) == (plain[one] == plain[other])


def test_a_key_does_not_depend_on_its_batch() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    alone = keys(["a%20b"], [None])[0]
    assert keys(["a%20b", "c%zz", "file:/d"], [None, vector, None])[0] == alone
    assert keys(["a b", "x"], [None, vector])[0] == alone
    assert file_keys({"path": strings("a%20b")}).to_pylist() == [alone]
    assert keys(["a b"], [vector])[0] != alone


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(None, "uab^-aqEH.-t@S}K{vb[*k^"), (4, "uab^-aqEH.-t@S}K{vb[*k^@4"), (0, "uab^-aqEH.-t@S}K{vb[*k^@0")],
)
def test_unique_ids_of_deletion_vectors(offset: int | None, expected: str) -> None:
    fields = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": offset,
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    vector = DeletionVector.from_struct(fields)
    assert vector is not None
    assert vector.unique_id == expected
    assert (vector.size_in_bytes, vector.cardinality, vector.offset) == (40, 6, offset)
    assert unique_ids(pa.array([fields, None], DELETION_VECTOR)).to_pylist() == [expected, None]


def test_no_deletion_vector() -> None:
    assert DeletionVector.from_struct(None) is None
    assert DeletionVector.from_struct({"storageType": None}) is None
    assert unique_ids(pa.nulls(3, DELETION_VECTOR)) is None
    nothing = dict.fromkeys(["storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality"])
    assert unique_ids(pa.array([nothing], DELETION_VECTOR)) is None


@PATIENTLY
@given(st.lists(VECTORS, max_size=6))
def test_unique_ids_of_a_column_are_those_of_its_values(vectors: list[dict[str, Any] | None]) -> None:
    values = [DeletionVector.from_struct(vector) for vector in vectors]
    expected = [None if value is None else value.unique_id for value in values]
    found = unique_ids(pa.array(vectors, DELETION_VECTOR))
    assert ([None] * len(vectors) if found is None else found.to_pylist()) == expected
