"""`delta-sidecar inspect`, called in this process and on a terminal."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.builder import TableBuilder, add, protocol
from tests.cli.tables import TELEMETRY
from tests.cli.test_terminal import PATIENCE, Terminal
from tests.scan.sidecar_tables import BASE, hourly, manifest_path, sidecar_path, with_sidecar

from delta_sidecar.cli import main
from delta_sidecar.health import TableReport, findings
from delta_sidecar.health import findings as sidecar_findings
from delta_sidecar.synth import TelemetryLog

HOSTILE = "evil\x1b[2J\x07\u202e\x9b31m\nname"
MARK = "Zw7markQ"


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["inspect", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def facts(result: Result) -> dict[str, str]:
    """Gives the named lines of the text."""
    return {line[:18].strip(): line[18:] for line in result.stdout.splitlines() if re.match(r"[a-z_]", line)}


def hostile(root: Path) -> TableBuilder:
    table = TableBuilder(
        root,
        schema={HOSTILE: "string", "id": "long"},
        partition_columns=[HOSTILE],
        protocol=protocol(features=[HOSTILE]),
        configuration={f"deltaSidecar.{HOSTILE}": HOSTILE, "deltaSidecar.scan.strategy": HOSTILE},
    )
    table.commit([])
    return table


def test_text_of_a_table_in_good_order(telemetry: Path) -> None:
    result = run(telemetry)
    shown = facts(result)
    assert shown["table"] == str(telemetry)
    assert shown["version"] == "2003 (the newest); readable from 2000 on"
    assert shown["files"] == f"{TELEMETRY.live_files:,}"
    assert re.fullmatch(r"[\d.]+GB; [\d.]+MB a file", shown["size"])
    assert shown["partitioned by"] == "_event_hour (time bucket)"
    assert shown["checkpoint"].startswith("version 2000, classic, ")
    assert shown["commits after it"].startswith("3, ")
    assert shown["metadata sidecar"] == "none"
    assert shown["_last_checkpoint"] == "current, version 2000"
    assert "Nothing to report." in result.stdout
    assert re.search(r"^read by \d requests, [\d.]+kB, \d trips$", result.stdout, re.MULTILINE)
    assert result.stderr == ""
    assert "\x1b" not in result.stdout


def test_text_is_aligned_and_not_too_wide(telemetry: Path, small: TableBuilder) -> None:
    for table in (telemetry, small.root):
        lines = run(table).stdout.splitlines()
        assert max(map(len, lines)) <= 110 + len(str(table))
        assert all(line[17] == " " for line in lines[:8])


def test_findings_come_with_advice(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    for number in range(120):
        table.commit([add(f"{number}")])
    result = run(tmp_path)
    assert re.search(r"^warning: no-checkpoint\n  .*\n(  .*\n)*  -> .*checkpointInterval", result.stdout, re.MULTILINE)
    assert facts(result)["commits"].startswith("120, ")
    assert facts(result)["rows"] == "not known"


def test_the_metadata_sidecar_that_scans_end_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    shown = " ".join(run(tmp_path).stdout.split())
    assert re.search(r"metadata sidecar version 3, [\d.]+kB: 8 row groups, 16 rows, statistics of 3 columns, ", shown)
    assert "sorted by _event_hour; 3 commits after it" in shown
    report = json.loads(run(tmp_path, "--output", "json").stdout)["metadata_sidecars"]
    assert (report["base"]["tier"], report["reason"], report["versions"]) == (1, None, [3])
    manifest_path(table, BASE).unlink()
    result = run(tmp_path, "--fail-on", "warning", code=1)
    assert facts(result)["metadata sidecar"].startswith("version 3, by its footer, ")
    assert "warning: sidecar-without-manifest" in result.stdout
    monkeypatch.setenv("DELTA_SIDECAR_ENABLED", "off")
    assert facts(run(tmp_path))["metadata sidecar"] == "disabled (the newest is of version 3)"


def test_a_metadata_sidecar_that_is_not_used(tmp_path: Path) -> None:
    table = with_sidecar(hourly(tmp_path), BASE)
    sidecar_path(table, BASE).unlink()
    result = run(tmp_path)
    assert facts(result)["metadata sidecar"] == "none is used (the newest is of version 3)"
    assert "warning: sidecar-unusable" in result.stdout


def test_an_empty_table(tmp_path: Path) -> None:
    TableBuilder(tmp_path).commit([])
    shown = facts(run(tmp_path))
    assert (shown["files"], shown["size"], shown["rows"]) == ("0", "0B", "0")
    assert shown["checkpoint"] == "none"


def test_a_table_that_is_not_scanned_is_no_failure(tmp_path: Path) -> None:
    TableBuilder(tmp_path, protocol=protocol(features=["newfangled"])).commit([])
    result = run(tmp_path)
    assert facts(result)["scanned"] == "no, see below"
    assert "problem: unsupported-feature" in result.stdout
    assert "newfangled" in result.stdout


def test_json_is_one_object_with_the_documented_keys(telemetry: Path) -> None:
    report = json.loads(run(telemetry, "--output", "json").stdout)
    assert list(report) == [field.name for field in fields(TableReport)]
    assert report["estimate"]["files"] == {
        "lower": TELEMETRY.live_files,
        "upper": TELEMETRY.live_files,
        "is_exact": True,
    }
    assert report["base"]["kind"] == "classic"
    assert report["findings"] == []
    assert report["refusal"] is None


@pytest.mark.parametrize(
    ("fail_on", "features", "code"),
    [("warning", ["newfangled"], 1), ("problem", ["newfangled"], 1), ("warning", [], 0), ("problem", [], 0)],
)
def test_fail_on_sets_the_exit_code(tmp_path: Path, fail_on: str, features: list[str], code: int) -> None:
    TableBuilder(tmp_path, protocol=protocol(features=features)).commit([])
    result = run(tmp_path, "--fail-on", fail_on, code=code)
    assert "table" in result.stdout
    assert run(tmp_path).exit_code == 0


def test_a_warning_is_no_problem(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([])
    table.checkpoint(last_checkpoint=False)
    assert "warning: last-checkpoint-missing" in run(tmp_path, "--fail-on", "problem").stdout
    run(tmp_path, "--fail-on", "warning", "--output", "json", code=1)


def test_a_version_and_a_time(small: TableBuilder) -> None:
    assert facts(run(small.root, "--version", 1))["version"] == "1; the newest is 2; readable from 0 on"
    assert facts(run(small.root, "--timestamp", "2100-01-01"))["version"].startswith("2 ")
    assert "one of them" in run(small.root, "--version", 1, "--timestamp", "2100-01-01", code=1).stderr


def test_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    table = hostile(tmp_path)
    text = run(table.root).stdout
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "evil\\x1b[2J\\x07\\u202e\\x9b31m\\nname" in text
    assert all(line[17] == " " for line in text.splitlines()[:8]), "a name stays on its line"
    output = run(table.root, "--output", "json").stdout
    assert output.isascii()
    assert "\x1b" not in output
    assert json.loads(output)["metadata"]["partition_columns"] == [HOSTILE]


def test_a_terminal_gets_colours_and_others_do_not(tmp_path: Path) -> None:
    table = hostile(tmp_path)
    with Terminal() as terminal, terminal.run("inspect", table.root, both=True) as process:
        assert process.wait(PATIENCE) == 0
    assert "\x1b[31m" in terminal.text
    assert "\x1b[2J" not in terminal.text
    with Terminal(NO_COLOR="1") as terminal, terminal.run("inspect", table.root, both=True) as process:
        assert process.wait(PATIENCE) == 0
    assert "\x1b" not in terminal.text


@pytest.mark.full
@pytest.mark.parametrize("columns", ["40", "80", "300"])
def test_lines_follow_the_width_of_the_terminal(tmp_path: Path, columns: str) -> None:
    TableBuilder(tmp_path).commit([])
    with Terminal(NO_COLOR="1", COLUMNS=columns) as terminal, terminal.run("inspect", tmp_path, both=True) as process:
        assert process.wait(PATIENCE) == 0
    words = [line for line in terminal.text.splitlines() if str(tmp_path) not in line]
    assert max(map(len, words)) <= min(110, max(60, int(columns)))


def test_what_is_no_table(tmp_path: Path) -> None:
    result = run(tmp_path, code=1)
    assert "is not a Delta table" in result.stderr
    assert result.stdout == ""


def test_no_secret_is_shown() -> None:
    nowhere = ("--storage-option", "retry_max_retries=0", "--storage-option", "endpoint=http://127.0.0.1:9/acct")
    secret = ("--storage-option", f"account_key={MARK}")
    for arguments in (
        ("az://c/t", *nowhere, *secret),
        (f"https://acct.blob.core.windows.net/c/t?sv=1&sig={MARK}", *nowhere),
        (f"abfss://c:{MARK}@acct.dfs.core.windows.net/t",),
    ):
        for output in ("text", "json"):
            result = run(*arguments, "--output", output, code=1)
            assert result.stderr.startswith("error: ")
            assert MARK not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'TABLE'"),
        (["t", "--output", "arrow"], "--output"),
        (["t", "--fail-on", "info"], "--fail-on"),
        (["t", "--storage-option", MARK], "KEY=VALUE is expected"),
        (["t", "--storage-option", "account_key=", MARK], "one TABLE is expected"),
    ],
)
def test_a_wrong_call_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments, code=2)
    assert message in result.stderr
    assert MARK not in result.output


def test_the_examples_in_the_help_work(telemetry: Path) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["inspect", "--help"]).stdout
    assert max(map(len, shown.splitlines())) <= 80
    examples = [shlex.split(line.partition("|")[0]) for line in shown.splitlines() if "./telemetry" in line]
    assert len(examples) == 3
    for _, *arguments in examples:
        there = [str(telemetry) if argument == "./telemetry" else argument for argument in arguments]
        assert CliRunner().invoke(main, there).exit_code == 0


def test_the_output_in_the_guide_is_what_the_command_gives(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "inspect.md").read_text()
    shown = re.search(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    log = TelemetryLog(
        files=20_000,
        files_per_hour=500,
        tail_commits=120,
        adds_per_commit=10,
        checksum=False,
        row_group_rows=2_000,
        struct_stats=True,
        last_checkpoint=False,
    )
    log.write(tmp_path)
    found = run(tmp_path).stdout.replace(str(tmp_path), "/lake/telemetry")
    # What compression and the account of requests come to is another matter.
    assert masked(shown[1]) == masked(found)


def masked(text: str) -> list[str]:
    return re.sub(r"[\d.]+[kMG]?B\b|by \d+ requests|\d+ trips", "#", text).split()


def test_the_guide_has_every_finding() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "inspect.md").read_text()
    documented = set(re.findall(r"^\| `([a-z-]+)`", page, re.MULTILINE))
    rules = "".join(Path(module.__file__).read_text() for module in (findings, sidecar_findings))
    known = set(re.findall(r'^ +"([a-z]+(?:-[a-z]+)+)"(?:,| if)', rules, re.MULTILINE))
    known |= set(re.findall(r'else "([a-z]+(?:-[a-z]+)+)",$', rules, re.MULTILINE))
    known |= {"not-readable", "property-ignored"}
    assert len(known) > 15
    assert known | {"last-checkpoint-missing", "last-checkpoint-stale"} == documented


def test_the_example_in_the_guide_runs(
    telemetry: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "inspect.md").read_text()
    code = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(telemetry.parent)
    exec(code[1], {})  # noqa: S102 - the example
    assert capsys.readouterr().out.startswith("2003 3 Range(")
