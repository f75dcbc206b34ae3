"""From a time to a version, with logs made by hand and no store."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import ceil, log, log2
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builder import metadata, protocol
from tests.replay.canned import CannedExecutor, follow
from tests.replay.handmade import OPENING, checkpoint_path, json_batch, listing, read, top_batch
from tests.scan.effort import examples

from delta_sidecar.errors import (
    InvalidMetadataError,
    LogCorruptionError,
    MissingCommitError,
    VersionNotFoundError,
)
from delta_sidecar.log.names import commit_path, parse_log_name
from delta_sidecar.plan import ListFiles, ReadFiles, ScanJson, ScanParquet
from delta_sidecar.replay.versions import AT_ONCE, BEGINNING, version_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from delta_sidecar.plan import Plan

ENABLED = "delta.enableInCommitTimestamps"
SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
SINCE_TIME = "delta.inCommitTimestampEnablementTimestamp"
HOUR = 3_600_000


@dataclass
class HandmadeLog:
    """A log in memory: when each commit was written, and when it says that it was made.

    Attributes:
        times: By version, when a commit was written.
        own: What a commit says itself; None for all that say nothing.
        properties: The table's properties.
        features: The table's writer features.
        checkpoints: Versions with a checkpoint.
        unlisted: Commits that the listing skips.
        lines: The text of a commit, in place of the one that it would have.
    """

    times: Mapping[int, int]
    own: Callable[[int], int | None] = lambda _: None
    properties: Mapping[str, str] = field(default_factory=dict)
    features: Sequence[str] = ("inCommitTimestamp",)
    checkpoints: Sequence[int] = ()
    unlisted: Sequence[int] = ()
    lines: Mapping[int, bytes] = field(default_factory=dict)
    executor: CannedExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.executor = CannedExecutor(self._answer)

    def version_at(self, moment: int) -> int:
        self.executor.plans.clear()
        return follow(version_at(OPENING, moment), self.executor)[1]

    @property
    def probes(self) -> list[tuple[int, ...]]:
        """The commits whose beginnings were read, trip by trip."""
        plans = [plan for plan in self.executor.plans if isinstance(plan, ReadFiles) and plan.beginning]
        assert all(plan.max_bytes == BEGINNING for plan in plans)
        return [tuple(_version(path) for path in plan.paths) for plan in plans]

    def _actions(self, version: int) -> list[dict[str, Any]]:
        made = self.own(version)
        info = {"operation": "WRITE"} | ({} if made is None else {"inCommitTimestamp": made})
        actions: list[dict[str, Any]] = [{"commitInfo": info}]
        if version == max(self.times):
            actions += [protocol(features=[], writer_features=self.features)]
            actions += [metadata({"id": "long"}, configuration=self.properties)]
        return actions

    def _text(self, version: int) -> bytes:
        made = "".join(json.dumps(action) + "\n" for action in self._actions(version)).encode()
        return self.lines.get(version, made)

    def _answer(self, plan: Plan) -> list[pa.RecordBatch]:
        if isinstance(plan, ListFiles):
            entries = [(commit_path(version), 1) for version in self.times if version not in self.unlisted]
            entries += [(checkpoint_path(version), 1) for version in self.checkpoints]
            return listing(entries, {commit_path(version): time for version, time in self.times.items()})
        if isinstance(plan, ReadFiles):
            found = {path: self._text(_version(path)) for path in plan.paths if _version(path) in self.times}
            return [_cut(batch, plan) for batch in read(dict(found))]
        if isinstance(plan, ScanJson):
            texts = {ref.label: self._text(ref.label) for ref in plan.files}
            return [
                json_batch(version, [json.loads(line) for line in text.splitlines()], plan.schema)
                for version, text in texts.items()
            ]
        assert isinstance(plan, ScanParquet)
        table = metadata({"id": "long"})["metaData"] | {"configuration": []}
        return [top_batch([protocol(), {"metaData": table}])]


def _version(path: str) -> int:
    name = parse_log_name(path)
    return -1 if name is None else name.version


def _cut(batch: pa.RecordBatch, plan: ReadFiles) -> pa.RecordBatch:
    data = batch.column("data")[0].as_py()[: plan.max_bytes]
    return batch.set_column(2, "data", pa.array([data], pa.binary()))


def test_the_newest_version_that_was_written_up_to_a_time() -> None:
    log = HandmadeLog({version: 1_000 + 10 * version for version in range(5)})
    assert [log.version_at(moment) for moment in (1_000, 1_009, 1_010, 1_025, 1_039, 1_040)] == [0, 0, 1, 2, 3, 4]
    assert log.probes == []


def test_a_time_after_the_newest_commit_is_the_newest_version() -> None:
    assert HandmadeLog({0: 1_000, 1: 2_000}).version_at(2**62) == 1


def test_a_time_before_the_first_commit_is_refused_with_the_earliest() -> None:
    log = HandmadeLog({0: 1_770_000_000_000, 1: 1_770_000_001_000})
    with pytest.raises(VersionNotFoundError, match="the earliest version that can be read is 0") as early:
        log.version_at(1_769_999_999_999)
    assert "as of 2026-02-02T02:39:59.999+00:00" in str(early.value)
    assert "2026-02-02T02:40:00.000+00:00" in str(early.value)
    assert "memory://t" in str(early.value)


def test_times_that_do_not_grow_are_taken_a_millisecond_apart() -> None:
    log = HandmadeLog({0: 1_000, 1: 5_000, 2: 3_000, 3: 5_001, 4: 5_000, 5: 9_000})
    # 1000, 5000, 5001, 5002, 5003, 9000
    assert [log.version_at(moment) for moment in (3_000, 4_999, 5_000, 5_001, 5_002, 5_003, 8_999, 9_000)] == [
        *(0, 0, 1, 2, 3, 4, 4, 5)
    ]


def test_only_versions_that_can_be_read_count() -> None:
    log = HandmadeLog({version: 1_000 + version for version in range(3, 9)}, checkpoints=[5, 7])
    assert [log.version_at(moment) for moment in (1_005, 1_006, 1_008)] == [5, 6, 8]
    with pytest.raises(VersionNotFoundError, match="the earliest version that can be read is 5"):
        log.version_at(1_004)


def test_a_commit_that_cannot_be_read_moves_no_other_in_time() -> None:
    log = HandmadeLog({4: 9_000, 5: 1_000, 6: 2_000}, checkpoints=[5])
    assert log.version_at(1_500) == 5


def test_a_checkpoint_without_its_commit_has_no_time() -> None:
    log = HandmadeLog({6: 2_000, 7: 3_000}, checkpoints=[5])
    assert log.version_at(2_000) == 6
    with pytest.raises(VersionNotFoundError, match="the earliest version that can be read is 6"):
        log.version_at(1_999)


def test_a_checkpoint_without_any_commit_has_no_time() -> None:
    log = HandmadeLog({}, checkpoints=[5])
    with pytest.raises(VersionNotFoundError, match="only the checkpoint of version 5"):
        log.version_at(2_000)


def test_a_commit_that_the_listing_skipped_comes_right_after_the_one_before() -> None:
    log = HandmadeLog({0: 1_000, 1: 2_000, 2: 3_000, 3: 4_000}, unlisted=[2])
    assert [log.version_at(moment) for moment in (2_000, 2_001, 3_999, 4_000)] == [1, 2, 2, 3]


def test_a_first_commit_that_the_listing_skipped_has_no_time() -> None:
    log = HandmadeLog({0: 1_000, 1: 2_000}, unlisted=[0])
    assert log.version_at(2_000) == 1
    with pytest.raises(VersionNotFoundError, match="the earliest version that can be read is 1"):
        log.version_at(1_999)


def test_a_store_that_tells_no_times_is_refused() -> None:
    with pytest.raises(VersionNotFoundError, match="not known when versions 0 to 1 were written"):
        HandmadeLog({0: 0, 1: 0}).version_at(3_000)


@given(
    times=st.lists(st.integers(1, 60), min_size=1, max_size=30),
    first=st.integers(0, 3),
    moment=st.integers(0, 100),
)
@examples(200)
def test_any_times_give_the_version_of_a_plain_walk(times: list[int], first: int, moment: int) -> None:
    log = HandmadeLog(dict(enumerate(times, first)), checkpoints=[first] if first else [])
    expected, clock = None, 0
    for version, time in enumerate(times, first):
        clock = time if time > clock else clock + 1
        if clock <= moment:
            expected = version
    if expected is None:
        with pytest.raises(VersionNotFoundError):
            log.version_at(moment)
    else:
        assert log.version_at(moment) == expected


def own_times(versions: int, **config: Any) -> HandmadeLog:  # noqa: ANN401 - the fields of a log
    """A log whose commits say that they were made an hour apart, whatever the store says."""
    properties = {ENABLED: "true", **config.pop("properties", {})}
    own = config.pop("own", lambda version: HOUR * (version + 1))
    return HandmadeLog(dict.fromkeys(range(versions), 7), own, properties, **config)


def test_commits_that_say_when_they_were_made_are_believed() -> None:
    log = own_times(5)
    assert [log.version_at(HOUR * hour) for hour in (1, 2, 3, 4, 5, 99)] == [0, 1, 2, 3, 4, 4]
    assert log.version_at(HOUR * 3 - 1) == 1
    with pytest.raises(VersionNotFoundError, match=r"is 0, which was committed at 1970-01-01T01:00:00.000\+00:00"):
        log.version_at(HOUR - 1)


@pytest.mark.full
@pytest.mark.parametrize("versions", [1, 2, AT_ONCE, AT_ONCE + 1, 1_000, 20_000])
def test_a_search_takes_few_trips(versions: int) -> None:
    log = own_times(versions)
    trips = max(1, ceil(log_of(versions)))
    for version in {0, 1, versions // 3, versions // 2, versions - 2, versions - 1} & set(range(versions)):
        assert log.version_at(HOUR * (version + 1) + 5) == version
        assert len(log.probes) <= trips
        assert all(len(probed) <= AT_ONCE for probed in log.probes)
        probed = [version for trip in log.probes for version in trip]
        assert len(probed) == len(set(probed))
    assert log.version_at(HOUR * versions) == versions - 1
    assert len(log.probes) == 1


def log_of(versions: int) -> float:
    # After each trip at most one part of the versions is left, without its ends.
    return min(log2(versions + 1), log(versions + 1, AT_ONCE) + 1)


@pytest.mark.parametrize(
    ("properties", "features"),
    [({ENABLED: "false"}, ("inCommitTimestamp",)), ({ENABLED: "true"}, ()), ({}, ("inCommitTimestamp",))],
)
def test_commits_are_believed_only_where_feature_and_property_say_so(
    properties: dict[str, str], features: Sequence[str]
) -> None:
    log = HandmadeLog({0: 1_000, 1: 2_000}, lambda version: HOUR * (version + 1), properties, features)
    assert log.version_at(1_500) == 0
    assert log.probes == []


def test_commits_are_believed_from_the_version_on_that_the_properties_name() -> None:
    log = enabled_later()
    assert [log.version_at(moment) for moment in (100, 101, 103, 399, 400, 499, 500, 700, 10_000)] == [
        *(0, 1, 3, 3, 4, 4, 5, 7, 7)
    ]
    assert log.version_at(399) == 3
    assert log.probes == []
    with pytest.raises(VersionNotFoundError, match="the earliest version that can be read is 0"):
        log.version_at(99)


def enabled_later(**config: Any) -> HandmadeLog:  # noqa: ANN401 - the fields of a log
    """A log of eight commits, of which the last four have timestamps of their own; the store's are no help there."""
    times = {0: 100, 1: 90, 2: 102, 3: 103, 4: 9_000, 5: 1, 6: 2, 7: 3}
    since = {ENABLED: "true", SINCE_VERSION: "4", SINCE_TIME: "400"}
    return HandmadeLog(times, lambda version: 100 * version if version >= 4 else None, since, **config)


