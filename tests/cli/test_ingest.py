"""`delta-sidecar ingest`: its flags, what it says and how it ends without a Spark. With one: tests/spark."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from delta_sidecar.cli import main
from delta_sidecar.cli.commands.ingest import IngestCounts, stream_lines, summary_lines
from delta_sidecar.cli.process import in_background
from delta_sidecar.events import BatchWritten, CheckpointTriggered

if TYPE_CHECKING:
    from pathlib import Path

TIME = ("--timestamp-column", "at")


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["ingest", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_the_help_says_what_it_takes() -> None:
    text = run("--help").stdout
    assert "Write the files at SOURCE into the Delta table at TABLE" in text
    for flag in ("--timestamp-column", "--format", "--granularity", "--bad-timestamps", "--batch-id", "--stream"):
        assert flag in text
    assert "ingest" in CliRunner().invoke(main, ["--help"]).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.json",), "Missing argument 'TABLE'"),
        (("a.json", "t"), "Missing option '--timestamp-column'"),
        (
            ("a.json", "t", "account_key=secret", *TIME),
            "and 1 more argument was given: put a pattern in quotes",
        ),
        (("folder", "t", *TIME), "--format is needed: the name of SOURCE does not tell"),
        (("a.json", "t", *TIME, "--stream"), "--stream needs --checkpoint-location"),
        (("a.json", "t", *TIME, "--once"), "--once and --checkpoint-location belong to --stream"),
        (
            ("a.json", "t", *TIME, "--stream", "--checkpoint-location", "c", "--batch-id", 1),
            "--batch-id is for one batch",
        ),
        (("a.json", "t", *TIME, "--batch-id", -1), "Invalid value for '--batch-id'"),
        (("a.json", "t", *TIME, "--granularity", "week"), "'week' is not one of"),
    ],
)
def test_wrong_use_is_told(arguments: tuple[object, ...], message: str) -> None:
    text = run(*arguments, code=2).stderr
    assert message in text
    assert "secret" not in text


def test_without_pyspark_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pyspark' else find(name, *a)\n"
        "from delta_sidecar.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "ingest", "a.json", str(tmp_path), *TIME]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: PySpark is not installed: pip install '.[spark]' in a clone of delta-sidecar\n"


@pytest.mark.full
def test_without_java_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    done = subprocess.run(
        [sys.executable, "-m", "delta_sidecar.cli", "ingest", "a.json", str(tmp_path / "t"), *TIME],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "JAVA_HOME" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_done_in_the_background_comes_back() -> None:
    assert in_background(threading.current_thread) is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        in_background(lambda: 1 // 0)


class Summary:
    """What the pipeline tells, by the names that the command asks for."""

    def __init__(self, **told: Any) -> None:  # noqa: ANN401 - values of all kinds
        self.__dict__.update(
            {"table": "/t", "batch_id": None, "version": 7, "rows": 1200, "files": 5, "bytes": 2048, "buckets": 4}
            | {"null_bucket_rows": 0, "skipped": False, "sidecar": None, "seconds": 1.25}
            | told
        )


def text_of(**told: Any) -> list[str]:  # noqa: ANN401 - as above
    lines = summary_lines(Summary(**told), "hour")  # type: ignore[arg-type]
    return [re.sub(r"\x1b\[\d*m", "", line) for line in lines]


def test_what_was_written_in_words() -> None:
    assert text_of(null_bucket_rows=3) == [
        "table       /t, version 7",
        "written     1,200 rows in 5 files, 2.0kB",
        "buckets     3 hours",
        "            3 rows in none, for want of a timestamp",
        "sidecar     none was due",
        "",
        "Written in 1.2 s.",
    ]


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"outcome": "already_there"}, "of version 5 is there already"),
        ({"outcome": "left_to_another", "pipeline": "b"}, "of version 5 is left to pipeline b"),
        ({"outcome": "passed_over"}, "none of version 5 is needed"),
        (
            {"outcome": "failed", "error": "OSError: no"},
            "of version 5 could not be made, and a later batch tries again: OSError: no",
        ),
    ],
)
def test_what_became_of_the_sidecar(told: dict[str, Any], line: str) -> None:
    defaults = {"version": 5, "pipeline": None, "error": None, "sidecar": None, "seconds": 1.0}
    outcome = Summary(**(defaults | told))
    assert f"sidecar     {line}" in text_of(sidecar=outcome)


def test_nothing_written_is_told() -> None:
    nothing: dict[str, Any] = {"version": None, "rows": 0, "files": 0}
    assert text_of(**nothing)[-1] == "There are no rows: nothing was written (1.2 s)."
    assert (
        text_of(batch_id=4, skipped=True, **nothing)[-1] == "Batch 4 was written before: nothing was written (1.2 s)."
    )


def test_a_stream_is_counted_by_its_events() -> None:
    counts = IngestCounts()
    for outcome, rows, version in (("complete", 60, 1), ("skipped", 0, None), ("complete", 30, 2)):
        counts(
            BatchWritten(
                table="/t",
                outcome=outcome,  # type: ignore[arg-type]
                error=None,
                milliseconds=1,
                app_id="x",
                batch_id=0,
                batch_check="checksum",
                version=version,
                rows=rows,
                files=rows // 30,
                bytes=rows,
                buckets=1,
                null_bucket_rows=rows // 60,
            )
        )
    for outcome, built in (("complete", True), ("failed", False)):
        counts(
            CheckpointTriggered(
                table="/t",
                outcome=outcome,  # type: ignore[arg-type]
                error=None,
                milliseconds=1,
                version=2,
                made_checkpoint=built,
                built_sidecar=built,
            )
        )
    assert list(stream_lines("/t", counts)) == [
        "table       /t, version 2",
        "written     90 rows in 3 files, 90B, in 2 batches",
        "            1 more had been written before",
        "            1 row in no time bucket, for want of a timestamp",
        "sidecar     of version 2; failed 1 time (--log text says why)",
    ]
    assert counts.skipped == 1
