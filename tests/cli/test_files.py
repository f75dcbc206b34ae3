"""`delta-sidecar files`, called in this process."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.builder import TableBuilder, add
from tests.cli.tables import PRICE, TELEMETRY

from delta_sidecar import LazyDeltaScanner
from delta_sidecar.cli import main

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = TELEMETRY.newest_hour


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["files", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def json_files(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_text_has_a_line_per_file_newest_first(small: TableBuilder) -> None:
    assert run(small.root).stdout.splitlines() == [
        "   1.0kB  2026-02-02T02:40:00Z             -  -   day=3/c\\n\\x1b[2J ü.parquet",
        "   1.2MB  2026-02-02T02:40:00Z         1,200  dv  day=2/b.parquet",
        "    999B  1970-01-01T00:00:00Z             -  -   day=1/a.parquet",
    ]


def test_json_has_the_raw_fields(small: TableBuilder) -> None:
    odd, whole, plain = json_files(run(small.root, "--output", "json"))
    vector = whole.pop("deletion_vector")
    assert isinstance(vector, dict)
    assert vector["unique_id"] == f"u{vector['path_or_inline_dv']}@1"
    assert vector["cardinality"] == 7
    assert whole == {
        "path": "day=2/b.parquet",
        "raw_path": "day=2/b.parquet",
        "size": 1_250_000,
        "modification_time": 1_770_000_000_123,
        "partition_values": {"day": None},
        "tags": {"zone": "eu"},
        "base_row_id": 5,
        "default_row_commit_version": None,
        "clustering_provider": None,
        "stats": {"numRecords": 1200, "minValues": {"price": float(PRICE)}},
    }
    assert odd["path"] == "day=3/c\n\x1b[2J ü.parquet"
    assert odd["raw_path"] == "day=3/c%0A%1B%5B2J%20%C3%BC.parquet"
    assert odd["stats"] == "{torn"
    assert plain["stats"] is None
    assert plain["deletion_vector"] is None
    assert plain["partition_values"] == {"day": "1"}


def test_json_keeps_every_digit_of_the_statistics(small: TableBuilder) -> None:
    assert PRICE in run(small.root, "--output", "json").stdout


@pytest.mark.parametrize("stats", ['{"numRecords": NaN}', "[" * 5000, '"\\ud800"', "3"])
def test_json_stays_json_whatever_the_statistics_are(tmp_path: Path, stats: str) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet", stats=stats)])
    (line,) = run(table.root, "--output", "json").stdout_bytes.splitlines()

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    assert json.loads(line.decode(), parse_constant=refuse)["path"] == "a.parquet"


def test_arrow_is_what_the_scanner_gives(telemetry: Path) -> None:
    with pa.ipc.open_stream(run(telemetry, "--output", "arrow").stdout_bytes) as reader:
        table = reader.read_all()
    assert table.equals(LazyDeltaScanner(telemetry).scan_batches().read_all())
    assert table.num_rows == TELEMETRY.live_files


def test_arrow_of_no_file_is_a_stream_too(telemetry: Path) -> None:
    with pa.ipc.open_stream(run(telemetry, "--output", "arrow", "--limit", 0).stdout_bytes) as reader:
        assert reader.read_all().num_rows == 0


def test_csv_has_the_columns_of_the_scanner(small: TableBuilder) -> None:
    odd, whole, plain = csv.DictReader(
        io.StringIO(run(small.root, "--output", "csv").stdout_bytes.decode(), newline="")
    )
    assert list(odd) == LazyDeltaScanner(small.root).scan_batches().schema.names
    assert odd["path"] == "day=3/c\n\x1b[2J ü.parquet"
    assert json.loads(whole["partition_values"]) == {"day": None}
    assert json.loads(whole["deletion_vector"])["cardinality"] == 7
    assert PRICE in whole["stats"]
    assert (plain["size"], plain["stats"]) == ("999", "")


def test_a_limit_stops(telemetry: Path) -> None:
    assert len(run(telemetry, "--limit", 7).stdout.splitlines()) == 7


@pytest.mark.parametrize(
    "where",
    [f"_event_hour = '{NEWEST}'", f'{{"_event_hour": "{NEWEST}"}}', f'[["_event_hour", "=", "{NEWEST}"]]'],
    ids=["sql", "mapping", "dnf"],
)
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_where_takes_every_notation(telemetry: Path, where: str, strategy: str) -> None:
    result = run(telemetry, "--where", where, "--strategy", strategy, "--output", "json")
    assert sorted(str(file["path"]) for file in json_files(result)) == sorted(TELEMETRY.live_paths(NEWEST))


def test_a_version_is_read(small: TableBuilder) -> None:
    assert [file["path"] for file in json_files(run(small.root, "--version", 0, "--output", "json"))] == [
        "day=1/a.parquet"
    ]


def test_a_version_is_read_by_its_time(small: TableBuilder) -> None:
    for version in range(3):
        time = 1_770_000_000 + 60 * version
        os.utime(small.commit_path(version), (time, time))
    found = json_files(run(small.root, "--timestamp", "2026-02-02T02:41:30Z", "--output", "json"))
    assert [file["path"] for file in found] == ["day=2/b.parquet", "day=1/a.parquet"]
    early = run(small.root, "--timestamp", "2026-02-02", code=1)
    assert "the earliest version that can be read is 0" in early.stderr
    assert "is not ISO 8601" in run(small.root, "--timestamp", "yesterday", code=1).stderr
    assert "one of them" in run(small.root, "--timestamp", "2026-02-02", "--version", 1, code=1).stderr


def test_nothing_but_data_without_a_terminal(telemetry: Path) -> None:
    assert run(telemetry, "--limit", 1).stderr == ""


def test_a_summary_on_request(small: TableBuilder, telemetry: Path) -> None:
    whole = run(small.root, "--summary").stderr
    assert re.match(
        r"3 files of version 2; read \d commits, 0 row groups, [\d.]+kB by \d requests in [\d.]+ s\n$", whole
    )
    limited = run(telemetry, "--limit", 1, "--summary", "--output", "json").stderr
    assert re.match(r"1 file of version 2003 \(limit reached\); read \d commits?, 0 row groups, ", limited)


def test_a_summary_of_nothing_says_so(small: TableBuilder) -> None:
    nothing = run(small.root, "--where", "day = 77", "--summary")
    assert nothing.stdout == ""
    assert nothing.stderr.startswith("no files of version 2 can hold a matching row; read ")
    limited = run(small.root, "--where", "day = 77", "--limit", 0, "--summary")
    assert limited.stderr.startswith("no files of version 2 (limit reached); read ")


def test_a_table_without_files(tmp_path: Path) -> None:
    TableBuilder(tmp_path).commit([])
    assert run(tmp_path, "--summary").stderr.startswith("no files of version 0; read ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'TABLE'"),
        (["t", "--limit", "-1"], "--limit"),
        (["t", "--limit", "many"], "--limit"),
        (["t", "--version", "-1"], "--version"),
        (["t", "--strategy", "sideways"], "--strategy"),
        (["t", "--output", "xml"], "--output"),
        (["t", "--nonsense"], "--nonsense"),
        (["t", "--storage-option", "geheimnis"], "KEY=VALUE is expected"),
        (["t", "--storage-option", "=geheimnis"], "KEY=VALUE is expected"),
        (["t", "--storage-option", "k=geheimnis", "--storage-option", "k=geheimnis2"], "'k' is given twice"),
        (["t", "--storage-option", "account_key", "=", "geheimnis"], "KEY=VALUE is expected"),
        (["t", "--storage-option", "account_key=", "geheimnis"], "one TABLE is expected"),
    ],
)
def test_a_wrong_call_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments, code=2)
    assert message in result.stderr
    assert "geheimnis" not in result.output
    assert result.stdout == ""


def test_help_and_version() -> None:
    assert "--storage-option" in run("--help").stdout
    version = CliRunner().invoke(main, ["--version"])
    assert version.stdout.startswith("delta-sidecar 0.")


def test_the_examples_in_the_help_fit_and_can_be_understood(telemetry: Path) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["files", "--help"]).stdout
    assert max(map(len, shown.splitlines())) <= 80
    examples = [shlex.split(line.partition("|")[0]) for line in shown.splitlines() if "./telemetry" in line]
    assert sum("--where" in example for example in examples) >= 2
    for command, *arguments in examples:
        assert command == "delta-sidecar"
        there = [str(telemetry) if argument == "./telemetry" else argument for argument in arguments]
        result = CliRunner().invoke(main, there)
        assert result.exit_code == (1 if "--version" in there else 0), result.output


def test_a_wrong_command_suggests_the_right_one() -> None:
    assert "'fils'" in CliRunner().invoke(main, ["fils"]).stderr
    assert "delta-sidecar files TABLE" in CliRunner().invoke(main, ["./telemetry"]).stderr
