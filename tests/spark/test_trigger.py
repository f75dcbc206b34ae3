"""The checkpoint trigger: what is due is made once, in order, by whoever's turn it is; what is missing is repaired."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.own_threads import forget
from tests.spark.triggered_table import TriggeredTable, hint_of, triggered_table

from delta_sidecar import LazyDeltaScanner
from delta_sidecar.events import BaseChosen, CheckpointTriggered, Event
from delta_sidecar.store import open_store
from delta_sidecar.store.testing import EmptyAfterOffset, Fail, FaultStore, Hide, IgnoreOffset, RecordingStore

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.spark.trigger import CheckpointTrigger, TriggerOutcome
    from delta_sidecar.store.testing import Rule

BOTH = ["checkpoint 4", "sidecar 4"]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TriggeredTable:
    return triggered_table(tmp_path / "table", monkeypatch)


def tiers(table: TriggeredTable) -> list[tuple[int, int]]:
    """Which base a reader uses: its version and tier. Its files are those of the log."""
    told: list[Event] = []
    files = {file.path for file in LazyDeltaScanner(table.root, listeners=[told.append]).scan_files()}
    assert files == {key[0] for key in table.builder.model_files()}
    return [(event.version, event.tier) for event in told if isinstance(event, BaseChosen)]


def test_nothing_is_asked_before_a_version_is_due(table: TriggeredTable) -> None:
    store = RecordingStore(open_store(table.root))
    own = table.trigger("a", store=store)
    assert [own.after(table.commit("a")) for _ in range(3)] == [None] * 3
    assert own.after(0) is None
    assert (store.attempts, table.made) == ([], [])


def test_what_is_due_is_made_in_order_and_used(table: TriggeredTable) -> None:
    told: list[Event] = []
    own = table.trigger("a", listeners=[told.append])
    outcome = own.after(table.commits("a", "a", "a", "a"))
    assert outcome is not None
    assert (outcome.version, outcome.outcome, outcome.pipeline, outcome.error) == (4, "complete", "a", None)
    assert outcome.made_checkpoint
    assert outcome.sidecar is not None
    assert outcome.sidecar.files == 5
    assert outcome.as_dict()["sidecar"]["version"] == 4
    assert table.made == BOTH
    assert tiers(table) == [(4, 1)]
    (event,) = [each for each in told if isinstance(each, CheckpointTriggered)]
    assert (event.outcome, event.version, event.error) == ("complete", 4, None)
    assert (event.made_checkpoint, event.built_sidecar) == (True, True)


def test_what_was_seen_to_is_not_asked_again(table: TriggeredTable) -> None:
    store = RecordingStore(open_store(table.root))
    own = table.trigger("a", store=store)
    own.after(table.commits("a", "a", "a", "a"))
    forget(store)
    assert [own.after(table.commit("a")) for _ in range(3)] == [None] * 3
    assert store.attempts == []
    own.after(table.commit("a"))
    assert table.made == [*BOTH, "checkpoint 8", "sidecar 8"]


def test_a_table_that_is_made_anew_begins_again(table: TriggeredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    own = table.trigger("a")
    own.after(table.commits(*["a"] * 8))
    assert table.made == ["checkpoint 8", "sidecar 8"]
    for path in table.builder.log.rglob("0*"):
        path.unlink()
    table.builder.last_checkpoint(None)
    again = triggered_table(table.root, monkeypatch)
    own.after(again.commits(*["a"] * 4))
    assert again.made == BOTH
    assert tiers(again) == [(4, 1)]


def test_what_is_there_is_not_made_again(table: TriggeredTable) -> None:
    version = table.commits("a", "a", "a", "a")
    table.trigger("a").after(version)
    for app_id in ("a", "b"):
        outcome = table.trigger(app_id).after(version)
        assert outcome is not None
        assert (outcome.outcome, outcome.pipeline, outcome.sidecar) == ("already_there", None, None)
    assert table.made == BOTH


@pytest.mark.parametrize("kind", ["v1", "v1-multipart", "v2-parquet", "v2-json"])
def test_a_checkpoint_that_delta_made_with_the_commit_stays(table: TriggeredTable, kind: str) -> None:
    version = table.commits("a", "a", "a", "a")
    table.builder.checkpoint(kind)
    outcome = table.trigger("a").after(version)
    assert outcome is not None
    assert (outcome.outcome, outcome.made_checkpoint) == ("complete", False)
    assert table.made == ["sidecar 4"]


def test_only_a_few_requests_are_made_where_nothing_is_missing(table: TriggeredTable) -> None:
    version = table.commits("a", "a", "a", "a")
    table.trigger("a").after(version)
    store = RecordingStore(open_store(table.root))
    table.trigger("a", store=store).after(version)
    kinds = [attempt.kind for attempt in store.attempts]
    assert kinds.count("list") == 1
    assert len(kinds) <= 6
    assert {"put", "delete"}.isdisjoint(kinds)


def test_others_leave_it_to_the_pipeline_that_came_first(table: TriggeredTable) -> None:
    first, second = table.trigger("a"), table.trigger("b")
    table.commits("a", "b", "a")
    of_a, of_b = table.commit("a"), table.commit("b")
    left = second.after(of_b)
    assert left is not None
    assert (left.outcome, left.pipeline) == ("left_to_another", "a")
    assert table.made == []
    done = first.after(of_a)
    assert done is not None
    assert done.outcome == "complete"
    there = second.after(table.commit("b"))
    assert there is not None
    assert there.outcome == "already_there"
    assert second.after(table.commit("b")) is None
    assert table.made == BOTH


def test_two_under_one_app_id_at_once_make_it_once(table: TriggeredTable) -> None:
    triggers = [table.trigger("a") for _ in range(4)]
    table.commits("a", "a", "a")
    version = table.commit("a")
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda each: each.after(version), triggers))
    assert sorted(found.outcome for found in outcomes if found) == ["already_there"] * 3 + ["complete"]
    assert table.made == BOTH


def test_a_multiple_that_somebody_else_committed_is_the_next_pipelines(table: TriggeredTable) -> None:
    table.commits("a", "b", "a", None, None)
    of_b, of_a = table.commit("b"), table.commit("a")
    assert [found and found.outcome for found in (table.trigger("a").after(of_a), table.trigger("b").after(of_b))] == [
        "left_to_another",
        "complete",
    ]
    assert table.made == BOTH


@pytest.mark.parametrize("interval", [0, 3])
def test_a_pipeline_that_does_not_look_after_a_version_is_not_waited_for(table: TriggeredTable, interval: int) -> None:
    table.commits("b", "b", "b")
    table.commit("a", interval=interval)
    outcome = table.trigger("b").after(table.commit("b", interval=4))
    assert outcome is not None
    assert (outcome.outcome, outcome.pipeline) == ("complete", "b")


def test_of_several_multiples_only_the_newest_is_made(table: TriggeredTable) -> None:
    version = table.commits(*[None] * 12, "a")
    outcome = table.trigger("a").after(version)
    assert outcome is not None
    assert (outcome.version, outcome.outcome) == (12, "complete")
    assert table.made == ["checkpoint 12", "sidecar 12"]


def test_a_newer_one_serves_as_well(table: TriggeredTable) -> None:
    early = table.commits("a", "a", "a", "a")
    table.trigger("b").after(table.commits("b", "b", "b", "b"))
    assert table.made == ["checkpoint 8", "sidecar 8"]
    outcome = table.trigger("a").after(early)
    assert outcome is not None
    assert outcome.outcome == "already_there"
    assert hint_of(table.root) == 8


def test_a_commit_without_a_mark_is_the_callers_own(table: TriggeredTable) -> None:
    outcome = table.trigger("a").after(table.commits(None, None, None, None))
    assert outcome is not None
    assert (outcome.outcome, outcome.pipeline) == ("complete", "a")


def test_after_a_restart_the_pipeline_repairs_its_own(table: TriggeredTable) -> None:
    table.commits("a", "a", "a", "a", "b")
    outcome = table.trigger("a").after(table.commit("a"))
    assert outcome is not None
    assert outcome.outcome == "complete"
    assert table.made == BOTH
    assert tiers(table) == [(4, 1)]


def test_after_the_lease_it_is_the_turn_of_the_next_that_comes_by(table: TriggeredTable) -> None:
    lease = timedelta(minutes=10)
    of_b, of_c = table.trigger("b", lease=lease), table.trigger("c", lease=lease)
    table.commits("a", "a", "a", "a")
    soon = of_b.after(table.commit("b", later=590))
    assert soon is not None
    assert soon.outcome == "left_to_another"
    late = table.commit("b", later=10)
    other = of_c.after(table.commit("c", later=1))
    assert other is not None
    assert (other.outcome, other.pipeline) == ("left_to_another", "b")
    done = of_b.after(late)
    assert done is not None
    assert done.outcome == "complete"
    assert table.made == BOTH


def test_a_version_whose_commit_is_cleaned_up_is_passed_over(table: TriggeredTable) -> None:
    version = table.commits("a", "a", "a", "a", "a", None)
    table.builder.checkpoint()
    table.builder.clean_up()
    outcome = table.trigger("a").after(version - 1)
    assert outcome is not None
    assert outcome.outcome == "passed_over"
    assert table.made == []


def test_a_checkpoint_that_nothing_points_to_is_made_again(table: TriggeredTable) -> None:
    version = table.commits("a", "a", "a", "a")
    table.trigger("a").after(version)
    table.builder.last_checkpoint(None)
    table.trigger("a").after(version)
    assert table.made == [*BOTH, "checkpoint 4"]
    assert hint_of(table.root) == 4


@pytest.mark.parametrize("damage", ["no file", "no manifest", "torn manifest", "another table"])
def test_a_sidecar_that_is_not_good_is_made_again(table: TriggeredTable, damage: str) -> None:
    version = table.commits("a", "a", "a", "a")
    table.trigger("a").after(version)
    folder = table.builder.log / "_sidecars"
    if damage == "no file":
        (folder / "v4.parquet").unlink()
    elif damage == "no manifest":
        (folder / "v4.manifest.json").unlink()
    elif damage == "torn manifest":
        table.builder.tear(folder / "v4.manifest.json", -10)
    else:
        commit = table.builder.commit_path(4)
        commit.write_text(commit.read_text().replace("WRITE", "MERGE"))
    outcome = table.trigger("a").after(version)
    assert outcome is not None
    assert outcome.outcome == "complete"
    assert table.made == [*BOTH, "sidecar 4"]
    assert tiers(table) == [(4, 1)]


@pytest.mark.parametrize("broken", ["checkpoint", "sidecar"])
def test_a_failure_is_told_and_the_next_commit_repairs_it(
    table: TriggeredTable, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Event] = []
    own = table.trigger("a", listeners=[told.append])
    table.broken = broken
    caplog.set_level(logging.WARNING, "delta_sidecar")
    outcome = own.after(table.commits("a", "a", "a", "a"))
    assert outcome is not None
    assert (outcome.outcome, outcome.sidecar) == ("failed", None)
    assert tiers(table) == [(4, 3)] * (broken == "sidecar") + [(-1, 3)] * (broken == "checkpoint")
    error = {
        "checkpoint": f"StorageError: Delta made no checkpoint of version 4 of {table.root}: the log of Spark says why",
        "sidecar": "RuntimeError: java.io.IOException: sig=*** refused",
    }[broken]
    assert outcome.error == error
    (line,) = caplog.messages
    assert line.startswith(f"{table.root}: version 4 lacks")
    assert line.endswith(error)
    (event,) = [each for each in told if isinstance(each, CheckpointTriggered)]
    assert (event.outcome, event.error) == ("failed", error.partition(":")[0])
    table.broken = ""
    again = own.after(table.commit("a"))
    assert again is not None
    assert again.outcome == "complete"
    assert table.made == BOTH
    assert tiers(table) == [(4, 1)]


def failing(table: TriggeredTable, times: int) -> tuple[CheckpointTrigger, list[TriggerOutcome | None]]:
    """A trigger whose sidecars failed so often, with what came of each try; from then on they can be made."""
    own = table.trigger("a")
    table.broken = "sidecar"
    table.commits("a", "a", "a")
    outcomes = [own.after(table.commit("a")) for _ in range(times)]
    table.broken = ""
    return own, outcomes


def test_what_fails_again_and_again_is_left_alone_for_a_while(
    table: TriggeredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, outcomes = failing(table, 4)
    assert [found and found.outcome for found in outcomes] == ["failed"] * 4
    # The last is told, and was not tried.
    assert [found and "left alone" in (found.error or "") for found in outcomes] == [False, False, False, True]
    assert table.made == ["checkpoint 4"]
    monkeypatch.setattr("delta_sidecar.spark.trigger._REST_SECONDS", 0.0)
    outcome = own.after(6)
    assert outcome is not None
    assert (outcome.version, outcome.outcome) == (4, "complete")


def test_the_next_version_that_is_due_is_not_left_alone(table: TriggeredTable) -> None:
    own, _ = failing(table, 4)
    outcome = own.after(table.commit("a"))
    assert outcome is not None
    assert (outcome.version, outcome.outcome) == (8, "complete")


def test_what_another_has_repaired_is_seen_though_it_is_left_alone(table: TriggeredTable) -> None:
    own, _ = failing(table, 3)
    table.trigger("a").after(6)
    outcome = own.after(6)
    assert outcome is not None
    assert outcome.outcome == "already_there"


@pytest.mark.parametrize(
    "fault", [EmptyAfterOffset(), IgnoreOffset(), Hide(f"*{4:020}.json"), Hide(f"*{5:020}.json")], ids=str
)
def test_listings_that_lack_what_is_there_are_not_believed(table: TriggeredTable, fault: Rule) -> None:
    version = table.commits("a", "a", "a", "a", "a", "a")
    outcome = table.trigger("a", store=FaultStore(open_store(table.root), fault)).after(version)
    assert outcome is not None
    assert outcome.outcome == "complete"
    assert table.made == BOTH


def test_a_batch_that_committed_nothing_takes_nobodys_turn(table: TriggeredTable) -> None:
    version = table.commits("a", "b", "a", None)
    of_a, of_b = table.trigger("a"), table.trigger("b")
    # Version 4 is nobody's: whoever commits next looks after it.
    assert of_a.after(version, committed=False) is None
    outcome = of_b.after(table.commit("b"))
    assert outcome is not None
    assert outcome.outcome == "complete"
    again = of_a.after(5, committed=False)
    assert again is not None
    assert again.outcome == "already_there"
    assert table.made == BOTH


def test_a_batch_that_was_written_before_repairs_its_own(table: TriggeredTable) -> None:
    version = table.commits("a", "a", "a", "a")
    outcome = table.trigger("a").after(version, committed=False)
    assert outcome is not None
    assert outcome.outcome == "complete"


def test_a_store_out_of_reach_never_fails_the_write(table: TriggeredTable) -> None:
    outcome = table.trigger("a", store=FaultStore(open_store(table.root), Fail())).after(
        table.commits("a", "a", "a", "a")
    )
    assert outcome is not None
    assert outcome.error is not None
    assert (outcome.outcome, outcome.error.partition(":")[0]) == ("failed", "StorageError")


def test_secrets_of_the_options_are_not_told(table: TriggeredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "c2VjcmV0LWtleS1vZi1hbi1hY2NvdW50"

    def fail(*_: object, **__: object) -> None:
        msg = f"403 for the key {key}"
        raise RuntimeError(msg)

    monkeypatch.setattr("delta_sidecar.spark.trigger.build_sidecar", fail)
    outcome = table.trigger("a", storage_options={"account_key": key}).after(table.commits("a", "a", "a", "a"))
    assert outcome is not None
    assert outcome.error == "RuntimeError: 403 for the key ***"
