"""The pages beside the first one: the ladder, a cloud, growth, rows, writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import plots
from bench.design import CLAIMS, ONE_THING, TARGETS
from bench.findings import (
    by,
    exponent,
    finding,
    is_ours,
    peak,
    peers,
    reference,
    subject,
    table_key,
    took,
    who,
)
from bench.markdown import MISSING, bars, chart, comparison, of, picture, reads, suite, table, table_words, title
from bench.words import count, duration, precise, short, size, times
from delta_sidecar.scan.levels import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.design import Claim, Target
    from bench.results import Measurement, Results

BILLION = 1_000_000_000
_ENOUGH = 3
"""Sizes of tables out of which one goes on to another size."""
_LAST = len(LEVELS) - 1

_BILLION = """\
What stands first grows most, and breaks first; what stands last holds. "By its power" is no measurement: it goes on
with the power above.
"""
_BREAKS = """\
The sizes that have a limit, in the order in which they reach it when a table grows on. A "budget" is one where nothing
fails, an "error" one where something does.
"""
LADDER = """\
# The ladder

The design came in levels, each of them one thing more. `LazyScanConfig(level=...)` switches them, and the files that
are found are the same at every level. Beside what was measured is what the design had promised, on the machine that its
authors had in mind.

"""
CLOUD = """\
# A cloud you can feel

A store on this machine behind a proxy that lets every request wait and every byte take its time, so that all readers
feel the same. Every process is new, and nothing is kept from before.

"""
GROWTH = """\
# Growth

The same questions to tables that grow, and the power of the number of files that each figure grows with: 0 is one that
stays as it is, 1 one that is ten times as much for ten times the files.

"""
ROWS = """\
# Rows

Real data files, small ones, so that what is compared is what it takes to get to the rows. Every reader opens the table
anew. Where a reader gives a whole frame, its first row comes with its last.

"""
WRITING = """\
# Writing

What metadata sidecars cost: building one out of a checkpoint, building the next one out of the last, and the commits
of a pipeline that keeps them.

"""


def ladder(found: Results, folder: Path) -> str:
    """The levels of the design, and what it said of them."""
    measured = suite(found, "ladder")
    text = LADDER
    for asked in by(measured, lambda each: (each.question, table_key(each))):
        text += _levels(asked, folder)
    if not measured:
        text += MISSING
    text += f"\n## If it can be one thing only\n\n{_one_thing(of(measured, 'last hour'))}"
    return f"{text}\n## The design's other figures\n\n{_claims(found)}"


def _levels(asked: Sequence[Measurement], folder: Path) -> str:
    levels = {level: each for level in range(len(LEVELS)) for each in asked if each.variant == f"L{level}"}
    if not levels:
        return ""
    question = asked[0].question
    targets = {level: _target(question, level) for level in levels}
    rows = []
    for level, each in levels.items():
        first = each.median.first_seconds
        found = [size(peak(each)), "" if first is None else duration(first), duration(each.median.seconds)]
        said = _said(targets[level])
        cells = [f"{one}{other}" for one, other in zip(found, said, strict=True)]
        rows.append([f"L{level}: {LEVELS[level].words}", *cells, *reads(each)])
    header = ["level (and what the design said)", "memory", "first file", "all of them", "requests", "trips", "read"]
    return (
        f"## {subject(question, asked[0].files)}\n\n{table_words(asked[0])}.\n\n"
        + chart(
            folder,
            f"ladder-{question.replace(' ', '-')}",
            _climb(levels),
            _ladder_panels(levels, targets),
            "what the design said",
        )
        + f"{table(header, rows)}\n"
    )


def _climb(levels: dict[int, Measurement]) -> str:
    """How much quicker the highest level is than the lowest, if it is."""
    low, high = min(levels), max(levels)
    before, after = levels[low], levels[high]
    said = f"{subject(before.question, before.files)}: {duration(took(before))} at level {low}, "
    said += f"{duration(took(after))} at level {high}"
    gain = took(before) / took(after)
    return f"{said}, {short(gain)} times as quick" if gain > 1 else said


def _ladder_panels(levels: dict[int, Measurement], targets: dict[int, Target | None]) -> list[plots.Panel]:
    panels = []
    units: tuple[tuple[str, plots.Unit, str], ...] = (
        ("memory", "bytes", "peak_bytes"),
        ("first file", "seconds", "first_seconds"),
        ("all of them", "seconds", "seconds"),
    )
    for words, unit, field in units:
        drawn = [
            plots.Bar(
                f"L{level} {LEVELS[level].words}",
                value,
                "ours" if level == max(levels) else "ours, otherwise",
                getattr(targets[level], field, None),
            )
            for level, each in levels.items()
            if (value := getattr(each.median, field))
        ]
        # Panels share their labels.
        if len(drawn) == len(levels):
            panels.append(plots.Panel(words, unit, drawn))
    return panels


def _target(question: str, level: int) -> Target | None:
    """What the design has for that: of a limit the last level, of the last hour all others."""
    return TARGETS[level] if question == ("first 100" if level == _LAST else "last hour") else None


def _said(target: Target | None) -> list[str]:
    """The design's figures, in brackets."""
    if target is None:
        return [""] * 3
    words = [target.peak_words or size(target.peak_bytes), target.first_words or duration(target.first_seconds)]
    return [f" ({each})" for each in (*words, target.words or duration(target.seconds))]


