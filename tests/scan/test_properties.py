"""Random tables, read in random ways: the files are those of an independent replay, and no file too few."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import assume, event, given
from hypothesis import strategies as st
from tests.builder import AddAction, TableBuilder, add, canonical_path, commit_info, remove
from tests.builder.columns import DATA_COLUMNS
from tests.builder.strategies import History, Step, histories, predicates
from tests.builder.values import arrow_type, typed
from tests.scan.effort import examples
from tests.scan.flaky_server import FlakyServer
from tests.scan.reading import STRATEGIES, key_of, keys_of, scan, scanner, store_of

from delta_sidecar import DeltaFile, DeltaSidecarError, LazyDeltaScanner, LazyScanConfig, ObjectNotFoundError
from delta_sidecar.execute import fetcher, json_scan, parquet_file, parquet_scan, row_selection, sparse_file
from delta_sidecar.log.names import commit_path
from delta_sidecar.predicate import parse
from delta_sidecar.replay import scan as replay_scan
from delta_sidecar.replay.seen import SeenSet
from delta_sidecar.store.wrappers import EmptyAfterOffset, Fail, FaultStore, Hide, IgnoreOffset, Truncate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.builder import Key


strategies = st.sampled_from(STRATEGIES)
NOT_FOUND = ObjectNotFoundError("injected: not found")
STRANGERS = [
    "{0:020}.{last:020}.compacted.json",
    "{last:020}.{next:020}.compacted.json",
    "{next:020}.json.tmp",
    "{next:020}.{next:020}.json",
    "{next:020}.0f6dbd3c-8a33-4f5c-9d0c-0c0b3ad1c2d1.json",
    "_staged_commits/{next:020}.0f6dbd3c-8a33-4f5c-9d0c-0c0b3ad1c2d1.json",
    ".{last:020}.json.crc",
    "{next:020}.checkpoint.0000000001.0000000002.parquet",
    "{last:020}.checkpoint.0000000003.0000000002.parquet",
    "{next:020}.checkpoint.not-a-uuid.parquet",
    "{next:019}.json",
    "_commits/{next:020}.json",
    "_sidecars/{next:020}.json",
    "{last:020}.crc.bak",
    "_changes.json",
]


@contextmanager
def built(history: History) -> Iterator[TableBuilder]:
    # A commit without a line could be one that was never written: writers put in at least who they are.
    steps = [
        Step(step.verb, {"actions": [commit_info()]}) if step.arguments == {"actions": []} else step
        for step in history.steps
    ]
    with tempfile.TemporaryDirectory() as root:
        yield replace(history, steps=tuple(steps)).build(Path(root) / "table")


# --- the same files as an independent replay -------------------------------------------------------------------


@examples(40)
@given(history=histories())
def test_every_version_has_the_files_of_the_model(history: History) -> None:
    with built(history) as table:
        forms = forms_of(history)
        for version in table.readable_versions():
            expected = contents(table, version, forms)
            for strategy in STRATEGIES:
                found = scan(table, strategy=strategy, version=version)
                assert by_key(found) == expected
            read = scanner(table, version=version).snapshot()
            assert read.version == version
            assert read.metadata.configuration == table.model_action("metaData", version)["configuration"]
            assert read.metadata.schema_string == table.model_action("metaData", version)["schemaString"]
            assert list(read.protocol.reader_features or []) == table.model_action("protocol", version).get(
                "readerFeatures", []
            )


@examples(25)
@given(history=histories(portable=True))
def test_an_independent_reader_finds_the_same_files(history: History) -> None:
    with built(history) as table:
        for version in table.readable_versions():
            peer = pa.table(DeltaTable(table.root, version=version).get_add_actions())
            expected = zip(
                map(canonical_path, peer["path"].to_pylist()),
                peer["size_bytes"].to_pylist(),
                peer["num_records"].to_pylist(),
                strict=True,
            )
            ours = [(file.path, file.size, file.num_records) for file in scan(table, version=version)]
            assert sorted(ours, key=repr) == sorted(expected, key=repr)


# --- predicates, limits, settings ------------------------------------------------------------------------------


@examples(50)
@given(history=histories(), data=st.data())
def test_no_pruned_file_holds_a_matching_row(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        live = table.model_files(version)
        for _ in range(2):
            condition = data.draw(predicates(history.columns))
            spellings = (condition.sql, parse(condition.sql), str(parse(condition.sql)))
            with data.draw(st.sampled_from(SIZES))():
                answers = [
                    keys_of(scan(table, strategy=strategy, version=version, predicate=predicate))
                    for strategy, predicate in zip(("reverse", "forward", "reverse"), spellings, strict=True)
                ]
            assert all(answer == answers[0] for answer in answers)
            found = set(answers[0])
            assert len(found) == len(answers[0])
            assert found <= live.keys()
            for key in live.keys() - found:
                assert not any(map(condition.matches, live[key].rows)), key
            event("some pruned" if len(found) < len(live) else "none pruned")


@examples(25)
@given(history=histories(), data=st.data())
def test_a_limit_gives_so_many_files_of_the_answer(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        config: dict[str, Any] = {
            "version": data.draw(st.sampled_from(table.readable_versions())),
            "strategy": data.draw(strategies),
            "predicate": data.draw(st.none() | predicates(history.columns).map(lambda condition: condition.sql)),
        }
        whole = keys_of(scan(table, **config))
        for limit in data.draw(st.lists(st.integers(0, len(whole) + 2), min_size=1, max_size=4)):
            batch_size = data.draw(st.integers(1, 3))
            found = keys_of(scan(table, limit=limit, batch_size=batch_size, **config))
            assert len(found) == len(set(found)) == min(limit, len(whole))
            assert set(found) <= set(whole)


@examples(40)
@given(history=histories(), data=st.data())
def test_settings_do_not_change_the_answer(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        forms = forms_of(history)
        version = data.draw(st.sampled_from(table.readable_versions()))
        expected = contents(table, version, forms)
        condition = data.draw(st.none() | predicates(history.columns))
        if condition is not None:
            kept = set(keys_of(scan(table, version=version, predicate=condition.sql)))
            expected = {key: file for key, file in expected.items() if key in kept}
        for _ in range(3):
            reader = scanner(
                table,
                version=version,
                predicate=None if condition is None else condition.sql,
                strategy=data.draw(strategies),
                batch_size=data.draw(st.integers(1, 5)),
                commit_read_parallelism=data.draw(st.integers(1, 4)),
                checkpoint_row_groups_per_batch=data.draw(st.integers(1, 4)),
            )
            with data.draw(st.sampled_from(SIZES))():
                batches = list(reader.scan_batches())
                assert all(0 < batch.num_rows <= reader.config.batch_size for batch in batches)
                assert by_key(reader.scan_files()) == expected


@pytest.mark.parametrize("text", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
@examples(6)
@given(history=histories(), strategy=strategies)
def test_a_checkpoint_may_say_which_arrow_types_it_was_made_of(
    text: pa.DataType, history: History, strategy: str
) -> None:
    """The types of Parquet are what counts; a writer's Arrow schema beside them only says what it had in memory."""
    with built(history) as table:
        for path in checkpoint_files(table):
            if path.suffix == ".parquet":
                rows = pq.read_table(path)
                schema = pa.schema([field.with_type(retyped(field.type, text)) for field in rows.schema])
                columns = [pa.array(rows[name].to_pylist(), schema.field(name).type) for name in schema.names]
                pq.write_table(pa.table(columns, schema=schema), path)
        found = scan(table, strategy=strategy)
        assert by_key(found) == contents(table, table.version, forms_of(history))


