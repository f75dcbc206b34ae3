"""Random actions in random blocks, without a store: the filters of a replay let through what a dictionary would."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.builder import add, dv_id, file_key, live_files, remove
from tests.builder.model import canonical_path
from tests.scan.effort import examples

from delta_sidecar.log.actions import KEYS_SCHEMA
from delta_sidecar.plan import FILE_LABEL, LINE
from delta_sidecar.replay.bases.checkpoint import BaseRows
from delta_sidecar.replay.files import FileColumns
from delta_sidecar.replay.seen.runs import KeyHashes
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.tail import LiveAdds, TailKeys, commit_schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray
    from tests.builder import Key

    Actions = list[dict[str, Any]]

COLUMNS = FileColumns((("Day", "col-1"),))
COMMIT = commit_schema(("col-1",))
CHECKPOINT = pa.schema(
    [
        pa.field(
            "add",
            pa.struct(
                [
                    *(field for field in COMMIT.field("add").type if field.name != "partitionValues"),
                    pa.field("partitionValues", pa.map_(pa.string(), pa.string())),
                    pa.field("tags", pa.map_(pa.string(), pa.string())),
                ]
            ),
        ),
        pa.field("remove", COMMIT.field("remove").type),
    ]
)
# Several spellings of few files, and names made to be mistaken for a path and an id together.
PATHS = [
    ["a"],
    ["a b", "a%20b"],
    ["ü", "%C3%BC", "%c3%bc"],
    ["100%25", "100%"],
    ["/p/x", "file:/p/x", "file:///p/x", "file://localhost/p/x"],
    ["1:a"],
    ["a:ux@1"],
    ["a" * 40],
    ["a" * 40 + "b"],
]
SPELLINGS = [spelling for spellings in PATHS for spelling in spellings]
VECTORS = [
    None,
    {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 3, "cardinality": 1},
    {"storageType": "u", "pathOrInlineDv": "x", "offset": 0, "sizeInBytes": 3, "cardinality": 1},
    {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 3, "cardinality": 1},
    {"storageType": "i", "pathOrInlineDv": "x@1", "sizeInBytes": 3, "cardinality": 2},
]

# Nothing, little and much memory for a seen-set: keys go to disk at once, become digests before, or stay.
LIMITS = st.sampled_from([0, 100, 600, 1 << 20])

keys = st.tuples(st.sampled_from(SPELLINGS), st.sampled_from(VECTORS))


@st.composite
def commits(draw: st.DrawFn) -> list[Actions]:
    """Commits, oldest first; each names a key once as an add and once as a remove, in any order."""
    out = []
    number = 0
    for _ in range(draw(st.integers(1, 8))):
        actions: Actions = []
        for path, vector in draw(st.lists(keys, max_size=5, unique_by=identity)):
            number += 1
            tags = draw(st.none() | st.just({"n": 'q"{}'}))
            values = {"col-1": draw(st.sampled_from([None, "", "d"]))}
            actions.append(add(path, dv=vector, size=number, tags=tags, partition_values=values, stats='{"tags":{}}'))
        for path, vector in draw(st.lists(keys, max_size=3, unique_by=identity)):
            actions.append(remove(path, dv=vector))
        actions += draw(st.lists(st.just({"commitInfo": {"tags": {"n": "no"}}}), max_size=1))
        out.append(draw(st.permutations(actions)))
    return out


def identity(key: tuple[str, dict[str, Any] | None]) -> Key:
    return canonical(key[0]), dv_id(key[1])


def canonical(path: str) -> str:
    return canonical_path(path.replace("file://localhost/", "file:///"))


@st.composite
def blocks(draw: st.DrawFn, actions: Actions) -> list[Actions]:
    """The same actions, cut into pieces."""
    cuts = sorted(draw(st.sets(st.integers(1, len(actions) - 1), max_size=4))) if len(actions) > 1 else []
    return [actions[start:end] for start, end in zip([0, *cuts], [*cuts, len(actions)], strict=True) if start < end]


@pytest.mark.full
@examples(250)
@given(history=commits(), data=st.data())
def test_a_replay_in_blocks_is_the_replay_of_a_dictionary(history: list[Actions], data: st.DataObject) -> None:
    base = data.draw(st.integers(-1, len(history) - 1))
    expected = model(history)
    tail = [
        commit_batch(block, version, data)
        for version in range(len(history) - 1, base, -1)
        for block in data.draw(blocks(history[version]))
    ]
    rows = checkpoint_batches(history[: base + 1], data)
    with data.draw(st.sampled_from([nullcontext, colliding]))():
        seen = SeenSet(data.draw(LIMITS))
        if data.draw(st.booleans()):
            live = LiveAdds(seen, COLUMNS, None)
            found = [batch for block in tail if (batch := live(block)) is not None]
            live.flush()
            found += from_base(seen, rows)
        else:
            TailKeys(seen).take(iter(data.draw(st.permutations([narrowed(block) for block in tail]))))
            found = from_base(seen, rows)
            live = LiveAdds(SeenSet(data.draw(LIMITS)), COLUMNS, None)
            found += [batch for block in tail if (batch := live(block)) is not None]
    emitted = [row for batch in found for row in batch.to_pylist()]
    by_key = {(canonical(row["raw_path"]), dv_id(row["deletion_vector"])): row for row in emitted}
    assert len(by_key) == len(emitted), "a file comes twice"
    assert {key: comparable(row) for key, row in by_key.items()} == expected
    event("with a base" if base >= 0 else "from the start")


@examples(150)
@given(
    batches=st.lists(st.lists(st.binary(max_size=40), max_size=30), max_size=8),
    asked=st.lists(st.binary(max_size=40), max_size=30),
    limit=LIMITS,
    collide=st.booleans(),
)
def test_a_seen_set_is_a_set(batches: list[list[bytes]], asked: list[bytes], limit: int, *, collide: bool) -> None:
    known: set[bytes] = set()
    with colliding() if collide else nullcontext():
        seen = SeenSet(limit)
        for batch in batches:
            fresh = []
            for key in batch:
                fresh.append(key not in known)
                known.add(key)
            # A slice: keys that do not begin at the beginning of their buffers.
            found = seen.insert(pa.array([b"before", *batch], pa.binary()).slice(1))
            assert found.tolist() == fresh
        assert len(seen) == len(known)
        every = [*asked, *known]
        looked_up = seen.freeze().contains(pa.array([b"before", *every], pa.binary()).slice(1))
        assert looked_up.tolist() == [key in known for key in every]


# --- what is expected ------------------------------------------------------------------------------------------


def model(history: list[Actions]) -> dict[Key, dict[str, Any]]:
    plain = [[renamed(action) for action in actions] for actions in history]
    return {
        key: {"size": action["size"], "day": action["partitionValues"]["col-1"], "tags": action.get("tags")}
        for key, action in live_files(plain).items()
    }


def renamed(action: dict[str, Any]) -> dict[str, Any]:
    """The model knows no hosts in paths."""
    ((kind, fields),) = action.items()
    return (
        {kind: {**fields, "path": fields["path"].replace("file://localhost/", "file:///")}}
        if "path" in fields
        else action
    )


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    tags = None if row["tags"] is None else json.loads(row["tags"])
    return {"size": row["size"], "day": dict(row["partition_values"])["Day"], "tags": tags}


# --- batches as an executor would make them --------------------------------------------------------------------


def commit_batch(actions: Actions, version: int, data: st.DataObject) -> pa.RecordBatch:
    rows = [{name: fitting(action.get(name), COMMIT.field(name).type) for name in COMMIT.names} for action in actions]
    made = pa.RecordBatch.from_pylist(rows, schema=COMMIT)
    texts = [json.dumps(action, ensure_ascii=data.draw(st.booleans())) for action in actions]
    # Rows come with their text where a block holds the word, which the statistics do.
    with_text = any('"tags"' in text for text in texts) or data.draw(st.booleans())
    labels = pa.array([version] * len(rows), pa.int64())
    lines = pa.array(texts if with_text else [None] * len(rows), pa.string())
    return sliced(pa.RecordBatch.from_arrays([*made.columns, labels, lines], names=[*COMMIT.names, FILE_LABEL, LINE]))


def narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What is read of a commit where only keys are wanted."""
    columns = []
    for field in KEYS_SCHEMA:
        whole = batch.column(field.name)
        wanted = [whole.field(whole.type.get_field_index(child.name)) for child in field.type]
        columns.append(pa.StructArray.from_arrays(wanted, fields=list(field.type), mask=whole.is_null()))
    return pa.RecordBatch.from_arrays(
        [*columns, batch.column(FILE_LABEL), pa.nulls(batch.num_rows, pa.string())],
        names=[*KEYS_SCHEMA.names, FILE_LABEL, LINE],
    )