def _one_thing(asked: Sequence[Measurement]) -> str:
    levels = {each.variant: each for each in asked}
    base = levels.get("L0")
    if base is None:
        return MISSING
    rows = []
    for words, level in (("nothing changes", 0), *ONE_THING):
        each = levels.get(f"L{level}")
        if each is not None:
            first = each.median.first_seconds
            rows.append(
                [
                    words,
                    "" if level == 0 else f"level {level}",
                    "" if level == 0 else "all of the design" if level == _LAST else LEVELS[level].words,
                    size(peak(each)),
                    "" if first is None else duration(first),
                    duration(each.median.seconds),
                    times(base.median.seconds / each.median.seconds),
                ]
            )
    header = ["if", "go to", "which adds", "memory", "first file", "the last hour", "times as quick"]
    return (
        table(header, rows, left=3) + "\nA level has all those below it in it. Level 0 is what it is compared with.\n"
    )


def _claims(found: Results) -> str:
    rows = []
    for claim in CLAIMS:
        measured = _claimed(found, claim)
        say = duration if claim.unit == "seconds" else size
        kept = "" if measured is None else "kept" if measured[0] <= claim.limit else "**not kept**"
        said = "not measured" if measured is None else say(measured[0]) + measured[1]
        rows.append([f"{claim.words}, {count(claim.files)} files", say(claim.limit), said, kept])
    return table(["the design says", "at most", "measured", ""], rows)


def _claimed(found: Results, claim: Claim) -> tuple[float, str] | None:
    """What there is to hold against a claim, and whether that is a simulation."""
    for name in ("files", "growth"):
        asked = [each for each in of(suite(found, name), claim.question) if _has(each, claim.files)]
        ours = reference(asked)
        value = None if ours is None else ours.extra.get(claim.field, getattr(ours.median, claim.field, None))
        if ours is not None and value is not None:
            return float(value), ", simulated" if _simulated(ours) else ""
    return None


def _has(each: Measurement, files: int) -> bool:
    """Whether its table has so many files; a simulated one has a few less, or more."""
    return abs(each.files - files) < 0.01 * files


def cloud(found: Results, folder: Path) -> str:
    """Readers that feel how far away a store is."""
    measured = suite(found, "cloud")
    text = CLOUD
    if not measured:
        return text + MISSING
    for asked in by(measured, table_key):
        ours = reference(of(asked, "last hour") or asked)
        text += f"## {table_words(asked[0])}\n\n{_distance(asked[0])}"
        if ours:
            said = finding(f"{subject(ours.question, ours.files)}, from afar", ours, peers(of(asked, ours.question)))
            drawn = [
                bar
                for group in by(asked, lambda each: each.question)
                for bar in bars(group, took, group=group[0].question)
            ]
            text += chart(folder, f"cloud-{ours.files}", said, [plots.Panel("time", "seconds", drawn)])
        text += comparison(asked) + "\n"
    return text


def _distance(each: Measurement) -> str:
    """How far away the store was."""
    delay, rate = each.extra.get("delay_seconds"), each.extra.get("bytes_per_second")
    said = [f"{duration(delay)} more for every request"] if delay else []
    said += [f"{size(rate)} in a second"] if rate else []
    return f"{', and '.join(said)}.\n\n" if said else ""


@dataclass(frozen=True, slots=True)
class _Quantity:
    words: str
    unit: plots.Unit
    of: Callable[[Measurement], float | None]
    of_table: bool = False  # whatever is asked