def test_the_first_commit_with_a_timestamp_need_not_be_read() -> None:
    log = enabled_later()
    assert log.version_at(450) == 4
    assert 4 not in {version for trip in log.probes for version in trip}


def test_where_the_commits_before_are_cleaned_up_the_first_that_is_left_is_the_earliest() -> None:
    for oldest, shown in ((4, "0.400"), (5, "0.500")):
        log = enabled_later(checkpoints=[oldest], unlisted=range(oldest))
        assert log.version_at(100 * oldest) == oldest
        assert log.version_at(650) == 6
        for moment in (0, 399):
            with pytest.raises(VersionNotFoundError, match=rf"is {oldest}, which was committed at .*:0{shown}"):
                log.version_at(moment)
            assert sum(map(len, log.probes)) == (oldest > 4)


@pytest.mark.parametrize(
    "properties",
    [
        {SINCE_VERSION: "4"},
        {SINCE_TIME: "400"},
        {SINCE_VERSION: "x", SINCE_TIME: "400"},
        {SINCE_VERSION: "4", SINCE_TIME: "-1"},
        {SINCE_VERSION: "9", SINCE_TIME: "400"},
    ],
)
def test_properties_that_make_no_sense_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidMetadataError, match="memory://t"):
        own_times(8, properties=properties).version_at(HOUR)


