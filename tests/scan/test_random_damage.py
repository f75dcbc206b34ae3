"""Random tables, damaged and read through faults: the right answer, or an error that names what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from tests.builder import TableBuilder, add, remove
from tests.builder.strategies import History, histories
from tests.scan.damage import NOT_FOUND, checkpoint_files, damage, lasting_faults
from tests.scan.effort import examples
from tests.scan.expected import built, by_key, contents, forms_of, shallow, shallow_model
from tests.scan.flaky_server import FlakyServer
from tests.scan.reading import STRATEGIES, keys_of, scan, scanner, store_of

from delta_sidecar import DeltaFile, DeltaSidecarError, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.log.names import commit_path
from delta_sidecar.store.testing import EmptyAfterOffset, Fail, FaultStore, Hide, IgnoreOffset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

strategies = st.sampled_from(STRATEGIES)
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


@examples(15)
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


@pytest.mark.full
@examples(15)
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


@examples(20)
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


@pytest.mark.full
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


@examples(20)
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


def without(history: History, verb: str) -> History:
    return replace(history, steps=tuple(step for step in history.steps if step.verb != verb))
