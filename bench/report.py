"""A run's results as pages and charts: `python -m bench.report RESULTS.json FOLDER`.

Every figure on a page comes out of the results, and so does every sentence that says what they show. Where FOLDER is
that of the documentation, the figures of the README are put in their place as well.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from bench import pages, plots
from bench.findings import (
    FIRST_FILE,
    KERNEL,
    SUBJECTS,
    by,
    finding,
    is_ours,
    label,
    loses,
    memory_finding,
    peak,
    peers,
    reference,
    subject,
    table_key,
    took,
    who,
)
from bench.markdown import (
    MISSING,
    TABLES,
    bars,
    chart,
    comparison,
    of,
    picture,
    reads,
    suite,
    table,
    table_words,
    telling,
    title,
)
from bench.measure import ROOT
from bench.results import Results
from bench.words import count, duration, precise, short, size, times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.results import Budget, Measurement

PUBLISHED = ROOT / "docs" / "benchmarks"
README = ROOT / "README.md"
START, END = "<!-- benchmarks -->\n", "<!-- end of benchmarks -->"

CAVEATS = """\
- The tables are logs that this project's own generator makes: Delta's real format, without data files behind it but
  for [rows](rows.md). Tables in use are less regular.
- Who made the tables and chose the questions is who made this library. The last hour of a table is what it is for; for
  all files of a table it can win little.
- A metadata sidecar is work that somebody has done before: what building and keeping one costs is on
  [a page of its own](writing.md). "delta-sidecar" is with one; for tables without, read "checkpoint alone".
- One machine, everything on a local disk and in its page cache. There is no network, where round trips would count
  most, but on [the page about a cloud](cloud.md), where delays stand in for one.
