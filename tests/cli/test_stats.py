"""`delta-sidecar stats`: what the log tells of columns, and where it is not exact."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from tests.builder import TableBuilder, add, deletion_vector, protocol
from tests.cli.row_tables import hide_pandas
from tests.cli.test_process import PATIENCE
from tests.cli.test_terminal import CONTROL, Terminal

from delta_sidecar.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {
    "id": "long",
    "name": "string",
    "price": "decimal(20,2)",
    "at": "timestamp",
    "small": "float",
    "ok": "boolean",
    "day": "integer",
}
LONG = "a text that is longer than it may be"


@pytest.fixture(autouse=True)
def _quick_processes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_pandas(tmp_path_factory.mktemp("quick"), monkeypatch)


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["stats", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def statistics(records: int, **columns: tuple[Any, Any, int]) -> dict[str, Any]:
    """Statistics by column: its bounds, which may be missing, and its nulls."""
    return {
        "numRecords": records,
        "minValues": {name: lower for name, (lower, _, _) in columns.items() if lower is not None},
        "maxValues": {name: upper for name, (_, upper, _) in columns.items() if upper is not None},
        "nullCount": {name: nulls for name, (_, _, nulls) in columns.items()},
    }


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Two files, of which everything is known."""
    table = TableBuilder(tmp_path / "plain", schema=SCHEMA, partition_columns=["day"])
    moments = ("2026-02-10T22:00:00.000Z", "2026-02-10T22:30:00.500Z")
    first = statistics(
        10,
        id=(5, 9, 0),
        name=("b", "c", 1),
        price=(1.5, 2.25, 0),
        at=(*moments, 0),
        small=(0.1, 0.5, 0),
        ok=(None, None, 2),
    )
    second = statistics(
        4,
        id=(-1, 7, 0),
        name=("a", "b", 4),
        price=(None, None, 4),
        at=(*moments, 0),
        small=(0.2, 0.3, 0),
        ok=(None, None, 0),
    )
    table.commit([add("day=1/a.parquet", partition_values={"day": "1"}, size=1000, stats=json.dumps(first))])
    table.commit([add("day=2/b.parquet", partition_values={"day": "2"}, size=500, stats=json.dumps(second))])
    return table.root


@pytest.fixture
def vague(tmp_path: Path) -> Path:
    """A file with deleted rows, one with a long text, and one that tells nothing."""
    table = TableBuilder(
        tmp_path / "vague", schema={"id": "long", "name": "string"}, protocol=protocol(features=["deletionVectors"])
    )
    loose = {**statistics(10, id=(1, 9, 3), name=("b", "c", 0)), "tightBounds": False}
    table.commit([add("a.parquet", stats=json.dumps(loose), dv=deletion_vector("a", cardinality=4))])
    table.commit([add("b.parquet", stats=json.dumps(statistics(5, id=(3, 4, 0), name=("b", LONG[:32], 0))))])
    table.commit([add("c.parquet", stats=None)])
    return table.root


def test_text_has_a_line_for_each_column(plain: Path) -> None:
    lines = run(plain).stdout.splitlines()
    assert lines[:4] == [f"table     {plain}, version 1", "rows      14", "files     2, 1.5kB", ""]
    assert [line.split() for line in lines[4:13]] == [
        ["column", "type", "min", "max", "nulls", "no", "bounds", "in"],
        ["──────", "─────────────", "────────────────────", "───────────────────────────", "─────", "────────────"],
        ["id", "long", "-1", "9", "0"],
        ["name", "string", "a", "c", "5"],
        ["price", "decimal(20,2)", "1.50", "2.25", "4"],
        ["at", "timestamp", "2026-02-10T22:00:00Z", "2026-02-10T22:30:00.500000Z", "0"],
        ["small", "float", "0.1", "0.5", "0"],
        ["ok", "boolean", "?", "?", "2", "2", "files"],
        ["day", "integer", "1", "2", "0"],
    ]
    assert lines[13:] == [
        "",
        "?  not of all files: some have no statistics of the column, and may hold any value",
        "Timestamps may be rounded down, by less than a millisecond.",
    ]