def test_a_commit_without_the_timestamp_that_it_must_have_is_refused() -> None:
    log = own_times(3, own=lambda version: None if version == 1 else version)
    with pytest.raises(LogCorruptionError, match=r"memory://t: commit 1 \(.*01.json\) has no commitInfo with"):
        log.version_at(1)


def test_a_commit_that_is_gone_is_missed() -> None:
    answer = own_times(3).executor.answer

    def without(plan: Plan) -> Any:  # noqa: ANN401
        found = answer(plan)
        is_probe = isinstance(plan, ReadFiles) and plan.beginning
        return [batch for batch in found if batch.column("path")[0].as_py() != commit_path(1)] if is_probe else found

    with pytest.raises(MissingCommitError, match=r"commit 1 .* was listed and is gone") as missing:
        follow(version_at(OPENING, HOUR), CannedExecutor(without))
    assert missing.value.version == 1


LONG = "x" * (2 * BEGINNING)


@pytest.mark.parametrize(
    "lines",
    [
        [{"commitInfo": {"operation": LONG, "inCommitTimestamp": HOUR * 2}}],
        [{"txn": {"appId": LONG}}, {"commitInfo": {"inCommitTimestamp": HOUR * 2}}],
        [{"txn": {"appId": "a"}}, {"commitInfo": {"inCommitTimestamp": HOUR * 2}}, {"txn": {"appId": LONG}}],
        [{"txn": {"appId": "commitInfo"}}, {"commitInfo": {"inCommitTimestamp": HOUR * 2}}],
    ],
    ids=["long line", "after a long line", "second line", "after the word"],
)
def test_a_timestamp_is_found_wherever_it_is(lines: list[dict[str, Any]]) -> None:
    log = own_times(3, lines={1: b"\n".join(json.dumps(line).encode() for line in lines)})
    assert [log.version_at(HOUR * 2 + late) for late in (-1, 0, 1)] == [0, 1, 1]