def retyped(kind: pa.DataType, text: pa.DataType) -> pa.DataType:
    """The same type with other strings in it."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(retyped(field.type, text)) for field in kind])
    return text if pa.types.is_string(kind) else kind


# --- damage and faults -----------------------------------------------------------------------------------------


@examples(40)
@given(history=histories(), data=st.data())
def test_damaged_checkpoints_do_not_change_the_answer(history: History, data: st.DataObject) -> None:
    history = without(history, "clean_up")
    with built(history) as table:
        for parts in data.draw(st.lists(st.integers(1, 3), max_size=2)):
            table.checkpoint("v1" if parts == 1 else "v1-multipart", parts=parts)
        assume(table.checkpoints)
        for path in data.draw(st.lists(st.sampled_from(checkpoint_files(table)), min_size=1, unique=True)):
            damage(path, data)
        for version in range(table.version + 1):
            for strategy in STRATEGIES:
                found = scan(table, strategy=strategy, version=version)
                assert shallow(found) == shallow_model(table, version)
            read = scanner(table, version=version).snapshot()
            assert read.metadata.schema_string == table.model_action("metaData", version)["schemaString"]
            assert read.metadata.configuration == table.model_action("metaData", version)["configuration"]
            assert list(read.protocol.reader_features or []) == table.model_action("protocol", version).get(
                "readerFeatures", []
            )


@examples(40)
@given(history=histories(), data=st.data())
def test_what_is_left_of_a_log_is_read_right_or_refused(history: History, data: st.DataObject) -> None:
    """Checkpoints are damaged in a log that may be cleaned up: other bases are taken, or the version is refused."""
    assume(any(step.verb == "checkpoint" for step in history.steps))
    with built(history) as table:
        broken = set()
        for version in data.draw(st.sets(st.sampled_from(table.checkpoints), min_size=1)):
            damage(data.draw(st.sampled_from(checkpoint_files(table, version))), data)
            broken.add(version)
        hint = data.draw(st.none() | st.integers(0, table.version + 1).map(lambda at: f'{{"version":{at},"size":1}}'))
        if hint is not None:
            table.last_checkpoint(hint)
        table.checkpoints[:] = [version for version in table.checkpoints if version not in broken]
        readable = table.readable_versions()
        for version in range(table.version + 1):
            for strategy in STRATEGIES:
                if version in readable:
                    found = scan(table, strategy=strategy, version=version)
                    assert shallow(found) == shallow_model(table, version)
                else:
                    with pytest.raises(DeltaSidecarError):
                        scan(table, strategy=strategy, version=version)
        event("a readable version" if readable else "nothing readable")


@examples(30)
@given(history=histories(), data=st.data())
def test_stale_and_odd_listings_do_not_change_the_answer(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        odd = [IgnoreOffset(), EmptyAfterOffset(), Hide("*.crc"), Fail("*_last_checkpoint", error=NOT_FOUND)]
        rules: list[Any] = data.draw(st.lists(st.sampled_from(odd), unique=True))
        hidden = data.draw(st.sets(st.sampled_from(table.checkpoints))) if table.checkpoints else set()
        table.checkpoints[:] = [version for version in table.checkpoints if version not in hidden]
        assume(table.version in table.readable_versions())
        rules += [Hide(f"*{version:020}.checkpoint*") for version in hidden]
        # The newest version must show in some way, or an older one is the right answer.
        after = range(max(table.checkpoints, default=-1) + 1, table.version)
        rules += [Hide(commit_path(version)) for version in after if data.draw(st.booleans())]
        store = FaultStore(store_of(table), *rules)
        for strategy in STRATEGIES:
            assert shallow(scan(table, store, strategy=strategy)) == shallow_model(table, table.version)


@examples(15)
@given(history=histories(), data=st.data())
def test_what_is_no_part_of_the_log_does_not_change_the_answer(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        for name in data.draw(st.sets(st.sampled_from(STRANGERS), min_size=1)):
            path = table.log / name.format(0, last=table.version, next=table.version + 1)
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(add("stranger.parquet")) + "\n" + json.dumps(remove("part-1.parquet")))
        for version in table.readable_versions():
            for strategy in STRATEGIES:
                found = scan(table, strategy=strategy, version=version)
                assert shallow(found) == shallow_model(table, version)
        assert scanner(table).snapshot().version == table.version


@examples(40)
@given(history=histories(), data=st.data())
def test_a_fault_on_a_needed_commit_is_an_error(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        base = max((at for at in table.checkpoints if at <= version), default=-1)
        assume(base < version)
        victim = data.draw(st.integers(base + 1, version))
        store = FaultStore(store_of(table), data.draw(lasting_faults(table, victim)))
        reader = scanner(table, store, version=version, strategy=data.draw(strategies), batch_size=1)
        found: list[DeltaFile] = []
        with pytest.raises(DeltaSidecarError, match=rf"\bcommit {victim}\b"):
            found.extend(reader.scan_files())
        assert not reader.metrics.is_complete
        assert set(keys_of(found)) <= set(table.model_files(version))


@pytest.fixture(scope="module")
def flaky() -> Iterator[FlakyServer]:
    with FlakyServer() as server:
        yield server


@examples(15)
@given(history=histories(), seed=st.integers(0, 2**16), strategy=strategies)
def test_faults_within_the_retries_do_not_change_the_answer(
    flaky: FlakyServer, history: History, seed: int, strategy: str
) -> None:
    with built(history) as table:
        flaky.serve(table.root.parent, seed)
        address = f"az://lake/{table.root.name}"
        read = LazyDeltaScanner(address, LazyScanConfig(strategy=strategy), storage_options=flaky.options)
        assert by_key(read.scan_files()) == contents(table, table.version, forms_of(history))
        event("faults" if flaky.failed else "no fault")


def test_a_listing_that_breaks_off_is_made_again(flaky: FlakyServer, tmp_path: Path) -> None:
    table = TableBuilder(tmp_path / "table")
    table.commit([add("a.parquet")])
    flaky.serve(tmp_path, seed=0, cut_listings=1)
    read = LazyDeltaScanner("az://lake/table", storage_options=flaky.options)
    assert [file.path for file in read.scan_files()] == ["a.parquet"]


# --- what is expected ------------------------------------------------------------------------------------------


def forms_of(history: History) -> dict[int, dict[str, Any]]:
    """How the checkpoint of each version was written."""
    forms: dict[int, dict[str, Any]] = {}
    version = -1
    for step in history.steps:
        version += step.verb == "commit"
        if step.verb == "checkpoint":
            forms[version] = step.arguments
    return forms


def contents(table: TableBuilder, version: int, forms: dict[int, dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What a scan gives of each live file: the newest add, its statistics as the newest base still has them."""
    base = max((at for at in table.checkpoints if at <= version), default=None)
    before = {} if base is None else table.model_files(base)
    return {
        key: content(newest, None if base is None or before.get(key) is not newest else forms[base])
        for key, newest in table.model_files(version).items()
    }


