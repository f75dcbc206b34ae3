"""`delta-sidecar sql`: queries over tables, and nothing else that the query could reach."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.cli.row_tables import hide_pandas, write_kinds, write_numbers
from tests.cli.test_process import COMMAND, PATIENCE, SilentStore, error_text, started
from tests.cli.test_terminal import Terminal
from tests.small_files import small_files

from delta_sidecar.cli import main

if TYPE_CHECKING:
    from pathlib import Path

ENDLESS = "SELECT count(*) FROM t a, t b, t c, t d, t e WHERE a.value + b.value + c.value + d.value = e.value"


@pytest.fixture(autouse=True)
def _quick_processes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_pandas(tmp_path_factory.mktemp("quick"), monkeypatch)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sql") / "numbers"
    write_numbers(root)
    return root


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sql") / "kinds"
    write_kinds(root)
    return root


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that fit into no pipe, in sixty files."""
    root = tmp_path_factory.mktemp("sql") / "large"
    small_files(root, files=60, rows=500)
    return root


def run(query: str, *arguments: object, code: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, ["sql", query, *map(str, arguments)], input=stdin)
    assert result.exit_code == code, result.output
    return result


def failure(query: str, *arguments: object) -> str:
    result = run(query, *arguments, code=1)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def test_a_query_is_answered(numbers: Path) -> None:
    assert run("SELECT count(*) n, sum(id) total FROM t", "--table", f"t={numbers}").stdout.splitlines() == [
        "   n          total",
        "long  decimal(38,0)",
        "────  ─────────────",
        "  12             66",
    ]


def test_tables_are_joined_at_their_versions(numbers: Path) -> None:
    tables = ["--table", f"new={numbers}", "--table", f"Old={numbers}", "--table", f"past={numbers}"]
    query = "SELECT (SELECT count(*) FROM new) a, (SELECT count(*) FROM old) b, (SELECT count(*) FROM past) c"
    found = run(query, *tables, "--version", "old=0", "--timestamp", "past=2999-01-01", "--output", "json")
    assert json.loads(found.stdout) == {"a": 12, "b": 4, "c": 12}
    query = "SELECT count(*) n FROM new ANTI JOIN old USING (id)"
    assert json.loads(run(query, *tables, "--version", "OLD=0", "--output", "json").stdout) == {"n": 8}


def test_every_output_has_the_rows(kinds: Path) -> None:
    table = ("--table", f"t={kinds}")
    query = 'SELECT id, name, "at", price FROM t WHERE ok'
    (row,) = run(query, *table, "--output", "json").stdout.splitlines()
    assert json.loads(row)["at"] == "2026-02-10T22:30:00.123456Z"
    assert "1234567890123456789012345678.1200000000" in row
    assert run(query, *table, "--output", "csv").stdout_bytes.startswith(b"id,name,at,price\r\n9007199254740993,")
    with pa.ipc.open_stream(run(query, *table, "--output", "arrow").stdout_bytes) as reader:
        assert reader.read_all().column("id").to_pylist() == [2**53 + 1]


def test_no_row_is_an_answer_too(numbers: Path) -> None:
    table = ("--table", f"t={numbers}")
    result = run("SELECT id FROM t WHERE id < 0", *table, "--summary")
    assert result.stdout.splitlines() == ["  id", "long", "────"]
    assert result.stderr.startswith("no rows; read ")


def test_a_query_from_stdin(numbers: Path) -> None:
    result = run(
        "-", "--table", f"t={numbers}", "--output", "csv", stdin="SELECT max(id) AS most FROM t -- the last\n;"
    )
    assert result.stdout_bytes == b"most\r\n11\r\n"


def test_a_plan_is_drawn(numbers: Path) -> None:
    lines = run("EXPLAIN SELECT id FROM t WHERE id > 3", "--table", f"t={numbers}").stdout.splitlines()
    assert any("> 3" in line for line in lines)
    assert all(line[0] in "╭│╰" for line in lines)


def test_a_limit_and_a_condition_open_a_few_files(large: Path) -> None:
    def opened(query: str) -> int:
        told = run(query, "--table", f"t={large}", "--summary").stderr
        found = re.match(r"\d+ rows?; read (\d+) of \d+ files? found, [\d.]+[kM]B by \d+ requests in [\d.]+ s\n", told)
        assert found, told
        return int(found[1])

    assert opened("SELECT * FROM t LIMIT 5") <= 4
    assert opened("SELECT count(value) FROM t WHERE device_id = 'device-00042'") == 1
    assert opened("SELECT count(value) FROM t") == 60


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{}/_delta_log/00000000000000000000.json')",
        "SELECT * FROM '{}/_delta_log/00000000000000000000.json'",
        "SELECT * FROM glob('{}/*')",
        "SELECT * FROM numbers",
        "SELECT * FROM read_parquet('https://127.0.0.1:9/x.parquet')",
    ],
)
def test_nothing_but_the_tables_can_be_read(numbers: Path, query: str) -> None:
    assert failure(query.format(numbers), "--table", f"t={numbers}").startswith("error: the query failed: ")


