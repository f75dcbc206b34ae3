"""Failures are one message on stderr and exit code 1, without a traceback and without a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from tests.builder import TableBuilder, add, protocol

from delta_sidecar.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "Z2VoZWltZ2VoZWltZ2VoZWlt"  # noqa: S105 - no real one


def failure(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["files", *map(str, arguments)])
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert isinstance(result.exception, SystemExit)
    return result.stderr


def test_no_table(tmp_path: Path) -> None:
    assert failure(tmp_path).splitlines() == [
        f"error: {tmp_path} is not a Delta table: there is no commit and no checkpoint in its _delta_log",
        "hint: TABLE is the folder that holds _delta_log",
    ]


def test_no_such_version(small: TableBuilder) -> None:
    message = failure(small.root, "--version", 9)
    assert message.startswith("error: ")
    assert "9" in message
    assert "hint: without --version" in message


def test_an_unknown_column_is_pointed_at(small: TableBuilder) -> None:
    lines = failure(small.root, "--where", "price > 1 AND dya = 3").splitlines()
    assert "dya" in lines[0]
    assert "day" in lines[0]
    assert lines[1:] == ["  price > 1 AND dya = 3", "                ^~~"]


def test_bad_syntax_is_pointed_at(small: TableBuilder) -> None:
    lines = failure(small.root, "--where", "day = = 3").splitlines()
    assert lines[0].startswith("error: syntax error")
    assert lines[1] == "  day = = 3"
    assert lines[2].lstrip().startswith("^")


def test_an_unknown_feature_is_named(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path, protocol=protocol(features=["teleportation"]))
    table.commit([add("a.parquet")])
    assert "teleportation" in failure(tmp_path)


def test_a_torn_commit_is_named_and_cannot_steer_the_terminal(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path / "a\x1b[2Jb")
    table.commit([add("a.parquet")])
    table.commit([add("b.parquet")])
    table.tear(table.commit_path(1), -5)
    message = failure(table.root)
    assert "commit 1" in message
    assert "--version" in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    "options",
    [
        [f"account_key={SECRET}", "account_name=devstoreaccount1"],
        [f"sas_key=sv=2024-01-01&sig={SECRET}", "account_name=devstoreaccount1"],
        [f"connection_string=AccountName=devstoreaccount1;AccountKey={SECRET}"],
        [f"acount_key={SECRET}", "account_name=devstoreaccount1"],
    ],
    ids=["key", "sas", "connection string", "misspelled"],
)
def test_no_secret_of_an_option_is_shown(options: list[str]) -> None:
    # Nobody listens on the discard port.
    unreachable = ["endpoint=http://127.0.0.1:9/devstoreaccount1", "retry_max_retries=0"]
    flags = [part for option in (*options, *unreachable) for part in ("--storage-option", option)]
    message = failure("az://lake/table", *flags)
    assert message.startswith("error: ")
    assert SECRET not in message


def test_no_secret_of_an_address_is_shown() -> None:
    flags = ["--storage-option", "endpoint=http://127.0.0.1:9/a", "--storage-option", "retry_max_retries=0"]
    address = f"https://account.blob.core.windows.net/lake/table?sv=2024-01-01&sig={SECRET}"
    assert SECRET not in failure(address, *flags)


def test_no_secret_of_a_local_table_is_shown(small: TableBuilder) -> None:
    assert SECRET not in failure(small.root / "nothing", "--storage-option", f"kee={SECRET}")
    result = CliRunner().invoke(main, ["files", str(small.root), "--storage-option", f"kee={SECRET}"])
    assert result.exit_code == 0
    assert SECRET not in result.output