def test_what_is_not_exact_is_marked(vague: Path) -> None:
    text = run(vague).stdout
    assert "rows      11 or more: no count of rows for 1 of 3 files; 4 others are deleted\n" in text
    assert re.search(r"^id +long +1 \? +9 \? +3 \? +1 file$", text, re.MULTILINE)
    assert re.search(r"^name +string +b \? +c \? +0 \? +1 file$", text, re.MULTILINE)
    assert "?  not of all files" in text
    assert "≥" not in text
    earlier = run(vague, "--version", 0).stdout
    assert re.search(r"^id +long +≥ 1 +≤ 9 +≤ 3$", earlier, re.MULTILINE)
    assert "≥ ≤  nothing is beyond, and maybe no row has just this" in earlier
    assert "?" not in earlier


def test_a_text_that_may_be_cut_off_is_marked(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"name": "string"})
    table.commit([add("a.parquet", stats=json.dumps(statistics(1, name=("", LONG[:32], 0))))])
    text = run(tmp_path).stdout
    assert f'""   {LONG[:32]}…  0' in text
    assert "…  may be the beginning of a longer text" in text


def test_columns_stand_below_each_other_however_long_a_text_is(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"name": "string", "id": "long"})
    table.commit([add("a.parquet", stats=json.dumps(statistics(1, name=("a" * 60, "b" * 70, 0), id=(1, 2, 0))))])
    head, _, name, number = run(tmp_path).stdout.splitlines()[4:8]
    assert [name.index("b" * 70), number.index("2")] == [head.index("max")] * 2


def test_only_nulls_are_told_from_nothing_known(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, schema={"name": "string"})
    table.commit([add("a.parquet", stats=json.dumps(statistics(3, name=(None, None, 3))))])
    assert run(tmp_path).stdout.splitlines()[-1].split() == ["name", "string", "none", "none", "3"]


def test_json_has_the_same_in_full(plain: Path, vague: Path) -> None:
    text = run(plain, "--output", "json", "--columns", "price,at,small").stdout
    assert '"min": 1.50,' in text
    told = json.loads(text)
    assert {name: value for name, value in told.items() if name != "columns"} == {
        "table": str(plain),
        "version": 1,
        "files": 2,
        "bytes": 1500,
        "rows": 14,
        "deleted_rows": 0,
        "files_without_rows": 0,
    }
    price, at, small = told["columns"]
    assert (small["min"], small["max"]) == (0.1, 0.5)
    assert (at["min"], at["min_is"]) == ("2026-02-10T22:00:00Z", "rounded")
    assert price == {
        "name": "price",
        "type": "decimal(20,2)",
        "min": 1.5,
        "min_is": "value",
        "max": 2.25,
        "max_is": "value",
        "null_count": 4,
        "null_count_is_exact": True,
        "rows": 14,
        "files": 2,
        "files_without": 0,
    }
    first = json.loads(run(vague, "--version", 0, "--output", "json").stdout)["columns"][0]
    assert (first["min_is"], first["null_count"], first["null_count_is_exact"]) == ("bound", 3, False)


def test_where_leaves_out_files(plain: Path) -> None:
    told = json.loads(run(plain, "--where", "day = 2", "--columns", "id", "--output", "json").stdout)
    assert (told["files"], told["rows"], told["columns"][0]["max"]) == (1, 4, 7)


def test_a_table_without_files(tmp_path: Path) -> None:
    TableBuilder(tmp_path, schema={"id": "long"}).commit([])
    assert run(tmp_path).stdout.splitlines()[1:3] == ["rows      0", "files     0, 0B"]


def test_what_is_wrong_is_said(plain: Path, tmp_path: Path) -> None:
    assert "there is no column 'nmae'; did you mean name?" in run(plain, "--columns", "nmae", code=1).stderr
    assert "is not a Delta table" in run(tmp_path, code=1).stderr
    assert "names of columns are expected" in run(plain, "--columns", ",", code=2).stderr
    assert "geheimnis" not in run(plain, "geheimnis", code=2).output


def test_on_a_narrow_terminal_no_number_is_cut(plain: Path) -> None:
    with Terminal(COLUMNS="80") as terminal, terminal.run("stats", plain, both=True) as process:
        assert process.wait(PATIENCE) == 0
    lines = [line.rpartition("\r")[2] for line in CONTROL.sub("", terminal.text).replace("\r\n", "\n").split("\n")]
    (at,) = [number for number, line in enumerate(lines) if line.startswith("at ")]
    assert lines[at].split() == ["at", "timestamp", "0"]
    assert lines[at + 1].split() == ["min", "2026-02-10T22:00:00Z", "max", "2026-02-10T22:30:00.500000Z"]
    assert lines[-2].startswith("2 files of version 1; read ")
    assert "\x1b[1m" in terminal.text