def growth(found: Results, folder: Path) -> str:
    """How figures grow with the table, up to a billion files."""
    measured = [each for each in suite(found, "growth") if is_ours(each)]
    text = GROWTH
    if not measured:
        return text + MISSING
    series = by(measured, lambda each: (each.question, each.base, "" if _simulated(each) else each.variant))
    quantities, charts, rows = _quantities(measured), [], []
    for quantity in quantities:
        lines = []
        for name, each in _asked(series, quantity):
            lines.append(plots.Line(name, _points(each, quantity)))
            power = _power(each, quantity)
            if power is not None:
                rows.append([quantity.words, name, f"{power:.2f}", times(10**power)])
        charts.append(plots.Growth(quantity.words, quantity.unit, lines))
    said = _growth_title(series)
    plots.growth(folder, "growth", said, charts)
    text += picture("growth", said) + "\n"
    if any(map(_simulated, measured)):
        text += "Hollow points are simulated, and no power is fitted to them.\n\n"
    text += table(["figure", "of", "power", "ten times the files take"], rows, left=2)
    for each in series:
        text += f"\n## {_growing(each)[:1].upper() + _growing(each)[1:]}\n\n{_growth_table(each, quantities)}"
    return text + "\n## A billion files\n\n" + _billion(series, quantities)


def _quantities(measured: Sequence[Measurement]) -> list[_Quantity]:
    """What can grow: the costs of a scan, and every size that the suite has taken."""
    found = [
        _Quantity("time", "seconds", took),
        _Quantity("memory", "bytes", peak),
        _Quantity("requests", "count", lambda each: each.median.requests),
        _Quantity("bytes read", "bytes", lambda each: each.median.bytes),
    ]
    names = sorted({name for each in measured for name in each.extra if name.endswith("_bytes")})
    found += [
        _Quantity(
            name.removesuffix("_bytes").replace("_", " "),
            "bytes",
            lambda each, of=name: each.extra.get(of),
            of_table=True,
        )
        for name in names
    ]
    return [each for each in found if any(each.of(one) for one in measured)]


def _asked(series: Sequence[Sequence[Measurement]], quantity: _Quantity) -> list[tuple[str, Sequence[Measurement]]]:
    """Whose quantity it is, with a measurement for each size."""
    if quantity.of_table:
        # What is measured goes before what is simulated.
        found = sorted((each for measured in series for each in measured if quantity.of(each)), key=_simulated)
        known = {each.files: each for each in reversed(found)}
        return [("the table", list(known.values()))]
    return [(_growing(each), each) for each in series if _points(each, quantity)]


def _points(series: Sequence[Measurement], quantity: _Quantity) -> list[tuple[float, float, bool]]:
    found = [(each.files, quantity.of(each), not _simulated(each)) for each in series]
    return [(files, value, measured) for files, value, measured in found if value]


def _power(series: Sequence[Measurement], quantity: _Quantity) -> float | None:
    return exponent([(files, value) for files, value, measured in _points(series, quantity) if measured])


def _growing(series: Sequence[Measurement]) -> str:
    each = min(series, key=_simulated)
    return ", ".join(part for part in (each.question, "" if _simulated(each) else who(each).partition(", ")[2]) if part)


def _growth_title(series: Sequence[Sequence[Measurement]]) -> str:
    """What the first question's time does between the fewest files and the most that were measured."""
    asked = next((each for each in series if each[0].question == "last hour"), series[0])
    measured = sorted((each for each in asked if not _simulated(each)), key=_files)
    if len(measured) < 2:  # noqa: PLR2004 - growth is between two
        return f"{asked[0].question}, by files of the table".capitalize()
    few, many = measured[0], measured[-1]
    more, longer = many.files / few.files, took(many) / took(few)
    said = f"{subject(many.question, few.files)}: {duration(took(few))}; of {count(many.files)}, "
    return f"{said}{short(more)} times as many: {duration(took(many))}, {precise(longer)} times that"


def _growth_table(series: Sequence[Measurement], quantities: Sequence[_Quantity]) -> str:
    rows = []
    for each in sorted(series, key=lambda one: one.files):
        values = [(quantity, quantity.of(each)) for quantity in quantities]
        cells = ["" if value is None else plots.WORDS[quantity.unit](value) for quantity, value in values]
        rows.append([count(each.files), *cells, "simulated" if _simulated(each) else ""])
    return table(["files", *(quantity.words for quantity in quantities), ""], rows)


