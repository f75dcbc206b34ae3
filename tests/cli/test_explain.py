"""`delta-sidecar explain`, called in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from tests.builder import TableBuilder, add
from tests.cli.tables import TELEMETRY
from tests.scan.sidecar_tables import BASE, NEWEST, hourly, manifest_path, sidecar_path, with_sidecar

from delta_sidecar.build.publish import Levels
from delta_sidecar.cli import main

if TYPE_CHECKING:
    from pathlib import Path

NEWEST_HOUR = TELEMETRY.newest_hour


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["explain", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def lines(result: Result) -> dict[str, str]:
    """What stands behind each label."""
    found = (line.partition(" ") for line in result.stdout.splitlines() if line and not line.startswith(" "))
    return {label: text.strip() for label, _, text in found}


def test_it_says_strategy_and_reason(telemetry: Path) -> None:
    told = lines(run(telemetry, "--where", f"_event_hour >= '{NEWEST_HOUR}'"))
    assert told["wanted"] == f"_event_hour >= '{NEWEST_HOUR}'"
    assert told["strategy"].startswith("reverse: the predicate asks for times")
    assert told["tests"] == "partition values of _event_hour"
    assert told["expected"].startswith("at most ")
    assert "found" not in told


def test_forward_has_the_base_first(telemetry: Path) -> None:
    text = run(telemetry, "--strategy", "forward").stdout
    assert text.index("\nbase ") < text.index("\ntail ")
    text = run(telemetry, "--strategy", "reverse").stdout
    assert text.index("\ntail ") < text.index("\nbase ")


def test_analysed_it_says_what_was_found(telemetry: Path) -> None:
    told = lines(run(telemetry, "--limit", 3, "--analyze"))
    assert told["found"].startswith("3 files (the limit) in ")
    assert told["order"] == "recent: newest commits first, then the checkpoint as it lies"
    assert "requests" in told["read"]
    assert "expected" not in told


def test_json_is_one_object(telemetry: Path) -> None:
    told = json.loads(run(telemetry, "--limit", 3, "--analyze", "--output", "json").stdout)
    assert told["strategy"] == "reverse"
    assert told["actual"]["files_emitted"] == 3
    assert set(told["expected"]) == {"row_groups_at_most", "bytes_at_most", "requests_about", "trips_about"}


def test_a_table_without_a_checkpoint(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    told = lines(run(tmp_path))
    assert told["base"] == "none: the log is replayed from its start"
    assert told["tests"] == "none: every live file is wanted"


def test_a_base_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    table.checkpoint()[-1].write_bytes(b"PAR1")
    assert "00000000000000000000.checkpoint.parquet" in lines(run(tmp_path))["unusable"]


def test_a_metadata_sidecar_says_what_is_read_of_it(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    result = run(tmp_path, "--where", "_event_hour >= '2026021012'")
    assert lines(result)["base"] == "v3.manifest.json, version 3: a metadata sidecar with its manifest (tier 1)"
    text = " ".join(result.stdout.split())
    assert "in 1 file, 16 rows, 8 row groups, 6 of them without a match by the manifest read: 2 row groups, " in text
    assert " of index and " in text
    assert "not tier 1" not in text
    manifest_path(table, BASE).unlink()
    result = run(tmp_path)
    assert lines(result)["base"] == "v3.parquet, version 3: a metadata sidecar by its footer (tier 2)"
    assert "not tier 1: the metadata sidecar has no manifest; delta-sidecar build" in result.stdout


def test_an_older_metadata_sidecar_is_told_to_be_one(tmp_path: Path) -> None:
    table = with_sidecar(with_sidecar(hourly(tmp_path), BASE), NEWEST)
    sidecar_path(table, NEWEST).unlink()
    result = run(tmp_path, "--where", "_event_hour = '1999'")
    assert lines(result)["base"].startswith("v3.manifest.json, ")
    assert "not the newest: see above" in result.stdout
    assert "read: nothing" in result.stdout


def test_a_large_manifest_is_read_in_segments(tmp_path: Path) -> None:
    with_sidecar(hourly(tmp_path), BASE, levels=Levels(3, 2, 2))
    assert "read: 3 segments of the manifest, which list row groups" in run(tmp_path).stdout


def test_a_checkpoint_says_why_it_is_no_metadata_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hourly(tmp_path)
    assert "not tier 1: the log has no metadata sidecar; delta-sidecar build makes one" in run(tmp_path).stdout
    with_sidecar(table, BASE)
    (table.log / "_sidecars" / "v3.parquet").unlink()
    result = run(tmp_path)
    assert lines(result)["unusable"].startswith("v3.manifest.json: v3.parquet, which it speaks of, is not there")
    assert "not tier 1: see above" in result.stdout
    monkeypatch.setenv("DELTA_SIDECAR_ENABLED", "false")
    assert "not tier 1: metadata sidecars are disabled" in run(tmp_path).stdout


@pytest.mark.parametrize("arguments", [["--where", "nothing = 5"], ["--version", "77"]])
def test_what_cannot_be_scanned_cannot_be_explained(telemetry: Path, arguments: list[str]) -> None:
    result = run(telemetry, *arguments, code=1)
    assert result.stdout == ""
    assert "error:" in result.stderr


def test_a_strange_name_does_not_steer_the_terminal(tmp_path: Path) -> None:
    root = tmp_path / "a\x1b[2Jb"
    TableBuilder(root).commit([add("a.parquet")])
    assert "\x1b" not in run(root).stdout
