"""A run from its workloads to its results: who is asked when, what is written, and what is said."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from bench.generated import GeneratedLog
from bench.measure import Measurement as Measured
from bench.questions import ALL_FILES, FIRST_FILE, LAST_HOUR, LAST_HOUR_PATHS, ONE_DAY, QUESTIONS, asked, check, truth
from bench.readers import Reader, kernel, ours
from bench.results import Run, measurement
from bench.run import in_turn, measurements
from bench.shapes import Shape, table
from bench.workloads import Workload
from pyarrow import parquet as pq

from bench import __main__, budgets, results, suites, terminal, workloads
from delta_sidecar.log.names import SIDECAR_FOLDER, manifest_name, sidecar_name
from delta_sidecar.sidecar.manifest import decode_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from bench.shapes import BenchTable

pytestmark = pytest.mark.slow


def test_readers_take_turns() -> None:
    readers = [Reader(name, lambda *_: pytest.fail("nobody is asked")) for name in "abcd"]
    order = list(in_turn(readers, 4))
    rounds = [[reader.name for number, reader in order if number == each] for each in range(4)]
    assert all(sorted(each) == ["a", "b", "c", "d"] for each in rounds)
    assert len({each[0] for each in rounds}) > 2, "not always the same one first"
    before = [pair for each in rounds for pair in pairwise(each)]
    assert len(set(before)) > 4, "not always the same one before another"
    assert list(in_turn([], 3)) == []


def test_a_slow_reader_is_asked_once(made: BenchTable, cache: Path) -> None:
    asks: list[str] = []

    def slow(path: str, ask: dict[str, Any]) -> Measured:
        asks.append(ask["kind"])
        found = ours.reader("checkpoint").answer(path, ask)
        answer = {name: value for name, value in found.answer.items() if name not in {"seconds", "cpu_seconds"}}
        return Measured(answer, 30.0, 20.0, 1)

    workload = Workload("files", made.shape, (LAST_HOUR, ALL_FILES), ("slow", "absent"), rounds=3)
    notes: list[str] = []
    found = list(measurements(workload, {"slow": [Reader("slow", slow)]}, cache, lambda _: None, notes.append))
    assert asks == ["hour", "all"]
    assert [len(each.runs) for each in found] == [1, 1]
    assert found[0].median.seconds == 30
    assert [note.partition(":")[0] for note in notes] == ["slow, checkpoint was asked once only"] * 2


def test_a_measurement_says_what_it_is_of(made: BenchTable, cache: Path) -> None:
    workload = Workload("removes", made.shape, (LAST_HOUR,), ("ours",), rounds=2)
    of = list(measurements(workload, {"ours": [ours.reader("sidecar")]}, cache, lambda _: None, print))
    (each,) = of
    assert (each.suite, each.files, each.tail, each.removes, each.stats_columns) == ("removes", 3_000, 5, 50, 6)
    assert each.shape == "3,000 files, a tail of 5 commits, 50 removes"
    assert (each.base, each.question, each.reader, each.variant) == ("sidecar", "last hour", "delta-sidecar", "")
    assert each.files_found == made.log.expected_hour(made.log.newest_hour)
    assert each.extra == {"manifest_bytes": made.manifest_bytes}
    assert each.median.requests
    assert each.median.bytes
    assert each.median.trips == 3


def run_of(seconds: float, **figures: float) -> Run:
    return Run(**{"peak_bytes": 5e6, "requests": 5, **figures, "seconds": seconds})


def of(seconds: float, **fields: Any) -> results.Measurement:  # noqa: ANN401 - fields of a measurement
    run = run_of(seconds, **fields.pop("figures", {}))
    known = {"suite": "files", "shape": f"{fields.get('files', budgets.FILES)} files", "files": budgets.FILES}
    ours_of = {"tail": 20, "stats_columns": 6, "base": "sidecar", "question": "last hour, paths"}
    return measurement([run], **{**known, **ours_of, "reader": ours.NAME, **fields})


def of_kernel(seconds: float, **fields: Any) -> results.Measurement:  # noqa: ANN401 - fields of a measurement
    return of(seconds, **{"reader": kernel.NAME, "base": "checkpoint", "variant": kernel.BATCHES, **fields})


GOOD = [
    of(0.01, extra={"manifest_bytes": 90_000}),
    of_kernel(9.0, variant=kernel.VISITING),
    of_kernel(8.0),
    of(5.0, base="checkpoint", figures={"peak_bytes": 99e6}),
    of(0.2, question=FIRST_FILE.name, figures={"first_seconds": 0.002}),
    of_kernel(0.3, question=FIRST_FILE.name, variant=kernel.VISITING, figures={"first_seconds": 0.006}),
    of(1.0, question=ALL_FILES.name, figures={"peak_bytes": 50e6}),
    of_kernel(4.0, question=ALL_FILES.name),
    of_kernel(15.0, question=ALL_FILES.name, variant=kernel.VISITING),
    of(0.01, suite="columns", files=100_000, stats_columns=50),
    of(0.01, suite="columns", files=100_000, stats_columns=50, question=ALL_FILES.name),
    of(0.008, files=10_000, extra={"manifest_bytes": 9_000}),
    of(60.0, suite="build", question="full build", base="", figures={"peak_bytes": 2e9}),
    of(40.0, suite="build", question="full build", base="", reader="DuckDB"),
    of(0.9, suite="startup", question="files, limit 1", base=""),
    of(0.6, suite="startup", question="import pyarrow.parquet", base="", reader="pyarrow"),
    of(0.1, suite="startup", question="nothing", base="", reader="Python"),
]
SPOILED: dict[str, tuple[int, dict[str, float]]] = {
    "last hour with a sidecar, beside the kernel": (0, {"seconds": 0.0101}),
    "first file with a sidecar, beside the kernel": (4, {"first_seconds": 0.0021}),
    "all files, beside the kernel visiting them": (6, {"seconds": 1.01}),
    "last hour without a sidecar, beside the kernel": (3, {"seconds": 5.4}),
    "memory, last hour without a sidecar": (3, {"peak_bytes": 101e6}),
    "memory, last hour": (0, {"peak_bytes": 13e6}),
    "memory, all files": (6, {"peak_bytes": 51e6}),
    "memory, last hour at 50 columns": (9, {"peak_bytes": 13e6}),
    "memory, all files at 50 columns": (10, {"peak_bytes": 51e6}),
    "last hour, a thousand times the files": (11, {"seconds": 0.006}),
    "more requests for a thousand times the files": (11, {"requests": 4}),
    "full build, beside DuckDB's own sort": (12, {"seconds": 61}),
    "memory, full build": (12, {"peak_bytes": 2.1e9}),
    "cold process, beside importing pyarrow": (14, {"seconds": 0.91}),
}


def test_budgets_are_met() -> None:
    judged = budgets.judged(GOOD)
    assert [each.what for each in judged] == [each.what for each in budgets.LIMITS]
    assert [each.what for each in judged if not each.met] == []
    assert budgets.unjudged(GOOD) == []
    assert terminal.verdict(judged, []) == "15 of 15 budgets are met."
    first = judged[0]
    assert first.measured == pytest.approx(800), "the kernel's best way counts"
    assert "10 ms where delta-kernel-rs (batches) took 8 s" in first.detail


@pytest.mark.parametrize("what", SPOILED)
def test_budgets_are_not_met(what: str) -> None:
    number, figures = SPOILED[what]
    run = msgspec.structs.replace(GOOD[number].median, **figures)
    spoiled = msgspec.structs.replace(GOOD[number], median=run)
    judged = budgets.judged([*GOOD[:number], spoiled, *GOOD[number + 1 :]])
    assert what in [each.what for each in judged if not each.met]
    assert "Not met: " in terminal.verdict(judged, [])


def test_the_size_of_the_manifest_has_a_budget() -> None:
    large = msgspec.structs.replace(GOOD[0], extra={"manifest_bytes": 100_001})
    assert [each.what for each in budgets.judged([large, *GOOD[1:]]) if not each.met] == ["manifest at the most files"]


def test_what_depends_on_size_is_not_judged_on_small_tables() -> None:
    small = [msgspec.structs.replace(each, files=1_000_000) for each in GOOD if each.suite == "files"]
    assert "last hour with a sidecar, beside the kernel" in budgets.unjudged(small)
    assert "first file with a sidecar, beside the kernel" not in budgets.unjudged(small)
    assert "full build, beside DuckDB's own sort" in budgets.unjudged(small)
    assert budgets.judged([]) == []


def test_results_survive_their_file(tmp_path: Path) -> None:
    runs = [run_of(3.0, first_seconds=1.0), run_of(1.0), run_of(2.0, first_seconds=2.0)]
    several = measurement(runs, suite="tails", shape="a table", files=7, question="all files", reader="somebody")
    assert several.median.seconds == 2
    assert several.median.first_seconds == 1.5
    assert several.median.trips is None
    assert several.spread.seconds == (1, 3)
    made = results.Results(
        made=results.now(),
        machine=results.machine(),
        versions=results.versions(),
        suites=["files", "tails"],
        notes=["no cargo here"],
        measurements=[*GOOD, several],
        budgets=budgets.judged(GOOD),
    )
    made.save(tmp_path / "folder" / "results.json")
    assert results.load(tmp_path / "folder" / "results.json") == made
    assert list(results.from_dicts(made.as_dict()["measurements"])) == made.measurements
    assert made.machine.cores > 0
    assert made.machine.memory_bytes > 1 << 28
    with pytest.raises(msgspec.ValidationError):
        list(results.from_dicts([made.as_dict()["measurements"][0] | {"suite": "another"}]))


def test_a_generated_sidecar_is_the_one_that_a_build_makes(cache: Path) -> None:
    shape = Shape(30_000, tail=3)
    built, generated = table(shape, cache), table(replace(shape, is_generated=True), cache)
    assert isinstance(generated.log, GeneratedLog)
    assert generated.bases == ("sidecar",)
    version = built.log.checkpoint_version or 0
    assert generated.total_size == built.total_size
    rows = [pq.read_table(each.sidecar_path / SIDECAR_FOLDER / sidecar_name(version)) for each in (built, generated)]
    assert rows[0].num_rows == 30_000
    assert rows[0].equals(rows[1])
    documents = [each.sidecar_path / SIDECAR_FOLDER / manifest_name(version) for each in (built, generated)]
    manifests = [decode_manifest(each.read_bytes(), version=version) for each in documents]
    assert manifests[0].row_groups == manifests[1].row_groups
    for name in ("schema_hash", "totals", "sort", "summaries", "statistics", "stats_format", "protocol", "metadata"):
        assert getattr(manifests[0], name) == getattr(manifests[1], name)
    assert not list((generated.path / "_delta_log").glob("*.checkpoint*"))
    hours = [f"20250101{hour:02}" for hour in range(24)]
    assert truth(ONE_DAY, generated).files == sum(map(built.log.expected_hour, hours)) < built.log.live_files
    for question in QUESTIONS:
        found = ours.reader("sidecar").answer(generated.at("sidecar"), asked(question, generated))
        check(question, generated, found.answer)
        assert found.answer["tier"] == 1 or question.limit is not None


def test_tables_share_a_log_and_not_a_sidecar(made: BenchTable, cache: Path) -> None:
    assert (made.sidecar_path / SIDECAR_FOLDER).exists()
    assert not (made.path / SIDECAR_FOLDER).exists()
    assert made.path.name == "v1-spark-3000-tail-5-removes-50"
    names = [Shape(1_000_000), Shape(100_000, stats_columns=50), Shape(5, stats_columns=5)]
    assert [each.folder("checkpoint") for each in names] == [
        "v1-spark-1000000",
        "v1-wide-100000",
        "v1-spark-5-columns-5",
    ]
    again = table(made.shape, cache, lambda *_: pytest.fail("it is there"))
    assert again.total_size == made.total_size
    folders = [workload.shape.folder("sidecar") for workload in (*workloads.CORE, *workloads.FULL)]
    shapes = {workload.shape for workload in (*workloads.CORE, *workloads.FULL)}
    assert len(set(folders)) == len(shapes)


def test_workloads_name_readers_that_there_are() -> None:
    for workload in (*workloads.CORE, *workloads.FULL):
        assert set(workload.readers) <= set(workloads.READERS)
    assert set(workloads.PEERS) < set(workloads.READERS)
    assert set(workloads.ELSEWHERE) == set(suites.MODULES)
    small = workloads.at_most(workloads.FULL, 1_000)
    assert {each.shape.files for each in small} == {1_000}
    assert len({(each.suite, each.shape) for each in small}) == len(small) < len(workloads.FULL)


def test_other_suites_give_measurements_or_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    module = ModuleType("bench.nowhere")
    monkeypatch.setitem(sys.modules, "bench.nowhere", module)
    monkeypatch.setitem(suites.MODULES, "rows", ("bench.nowhere",))
    assert list(suites.measurements("rows", print, notes.append)) == []
    assert notes.pop().startswith("bench.nowhere of suite rows is not there: ")
    good = msgspec.to_builtins(GOOD[0])
    module.__dict__["measurements"] = lambda _: iter([good, good | {"runs": 3}])
    assert list(suites.measurements("rows", print, notes.append)) == [GOOD[0]]
    assert notes.pop().startswith("bench.nowhere of suite rows broke off: ValidationError: ")


def test_a_small_run(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "results.json"
    words = ["--suites", "files", "ladder", "--files", "1500", "--rounds", "1", "--no-peers"]
    __main__.main([*words, "--cache", str(cache), "--json", str(figures)])
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("Before you read the figures")
    assert "suite files: 1,500 files, a tail of 20 commits" in said.out
    assert "budgets are met" in said.out
    found = results.load(figures)
    assert found.suites == ["files", "ladder"]
    assert found.notes == []
    asked_of = {(each.question, each.base) for each in found.measurements if each.suite == "files"}
    assert asked_of == {(question.name, base) for question in QUESTIONS for base in ("sidecar", "checkpoint")}
    assert {each.variant for each in found.measurements if each.suite == "ladder"} == {f"L{n}" for n in range(8)}
    assert {each.reader for each in found.measurements} == {ours.NAME}
    assert {each.files_found for each in found.measurements if each.question == LAST_HOUR_PATHS.name} == {1_250}
