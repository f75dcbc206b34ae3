"""The guard fails on a loss, passes without one, and says what it could not compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from bench.check import (
    COUNTED,
    PAIRS,
    UNDER_VALGRIND,
    Found,
    Ratio,
    bytecodes,
    judged,
    load,
    made_tables,
    scan_of,
    stored,
)

from delta_sidecar.execute import json as commits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from delta_sidecar.plan import FileRef, ScanJson
    from delta_sidecar.store import Buffer

FOUND = Found({"python": "3.11.7"}, "a processor", {"a / b": [2.0]}, {"scan": 10_000}, {"scan": 1_000_000})
EXPECTED = stored(FOUND)


def lost(**found: object) -> list[str]:
    verdicts = judged(EXPECTED, msgspec.structs.replace(FOUND, **found))
    return [verdict.text for verdict in verdicts if verdict.lost]


def test_what_is_as_it_was_is_no_loss() -> None:
    assert not lost()
    assert not lost(ratios={"a / b": [2.5]}, bytecodes={"scan": 10_100}, instructions={"scan": 1_060_000})
    assert not lost(ratios={"a / b": [0.1]}, bytecodes={"scan": 1}, instructions={"scan": 1})


def test_a_loss_is_named() -> None:
    assert lost(ratios={"a / b": [2.51]}) == ["LOSS    a / b: 2.510 (stored 2.000, at most 2.500)"]
    said = "LOSS    scan: 10,101 bytecode instructions (stored 10,000, at most 1% more)"
    assert lost(bytecodes={"scan": 10_101}) == [said]
    said = "LOSS    scan: 1,060,001 instructions (stored 1,000,000, at most 6% more)"
    assert lost(instructions={"scan": 1_060_001}) == [said]


def test_the_middle_of_several_rounds_is_judged() -> None:
    assert not lost(ratios={"a / b": [9.0, 2.0, 2.1]})
    assert lost(ratios={"a / b": [9.0, 2.0, 2.6]})


def test_what_is_not_stored_is_no_pass() -> None:
    assert len(lost(ratios={"new": [1.0]}, bytecodes={"new": 1}, instructions={"new": 1})) == 3


def test_counts_of_other_versions_are_not_judged() -> None:
    found = msgspec.structs.replace(FOUND, versions={"python": "3.12.1"}, bytecodes={"scan": 99_999})
    texts = [verdict.text for verdict in judged(EXPECTED, found)]
    assert texts[1:] == ["skipped counts, which are stored for other versions: python 3.12.1 for 3.11.7"]


def test_instructions_of_another_processor_are_not_judged() -> None:
    found = msgspec.structs.replace(FOUND, processor="another", instructions={"scan": 9_999_999})
    verdicts = list(judged(EXPECTED, found))
    assert not [verdict for verdict in verdicts if verdict.lost]
    assert "skipped" in verdicts[-1].text
    assert "skipped" in list(judged(EXPECTED, msgspec.structs.replace(FOUND, instructions={})))[-1].text


def test_a_ratio_may_vary_as_much_as_it_did() -> None:
    steady = msgspec.structs.replace(FOUND, ratios={"steady": [2.0, 2.02, 2.01], "not": [2.0, 2.4, 2.2]})
    assert stored(steady).ratios == {"steady": Ratio(2.01, 0.25), "not": Ratio(2.2, 0.36)}


def test_what_is_stored_can_be_read() -> None:
    found = load()
    assert set(found.bytecodes) == set(COUNTED)
    assert set(found.instructions) == set(UNDER_VALGRIND)
    assert {name.partition(" / ")[0] for name in found.ratios} > set(PAIRS)


@pytest.mark.slow
def test_a_tail_that_is_parsed_twice_is_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = made_tables(tmp_path, files=3000, commits=30)
    scans = {name: scan_of(tables, *of) for name, of in COUNTED.items()}
    before = {name: bytecodes(scan) for name, scan in scans.items()}
    expected = msgspec.structs.replace(EXPECTED, bytecodes=before)
    again = msgspec.structs.replace(FOUND, bytecodes={name: bytecodes(scan) for name, scan in scans.items()})
    assert not [verdict.text for verdict in judged(expected, again) if verdict.lost]

    joined = commits._joined

    def twice(texts: Sequence[tuple[FileRef, Buffer]], plan: ScanJson) -> pa.RecordBatch | None:
        joined(texts, plan)
        return joined(texts, plan)

    monkeypatch.setattr(commits, "_joined", twice)
    slower = msgspec.structs.replace(FOUND, bytecodes={name: bytecodes(scan) for name, scan in scans.items()})
    found = [verdict.text for verdict in judged(expected, slower) if verdict.lost]
    assert [text for text in found if text.startswith("LOSS    all files, commits alone: ")]
