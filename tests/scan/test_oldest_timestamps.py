"""Checkpoints with Parquet's oldest timestamps, INT96, in native statistics and partition values, as Spark has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.builder import TableBuilder, add, protocol
from tests.scan.reading import STRATEGIES, scan
from tests.scan.sidecar_tables import heard, with_sidecar

if TYPE_CHECKING:
    from pathlib import Path


def micros(moment: str) -> int:
    return int(np.datetime64(moment, "us").astype(np.int64))


def text(moment: int) -> str:
    """Gives a moment as Spark writes it into a commit, yet to the microsecond."""
    plain = str(np.datetime64(moment, "us"))
    return f"{plain}Z" if plain.startswith("-") or plain.index("-") == 4 else f"+{plain}Z"


FIRST, LAST = micros("0001-01-01T00:00:00"), micros("9999-12-31T23:59:59.999999")
# Spark's Julian days run over behind the year 287585, and are negative before -4712: what is outside is unknown.
FIRST_DAY, LAST_DAY = -2_440_588 * 86_400_000_000, 2**63 - 1 - 2_440_588 * 86_400_000_000
MOMENTS = {
    "year 1": FIRST + 123_456,
    "1600": micros("1600-02-29T23:59:59.999999"),
    "1969": -1,
    "2026": micros("2026-02-10T20:00:00.5"),
    "2300": micros("2300-01-01T00:00:00.000001"),
    "9999": LAST,
    "283999": 8_900_000_000_000_000_000,
    "287802": 9_020_000_000_000_000_000,
    "greatest": 2**63 - 1,
    "-7537": -300_000_000_000_000_000,
    "-66795": -2_170_000_000_000_000_000,
    "least": 1 - 2**63,
}
SPANS = {
    **{name: (moment, moment) for name, moment in MOMENTS.items()},
    "1 to 2026": (MOMENTS["year 1"], MOMENTS["2026"]),
    "2026 to 9999": (MOMENTS["2026"], MOMENTS["9999"]),
    "2026 to 287802": (MOMENTS["2026"], MOMENTS["287802"]),
    "2026 to greatest": (MOMENTS["2026"], MOMENTS["greatest"]),
    "-66795 to 1600": (MOMENTS["-66795"], MOMENTS["1600"]),
    "least to 1600": (MOMENTS["least"], MOMENTS["1600"]),
    "least to greatest": (MOMENTS["least"], MOMENTS["greatest"]),
}
LITERALS = [
    *("0001-01-02T00:00:00", "1500-01-01T00:00:00", "1700-01-01T00:00:00", "1950-01-01T00:00:00"),
    *("2026-01-01T00:00:00", "2100-01-01T00:00:00", "2299-01-01T00:00:00", "9999-01-01T00:00:00"),
]
BETWEEN = [(0, 1), (1, 2), (3, 5), (4, 7)]
RANGES: dict[str, tuple[int | None, int | None]] = {
    **{f"at >= '{literal}Z'": (micros(literal), None) for literal in LITERALS},
    **{f"at < '{literal}Z'": (None, micros(literal)) for literal in LITERALS},
    **{
        f"at BETWEEN '{LITERALS[low]}Z' AND '{LITERALS[high]}Z'": (micros(LITERALS[low]), micros(LITERALS[high]))
        for low, high in BETWEEN
    },
    **{f"at = '{text(MOMENTS[name])}'": (MOMENTS[name],) * 2 for name in ("year 1", "1600", "2026", "9999")},
}


def files_in(low: int | None, high: int | None, *, far: bool) -> set[str]:
    """The files that may have a row in a range, where moments are known as in INT96, and where as in texts."""

    def known(moment: int) -> int | None:
        first, last = (FIRST_DAY, LAST_DAY) if far else (FIRST, LAST)
        return moment if first <= moment <= last else None

    bounds = {name: (known(least), known(most)) for name, (least, most) in SPANS.items()}
    return {
        name
        for name, (least, most) in bounds.items()
        if (low is None or most is None or most >= low) and (high is None or least is None or least <= high)
    }


def bounded(root: Path, **form: object) -> TableBuilder:
    """Gives a table that is left with a checkpoint; each file has one of the spans as its bounds."""
    inner = {"type": "struct", "fields": [{"name": "at", "type": "timestamp", "nullable": True, "metadata": {}}]}
    table = TableBuilder(root, schema={"at": "timestamp", "info": inner})
    actions = []
    for name, (least, most) in SPANS.items():
        low, high = ({"at": text(moment), "info": {"at": text(moment)}} for moment in (least, most))
        counts = {"at": 0, "info": {"at": 0}}
        stats = {"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": counts}
        actions.append(add(name, stats=json.dumps(stats)))
    table.commit([*actions, add("unknown", stats=None)])
    table.checkpoint(struct_stats=True, int96=True, **form)
    table.clean_up(inclusive=True)
    return table


@pytest.mark.full
@pytest.mark.parametrize(
    ("form", "column"),
    [
        ({"kind": "v1", "json_stats": True}, "at"),
        ({"kind": "v1", "json_stats": False, "row_group_rows": 4}, "at"),
        ({"kind": "v2-parquet", "json_stats": False}, "info.at"),
    ],
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bounds_of_a_checkpoint_drop_what_they_rule_out_and_no_more(
    tmp_path: Path, strategy: str, form: dict[str, object], column: str
) -> None:
    table = bounded(tmp_path, **form)
    for pattern, (low, high) in RANGES.items():
        found = [
            file.path for file in scan(table, predicate=pattern.replace("at ", f"{column} ", 1), strategy=strategy)
        ]
        assert sorted(found) == sorted({*files_in(low, high, far=True), "unknown"}), pattern
    assert {file.path for file in scan(table, strategy=strategy)} == {*SPANS, "unknown"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bounds_of_a_sidecar_are_those_of_the_checkpoint_where_a_text_can_say_them(
    tmp_path: Path, strategy: str
) -> None:
    table = with_sidecar(bounded(tmp_path, json_stats=False))
    for pattern, (low, high) in RANGES.items():
        answer = heard(table, predicate=pattern, strategy=strategy)
        assert answer.told == (1, None)
        found = [file.path for file in answer.files]
        assert sorted(found) == sorted({*files_in(low, high, far=False), "unknown"}), pattern


@pytest.mark.parametrize("sidecar", [True, False])
def test_texts_of_native_bounds_leave_out_what_they_cannot_say(tmp_path: Path, *, sidecar: bool) -> None:
    table = bounded(tmp_path, json_stats=False)
    if sidecar:
        with_sidecar(table)
    for strategy in STRATEGIES:
        found = {file.path: json.loads(file.stats or "{}") for file in scan(table, strategy=strategy)}
        for name, span in SPANS.items():
            for side, moment in zip(("minValues", "maxValues"), span, strict=True):
                bounds = found[name][side]
                told = [micros(place["at"].removesuffix("Z")) for place in (bounds, bounds["info"]) if "at" in place]
                assert told == ([moment, moment] if FIRST <= moment <= LAST else [])


@pytest.mark.full
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("sidecar", [True, False])
def test_partition_values_that_only_a_native_column_has(tmp_path: Path, kind: str, *, sidecar: bool) -> None:
    needed = protocol(features=["timestampNtz"] if kind == "timestamp_ntz" else None)
    table = TableBuilder(tmp_path, partition_columns=["at"], schema={"id": "long", "at": kind}, protocol=needed)
    table.commit([add(name, partition_values={"at": text(moment)}) for name, moment in MOMENTS.items()])
    table.checkpoint(struct_stats=True, int96=True, partition_maps=False)
    table.clean_up(inclusive=True)
    if sidecar:
        with_sidecar(table)
    near = {name: moment for name, moment in MOMENTS.items() if FIRST <= moment <= LAST}
    for strategy in STRATEGIES:
        values = {file.path: file.partition_values["at"] for file in scan(table, strategy=strategy)}
        told = {name: micros(value.replace(" ", "T")) for name, value in values.items() if value is not None}
        assert told == near
        for pattern, (low, high) in RANGES.items():
            found = {file.path for file in scan(table, predicate=pattern, strategy=strategy)}
            inside = {name for name, at in near.items() if (low is None or at >= low) and (high is None or at <= high)}
            assert found == inside | (MOMENTS.keys() - near.keys()), pattern