@pytest.mark.parametrize("info", [7, None, {}, {"inCommitTimestamp": "7"}, {"inCommitTimestamp": True}])
def test_a_timestamp_that_is_no_number_is_none(info: object) -> None:
    with pytest.raises(LogCorruptionError, match="commit 1 "):
        own_times(3, lines={1: json.dumps({"commitInfo": info}).encode()}).version_at(HOUR)


@given(
    gaps=st.lists(st.integers(1, 5), min_size=1, max_size=40),
    since=st.integers(0, 40),
    first=st.integers(0, 40),
    files=st.randoms(use_true_random=False),
    moment=st.integers(0, 220),
)
@examples(300)
def test_any_own_times_give_the_version_of_a_plain_walk(
    gaps: list[int], since: int, first: int, files: Random, moment: int
) -> None:
    newest = len(gaps) - 1
    since, first = min(since, newest), min(first, max(newest - 1, 0))
    own = [10 + sum(gaps[: version + 1]) for version in range(len(gaps))]
    # As the format demands, the first commit with a timestamp is after the file times before it.
    written = [own[version] if version < since else files.randint(1, 300) for version in range(len(gaps))]
    properties = {ENABLED: "true"} | ({SINCE_VERSION: str(since), SINCE_TIME: str(own[since])} if since else {})
    log = HandmadeLog(
        dict(enumerate(written)),
        lambda version: own[version] if version >= since else None,
        properties,
        checkpoints=[first] if first else [],
        unlisted=range(first),
    )
    expected = max((version for version in range(first, newest + 1) if own[version] <= moment), default=None)
    if expected is None:
        with pytest.raises(VersionNotFoundError, match=f"the earliest version that can be read is {first}"):
            log.version_at(moment)
    else:
        assert log.version_at(moment) == expected