def _billion(series: Sequence[Sequence[Measurement]], quantities: Sequence[_Quantity]) -> str:
    """What is known of it, or where the powers lead; and what breaks first, and what holds."""
    rows = []
    for quantity in quantities:
        for name, each in _asked(series, quantity):
            there = next((one for one in each if _has(one, BILLION)), None)
            power = _power(each, quantity)
            measured = [point for point in _points(each, quantity) if point[2] and point[0] < 0.9 * BILLION]
            if power is None or not measured:
                continue
            most, value, _ = max(measured)
            at, how = value * (BILLION / most) ** power, "by its power"
            if there is not None and (known := quantity.of(there)):
                at, how = known, "simulated" if _simulated(there) else "measured"
            elif len(measured) < _ENOUGH:
                continue
            say = plots.WORDS[quantity.unit]
            cells = [name, quantity.words, f"{say(value)} of {count(most)}", say(at), times(at / value), how]
            rows.append((at / value, cells))
    rows.sort(key=lambda row: -row[0])
    header = ["of", "figure", "of the most files that were measured", "of a billion", "grows", "how it is known"]
    text = f"{_BILLION}\n{table(header, [cells for _, cells in rows], left=2)}" if rows else MISSING
    notes = dict.fromkeys(note for each in series for one in each if (note := one.extra.get("note")))
    text += "".join(f"\n- {note}" for note in notes)
    largest = max((one for each in series for one in each if "limits" in one.extra), key=_files, default=None)
    return text if largest is None else f"{text}\n{_limits(largest)}"


def _limits(each: Measurement) -> str:
    """What breaks when a table grows on, in this order; and what days of different age take."""
    rows = [
        [limit["what"], size(limit["bytes"]), size(limit["limit"]), count(limit["at_files"]), limit["kind"]]
        for limit in each.extra["limits"]
    ]
    header = ["what", f"at {count(each.files)}", "may be", "reached at, files", "and is then"]
    text = f"### What breaks first\n\n{_BREAKS}\n{table(header, rows)}"
    days = each.extra.get("days")
    if not days:
        return text
    names = list(dict.fromkeys(name for day in days.values() for name in day))
    rows = [[day, *(f"{found[name]:,}" if name in found else "" for name in names)] for day, found in days.items()]
    words = [name.replace("_", " ") for name in names]
    return f"{text}\n### Days of different age, of {count(each.files)} files\n\n{table(['', *words], rows)}"


def _files(each: Measurement) -> int:
    return each.files


def _simulated(each: Measurement) -> bool:
    return bool(each.extra.get("simulated"))


def rows(found: Results, folder: Path) -> str:
    """Rows out of real data files."""
    measured = suite(found, "rows")
    text = ROWS
    if not measured:
        return text + MISSING
    for asked in by(measured, lambda each: (each.question, table_key(each))):
        ours = reference(asked)
        slug = asked[0].question.replace(",", "").replace(" ", "-")
        text += f"## {asked[0].question[:1].upper() + asked[0].question[1:]}\n\n{table_words(asked[0])}.\n\n"
        if ours:
            panels = [plots.Panel("all rows", "seconds", bars(asked, took))]
            if all(each.median.first_seconds for each in asked):
                # In the order of the other panel, which has the labels.
                first = {each.label: each for each in bars(asked, lambda each: each.median.first_seconds or 0)}
                panels.append(plots.Panel("first row", "seconds", [first[bar.label] for bar in panels[0].bars]))
            text += chart(folder, f"rows-{slug}", f"Rows. {title(asked)}", panels)
        text += comparison(asked, first=True) + "\n"
    return text


def writing(found: Results, folder: Path) -> str:
    """What sidecars cost those who write."""
    text = WRITING
    for name, heading in (("build", "Building"), ("ingestion", "Ingestion")):
        measured = suite(found, name)
        text += f"## {heading}\n\n"
        if not measured:
            text += MISSING + "\n"
            continue
        drawn: list[plots.Bar] = []
        for asked in by(measured, lambda each: (each.question, table_key(each))):
            drawn += bars(
                asked,
                took,
                name=who,
                group=f"{asked[0].question}, {count(asked[0].files)} files",
            )
        first = by(measured, lambda each: (each.question, table_key(each)))[0]
        said = title(first) or f"{subject(first[0].question, first[0].files)}: {duration(took(first[0]))}"
        text += chart(folder, name, said, [plots.Panel("time", "seconds", drawn)])
        for asked in by(measured, table_key):
            text += f"### {table_words(asked[0])}\n\n{comparison(asked)}{_sizes(asked)}\n"
    return text


def _sizes(measured: Sequence[Measurement]) -> str:
    """Every size that a suite has taken beside its costs."""
    names = sorted({name for each in measured for name in each.extra if name.endswith("_bytes")})
    rows = [
        [f"{each.question}, {who(each)}", *(size(each.extra[name]) if name in each.extra else "" for name in names)]
        for each in measured
        if any(name in each.extra for name in names)
    ]
    words = [name.removesuffix("_bytes").replace("_", " ") for name in names]
    return f"\n{table(['bytes of', *words], rows)}" if rows else ""
