"""Whatever happens to the bytes of a metadata sidecar or its manifest, the answer stays: files and statistics."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.scan.effort import examples
from tests.scan.sidecar_tables import (
    BASE,
    document_of,
    heard,
    hourly,
    is_same,
    manifest_path,
    resealed,
    sidecar_path,
    spoil,
    with_sidecar,
    without_sidecars,
)

from delta_sidecar.sidecar.manifest import seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.builder import TableBuilder

    from delta_sidecar import DeltaFile

QUERIES: list[dict[str, Any]] = [
    {"strategy": "reverse"},
    {"strategy": "forward"},
    {"order": "recent"},
    {"predicate": "_event_hour >= '2026021010' AND id < 100"},
]
queries = st.sampled_from(QUERIES)
DATA, MANIFEST = f"v{BASE}.parquet", f"v{BASE}.manifest.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    return with_sidecar(hourly(tmp_path_factory.mktemp("whole") / "table"), BASE, rows_per_group=5)


@pytest.fixture(scope="module")
def expected(whole: TableBuilder) -> list[list[DeltaFile]]:
    return [without_sidecars(whole, **query) for query in QUERIES]


@contextmanager
def kept(table: TableBuilder) -> Iterator[None]:
    """Puts the sidecars back as they were in the end."""
    folder = table.log / "_sidecars"
    with tempfile.TemporaryDirectory() as other:
        shutil.copytree(folder, Path(other) / "kept")
        try:
            yield
        finally:
            shutil.rmtree(folder)
            shutil.copytree(Path(other) / "kept", folder)


def stays(table: TableBuilder, expected: list[list[DeltaFile]], query: dict[str, Any]) -> str:
    one = heard(table, **query)
    is_same(one.files, expected[QUERIES.index(query)])
    tier, reason = one.told
    return f"tier {tier}, {reason}"


@pytest.mark.parametrize("with_manifest", [True, False], ids=["by manifest", "by footer"])
@examples(25)
@given(data=st.data())
def test_a_bit_of_the_data_file(
    whole: TableBuilder, expected: list[list[DeltaFile]], data: st.DataObject, *, with_manifest: bool
) -> None:
    path = sidecar_path(whole, BASE)
    size = path.stat().st_size
    # The footer is what tier 2 stands on.
    at = data.draw(st.integers(0, size - 1) | st.integers(max(0, size - 3_000), size - 1))
    with kept(whole):
        spoil(path, at, bit=1 << data.draw(st.integers(0, 7)))
        if not with_manifest:
            manifest_path(whole, BASE).unlink()
        event(stays(whole, expected, data.draw(queries)))


@examples(25)
@given(data=st.data())
def test_a_bit_of_the_manifest(whole: TableBuilder, expected: list[list[DeltaFile]], data: st.DataObject) -> None:
    path = manifest_path(whole, BASE)
    with kept(whole):
        spoil(path, data.draw(st.integers(0, path.stat().st_size - 1)), bit=1 << data.draw(st.integers(0, 7)))
        told = stays(whole, expected, data.draw(queries))
        event(told)
        assert told == "tier 2, damaged"


@pytest.mark.parametrize("with_manifest", [True, False], ids=["by manifest", "by footer"])
@examples(15)
@given(data=st.data())
def test_a_data_file_that_is_cut_off(
    whole: TableBuilder, expected: list[list[DeltaFile]], data: st.DataObject, *, with_manifest: bool
) -> None:
    path = sidecar_path(whole, BASE)
    size = path.stat().st_size
    keep = data.draw(st.integers(0, size - 1) | st.integers(size - 12, size - 1) | st.integers(0, 12))
    with kept(whole):
        whole.tear(path, keep)
        if not with_manifest:
            manifest_path(whole, BASE).unlink()
        told = stays(whole, expected, data.draw(queries))
        assert told == f"tier 3, {'wrong_size' if with_manifest else 'damaged'}"


@examples(10)
@given(data=st.data())
def test_a_manifest_that_is_cut_off(whole: TableBuilder, expected: list[list[DeltaFile]], data: st.DataObject) -> None:
    path = manifest_path(whole, BASE)
    with kept(whole):
        whole.tear(path, data.draw(st.integers(0, path.stat().st_size - 1)))
        assert stays(whole, expected, data.draw(queries)) == "tier 2, damaged"


@examples(15)
@given(data=st.data())
def test_pieces_of_a_file_in_each_others_place(
    whole: TableBuilder, expected: list[list[DeltaFile]], data: st.DataObject
) -> None:
    """Blocks that a faulty disk has swapped, or filled with zeros."""
    path = sidecar_path(whole, BASE)
    content = bytearray(path.read_bytes())
    length = data.draw(st.integers(1, 600))
    one, other = (data.draw(st.integers(0, len(content) - length)) for _ in range(2))
    if data.draw(st.booleans()):
        content[one : one + length], content[other : other + length] = (
            content[other : other + length],
            content[one : one + length],
        )
    else:
        content[one : one + length] = bytes(length)
    with kept(whole):
        path.write_bytes(content[: path.stat().st_size])
        event(stays(whole, expected, data.draw(queries)))


# --- manifests that are sealed, and lie --------------------------------------------------------------------------


def first(document: dict[str, Any]) -> dict[str, Any]:
    return document["row_groups"][0]


LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "more files": lambda d: d.update(num_files=d["num_files"] + 1),
    "fewer row groups": lambda d: d.update(num_row_groups=d["num_row_groups"] - 1),
    "a row group left out": lambda d: (
        d.update(num_files=d["num_files"] - d["row_groups"][-1]["num_rows"]),
        d["row_groups"].pop(),
    ),
    "an absolute name": lambda d: d.update(sidecar_file="/etc/passwd"),
    "a way up": lambda d: d.update(sidecar_file=f"../../v{BASE}.parquet"),
    "an address": lambda d: d.update(sidecar_file=f"file:///v{BASE}.parquet"),
    "a name that is no text": lambda d: d.update(sidecar_file=["v3.parquet"]),
    "a name with a null": lambda d: d.update(sidecar_file="v3.parquet\0"),
    "a size that is not the file's": lambda d: d.update(sidecar_size_bytes=d["sidecar_size_bytes"] + 1),
    "a huge size": lambda d: d.update(sidecar_size_bytes=2**63),
    "a range beyond the file": lambda d: first(d).update(byte_length=10**9),
    "a negative range": lambda d: first(d).update(byte_offset=-5),
    "a range of no bytes": lambda d: first(d).update(byte_length=0),
    "a number that is true": lambda d: first(d).update(byte_offset=True),
    "a number with a fraction": lambda d: first(d).update(num_rows=5.0),
    "a huge number": lambda d: first(d).update(num_rows=10**30),
    "ranges that overlap": lambda d: first(d).update(stats_offset=first(d)["byte_offset"]),
    "rows that are another's": lambda d: (
        first(d).update(num_rows=first(d)["num_rows"] - 1),
        d.update(num_files=d["num_files"] - 1),
    ),
    "row groups in another order": lambda d: d["row_groups"].reverse(),
    "row groups that are no objects": lambda d: d.update(row_groups=[[], 1, None]),
    "a file that is not there": lambda d: first(d).update(file=7),
    "keys out of form": lambda d: first(d).update(first_key=[1]),
    "keys of another type": lambda d: first(d).update(last_key=[1, 5, 5, 5]),
    "bounds that are lists": lambda d: first(d).update(columns={"at": {"min": [], "max": {}}}),
    "another version": lambda d: d.update(version=BASE + 1),
    "another format": lambda d: d.update(format_version=2),
    "another hash": lambda d: d.update(schema_hash="0" * 32),
    "another commit": lambda d: d["commit"].update(size=1),
    "a commit that is a text": lambda d: d.update(commit="x"),
    "no commit": lambda d: d.update(commit=None),
    "an unknown format of statistics": lambda d: d.update(stats_format="rhymes"),
    "statistics of a column that is not there": lambda d: d["statistics"].append(["nowhere"]),
    "a bucket that is no partition column": lambda d: d.update(bucket_column="id"),
    "a bucket that is not there": lambda d: d.update(bucket_column="nowhere"),
    "a time that is no time": lambda d: d.update(time_column=["name"]),
    "sorted by nothing": lambda d: d.update(sort=[]),
    "sorted by something unknown": lambda d: d.update(sort=[{"kind": "whim", "column": ["id"], "type": "long"}]),
    "sorted by an unknown type": lambda d: d["sort"][0].update(type="decimal(99,2)"),
    "sorted by a column that is not there": lambda d: d["sort"][0].update(column=["nowhere"]),
    "a summary of nothing": lambda d: d["summaries"].append(["nowhere"]),
    "a schema that is none": lambda d: d["metadata"].update(schemaString="{"),
    "a schema that is deep": lambda d: d["metadata"].update(schemaString="[" * 100_000),
    "a schema of unknown types": lambda d: d["metadata"].update(
        schemaString='{"type":"struct","fields":[{"name":"a","type":"decimal(99,99)","nullable":true,"metadata":{}}]}'
    ),
    "a format that is a list": lambda d: d["metadata"].update(format=[[]]),
    "a protocol that is none": lambda d: d.update(protocol={"minReaderVersion": "x"}),
    "nothing at all": lambda d: d.clear(),
}


@pytest.mark.full
@pytest.mark.parametrize("lie", LIES)
def test_a_sealed_manifest_that_lies(whole: TableBuilder, expected: list[list[DeltaFile]], lie: str) -> None:
    with kept(whole):
        resealed(whole, BASE, LIES[lie])
        query = QUERIES[list(LIES).index(lie) % len(QUERIES)]
        assert stays(whole, expected, query) != "tier 1, None"


@pytest.mark.parametrize("way", [{"strategy": "reverse"}, {"strategy": "forward"}, {"order": "recent"}], ids=str)
def test_pieces_without_a_column_that_is_wanted(whole: TableBuilder, way: dict[str, Any]) -> None:
    """Statistics of the time column are looked for where those of others are."""
    config = {"predicate": "at > timestamp '2026-02-10 10:00:00' AND _event_hour > '2026021005'", **way}
    with kept(whole):
        resealed(whole, BASE, lambda d: d.update(time_column=None))
        one = heard(whole, **config)
        is_same(one.files, without_sidecars(whole, **config))
        assert one.told[0] != 1


def test_bounds_that_cannot_be_read_prune_nothing(whole: TableBuilder, expected: list[list[DeltaFile]]) -> None:
    with kept(whole):
        resealed(whole, BASE, lambda d: first(d).update(columns={"at": {"min": "x", "max": True}}))
        one = heard(whole, predicate="at > timestamp '2020-01-01 00:00:00'")
        is_same(one.files, expected[0])


@examples(25)
@given(data=st.data())
def test_a_sealed_manifest_with_something_else_somewhere(whole: TableBuilder, data: st.DataObject) -> None:
    """Nothing but a base that is passed over may come of it, unless what is changed does not matter."""
    odd = st.sampled_from([None, True, -1, 0, 2**70, 1.5, "", "x", "\ud7ff", [], [[]], {}, {"a": None}, "v3.parquet"])
    with kept(whole):
        body = document_of(whole, BASE)
        # A feature that no reader knows is a reason to refuse the table.
        apart = {"protocol": body.pop("protocol")}
        data.draw(st.sampled_from(list(places(body))))(data.draw(odd))
        manifest_path(whole, BASE).write_bytes(seal(body | apart))
        one = heard(whole, **QUERIES[0])
        event(str(one.told))
        assert one.end.outcome == "complete"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Callable[[Any], None]]:  # noqa: ANN401 - any JSON
    """Every place of a document, as what puts something else there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield lambda other, key=key: value.__setitem__(key, other)
        if isinstance(item, dict | list) and item:
            yield from places(item, (*path, key))