@pytest.mark.parametrize(
    "query",
    [
        "COPY t TO 'written.csv'",
        "ATTACH 'written.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CREATE TABLE u AS FROM t",
        "DROP VIEW t",
        "SET threads = 1",
        "PRAGMA enable_profiling",
        "SELECT 1; SELECT 2",
        "-- nothing",
        "--just a comment\nDROP VIEW t",
    ],
)
def test_only_a_query_is_run(numbers: Path, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "one query is expected" in failure(query, "--table", f"t={numbers}")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_query_is_one_line(numbers: Path) -> None:
    table = ("--table", f"t={numbers}")
    wrong = {
        "SELECT nmae FROM t": 'Binder Error: Referenced column "nmae" not found in FROM clause! Candidate bindings: ',
        "SELECT * FRO t": 'Parser Error: syntax error at or near "t"',
        "SELECT * FROM u": "Catalog Error: Table with name u does not exist; the tables are t",
        "SELECT name::int FROM t": "Conversion Error: Could not convert string 'row ",
    }
    for query, message in wrong.items():
        (line,) = failure(query, *table).splitlines()
        assert line.startswith(f"error: the query failed: {message}")


def test_two_columns_of_one_name_are_no_json(numbers: Path) -> None:
    table = ("--table", f"t={numbers}")
    assert "two columns are called 'a'" in failure("SELECT 1 AS a, 2 AS a", *table, "--output", "json")
    assert run("SELECT 1 AS a, 2 AS a", *table, "--output", "csv").stdout_bytes == b"a,a\r\n1,2\r\n"


def test_an_error_of_a_table_keeps_its_words(tmp_path: Path, numbers: Path) -> None:
    assert failure("SELECT 1", "--table", f"t={tmp_path}").splitlines() == [
        f"error: {tmp_path} is not a Delta table: there is no commit and no checkpoint in its _delta_log",
        "hint: TABLE is the folder that holds _delta_log",
    ]
    assert "has no version 9" in failure("SELECT 1", "--table", f"t={numbers}", "--version", "t=9")
    write_numbers(tmp_path)
    lost = next(tmp_path.glob("*.parquet"))
    lost.unlink()
    message = failure("SELECT sum(id) FROM t", "--table", f"t={tmp_path}")
    assert message.startswith(f"error: data file {lost.name} ")
    assert "registered" not in message


def test_no_secret_is_shown(numbers: Path) -> None:
    table = ("--table", f"t={numbers}")
    address = "https://account.blob.core.windows.net/lake/t?sv=2024-01-01&sig=geheimnis"
    nowhere = ["--storage-option", "endpoint=http://127.0.0.1:9/a", "--storage-option", "retry_max_retries=0"]
    shown = [
        run("FROM '" + address + "'", *table, code=1),
        run("FROM read_parquet('" + address + "')", *table, code=1),
        run("SELECT 1", "--table", f"t={address}", *nowhere, code=1),
        run("SELECT 1", "--table", address, code=2),
        run("SELECT 1", "--table", f"t{address}", code=2),
        run("SELECT 1", *table, address, code=2),
        run("SELECT 1", *table, "--version", "geheimnis", code=2),
        run("SELECT 1", *table, "--timestamp", "geheimnis", code=2),
    ]
    assert "geheimnis" not in "".join(result.output for result in shown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--table'"),
        (["--table", "t"], "NAME=ADDRESS is expected"),
        (["--table", "my table=x"], "a plain word for NAME"),
        (["--table", "t=x", "--table", "T=y"], "'T' is given twice"),
        (["--table", "t=x", "--version", "3"], "NAME=N is expected"),
        (["--table", "t=x", "--version", "t=new"], "a whole number"),
        (["--table", "t=x", "--version", "u=3"], "'u' is none of them"),
        (["--table", "t=x", "FROM", "t"], "put it in quotes"),
    ],
)
def test_a_wrong_call_is_exit_code_2(arguments: list[str], message: str) -> None:
    assert message in run("SELECT", *arguments, code=2).stderr


def test_the_examples_in_the_help_fit_and_run(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["sql", "--help"]).stdout
    assert max(map(len, shown.splitlines())) <= 80
    large.with_name("telemetry").symlink_to(large)
    monkeypatch.chdir(large.parent)
    examples = re.findall(r"^ +delta-sidecar (sql .*)", shown.replace("\\\n", ""), re.MULTILINE)
    assert len(examples) == 4
    for example in examples:
        words = shlex.split(re.split("[<>] ", example)[0].replace("old=29", "old=1"))
        result = CliRunner().invoke(main, words, input="FROM t LIMIT 1")
        assert result.exit_code == 0, result.output


def test_without_duckdb_it_says_how_to_get_it(numbers: Path) -> None:
    code = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from delta_sidecar.cli import main\n"
        f"main(['sql', 'SELECT 1', '--table', 't={numbers}'])"
    )
    process = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert line.startswith("error: ")
    assert "pip install '.[duckdb]' in a clone of delta-sidecar" in line


def test_a_process_leaves_nothing_behind(large: Path) -> None:
    answer = subprocess.run(
        [*COMMAND, "sql", "SELECT count(*) AS n FROM t", "--table", f"t={large}", "--output", "csv"],
        check=True,
        capture_output=True,
    )
    assert (answer.stdout, answer.stderr) == (b"n\r\n30000\r\n", b"")


def test_a_reader_that_goes_away_ends_it_quietly(large: Path) -> None:
    with started("sql", "SELECT * FROM t", "--table", f"t={large}", "--output", "json") as process:
        assert process.stdout is not None
        assert process.stdout.read(100)
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE
        assert error_text(process) == b""


def test_an_interrupt_while_a_store_does_not_answer() -> None:
    arguments = ("sql", "SELECT 1", "--table", "t=az://lake/table")
    with SilentStore(b"_last_checkpoint") as store, started(*arguments, *store.flags) as process:
        assert store.asked.wait(PATIENCE)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert error_text(process) == b""


def test_an_interrupt_in_the_middle_of_a_query_that_shows_how_far_it_is(large: Path) -> None:
    progress = re.compile(r"0 rows  \d+ of \d+ files? found, [\d.]+\w*B by \d+ requests  \d+ s")
    with Terminal() as terminal, terminal.run("sql", ENDLESS, "--table", f"t={large}") as process:
        terminal.wait_for(progress)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert "Traceback" not in terminal.text
    assert "leaked" not in terminal.text
