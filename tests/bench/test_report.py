"""Pages and charts say what the results say, and nothing else."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from bench.design import CLAIMS, TARGETS
from bench.report import END, START, publish, write
from bench.words import duration, size

from bench import plots, report

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).parent / "sample_results.json"
PAGES = {"index.md", "ladder.md", "cloud.md", "growth.md", "rows.md", "writing.md"}
SUITES = ("files", "tails", "columns", "removes", "ladder", "rows", "build", "startup", "ingestion", "cloud", "growth")


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SAMPLE.read_bytes())
    return found


@pytest.fixture(scope="module")
def written(sample: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages, whose pictures are empty."""
    folder = tmp_path_factory.mktemp("benchmarks")
    with pytest.MonkeyPatch.context() as patched:
        draw_nothing(patched)
        write(sample, folder)
    return folder


@pytest.fixture(scope="module")
def drawn(sample: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages with their pictures."""
    folder = tmp_path_factory.mktemp("drawn")
    write(sample, folder)
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)


def draw_nothing(patched: pytest.MonkeyPatch) -> None:
    """Drawing takes its time."""

    def draw(folder: Path, name: str, *_: object) -> None:
        for theme in plots.THEMES:
            for kind in ("svg", "png"):
                (folder / f"{name}-{theme}.{kind}").touch()

    patched.setattr(plots, "bars", draw)
    patched.setattr(plots, "growth", draw)


def test_every_page_is_there_with_the_pictures_that_it_shows(written: Path) -> None:
    assert {page.name for page in written.glob("*.md")} == PAGES
    shown = {
        name
        for page in written.glob("*.md")
        for name in re.findall(r'(?:srcset|src)="([^"]+)"', page.read_text(encoding="utf-8"))
    }
    assert shown == {picture.name for picture in written.glob("*.svg")}
    assert {name.removesuffix(".svg") for name in shown} == {picture.stem for picture in written.glob("*.png")}
    assert {name for name in shown if name.endswith("-light.svg")} == {
        name.replace("-dark.svg", "-light.svg") for name in shown if name.endswith("-dark.svg")
    }


def test_the_first_page_begins_with_caveats_and_ends_with_how_to_reproduce(written: Path) -> None:
    headings = re.findall(r"^## (.*)$", text_of(written, "index.md"), re.MULTILINE)
    assert (headings[0], headings[-1]) == ("Before you read the figures", "How to reproduce")
    assert "- All figures are made up" in text_of(written, "index.md")


def test_the_results_are_beside_the_pages(written: Path, sample: dict[str, Any]) -> None:
    assert json.loads((written / "results.json").read_bytes()) == sample


def test_no_figure_is_typed(sample: dict[str, Any], tmp_path: Path) -> None:
    """Of other results every figure is another one, but for names and the design's own."""
    sample = {**sample, "budgets": [{**each, "detail": ""} for each in sample["budgets"]]}
    write(sample, tmp_path / "as-it-is")
    other = copy.deepcopy(sample)
    for each in other["measurements"]:
        each.update({name: fourfold(each[name]) for name in ("runs", "median", "extra") if name in each})
    for each in other["budgets"]:
        each.update(limit=each["limit"] * 4, measured=each["measured"] * 4)
    write(other, tmp_path / "other")
    figure = re.compile(r"\b[\d.,]*\d (?:bytes|ms|s|min|kB|MB|GB)\b")
    claimed = {(duration if each.unit == "seconds" else size)(each.limit) for each in CLAIMS}
    targets = {text for each in TARGETS for text in (size(each.peak_bytes), duration(each.first_seconds))}
    designed = claimed | targets | {duration(each.seconds) for each in TARGETS} | {"50 GB", "24 GB"}
    for name in sorted(PAGES):
        before, after = (figure.findall(plain(text_of(tmp_path / run, name))) for run in ("as-it-is", "other"))
        assert len(before) == len(after) > 10
        same = {one for one, two in zip(before, after, strict=True) if one == two}
        assert same <= designed, name


def test_a_suite_that_was_not_run_leaves_a_line(
    sample: dict[str, Any], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    headings = {
        "tails": ("index.md", "### Long tails"),
        "columns": ("index.md", "### Many columns"),
        "removes": ("index.md", "### Many removes"),
        "files": ("index.md", "## Side by side"),
        "startup": ("index.md", "## Starting up"),
        "ladder": ("ladder.md", "# The ladder"),
        "cloud": ("cloud.md", "# A cloud"),
        "growth": ("growth.md", "# Growth"),
        "rows": ("rows.md", "# Rows"),
        "build": ("writing.md", "## Building"),
        "ingestion": ("writing.md", "## Ingestion"),
    }
    assert set(headings) == set(SUITES) == {each["suite"] for each in sample["measurements"]}
    empty = {**sample, "suites": [], "measurements": [], "budgets": []}
    write(empty, tmp_path)
    assert list(tmp_path.glob("*.svg")) == []
    for suite, (page, heading) in headings.items():
        with subtests.test(suite):
            section = text_of(tmp_path, page).partition(heading)[2]
            assert "This was not part of the run." in re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0]


def test_pictures_of_a_run_before_do_not_stay(sample: dict[str, Any], tmp_path: Path) -> None:
    write(sample, tmp_path)
    assert (tmp_path / "ladder-last-hour-dark.png").exists()
    write(only(sample, "files"), tmp_path)
    assert not (tmp_path / "ladder-last-hour-dark.png").exists()
    assert (tmp_path / "last-hour-dark.png").exists()


def test_the_side_by_side_table_has_the_ratios(written: Path) -> None:
    rows = cells(text_of(written, "index.md").partition("## Side by side")[2])
    assert ["delta-kernel-rs", "9.1 s", "8.6 s to 11 s", "820x", "1x", "211 MB", "", "", ""] in rows
    assert ["**delta-sidecar**", "**11 ms**", "11 ms to 13 ms", "1x", "1/820", "11 MB", "26", "4", "411 kB"] in rows
    assert [
        "delta-sidecar, checkpoint alone",
        "6.1 s",
        "5.8 s to 7.3 s",
        "550x",
        "1/1.5",
        "88 MB",
        "60",
        "9",
        "1.1 GB",
    ] in rows


def test_budgets_that_are_not_met_are_shown_so(written: Path, sample: dict[str, Any], tmp_path: Path) -> None:
    text = text_of(written, "index.md")
    assert "4 of 5 budgets are met. Not met: first file, beside delta-kernel-rs." in text
    assert [
        "first file, beside delta-kernel-rs",
        "at least 3x",
        "2.95x",
        "**not met**",
        "6.6 ms and 19.5 ms",
    ] in cells(text)
    assert text.count("**not met**") == 1
    met = [{**each, "met": True} for each in sample["budgets"]]
    write({**only(sample, "files"), "budgets": met}, tmp_path)
    assert "All of 5 budgets are met." in text_of(tmp_path, "index.md")
    assert "not met" not in text_of(tmp_path, "index.md")


def test_where_others_are_ahead_is_said(written: Path, sample: dict[str, Any], tmp_path: Path) -> None:
    section = text_of(written, "index.md").partition("## Where others are ahead")[2].partition("\n## ")[0]
    table = "10 million files, 20 commits after the checkpoint, statistics of 5 columns"
    assert cells(section)[2] == ["first 100", table, "delta-sidecar", "8.1 ms", "delta-kernel-rs", "5.1 ms", "1.6x"]
    assert "last hour" not in section
    assert "### In memory\n\nNowhere in this run." in section
    slow = only(sample, "files")
    for each in slow["measurements"]:
        if (each["reader"], each["base"]) == ("delta-sidecar", "checkpoint"):
            each["median"] = {**each["median"], "seconds": 91, "peak_bytes": 9e9}
    write(slow, tmp_path)
    section = text_of(tmp_path, "index.md").partition("## Where others are ahead")[2]
    assert ["last hour", table, "delta-sidecar, checkpoint alone", "91 s", "delta-kernel-rs", "9.1 s", "10x"] in cells(
        section
    )
    assert ["last hour", table, "delta-sidecar, checkpoint alone", "9 GB", "delta-kernel-rs", "211 MB", "43x"] in cells(
        section
    )


def test_titles_say_it_when_others_are_quicker(written: Path, sample: dict[str, Any], tmp_path: Path) -> None:
    assert (
        alt(written, "last-hour") == "The last hour of 10 million files: 11 ms, 820 times as quick as delta-kernel-rs"
    )
    assert (
        alt(written, "memory")
        == "The last hour of 10 million files: 11 MB of memory; delta-kernel-rs takes 19 times that"
    )
    slow = only(sample, "files")
    for each in slow["measurements"]:
        if each["reader"] == "delta-sidecar":
            each["median"] = {**each["median"], "seconds": 18.2, "first_seconds": 0.0196, "peak_bytes": 422e6}
    write(slow, tmp_path)
    assert (
        alt(tmp_path, "last-hour")
        == "The last hour of 10 million files: 18 s, 2 times as long as delta-kernel-rs takes"
    )
    assert alt(tmp_path, "first-file") == "The first file of 10 million files: 20 ms, about as quick as delta-kernel-rs"
    memory = "The last hour of 10 million files: 422 MB of memory, 2 times what delta-kernel-rs takes"
    assert alt(tmp_path, "memory") == memory


def test_processes_are_beside_the_import_that_none_does_without(written: Path) -> None:
    title = "A cold process, files, limit 1: 810 ms, 1.33 times as long as pyarrow takes"
    assert alt(written, "startup") == title
    rows = cells(text_of(written, "index.md").partition("## Starting up")[2])
    assert ["delta-sidecar: files, limit 1", "810 ms", "1.3x", "90 MB"] in rows
    assert ["pyarrow: import pyarrow.parquet", "610 ms", "1x", "90 MB"] in rows


def test_what_writing_costs(written: Path) -> None:
    rows = cells(text_of(written, "writing.md"))
    assert ["DuckDB, ORDER BY", "51 s", "one run", "1/1.2", "3 GB"] in rows
    assert ["**delta-sidecar**", "**61 s**", "one run", "1x", "1.9 GB"] in rows
    assert ["incremental build, delta-sidecar", "", "", "611 kB"] in rows


def test_the_ladder_is_beside_the_design(written: Path) -> None:
    rows = cells(text_of(written, "ladder.md"))
    assert [
        "L6: only the row groups that may match",
        "11 MB (5 MB)",
        "11 ms (200 ms)",
        "12 ms (1 s)",
        "54",
        "3",
        "360 kB",
    ] in rows
    assert [
        "L7: a limit ends the scan",
        "5.5 MB (5 MB)",
        "7.9 ms (200 ms)",
        "7.9 ms (200 ms)",
        "43",
        "2",
        "237 kB",
    ] in rows
    assert ["L7: a limit ends the scan", "11 MB", "11 ms", "12 ms", "53", "2", "360 kB"] in rows
    assert ["bytes read for one day, 10 million files", "1 MB", "2.1 MB", "**not kept**"] in rows
    assert ["memory for the last hour, 1 billion files", "50 MB", "13 MB, simulated", "kept"] in rows


def test_one_thing_only(written: Path) -> None:
    rows = cells(text_of(written, "ladder.md").partition("## If it can be one thing only")[2])
    words = "metadata sidecars, found by their footers"
    assert ["You want the most for the least work", "level 3", words, "60 MB", "510 ms", "21 s", "1.4x"] in rows
    assert ["You want all of it", "level 7", "all of the design", "11 MB", "11 ms", "12 ms", "2,500x"] in rows


def test_growth_has_its_powers_and_says_what_is_not_measured(
    written: Path, sample: dict[str, Any], tmp_path: Path
) -> None:
    text = text_of(written, "growth.md")
    assert ["bytes read", "all files", "1.00", "10x"] in cells(text)
    assert ["requests", "last hour", "0.00", "1x"] in cells(text)
    assert [row[2] for row in cells(text) if row[:2] == ["manifest", "the table"]] == ["0.30"], "not of simulated ones"
    billion = cells(text.partition("## A billion files")[2])
    assert billion[2] == ["all files", "time", "18 s of 100 million", "180 s", "10x", "by its power"]
    assert ["the table", "manifest", "82 kB of 100 million", "411 kB", "5x", "simulated"] in billion
    assert ["segments in the manifest", "40 kB", "100 kB", "2.5 billion", "budget"] in billion
    assert ["a day a year ago", "1", "33"] in billion
    assert "| simulated |" in text.partition("## Last hour")[2].partition("\n## ")[0]
    measured = only(sample, "growth")
    measured["measurements"] = [each for each in measured["measurements"] if each["files"] <= 1_000_000]
    write(measured, tmp_path)
    assert "by its power" not in text_of(tmp_path, "growth.md"), "two sizes lead nowhere"
    measured = only(sample, "growth")
    for each in measured["measurements"]:
        each.update(extra={}, variant="")
    write(measured, tmp_path)
    assert "simulated" not in text_of(tmp_path, "growth.md")
    assert "What breaks first" not in text_of(tmp_path, "growth.md")


@pytest.mark.full
def test_charts_can_be_read_on_both_screens(drawn: Path, subtests: pytest.Subtests) -> None:
    for theme, page in (("light", "#ffffff"), ("dark", "#0d1117")):
        for picture in sorted(drawn.glob(f"*-{theme}.svg")):
            with subtests.test(picture.name):
                text = picture.read_text(encoding="utf-8")
                assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314 - our own
                assert f"fill: {page}" in text
                assert "<text" not in text, "letters are drawn: no font has to be there"


def test_the_readme_has_the_picture_and_the_ratios(sample: dict[str, Any], tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n\n{START}old\n{END}\n\nafter\n", encoding="utf-8")
    publish(sample, readme)
    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"before\n\n{START}## ")
    assert text.endswith(f"{END}\n\nafter\n")
    assert 'srcset="docs/benchmarks/last-hour-dark.svg"' in text
    rows = cells(text)
    assert ["the last hour", "**11 ms**", "9.1 s (820x)", "48 s (4,333x)"] in rows
    assert ["memory for that", "**11 MB**", "211 MB (19x)", "7.1 GB (640x)"] in rows
    assert "4 of 5 budgets are met. Not met: first file, beside delta-kernel-rs." in text
    publish(sample, readme)
    assert readme.read_text(encoding="utf-8") == text
    publish({**sample, "measurements": []}, readme)
    assert readme.read_text(encoding="utf-8") == f"before\n\n{START}{END}\n\nafter\n"


def test_with_the_documentation_comes_the_readme(
    sample: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"{START}{END}", encoding="utf-8")
    monkeypatch.setattr(report, "README", readme)
    monkeypatch.setattr(report, "PUBLISHED", tmp_path / "docs")
    write(sample, tmp_path / "elsewhere")
    assert readme.read_text(encoding="utf-8") == f"{START}{END}"
    write(sample, tmp_path / "docs")
    assert "## How quick it is" in readme.read_text(encoding="utf-8")


def test_results_of_another_form_are_refused(sample: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(msgspec.ValidationError):
        write({**sample, "measurements": [{"suite": "files"}]}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.full
def test_the_command_draws_the_same_again(sample: dict[str, Any], drawn: Path, tmp_path: Path) -> None:
    """In another process, where hashes are others too."""
    readme = (ROOT / "README.md").read_bytes()
    few = {
        **sample,
        "measurements": [each for each in sample["measurements"] if each["suite"] in {"growth", "startup"}],
    }
    (tmp_path / "results.json").write_text(json.dumps(few), encoding="utf-8")
    command = [sys.executable, "-m", "bench.report", str(tmp_path / "results.json"), str(tmp_path / "pages")]
    subprocess.run(command, check=True, cwd=ROOT)
    names = sorted(path.name for kind in ("svg", "png") for path in (tmp_path / "pages").glob(f"*.{kind}"))
    assert len(names) == 2 * 4
    assert [name for name in names if (tmp_path / "pages" / name).read_bytes() != (drawn / name).read_bytes()] == []
    assert text_of(tmp_path / "pages", "growth.md") == text_of(drawn, "growth.md")
    assert (ROOT / "README.md").read_bytes() == readme, "it belongs to the documentation's own pages"


def fourfold(value: Any) -> Any:  # noqa: ANN401 - of JSON
    """With every number in it four times what it is."""
    if isinstance(value, dict):
        return {name: fourfold(each) for name, each in value.items()}
    if isinstance(value, list):
        return [fourfold(each) for each in value]
    return 4 * value if isinstance(value, int | float) and not isinstance(value, bool) else value


def only(sample: dict[str, Any], suite: str) -> dict[str, Any]:
    """A copy with one suite."""
    measured = [each for each in sample["measurements"] if each["suite"] == suite]
    return copy.deepcopy({**sample, "suites": [suite], "measurements": measured, "budgets": []})


def text_of(folder: Path, page: str) -> str:
    return (folder / page).read_text(encoding="utf-8")


def plain(text: str) -> str:
    """Without emphasis, and the pictures' titles."""
    return re.sub(r"<picture>.*?</picture>", "", text.replace("**", ""), flags=re.DOTALL)


def cells(text: str) -> list[list[str]]:
    """The rows of tables."""
    return [[cell.strip() for cell in line[1:-2].split(" | ")] for line in text.splitlines() if line.startswith("| ")]


def alt(folder: Path, name: str) -> str:
    """What stands for a picture on a page."""
    (found,) = re.findall(rf'alt="([^"]*)" src="{name}-light.svg"', text_of(folder, "index.md"))
    return str(found)
