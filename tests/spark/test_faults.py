"""A trigger that is cut off anywhere leaves a right answer, and the next one repairs it.

Where it can be cut off is not thought out: the requests of a whole run that change the store are recorded, and it is
cut off at each of them.
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from tests.spark.conftest import Lake
from tests.spark.recording_proxy import RecordingProxy
from tests.spark.spark_tables import HOURS, append, copied, create, files_by_delta, files_by_us, make_folder, names

from delta_sidecar import vacuum_sidecars
from delta_sidecar.build.publish import Levels
from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.log.names import LAST_CHECKPOINT, SIDECAR_FOLDER
from delta_sidecar.sidecar.manifest import decode_manifest
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.access import grant, hadoop_configuration, hadoop_url
from delta_sidecar.spark.trigger import CheckpointTrigger, due_state
from delta_sidecar.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.azurite import Azurite
    from tests.spark.recording_proxy import Cut, Mutation

EARLIER, DUE, NEWEST = 2, 4, 5
# Several parts with several row groups each, and a manifest with two levels.
OPTIONS: dict[str, Any] = {"rows_per_group": 4, "rows_per_part": 12, "levels": Levels(2, 3, 2)}
# In which order things are put.
OURS = ("part", "segments", "manifest")
ORDER = ("checkpoint", "_last_checkpoint", *OURS)
# In the names of parts and of files that are not ready.
_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f-]+|(?<=v4\.)[0-9a-f]{16}|(?<=\d{5})-\d+")
# What cannot be reached is given up at once.
IMPATIENCE = {
    "fs.azure.io.retry.max.retries": "0",
    "fs.azure.io.retry.min.backoff.interval": "1",
    "fs.azure.io.retry.backoff.interval": "1",
    "fs.azure.io.retry.max.backoff.interval": "2",
}


@pytest.fixture(scope="module")
def base(spark: SparkSession, local_lake: Lake) -> tuple[Store, list[str]]:
    """A table with a version that is due and lacks both, an earlier one that has both, and its live files by Delta."""
    url = local_lake.new_url("base")
    create(spark, url, {"delta.checkpointInterval": "1000"})
    for version in range(1, DUE):
        append(spark, url, 100 * version, rows=2 * HOURS)
        if version == EARLIER:
            outcome = CheckpointTrigger(spark, url, open_store(url), EARLIER, app_id="a").after(version)
            assert outcome is not None
            assert outcome.outcome == "complete"
    DeltaTable.forPath(spark, url).delete("_event_hour = '2026021020'")
    append(spark, url, 1000)
    files = files_by_delta(spark, url, NEWEST)
    assert len(files) == (DUE - 1) * (HOURS - 1) + HOURS
    return open_store(url), files


@pytest.fixture(scope="module")
def cut_lake(spark: SparkSession, azurite: Azurite) -> Iterator[tuple[RecordingProxy, Lake]]:
    """A container behind a proxy that can cut it off."""
    root = f"abfs://{azurite.create_container()}@{azurite.account}.dfs.core.windows.net"
    configuration = hadoop_configuration(spark)
    with RecordingProxy(azurite.endpoint) as proxy:
        options = azurite.options | {"endpoint": proxy.endpoint, "retry_max_retries": "0"}
        grant(spark, root, options)
        for key, value in IMPATIENCE.items():
            configuration.set(key, value)
        yield proxy, Lake(root, options)
        for key in IMPATIENCE:
            configuration.unset(key)
        grant(spark, root, azurite.options)


class Place:
    """A copy of the table, and a trigger that came to the version that is due."""

    def __init__(self, spark: SparkSession, url: str, options: dict[str, str], base: tuple[Store, list[str]]) -> None:
        self.spark, self.url, self.options = spark, url, options
        self.store = open_store(url, options)
        source, self.files = base
        make_folder(spark, f"{url}/_delta_log")
        copied(source, self.store)

    def triggered(self) -> tuple[str, str | None]:
        """A trigger of a new process, and what came of it."""
        store = open_store(self.url, self.options)
        trigger = CheckpointTrigger(
            self.spark, self.url, store, DUE, app_id="a", storage_options=self.options, build_options=OPTIONS
        )
        outcome = trigger.after(NEWEST)
        assert outcome is not None
        return outcome.outcome, outcome.error

    def check_answers(self, *, by_delta: bool = True) -> int:
        """All readers have the same files; gives the tier that ours used."""
        files, tier = files_by_us(self.store)
        assert files == self.files
        assert files_by_us(self.store, sidecars=False)[0] == self.files
        if by_delta:
            assert files_by_delta(self.spark, self.url, NEWEST) == self.files
        return tier

    def left_behind(self) -> frozenset[tuple[str, int | str]]:
        """What is in the log, by sizes and by names that do not differ from one run to the next; and the hint."""
        found = (each for page in self.store.list("_delta_log/") for each in page)
        sizes = {(_RANDOM.sub("*", each.path), each.size) for each in found}
        with suppress(ObjectNotFoundError):
            return frozenset(sizes | {("hint", bytes(self.store.get(LAST_CHECKPOINT).data).decode())})
        return frozenset(sizes)

    def check_repaired(self) -> None:
        """The next trigger makes what is missing, and a vacuum takes what was left behind."""
        assert self.triggered()[0] in {"complete", "already_there"}
        state = due_state(self.store, DUE)
        assert (state.has_checkpoint, state.has_sidecar) == (True, True)
        assert self.check_answers(by_delta=False) == 1
        assert self.triggered() == ("already_there", None)
        vacuum_sidecars(self.url, keep=1, retention=timedelta(), store=self.store)
        manifest = decode_manifest(bytes(self.store.get(f"{SIDECAR_FOLDER}v{DUE}.manifest.json").data))
        used = {file.name for file in manifest.files} | {f"v{DUE}.manifest.json"}
        assert set(names(self.store)) == used
        assert self.check_answers(by_delta=False) == 1


@contextmanager
def recorded(
    proxy: RecordingProxy, place: Place, cut_at: int | None = None, cut: Cut = "never sent"
) -> Iterator[tuple[list[Mutation], tuple[str, str | None]]]:
    with proxy.recording(cut_at, cut) as mutations:
        yield mutations, place.triggered()


@pytest.mark.full
@pytest.mark.azurite
def test_a_trigger_that_is_cut_off_anywhere_is_repaired(
    spark: SparkSession,
    cut_lake: tuple[RecordingProxy, Lake],
    base: tuple[Store, list[str]],
    subtests: pytest.Subtests,
) -> None:
    proxy, lake = cut_lake
    whole = Place(spark, lake.url("whole"), lake.options, base)
    with recorded(proxy, whole) as (requests, outcome):
        assert outcome == ("complete", None)
    assert whole.check_answers() == 1
    points = [(request.kind, _what(request.name)) for request in requests]
    # Delta writes a checkpoint under another name, and then renames it: a copy, and a delete.
    assert {("copy", "checkpoint"), ("blocklist", "_last_checkpoint"), ("put", "part"), ("put", "segments")} <= set(
        points
    )
    assert points.count(("put", "part")) >= 2
    assert points[-1] == ("put", "manifest")
    assert [what for _, what in points] == sorted((what for _, what in points), key=ORDER.index)
    # Blocks that were never listed are nothing: to lack the first one of a blob is to lack all that come after it.
    worth = [number for number, point in enumerate(points, 1) if point[0] != "block" or points[number - 2] != point]
    cuts: list[tuple[int, Cut]] = [(number, "never sent") for number in worth]
    # What makes something visible may have come through though nobody was told so. That leaves behind what the cut of
    # the next request leaves: the last request of each kind will do, on executors and on the driver.
    visible = {
        (kind, what == "part"): number
        for number, (kind, what) in enumerate(points, 1)
        if kind not in {"block", "delete"} and (kind != "put" or what in OURS)
    }
    assert points[max(visible.values()) - 1] == ("put", "manifest")
    assert {kind for kind, _ in visible} == {"blocklist", "copy", "put"}
    cuts += [(number, "answer lost") for number in visible.values()]
    seen: set[frozenset[tuple[str, int | str]]] = set()
    for number, cut in cuts:
        kind, what = points[number - 1]
        with subtests.test(cut, number=number, kind=kind, what=what):
            place = Place(spark, lake.new_url("cut"), lake.options, base)
            with recorded(proxy, place, number, cut) as (mutations, (outcome, error)):
                assert outcome == "failed"
                assert error is not None
                assert "\n" not in error
                assert lake.options["account_key"] not in error
                assert not any(mutation.reached for mutation in mutations[number:])
                # An answer that is lost leaves the same behind as the next request that is never sent.
                if (left := place.left_behind()) in seen:
                    continue
                place.check_answers()
            place.check_repaired()
            seen.add(left)
    assert len(seen) >= len({what for _, what in points}) + 2


def _what(name: str) -> str:
    """What a request is about, by the name of its blob."""
    if name.startswith("v"):
        kind = name.rpartition(".")[0].rpartition(".")[2]
        return kind if kind in {"manifest", "segments"} else "part"
    return "checkpoint" if ".checkpoint." in name else name


@pytest.mark.full
def test_on_local_disk_too(
    spark: SparkSession, tmp_path: Path, base: tuple[Store, list[str]], subtests: pytest.Subtests
) -> None:
    whole = Place(spark, str(tmp_path / "whole"), {}, base)
    log = tmp_path / "whole" / "_delta_log"
    before = written_in(log)
    assert whole.triggered() == ("complete", None)
    assert whole.check_answers() == 1
    # Every file is written under another name and renamed, so that what a cut leaves behind are the first few of them.
    made = sorted(name for name in written_in(log) - before)
    steps = [_what(name.rpartition("/")[2].strip(".").removesuffix(".crc")) for _, name in made]
    assert steps == sorted(steps, key=ORDER.index)
    assert {step: steps.count(step) for step in OURS} == {"part": 2, "segments": 1, "manifest": 1}
    for number, (_, name) in enumerate(made):
        with subtests.test(name):
            place = Place(spark, str(tmp_path / str(number)), {}, base)
            there = tmp_path / str(number) / "_delta_log"
            for _, done in made[:number]:
                shutil.copyfile(log / done, there / done)
            half = (log / name).read_bytes()[: (log / name).stat().st_size // 2]
            draft = ".delta-sidecar-draft-half" if name.startswith("_sidecars/") else f".{name.strip('.')}.half.tmp"
            (there / name).with_name(draft).write_bytes(half)
            place.check_answers()
            place.check_repaired()


def written_in(log: Path) -> set[tuple[int, str]]:
    """The files of a log, with when they got their names."""
    return {(path.stat().st_ctime_ns, str(path.relative_to(log))) for path in log.rglob("*") if path.is_file()}


@pytest.mark.full
def test_a_torn_checkpoint_is_named(spark: SparkSession, tmp_path: Path, base: tuple[Store, list[str]]) -> None:
    place = Place(spark, str(tmp_path / "torn"), {}, base)
    delta_log.checkpoint(spark, hadoop_url(place.url), DUE)
    checkpoint = tmp_path / "torn" / "_delta_log" / f"{DUE:020}.checkpoint.parquet"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-200])
    checkpoint.with_name(f".{checkpoint.name}.crc").unlink()
    # Delta itself cannot read the table any more.
    outcome, error = place.triggered()
    assert outcome == "failed"
    assert error is not None
    assert f"{DUE:020}.checkpoint.parquet" in error
    assert "move that file away if the commits up to it are all there" in error
    place.check_answers(by_delta=False)
    checkpoint.unlink()
    place.check_answers()
    place.check_repaired()
