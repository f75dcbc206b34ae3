"""Growth is measured on real and on simulated tables, which a scan cannot tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bench.cloud import ours
from bench.growth import FIRST_FILE, LAST_DAY, LAST_HOUR, MANIFEST, exponent, limits, measurements, simulate
from bench.logs import made_log

from delta_sidecar.sidecar.manifest import decode_manifest

if TYPE_CHECKING:
    from pathlib import Path


def test_the_exponent_of_a_power_is_found() -> None:
    for power in (-1, 0, 0.5, 1, 2):
        assert exponent([(x, 3 * x**power) for x in (10, 1_000, 7_000_000)]) == pytest.approx(power)
    assert exponent([(1, 1), (10, 10), (100, 1)]) == pytest.approx(0)
    with pytest.raises(ValueError, match="two points"):
        exponent([(10, 1), (10, 2)])


@pytest.mark.full
def test_a_scan_cannot_tell_a_simulation_from_a_real_table(tmp_path: Path) -> None:
    model, real = made_log(50_000, tmp_path), made_log(200_000, tmp_path)
    simulated = simulate(model, 200_000, tmp_path / "simulated")
    assert simulated.files == 200_000
    answers: list[dict[str, Any]] = []
    for table, log in ((simulated.path, model.log), (real.sidecar, real.log)):
        answers.append(ours(str(table), {}, f"_event_hour = '{log.newest_hour}'")())
    assert answers[0]["tier"] == answers[1]["tier"] == 1
    for name in ("files", "requests", "trips"):
        assert answers[0][name] == answers[1][name], name
    sizes = [next(table.glob("_delta_log/_sidecars/*.json")).stat().st_size for table in (simulated.path, real.sidecar)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)


@pytest.mark.full
def test_many_row_groups_are_in_segments(tmp_path: Path) -> None:
    table = simulate(made_log(20_000, tmp_path), 20_000_000, tmp_path / "simulated")
    (path,) = (table.path / "_delta_log/_sidecars").glob("*.manifest.json")
    manifest = decode_manifest(path.read_bytes())
    assert manifest.num_files == 20_000_000
    assert [len(manifest.segments), len(manifest.row_groups)] == [16, 40]
    found = limits(table)
    assert found["row_groups"] == 2_000
    assert [each["at_files"] for each in found["limits"]] == sorted(each["at_files"] for each in found["limits"])
    assert {each["what"] for each in found["limits"]} > {"segments in the manifest", "combined Parquet footer"}
    assert found["days"]["newest day"]["segments"] == 0
    assert found["days"]["a day a year ago"]["segments"] in {1, 2}


@pytest.mark.full
def test_growth_is_measured(tmp_path: Path) -> None:
    words: list[str] = []
    found = list(measurements(words.append, files=[20_000, 40_000], simulated=[80_000], runs=1, cache=tmp_path))
    assert words
    assert [(each["question"], each["files"]) for each in found] == [
        (question, files)
        for question in (FIRST_FILE, LAST_HOUR, LAST_DAY, MANIFEST)
        for files in (20_000, 40_000, 80_000)
    ]
    assert [each["extra"]["simulated"] for each in found] == [False, False, True] * 4
    of_hour = [each for each in found if each["question"] == LAST_HOUR]
    assert {each["files_found"] for each in of_hour} == {1250}
    assert len({each["median"]["requests"] for each in of_hour}) == 1
    exponents = of_hour[0]["extra"]["exponents"]
    assert exponents["requests"] == 0
    assert 0 < exponents["manifest_bytes"] < 1
