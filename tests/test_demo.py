"""The demo runs, tells the truth and leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from examples import demo
from rich.console import Console

BLOCK = "\N{FULL BLOCK}"
BEFORE: dict[str, Any] = {"seconds": 0.42, "bytes": 109_000_000, "requests": 30}
AFTER: dict[str, Any] = {"seconds": 0.003, "bytes": 100_000, "requests": 26}

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, DEMO, "--files", "60000"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "80"},
    )
    assert run.stderr == ""
    assert "\x1b" not in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80
    groups = {"the newest 100": (0, 0), "the last hour": (1, 1), "one day": (1, 4)}
    for question, files in {"the newest 100": "100", "the last hour": "1,250", "one day": "30,000"}.items():
        before, after = rows(run.stdout, question)
        assert (before[0], after[0]) == (files, files)
        assert (before[-1], after[-1]) == (f"{groups[question][0]} of 1", f"{groups[question][1]} of 6")
    before, after = rows(run.stdout, "the last hour")
    assert int(after[3]) < int(before[3])
    assert megabytes(after[4]) < megabytes(before[4]) / 4
    assert "Its metadata sidecar: " in run.stdout
    assert list(tmp_path.iterdir()) == []
    ending = run.stdout.splitlines()[-10:]
    assert ending[0] == "The last hour, before and after"
    assert [line.split()[-1] for line in ending[8:]] == [before[3], after[3]], "as in the table"
    assert [" ".join(line.split()[-2:]) for line in ending[5:7]] == [before[4], after[4]]
    assert ending[5].count(BLOCK) > ending[6].count(BLOCK) > 0


@pytest.mark.parametrize("width", [80, 40])
def test_the_chart_fits_into_the_terminal(width: int) -> None:
    lines = drawn(BEFORE, AFTER, width=width).splitlines()
    assert lines == [
        "",
        "The last hour, before and after",
        "time",
        f"  before  {BLOCK * bar_room(width, '420 ms')} 420 ms",
        f"  after   {BLOCK} 3 ms",
        "bytes read",
        f"  before  {BLOCK * bar_room(width, '109 MB')} 109 MB",
        f"  after   {BLOCK} 0.1 MB",
        "requests",
        f"  before  {BLOCK * bar_room(width, '30')} 30",
        f"  after   {BLOCK * round(bar_room(width, '30') * 26 / 30)} 26",
    ]
    assert max(map(len, lines)) <= width


def test_a_chart_says_so_when_a_sidecar_takes_more() -> None:
    lines = drawn(AFTER, BEFORE).splitlines()
    assert lines[3].count(BLOCK) < lines[4].count(BLOCK)
    assert lines[9:] == [f"  before  {BLOCK * 43} 26", f"  after   {BLOCK * 50} 30"]


def test_a_chart_has_colours_on_a_terminal_alone() -> None:
    assert "\x1b[32m" in drawn(BEFORE, AFTER, force_terminal=True, color_system="standard")
    assert "\x1b[32m" not in drawn(BEFORE, AFTER, force_terminal=True, no_color=True)
    assert "\x1b" not in drawn(BEFORE, AFTER)


def test_a_chart_is_of_plain_letters_where_others_cannot_be_shown() -> None:
    console = Console(file=TextIOWrapper(BytesIO(), encoding="ascii"), width=80, highlight=False)
    assert demo.chart(BEFORE, AFTER, console).plain.splitlines()[4] == "  after   # 3 ms"


def drawn(before: dict[str, Any], after: dict[str, Any], width: int = 80, **of: Any) -> str:  # noqa: ANN401
    console = Console(file=TextIOWrapper(BytesIO(), encoding="utf-8"), width=width, highlight=False, _environ={}, **of)
    with console.capture() as said:
        console.print(demo.chart(before, after, console))
    return said.get()


def bar_room(width: int, longest: str) -> int:
    """What a bar has beside its name and the longest figure of the two."""
    return min(50, width - 10 - 1 - len(longest))


def rows(text: str, question: str) -> tuple[list[str], list[str]]:
    """The cells of a question's two rows, before and after."""
    (found,) = re.findall(rf"^{question} *\n  before  (.*)\n  after  (.*)$", text, re.MULTILINE)
    before, after = (re.split(r"\s{2,}", line.strip()) for line in found)
    return before, after


def megabytes(cell: str) -> float:
    number, unit = cell.split()
    assert unit == "MB"
    return float(number.replace(",", ""))
