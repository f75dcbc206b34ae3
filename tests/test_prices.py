"""The page on what features cost leaves nothing out."""

from __future__ import annotations

from pathlib import Path

from tools import prices

ROOT = Path(__file__).parents[1]


def test_every_line_counts_once() -> None:
    found = prices.prices().values()
    for number, folder in enumerate(("src/delta_sidecar", "tests")):
        lines = sum(path.read_text().count("\n") for path in (ROOT / folder).rglob("*.py"))
        assert sum(row[number] for row in found) == lines


def test_no_feature_is_free() -> None:
    assert [feature for feature, (lines, _) in prices.prices().items() if not lines] == []


def test_the_page_has_every_feature() -> None:
    text = prices.PAGE.read_text()
    assert [feature for feature in prices.FEATURES if f"| {feature} |" not in text] == []