- Times are without imports, which [starting up](#starting-up) is about; memory is the peak above what the imports
  left. The figure is the median of the runs, the spread the least and the most: read the ratios, not the digits.
- The others do more. deltalake, Polars and Spark load a table to ask it many questions and to write to it, and are
  asked one here; where a reader gives no file before it has them all, its first file takes what all of them take.
  DuckDB and Spark are asked in SQL, and plan a query first. delta-kernel-rs is a library in Rust, without Python
  around it.
"""
_OTHERS = {
    "files": "More and fewer files",
    "tails": "Long tails",
    "columns": "Many columns",
    "removes": "Many removes",
}
MORE = """\
- [The ladder](ladder.md): what each part of the design is worth, beside what the design promised
- [A cloud](cloud.md): where every request takes its time
- [Growth](growth.md): from small tables to a billion files
- [Rows](rows.md): not files, but what is in them
- [Writing](writing.md): what metadata sidecars cost
"""
NOWHERE = "Nowhere in this run.\n"
REPRODUCE = """\
```console
$ make bench                                        # a part of it, on smaller tables, in ten minutes
$ make bench-full ARGS='--report docs/benchmarks'   # everything on these pages, in hours
$ .venv/bin/python -m bench.report docs/benchmarks/results.json docs/benchmarks
```

The last line makes the pages, their charts and the README's figures again from [the results](results.json): nothing
here is typed by hand. The harness is in `bench/`; an answer is checked before its time counts. On another machine every
figure will be another one, and the ratios should be much the same.
"""


def write(results: dict[str, Any], folder: Path) -> None:
    """Writes pages, charts and the results themselves; and the README's figures, if it is the documentation's folder.

    Raises:
        msgspec.ValidationError: They are not the results of a benchmark.
    """
    found = _read(results)
    folder.mkdir(parents=True, exist_ok=True)
    for old in (old for theme in plots.THEMES for kind in ("svg", "png") for old in folder.glob(f"*-{theme}.{kind}")):
        old.unlink()  # that of a suite which is not in these results
    for name, page in PAGES.items():
        (folder / name).write_text(page(found, folder).rstrip() + "\n", encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if folder.resolve() == PUBLISHED:
        publish(results)


def publish(results: dict[str, Any], readme: Path | None = None) -> None:
    """Puts the figures into the README."""
    readme = readme or README
    before, start, rest = readme.read_text(encoding="utf-8").partition(START)
    text = summary(_read(results))
    readme.write_text(before + start + text + END + rest.partition(END)[2], encoding="utf-8")


def _read(results: dict[str, Any]) -> Results:
    found = msgspec.convert(results, Results)
    # What is written has no base to be read from.
    measured = [replace(each, base="") if each.suite in {"build", "ingestion"} else each for each in found.measurements]
    return replace(found, measurements=measured)


def main() -> None:
    """Writes what the command line says."""
    parser = argparse.ArgumentParser("python -m bench.report", description="A run's results as pages and charts.")
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    results = json.loads(arguments.results.read_bytes())
    write(results, arguments.folder)


def summary(found: Results) -> str:
    """The README's part: the picture that says it all, and the ratios."""
    measured = _headline(found)
    hour = _hour(measured)
    ours = reference(of(measured, hour))
    if ours is None:
        return ""
    readers = [name for name in (KERNEL, "deltalake") if any(each.reader == name for each in measured)]
    rows = []
    for question in (FIRST_FILE, hour, "all files"):
        asked = of(measured, question)
        if mine := reference(asked):
            rows.append([SUBJECTS[question].lower(), *_cells(mine, asked, readers, took, duration)])
        if mine and question == hour:
            rows.append(["memory for that", *_cells(mine, asked, readers, peak, size)])
    shown = picture("last-hour", title(_shown(of(measured, hour))), "docs/benchmarks/")
    figures = table([f"{count(ours.files)} files", "delta-sidecar", *readers], rows)
    return f"""## How quick it is

{shown}
{figures}
Medians on one machine with {found.machine.cores} cores, of logs that were made for it; ours is {label(ours)}.
{_met(found.budgets)}
[The benchmarks](docs/benchmarks/index.md) begin with what speaks against these figures, and end with how to make them
again.
"""


def _cells(
    mine: Measurement,
    asked: Sequence[Measurement],
    readers: Sequence[str],
    figure: Callable[[Measurement], float],
    say: Callable[[float], str],
) -> list[str]:
    """Ours, and the others with their ratio to it."""
    cells = [f"**{say(figure(mine))}**"]
    for name in readers:
        other = _best(asked, name, figure)
        cells.append("" if other is None else f"{say(figure(other))} ({times(figure(other) / figure(mine))})")
    return cells


def _best(asked: Sequence[Measurement], reader: str, figure: Callable[[Measurement], float]) -> Measurement | None:
    """Of the ways of a reader the one that takes least."""
    return min((each for each in asked if each.reader == reader), key=figure, default=None)


def index(found: Results, folder: Path) -> str:
    """The first page."""
    notes = "".join(f"- {note}\n" for note in found.notes)
    return "\n".join(
        [
            "# Benchmarks\n",
            "## Before you read the figures\n",
            CAVEATS + notes,
            _made_on(found),
            "## Side by side\n",
            _side_by_side(found, folder),
            "## Other tables\n",
            _other_tables(found),
            "## Starting up\n",
            _starting_up(found, folder),
            "## Where others are ahead\n",
            _where_others_are_ahead(found),
            "## Budgets\n",
            _budgets(found.budgets),
            "## More\n",
            MORE,
            "## How to reproduce\n",
            REPRODUCE,
        ]
    )


def _side_by_side(found: Results, folder: Path) -> str:
    measured = _headline(found)
    if not measured:
        return MISSING
    text = ""
    hour = _hour(measured)
    for question, name in ((hour, "last-hour"), (FIRST_FILE, "first-file"), ("all files", "all-files")):
        asked = _shown(of(measured, question))
        if reference(asked):
            text += chart(folder, name, title(asked), [plots.Panel("time", "seconds", bars(asked, took))])
    asked = _shown(of(measured, hour))
    if ours := reference(asked):
        said = memory_finding(subject(hour, ours.files), ours, peers(asked))
        text += chart(folder, "memory", said, [plots.Panel("memory above the imports", "bytes", bars(asked, peak))])
    return f"{table_words(measured[0])}.\n\n{text}{comparison(measured)}"


def _shown(asked: Sequence[Measurement]) -> list[Measurement]:
    """What a chart has room for: of ours no strategies, which the table has."""
    return [each for each in asked if not is_ours(each) or each.variant in {"", "warm"}]


def _other_tables(found: Results) -> str:
    headline = _headline(found)
    text = ""
    for name, words in _OTHERS.items():
        measured = [each for each in suite(found, name) if each not in headline]
        text += f"### {words}\n\n{_beside(measured) if measured else MISSING}\n"
    return text


def _beside(measured: Sequence[Measurement]) -> str:
    """A line for each of ours, with the others in columns of their own."""
    readers = list(dict.fromkeys(each.reader for each in measured if not is_ours(each)))
    fields, several = telling(measured), len({each.question for each in measured}) > 1
    rows = []
    for group in by(measured, lambda each: (table_key(each), each.question)):
        for ours in filter(is_ours, group):
            others = [_best(group, name, took) for name in readers]
            rows.append(
                [
                    table_words(ours, fields) if fields else "",
                    ours.question if several else "",
                    who(ours).partition(", ")[2],
                    f"**{duration(took(ours))}**",
                    size(peak(ours)),
                    reads(ours)[0],
                    *("" if each is None else f"{_times(each, ours)}, {size(peak(each))}" for each in others),
                ]
            )
    header = ["table", "question", "with", "time", "memory", "requests", *readers]
    same = [name for name in TABLES if name not in fields and getattr(measured[0], name)]
    said = table_words(measured[0], same) if same else ""
    asked = "" if several else f"{SUBJECTS.get(measured[0].question, measured[0].question)}. "
    return f"{asked}{said[:1].upper()}{said[1:]}.\n\n{table(header, rows, left=3)}"


def _times(other: Measurement, ours: Measurement) -> str:
    return f"{duration(took(other))} ({times(took(other) / took(ours))})"


def _starting_up(found: Results, folder: Path) -> str:
    measured = sorted(suite(found, "startup"), key=took)
    ours = reference(measured)
    if ours is None:
        return MISSING
    beside = peers(measured)
    peer = next((each for each in beside if each.reader == "pyarrow"), beside[0] if beside else None)
    said = finding(f"A cold process, {ours.question}", ours, [peer] if peer else [])
    drawn = bars(measured, took, name=_process)
    text = "The processor's time of whole processes, from start to end, with their imports.\n\n"
    text += chart(folder, "startup", said, [plots.Panel("the processor's time", "seconds", drawn)])
    rows = [
        [_process(each), duration(took(each)), times(took(each) / took(peer)) if peer else "", size(peak(each))]
        for each in measured
    ]
    return text + table(["process", "time", f"beside {who(peer)}" if peer else "", "memory"], rows)


def _process(each: Measurement) -> str:
    return f"{each.reader}: {', '.join(part for part in (each.question, each.variant) if part)}"


def _where_others_are_ahead(found: Results) -> str:
    # Processes that start are no readers of a table.
    measured = [each for each in found.measurements if each.suite != "startup"]
    text = ""
    for what, figure, say in (("time", took, duration), ("memory", peak, size)):
        rows = []
        for ours, best in loses(measured, figure):
            names, figures = (who(ours), who(best)), (figure(ours), figure(best))
            cells = [text for pair in zip(names, map(say, figures), strict=True) for text in pair]
            rows.append([ours.question, table_words(ours), *cells, times(figures[0] / figures[1])])
        header = ["question", "table", "ours", what, "the best other", what, "ours to it"]
        text += f"### In {what}\n\n{table(header, rows, left=3) if rows else NOWHERE}\n"
    return text


def _budgets(budgets: Sequence[Budget]) -> str:
    if not budgets:
        return MISSING
    say: dict[str, Callable[[float], str]] = {"x": lambda value: f"{precise(value)}x", "bytes": size, "requests": short}
    rows = [
        [
            each.what,
            f"{'at least' if each.at_least else 'at most'} {say[each.unit](each.limit)}",
            say[each.unit](each.measured),
            "met" if each.met else "**not met**",
            each.detail,
        ]
        for each in budgets
    ]
    return _met(budgets) + "\n\n" + table(["budget", "limit", "measured", "", "of"], rows)


def _headline(found: Results) -> list[Measurement]:
    """The largest table that readers have been compared on."""
    tables = by(suite(found, "files"), table_key)
    return max(tables, key=lambda each: (bool(peers(each)), each[0].files), default=[])


def _hour(measured: Sequence[Measurement]) -> str:
    """The question about an hour that most readers were asked."""
    return max(
        "last hour", "last hour, paths", key=lambda question: len({each.reader for each in of(measured, question)})
    )


def _met(budgets: Sequence[Budget]) -> str:
    if not budgets:
        return ""
    missed = [each.what for each in budgets if not each.met]
    if not missed:
        return f"All of {len(budgets)} budgets are met."
    return f"{len(budgets) - len(missed)} of {len(budgets)} budgets are met. Not met: {'; '.join(missed)}."


def _made_on(found: Results) -> str:
    machine = found.machine
    parts = [f"{machine.cores} cores", machine.cpu, f"{size(machine.memory_bytes)} of memory", machine.system]
    said = ", ".join(part for part in (*parts, f"Python {machine.python}") if part)
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    return f"Made on {found.made[:10]}, on one machine: {said}. Versions: {versions}.\n"


PAGES: dict[str, Callable[[Results, Path], str]] = {
    "index.md": index,
    "ladder.md": pages.ladder,
    "cloud.md": pages.cloud,
    "growth.md": pages.growth,
    "rows.md": pages.rows,
    "writing.md": pages.writing,
}


if __name__ == "__main__":
    main()