def content(action: AddAction, form: dict[str, Any] | None) -> dict[str, Any]:
    stats: Any = action.get("stats")
    if form is not None and not form["json_stats"]:
        is_there = form["struct_stats"] and (form["kind"] != "v2-json" or form["sidecars"])
        stats = comparable(stats) if is_there else None
    return {
        "size": action["size"],
        "modification_time": action["modificationTime"],
        "partition_values": action["partitionValues"],
        "raw_path": action["path"],
        "path": canonical_path(action["path"]) if not action["path"].startswith("file:") else None,
        "stats": stats,
        "tags": action.get("tags"),
        "vector": action.get("deletionVector"),
    }


class Statistics(dict[str, Any]):
    """Statistics that may have been through typed columns: equal to any text with the same values."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return dict(self) == dict(comparable(other)) if isinstance(other, str) else dict(self) == other


def comparable(text: str | None) -> Statistics | None:
    """The values in a text of statistics, typed, with nothing where there is nothing."""
    if text is None:
        return None
    given = json.loads(text)
    out = Statistics({name: given[name] for name in ("numRecords", "tightBounds") if given.get(name) is not None})
    for part in ("minValues", "maxValues", "nullCount"):
        for name, value in (given.get(part) or {}).items():
            kind = pa.int64() if part == "nullCount" else arrow_type({**DATA_COLUMNS, "later": "long"}[name])
            if value is not None:
                out[f"{part}.{name}"] = typed(value, kind)
    return out


def by_key(files: Iterable[DeltaFile]) -> dict[Key, dict[str, Any]]:
    found: dict[Key, dict[str, Any]] = {}
    for file in files:
        assert key_of(file) not in found, f"{file} comes twice"
        vector = file.deletion_vector
        found[key_of(file)] = {
            "size": file.size,
            "modification_time": file.modification_time,
            "partition_values": file.partition_values,
            "raw_path": file.raw_path,
            "path": file.path if not file.raw_path.startswith("file:") else None,
            "stats": file.stats,
            "tags": file.tags,
            "vector": None
            if vector is None
            else {
                name: value
                for name, value in {
                    "storageType": vector.storage_type,
                    "pathOrInlineDv": vector.path_or_inline_dv,
                    "offset": vector.offset,
                    "sizeInBytes": vector.size_in_bytes,
                    "cardinality": vector.cardinality,
                }.items()
                if value is not None
            },
        }
    return found


def shallow(files: list[DeltaFile]) -> list[Any]:
    """What every base has of a file."""
    return sorted(((key_of(f), f.size, f.partition_values, f.tags) for f in files), key=repr)


def shallow_model(table: TableBuilder, version: int) -> list[Any]:
    live = table.model_files(version)
    return sorted(((k, a["size"], a["partitionValues"], a.get("tags")) for k, a in live.items()), key=repr)


# --- what is done to tables ------------------------------------------------------------------------------------


def without(history: History, verb: str) -> History:
    return replace(history, steps=tuple(step for step in history.steps if step.verb != verb))


def checkpoint_files(table: TableBuilder, version: int | None = None) -> list[Path]:
    """The files of the checkpoints, or of one of them; V2-checkpoint sidecars by the names in it."""
    pattern = "*.checkpoint.*" if version is None else f"{version:020}.checkpoint.*"
    tops = sorted(table.log.glob(pattern))
    names = [name for top in tops for name in sidecar_names(top)]
    return tops + [table.log / "_sidecars" / name for name in names]


def sidecar_names(top: Path) -> list[str]:
    if top.suffix == ".json":
        lines = map(json.loads, top.read_text(encoding="utf-8").splitlines())
        return [line["sidecar"]["path"] for line in lines if "sidecar" in line]
    rows = pq.read_table(top)
    if "sidecar" not in rows.column_names:
        return []
    return [row["path"] for row in rows["sidecar"].to_pylist() if row is not None and row["path"]]


def damage(path: Path, data: st.DataObject) -> None:
    """Takes a file away, cuts it off or spoils its footer, so that nobody can take it for whole."""
    size = path.stat().st_size
    kinds = ["gone", "cut", "empty"] + ([] if path.suffix == ".json" else ["footer", "magic"])
    kind = data.draw(st.sampled_from(kinds))
    event(kind)
    if kind == "gone":
        path.unlink()
    elif kind == "cut":
        cut(path, data.draw(st.integers(1, size - 1)))
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        with path.open("r+b") as file:
            file.seek(-4 if kind == "magic" else -8, os.SEEK_END)
            file.write(b"NOPE" if kind == "magic" else b"\xff\xff\xff\x7f")


def cut(path: Path, at: int) -> None:
    """Cuts a file off; a text never at the end of a line, where it would be a whole one."""
    data = path.read_bytes()
    if path.suffix == ".json":
        while at > 0 and (data[at - 1 : at] == b"\n" or data[at : at + 1] == b"\n"):
            at -= 1
    path.write_bytes(data[:at])


@st.composite
def lasting_faults(draw: st.DrawFn, table: TableBuilder, version: int) -> Fail | Truncate:
    path = commit_path(version)
    whole = table.commit_path(version).read_bytes()
    kind = draw(st.sampled_from(["server", "gone", *(["cut"] if whole else [])]))
    if kind == "server":
        return Fail(path, "get")
    if kind == "gone":
        return Fail(path, "get", NOT_FOUND)
    keep = draw(st.integers(1, len(whole) - 2))
    while b"\n" in whole[keep - 1 : keep + 1]:
        keep -= 1
    return Truncate(path, keep)


@contextmanager
def usual_sizes() -> Iterator[None]:
    yield


@contextmanager
def small_sizes(*, apart: bool = True) -> Iterator[None]:
    """Makes everything that depends on a size happen to small tables as well.

    Args:
        apart: Whether the columns that are tested first are fetched by themselves.
    """
    with ExitStack() as stack:
        for place, name, value in (
            (fetcher, "FIRST_BYTES", 300),
            (fetcher, "AHEAD_BYTES", 200),
            (json_scan, "FIRST_BYTES", 300),
            (json_scan, "BLOCK_BYTES", 250),
            (json_scan, "AHEAD_BYTES", 700),
            (parquet_scan, "_DECODED_BYTES", 1),
            (parquet_file, "FOOTER_BYTES", 700),
            (parquet_file, "HELD_BYTES", 64),
            (parquet_file, "BATCH_BYTES", 64),
            (parquet_file, "_FEWEST_ROWS", 1),
            (parquet_file, "_MOST_ROWS", 2),
            (parquet_file, "_LARGE", 0),
            (row_selection, "_SPARSE", 1.0),
            (sparse_file, "_SMALLEST_READ", 16),
            (parquet_file, "_NARROWEST", 16),
            (parquet_file, "_TOGETHER", 0 if apart else 1 << 20),
            (row_selection, "_STRIP_ROWS", 3),
            (replay_scan, "SeenSet", lambda: SeenSet(key_bytes=0)),
        ):
            stack.enter_context(mock.patch.object(place, name, value))
        yield


SIZES = [usual_sizes, small_sizes, partial(small_sizes, apart=False)]
