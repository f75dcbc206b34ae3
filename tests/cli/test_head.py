"""`delta-sidecar head`: rows in every form, as few files as it takes, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.cli.row_tables import write_kinds, write_numbers
from tests.cli.test_process import COMMAND, PATIENCE, error_text, started
from tests.cli.test_terminal import CONTROL, Terminal
from tests.small_files import small_files

from delta_sidecar.cli import main
from delta_sidecar.table.delta_table import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("head") / "kinds"
    write_kinds(root)
    return root


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("head") / "numbers"
    write_numbers(root)
    return root


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that fit into no pipe, in sixty files."""
    root = tmp_path_factory.mktemp("head") / "large"
    small_files(root, files=60, rows=500)
    return root


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["head", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def json_rows(*arguments: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(*arguments, "--output", "json").stdout.splitlines()]


def test_text_is_a_table_with_types_under_the_names(numbers: Path) -> None:
    assert run(numbers, "-n", 3).stdout.splitlines() == [
        "  id  name",
        "long  string",
        "────  ──────",
        "   8  row 8",
        "   9  row 9",
        "  10  row 10",
    ]


def test_text_tells_null_from_an_empty_text_and_keeps_to_a_line(kinds: Path) -> None:
    lines = run(kinds, "--columns", "id,name,price,spot,numbers").stdout.splitlines()
    assert lines[3].split() == ["2", '""', "null", "null", "null"]
    assert len(lines) == 5
    assert 'says "a, b"\\nü\\x9b' in lines[4]
    assert lines[4].split()[-2:] == ['{"x":1,"y":null}', "[1,null]"]


def test_json_keeps_every_value(kinds: Path) -> None:
    line = run(kinds, "--output", "json").stdout.splitlines()[1]
    assert '"price":1234567890123456789012345678.1200000000' in line
    assert "\x9b" not in line
    assert json.loads(line) == {
        "id": 2**53 + 1,
        "name": 'says "a, b"\nü\x9b',
        "price": pytest.approx(1234567890123456789012345678.12),
        "at": "2026-02-10T22:30:00.123456Z",
        "local": "2026-02-10T22:30:00",
        "day": "0001-01-01",
        "blob": "AP8=",
        "ok": True,
        "value": "NaN",
        "small": 0.1,
        "tags": {"a": 1, "b": None},
        "spot": {"x": 1, "y": None},
        "numbers": [1, None],
    }


def test_csv_is_read_back_as_it_was(kinds: Path) -> None:
    text = run(kinds, "--output", "csv").stdout_bytes.decode()
    assert text.count("\r\n") == 3
    head, sparse, full = csv.reader(io.StringIO(text, newline=""))
    assert head[:3] == ["id", "name", "price"]
    assert full == [
        str(2**53 + 1),
        'says "a, b"\nü\x9b',
        "1234567890123456789012345678.1200000000",
        "2026-02-10T22:30:00.123456Z",
        "2026-02-10T22:30:00",
        "0001-01-01",
        "AP8=",
        "true",
        "NaN",
        "0.1",
        '{"a":1,"b":null}',
        '{"x":1,"y":null}',
        "[1,null]",
    ]
    assert sparse == ["2", *[""] * 12]
    # An empty text is told from null by its quotes.
    assert '2,"",,,' in text


def test_the_only_column_of_csv_is_never_an_empty_line(kinds: Path) -> None:
    assert run(kinds, "--columns", "price", "-n", 1, "--output", "csv").stdout_bytes == b'price\r\n""\r\n'


def test_arrow_is_what_a_scan_gives(kinds: Path) -> None:
    with pa.ipc.open_stream(run(kinds, "--output", "arrow").stdout_bytes) as reader:
        found = reader.read_all()
    # NaN is not equal to itself.
    assert found.drop_columns("value").equals(
        DeltaTable(kinds).scan(limit=10).reader().read_all().drop_columns("value")
    )


@pytest.mark.parametrize(
    ("output", "expected"),
    [("text", b"long"), ("json", b""), ("csv", b"id\r\n"), ("arrow", b"\xff\xff\xff\xff")],
)
def test_no_row_is_an_answer_too(numbers: Path, output: str, expected: bytes) -> None:
    out = run(numbers, "--where", "id < 0", "--columns", "id", "--output", output).stdout_bytes
    assert expected in out
    assert out.count(b"\n") <= 3
    assert run(numbers, "-n", 0, "--columns", "id", "--output", output).stdout_bytes == out


def test_rows_of_the_newest_commit_come_first(numbers: Path) -> None:
    assert [row["id"] for row in json_rows(numbers, "--rows", 4)] == [8, 9, 10, 11]
    assert [row["id"] for row in json_rows(numbers, "--limit", 4)] == [8, 9, 10, 11]
    assert len(json_rows(numbers)) == 10


@pytest.mark.parametrize("where", ["id IN (1, 6)", '[["id", "in", [1, 6]]]'])
def test_where_leaves_rows_that_match(numbers: Path, where: str) -> None:
    assert sorted(row["id"] for row in json_rows(numbers, "--where", where)) == [1, 6]


def test_columns_come_as_asked_for(numbers: Path) -> None:
    assert [list(row) for row in json_rows(numbers, "--columns", "name, id", "-n", 1)] == [["name", "id"]]
    assert list(json_rows(numbers, "--columns", "`name`", "-n", 1)[0]) == ["name"]


def test_a_version_is_read_by_number_and_by_time(numbers: Path) -> None:
    assert len(json_rows(numbers, "--version", 0)) == 4
    assert len(json_rows(numbers, "--timestamp", "2999-01-01")) == 10
    assert "earliest" in run(numbers, "--timestamp", "1999-01-01", code=1).stderr
    assert "one of them" in run(numbers, "--timestamp", "2026-02-02", "--version", 1, code=1).stderr


def test_a_few_rows_open_a_few_files(large: Path) -> None:
    told = run(large, "-n", 3, "--summary").stderr
    found = re.fullmatch(
        r"3 rows of version 3 \(limit reached\); read (\d) of \d files? found, [\d.]+kB by (\d+) requests in .* s\n",
        told,
    )
    assert found, told
    assert int(found[1]) <= 4
    assert run(large, "--where", "device_id = 'x'", "--summary").stderr.startswith("no rows of version 3 match; read ")


def test_nothing_but_data_without_a_terminal(numbers: Path) -> None:
    assert run(numbers).stderr == ""


def test_an_unknown_column_is_named(numbers: Path) -> None:
    message = run(numbers, "--columns", "nam", code=1).stderr
    assert "nam" in message
    assert "name" in message
    assert "dya" in run(numbers, "--where", "dya = 1", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'TABLE'"),
        (["t", "geheimnis"], "one TABLE is expected"),
        (["t", "-n", "-1"], "--rows"),
        (["t", "--columns", "a,,b"], "names of columns are expected"),
        (["t", "--output", "xml"], "--output"),
        (["t", "--storage-option", "geheimnis"], "KEY=VALUE is expected"),
    ],
)
def test_a_wrong_call_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments, code=2)
    assert message in result.stderr
    assert "geheimnis" not in result.output


