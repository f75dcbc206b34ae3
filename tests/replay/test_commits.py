"""Which adds of the tail are live, with batches made by hand and no store."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.builder import add, deletion_vector, remove
from tests.replay.handmade import PROTOCOL, json_batch, paths

from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.log.actions import KEYS_SCHEMA
from delta_sidecar.log.identity import file_keys
from delta_sidecar.log.names import commit_path
from delta_sidecar.plan import FILE_LABEL
from delta_sidecar.replay.files import FILE_SCHEMA, FileColumns
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.tail import LiveAdds, TailKeys


def live_adds(seen: SeenSet | None = None) -> LiveAdds:
    return LiveAdds(SeenSet() if seen is None else seen, FileColumns(()), None)


def test_live_adds_lets_the_newest_add_of_a_key_through() -> None:
    live = live_adds()
    assert paths(live(json_batch(2, [add("a", size=2), add("b")]))) == ["a", "b"]
    assert paths(live(json_batch(1, [add("a", size=1), add("c")]))) == ["c"]
    assert live(json_batch(0, [add("a"), add("b"), add("c")])) is None


def test_live_adds_counts_removes_from_the_next_commit_on() -> None:
    live = live_adds()
    assert paths(live(json_batch(2, [remove("a"), add("a"), add("b"), remove("b"), remove("c")]))) == ["a", "b"]
    assert paths(live(json_batch(2, [add("c")]))) == ["c"], "a block of the same commit"
    assert live(json_batch(1, [add("a"), add("b"), add("c")])) is None


def test_live_adds_tells_deletion_vectors_apart() -> None:
    one, two = deletion_vector("1"), deletion_vector("2")
    live = live_adds()
    assert paths(live(json_batch(3, [remove("a"), add("a", dv=one)]))) == ["a"]
    assert paths(live(json_batch(2, [add("a", dv=two)]))) == ["a"]
    assert live(json_batch(1, [add("a", dv=one), add("a")])) is None


def test_live_adds_flush_counts_the_removes_of_the_last_commit() -> None:
    seen = SeenSet()
    live = live_adds(seen)
    assert live(json_batch(1, [remove("a")])) is None
    assert len(seen) == 0
    live.flush()
    assert seen.contains(file_keys({"path": pa.array(["a", "b"])})).tolist() == [True, False]


def test_live_adds_gives_files_with_all_their_fields() -> None:
    action = add("a%20b", tags={"k": "v", "n": None}, size=7, baseRowId=3, defaultRowCommitVersion=1, stats="{}")
    batch = live_adds()(json_batch(0, [PROTOCOL, action, remove("x")]))
    assert batch is not None
    assert batch.schema == FILE_SCHEMA.append(pa.field(FILE_LABEL, pa.int64()))
    (row,) = batch.to_pylist()
    assert (row["path"], row["raw_path"], row["size"], row["stats"]) == ("a b", "a%20b", 7, "{}")
    assert (row["base_row_id"], row["default_row_commit_version"]) == (3, 1)
    assert json.loads(row["tags"]) == {"k": "v", "n": None}


@pytest.mark.parametrize(
    "action", [{"add": {"size": 1}}, add(""), {"remove": {"deletionVector": None}}, {"remove": {"path": ""}}]
)
def test_live_adds_and_tail_keys_refuse_an_action_without_a_path(action: dict[str, Any]) -> None:
    refused = []
    with pytest.raises(UnreadableFileError, match="without a path") as refusal:
        live_adds()(json_batch(4, [add("a"), remove("b"), action]))
    refused.append(refusal.value)
    with pytest.raises(UnreadableFileError, match="without a path") as refusal:
        TailKeys(SeenSet()).take(iter([json_batch(4, [add("a"), remove("b"), action], KEYS_SCHEMA)]))
    refused.append(refusal.value)
    for error in refused:
        assert (error.path, error.label, type(error.__cause__)) == (commit_path(4), 4, pa.ArrowInvalid)