CONTENTS = {
    "empty": b"",
    "no JSON": b"<html>404</html>",
    "no object": b"[]",
    "not UTF-8": b'{"digest":"\xff\xfe"}',
    "a lone surrogate": b'{"digest":"\\ud800"}',
    "a number": b"1e999999999",
    "deep": b"[" * 2_000_000,
    "deep objects": b'{"a":' * 200_000,
    "huge": b" " * (40 << 20),
    "many digits": b'{"version":' + b"9" * 100_000 + b"}",
}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_manifest_that_is_something_else(whole: TableBuilder, expected: list[list[DeltaFile]], content: str) -> None:
    with kept(whole):
        manifest_path(whole, BASE).write_bytes(CONTENTS[content])
        assert stays(whole, expected, QUERIES[0]) == "tier 2, damaged"
        sidecar_path(whole, BASE).unlink()
        assert stays(whole, expected, QUERIES[1]) == "tier 3, damaged"


def test_a_folder_in_the_place_of_a_file(whole: TableBuilder, expected: list[list[DeltaFile]]) -> None:
    with kept(whole):
        manifest_path(whole, BASE).unlink()
        manifest_path(whole, BASE).mkdir()
        (manifest_path(whole, BASE) / "x").write_bytes(b"{}")
        assert stays(whole, expected, QUERIES[0]) == "tier 2, no_manifest"


@pytest.mark.parametrize("name", ["v3.parquet", "v3.manifest.json"])
def test_an_empty_file(whole: TableBuilder, expected: list[list[DeltaFile]], name: str) -> None:
    with kept(whole):
        (whole.log / "_sidecars" / name).write_bytes(b"")
        assert stays(whole, expected, QUERIES[0]) != "tier 1, None"