def checkpoint_batches(history: list[Actions], data: st.DataObject) -> list[pa.RecordBatch]:
    rows: list[dict[str, Any]] = [{"add": action} for action in live_adds(history)]
    rows += data.draw(st.lists(st.sampled_from([{}, {"remove": {"path": "gone"}}]), max_size=2))
    rows = data.draw(st.permutations(rows))
    typed = [{name: fitting(row.get(name), CHECKPOINT.field(name).type) for name in CHECKPOINT.names} for row in rows]
    return [
        sliced(pa.RecordBatch.from_pylist(block, schema=CHECKPOINT))
        for block in data.draw(st.permutations(data.draw(blocks(typed))))
    ]


def live_adds(history: list[Actions]) -> list[dict[str, Any]]:
    """The newest add of every live file, as the log spells it."""
    wanted = live_files([[renamed(action) for action in actions] for actions in history])
    newest = {}
    for actions in history:
        for action in actions:
            if "add" in action and file_key(renamed(action)["add"]) in wanted:
                newest[file_key(renamed(action)["add"])] = action["add"]
    return list(newest.values())


def from_base(seen: SeenSet, rows: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    base = BaseRows(seen.freeze(), COLUMNS, None)
    return [batch for block in rows if (batch := base(block)) is not None]


def fitting(fields: dict[str, Any] | None, kind: pa.StructType) -> dict[str, Any] | None:
    if fields is None:
        return None
    return {
        field.name: list(value.items()) if pa.types.is_map(field.type) and value is not None else value
        for field in kind
        for value in [fields.get(field.name)]
    }


def sliced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows as a slice of a larger batch: nothing begins at the beginning of its buffers."""
    return pa.concat_batches([batch.slice(0, 1), batch]).slice(1) if batch.num_rows else batch


def colliding() -> AbstractContextManager[Any]:
    """Gives keys only three fingerprints, so that the keys themselves must decide."""

    def few(hashes: KeyHashes, keys: pa.BinaryArray) -> NDArray[np.uint64]:
        del hashes
        return np.array([sum(key) % 3 for key in keys.to_pylist()], dtype=np.uint64)

    return mock.patch.object(KeyHashes, "fingerprints", few)
