"""`delta-sidecar vacuum`, called in this process."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from tests.builder import TableBuilder
from tests.maintain.vacuum_tables import SidecarTable, age

from delta_sidecar.cli import main
from delta_sidecar.maintain.vacuum import VacuumSummary

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "evil\x1b[2J\u202e"
LINE = re.compile(r"(_delta_log/_sidecars/\S+) +([\d.]+[kM]?B) +(\d+ \w+)  (\S.*)")


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["vacuum", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> SidecarTable:
    return SidecarTable.make(tmp_path_factory.mktemp("vacuum") / "table")


@pytest.fixture
def made(template: SidecarTable, tmp_path: Path) -> SidecarTable:
    return template.copy(tmp_path / "table")


def test_lines_show_file_size_age_and_reason(made: SidecarTable) -> None:
    result = run(made.root)
    lines = [LINE.fullmatch(line) for line in result.stdout.splitlines()]
    assert [line[1].rpartition("/")[2] for line in lines if line] == [
        "v1.manifest.json",
        "v3.manifest.json",
        "v1.parquet",
        "v3.parquet",
    ]
    assert {(line[3], line[4]) for line in lines if line} == {("30 days", "newer ones can be used: 7, 5")}
    assert len({len(line.partition("  ")[0]) for line in result.stdout.splitlines()}) > 1
    assert len({line.index("30 days") for line in result.stdout.splitlines()}) == 1, "columns are aligned"
    said = result.stderr.splitlines()
    assert re.fullmatch(r"deleted 4 files, [\d.]+kB", said[0])
    assert said[1].startswith("kept version 7 (2 files, ")
    assert said[1].endswith("): the newest that can be used")
    assert said[2].startswith("kept version 5 ")
    assert len(said) == 3
    assert not {"v1.parquet", "v3.parquet"} & made.names()


def test_a_dry_run_shows_what_a_run_deletes(made: SidecarTable) -> None:
    made.put_data("v2.b.00000-0.parquet")
    made.put("v4.parquet.tmp-ab")
    before = made.names()
    dry = run(made.root, "--dry-run")
    assert made.names() == before
    assert dry.stderr.startswith("would delete 6 files, ")
    real = run(made.root)
    assert real.stdout == dry.stdout
    shown = {line.split()[0].rpartition("/")[2] for line in dry.stdout.splitlines()}
    assert before - made.names() == shown


def test_nothing_to_delete_is_no_output(made: SidecarTable, tmp_path: Path) -> None:
    result = run(made.root, "--keep", 4)
    assert result.stdout == ""
    assert result.stderr.startswith("nothing to delete\nkept version 7")
    TableBuilder(tmp_path / "bare").commit([])
    assert run(tmp_path / "bare").stderr == "nothing to delete\n"


def test_what_waits_and_what_is_unknown_is_told(made: SidecarTable) -> None:
    made.put("v9.parquet.tmp-ab", b"123", days=1)
    for number in range(12):
        made.put(f"notes-{number:02}.txt", b"x")
    said = run(made.root, "--dry-run").stderr.splitlines()
    assert "1 file that nobody needs (3B) is younger than 7 days" in said
    assert "12 unknown files, left alone:" in said
    assert said[-1] == "  and 2 more"


def test_a_checkpoint_that_cannot_be_read_is_a_warning(made: SidecarTable) -> None:
    top = made.v2_checkpoint("v2-parquet", "v2.parquet")
    TableBuilder.tear(top, -4)
    result = run(made.root)
    assert result.stdout == ""
    assert re.match(rf"warning: Checkpoint \S+{top.name} cannot be read", result.stderr)


def test_json_is_one_object_with_the_documented_keys(made: SidecarTable) -> None:
    made.put("notes.txt")
    result = run(made.root, "--output", "json", "--dry-run")
    report = json.loads(result.stdout)
    assert set(report) == {*(field.name for field in fields(VacuumSummary)), "deleted_bytes"}
    assert report["deleted_bytes"] == sum(file["size"] for file in report["deleted"])
    assert set(report["deleted"][0]) == {"path", "size", "last_modified", "age", "reason"}
    assert report["unknown"][0]["path"].endswith("notes.txt")
    assert "would delete 4 files" in result.stderr


@pytest.mark.parametrize(
    ("text", "deleted"),
    [("168", 2), ("0", 4), ("7 days", 2), ("interval 2 weeks", 2), ("30H", 4), ("29d", 2), ("5w", 0), ("5 weeks", 0)],
)
def test_spans_of_the_retention(made: SidecarTable, text: str, deleted: int) -> None:
    for end in ("parquet", "manifest.json"):
        age(made.folder / f"v3.{end}", 3)
    assert len(run(made.root, "--retention", text, "--dry-run").stdout.splitlines()) == deleted


@pytest.mark.parametrize(
    "arguments",
    [("--retention", "a while"), ("--retention", "-1"), ("--keep", "0"), ("--output", "arrow"), ("second",)],
)
def test_wrong_usage(made: SidecarTable, arguments: tuple[str, ...]) -> None:
    before = made.names()
    assert run(made.root, *arguments, code=2).stdout == ""
    assert made.names() == before


def test_what_is_no_table_is_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, code=1)
    assert "is not a Delta table" in result.stderr
    assert "TABLE is the folder that holds _delta_log" in result.stderr
    assert result.stdout == ""


def test_names_cannot_steer_a_terminal(made: SidecarTable) -> None:
    made.put(HOSTILE)
    result = run(made.root)
    assert all(letter.isprintable() or letter == "\n" for letter in result.output)
    assert "evil\\x1b[2J\\u202e" in result.stderr