def test_no_secret_of_an_address_is_shown() -> None:
    flags = ["--storage-option", "endpoint=http://127.0.0.1:9/a", "--storage-option", "retry_max_retries=0"]
    result = run("https://account.blob.core.windows.net/lake/t?sv=2024-01-01&sig=geheimnis", *flags, code=1)
    assert "geheimnis" not in result.output


def test_the_examples_in_the_help_fit_and_can_be_understood(large: Path) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["head", "--help"]).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert run(large, "-n", 100, "--where", "_event_hour >= '2026010102'").stdout.count("\n") == 103
    assert run(large, "--columns", "device_id,event_ts", "--output", "csv").stdout.count("\n") == 11


def test_a_file_that_is_gone_is_named_and_the_output_is_not_whole(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    lost = min(tmp_path.glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    lost.unlink()
    text = run(tmp_path, "-n", 100, code=1)
    assert lost.name in text.stderr
    assert "Traceback" not in text.stderr
    arrow = subprocess.run(
        [*COMMAND, "head", tmp_path, "-n", "100", "--output", "arrow"], check=False, capture_output=True
    )
    assert arrow.returncode == 1
    with pytest.raises((pa.ArrowInvalid, OSError)), pa.ipc.open_stream(arrow.stdout) as reader:
        reader.read_all()


def test_a_reader_that_goes_away_ends_it_quietly(large: Path) -> None:
    with started("head", large, "-n", "30000", "--output", "json") as process:
        assert process.stdout is not None
        assert process.stdout.read(100)
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE
        assert error_text(process) == b""


def test_an_interrupt_while_nobody_reads(large: Path) -> None:
    with started("head", large, "-n", "30000", "--output", "csv") as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert error_text(process) == b""


def test_the_first_row_does_not_wait_for_anything_heavy(numbers: Path) -> None:
    code = (
        "import sys; from delta_sidecar.cli import main\n"
        f"main(['head', {str(numbers)!r}, '--output', 'json'], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in process.stderr.split()}
    assert "pyarrow" in loaded
    assert not {"pandas", "duckdb", "rich", "deltalake"} & loaded


def test_help_does_not_wait_for_anything_heavy() -> None:
    code = (
        "import sys; from delta_sidecar.cli import main\n"
        "for name in ('head', 'sql', 'stats'): main([name, '--help'], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in process.stderr.split()}
    assert not {"pyarrow", "numpy", "pandas", "rich", "sqlglot", "obstore", "duckdb"} & loaded


def test_progress_on_a_terminal_and_a_summary_at_the_end(large: Path) -> None:
    progress = re.compile(r"[\d,]+ rows  \d+ of \d+ files? found, [\d.]+\w*B by \d+ requests  \d+ s")
    with Terminal() as terminal, terminal.run("head", large, "-n", "30000", "--output", "json") as process:
        # Nobody reads the pipe yet, so that the command is still at work.
        terminal.wait_for(progress)
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert out.count(b"\n") == 30_000
    assert "30,000 rows of version 3 (limit reached); read 60 of 60 files found, " in terminal.text


def test_a_table_fits_into_its_terminal_without_colours(kinds: Path) -> None:
    environment = {"COLUMNS": "60", "NO_COLOR": "1"}
    with Terminal(**environment) as terminal, terminal.run("head", kinds, both=True) as process:
        assert process.wait(PATIENCE) == 0
    assert "\x1b[1m" not in terminal.text
    lines = [line.rpartition("\r")[2] for line in CONTROL.sub("", terminal.text).replace("\r\n", "\n").split("\n")]
    table = lines[next(at for at, line in enumerate(lines) if line.lstrip().startswith("id ")) :]
    assert max(map(len, table[:5])) <= 60
    assert re.match(r"… \d+ more columns: .*numbers$", table[5])
