"""`delta-sidecar build --engine spark`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from tests.spark.both_builds import Table
from tests.spark.test_building import hours

from delta_sidecar.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["build", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.full
@pytest.mark.usefixtures("spark")
def test_the_command(local_lake: Lake) -> None:
    table = Table(local_lake.new_url(), {})
    hours(Path(table.url), 8)
    options = ("--engine", "spark", "--rows-per-part", 4, "--rows-per-group", 2)
    told = json.loads(run(table.url, *options, "--output", "json").stdout)
    assert (told["files"], told["already_there"]) == (11, False)
    found = table.read(told["version"])
    assert len(found.manifest.files) == 3
    assert "nothing was built" in run(table.url, *options).stdout


def test_the_session_goes_on(spark: SparkSession) -> None:
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--rows-per-part", 4), "--rows-per-part is for --engine spark"),
        (("--master", "local"), "--master is for --engine spark"),
        (("--engine", "spark", "--memory-limit", "1GB"), "--memory-limit is for --engine local"),
        (("--engine", "spark", "--temp-directory", "."), "--temp-directory is for --engine local"),
        (("--engine", "flink"), "flink"),
    ],
)
def test_flags_of_the_other_engine(tmp_path: Path, flags: tuple[object, ...], said: str) -> None:
    assert said in run(tmp_path, *flags, code=2).stderr
