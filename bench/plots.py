"""Charts: bars and lines on logarithmic axes, each as SVG and PNG, for light pages and dark ones.

The same figures give the same SVG, byte by byte.
"""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from bench import words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

Kind: TypeAlias = Literal["ours", "ours, otherwise", "peer"]
Unit: TypeAlias = Literal["seconds", "bytes", "count"]

WORDS: dict[Unit, Callable[[float], str]] = {
    "seconds": words.duration,
    "bytes": words.size,
    "count": words.count,
}
THEMES = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar.

    Attributes:
        label: Whose it is.
        value: How long it is.
        kind: Ours, ours with a part of the design left out, or another's.
        target: Where a mark is set.
        group: Bars of a group that follow one another stand below its name.
    """

    label: str
    value: float
    kind: Kind
    target: float | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart of bars beside others of the same labels."""

    title: str
    unit: Unit
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Line:
    """Points that are joined; what is not measured is hollow."""

    label: str
    points: Sequence[tuple[float, float, bool]]  # x, y, measured


@dataclass(frozen=True, slots=True)
class Growth:
    """A chart of lines over numbers of files."""

    title: str
    unit: Unit
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class _Theme:
    page: str
    text: str
    quiet: str
    rule: str
    colours: dict[Kind, str]
    target: str
    lines: tuple[str, ...]


# After Okabe and Ito: told apart by people who see few colours, and by their lightness.
_THEMES = {
    "light": _Theme(
        page="#ffffff",
        text="#1f2328",
        quiet="#59636e",
        rule="#d8dee4",
        colours={"ours": "#0072b2", "ours, otherwise": "#7db9dc", "peer": "#b4bac0"},
        target="#d55e00",
        lines=("#0072b2", "#d55e00", "#009e73", "#7a4f9a", "#59636e"),
    ),
    "dark": _Theme(
        page="#0d1117",
        text="#f0f6fc",
        quiet="#a5adb8",
        rule="#30363d",
        colours={"ours": "#56b4e9", "ours, otherwise": "#2a6a94", "peer": "#6b737c"},
        target="#ff9a3c",
        lines=("#56b4e9", "#e69f00", "#2bc99a", "#c9a0e0", "#a5adb8"),
    ),
}
_MARKERS = ("o", "s", "^", "D", "v")
_WIDTH = 8.6  # inches
_LENGTHS = 8
"""Bars are compared by their lengths where the longest is less than so many times the shortest."""
_CLOSE = 0.075
"""Figures behind lines are so much of the axis apart."""
_LOGARITHMIC = "logarithmic: each line is ten times the one before"
_LINEAR = "from zero"


def bars(folder: Path, name: str, title: str, panels: Sequence[Panel], mark: str = "") -> None:
    """Draws bars; panels stand side by side, and share their labels. `mark` says what the targets are."""
    first = panels[0].bars
    groups = len({bar.group for bar in first if bar.group})
    height = 1.2 + 0.37 * len(first) + 0.42 * groups
    for theme in THEMES:
        like = _THEMES[theme]
        with mpl.rc_context(_settings(like)):
            figure, axes = _figure(title, height, len(panels), like)
            for number, (panel, axis) in enumerate(zip(panels, axes, strict=True)):
                _draw_bars(axis, panel, like, labelled=number == 0)
            if any(bar.target for panel in panels for bar in panel.bars):
                sign = Line2D([], [], color=like.target, marker="^", linestyle="", label=mark)
                figure.legend(handles=[sign], loc="outside lower left", frameon=False, fontsize=10)
            figure.draw_without_rendering()  # now it is known how much room there is
            for panel, axis in zip(panels, axes, strict=True):
                _write_figures(axis, panel, like)
            _save(figure, folder, f"{name}-{theme}", like)


def growth(folder: Path, name: str, title: str, charts: Sequence[Growth]) -> None:
    """Draws lines over numbers of files, two charts in a row."""
    rows = math.ceil(len(charts) / 2)
    labels = list(dict.fromkeys(line.label for chart in charts for line in chart.lines))
    for theme in THEMES:
        like = _THEMES[theme]
        with mpl.rc_context(_settings(like)):
            figure, axes = _figure(title, 0.9 + 2.9 * rows, min(2, len(charts)), like, rows=rows)
            for axis in axes[len(charts) :]:
                axis.set_visible(False)
            for axis, chart in zip(axes, charts, strict=False):
                _draw_lines(axis, chart, like, labels)
            handles = {label: handle for axis in axes for handle, label in zip(*_legend(axis), strict=True)}
            if any(not measured for chart in charts for line in chart.lines for *_, measured in line.points):
                style = {"marker": "o", "color": like.quiet, "markerfacecolor": like.page, "linestyle": ""}
                handles["simulated"] = Line2D([], [], **style)
            names = {"labels": handles.keys(), "handles": handles.values()}
            figure.legend(**names, loc="outside lower left", ncols=2, frameon=False, fontsize=10)
            _save(figure, folder, f"{name}-{theme}", like)


def _settings(like: _Theme) -> dict[str, object]:
    return {
        "font.family": "DejaVu Sans",
        "font.size": 11,
        "svg.fonttype": "path",
        "svg.hashsalt": "delta-sidecar",
        "text.color": like.text,
        "axes.labelcolor": like.quiet,
        "axes.edgecolor": like.rule,
        "axes.facecolor": like.page,
        "figure.facecolor": like.page,
        "xtick.color": like.quiet,
        "ytick.color": like.text,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }


def _figure(title: str, height: float, columns: int, like: _Theme, rows: int = 1) -> tuple[Figure, list[Axes]]:
    lines = _balanced(title)
    figure = Figure(figsize=(_WIDTH, height + 0.25 * len(lines)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    figure.suptitle("\n".join(lines), x=0.014, ha="left", fontsize=13, fontweight="bold", color=like.text)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _balanced(title: str) -> list[str]:
    """A title in as few lines as it takes, each about as long as the others."""
    title = re.sub(r"(?<=\d) (?=\w)", "\N{NO-BREAK SPACE}", title)
    lines = textwrap.wrap(title, 80, break_on_hyphens=False)
    narrower = (textwrap.wrap(title, width, break_on_hyphens=False) for width in range(40, 80))
    return next((each for each in narrower if len(each) == len(lines)), lines)


def _draw_bars(axis: Axes, panel: Panel, like: _Theme, *, labelled: bool) -> None:
    places, names = _places(panel.bars)
    low, _ = _range(panel)
    for place, bar in zip(places, panel.bars, strict=True):
        axis.barh(place, bar.value - low, left=low, height=0.62, color=like.colours[bar.kind], zorder=2)
        if bar.target:
            # Below the figure that is written behind the bar.
            axis.plot(bar.target, place + 0.37, marker="^", markersize=6, color=like.target, zorder=3)
    axis.set_ylim(max(places) + 0.6, -0.6 if not panel.bars[0].group else -1.15)
    wide = len(axis.figure.axes) == 1
    labels = [bar.label if wide else textwrap.fill(bar.label, 30) for bar in panel.bars]
    axis.set_yticks(places, labels if labelled else [""] * len(places), fontsize=11 if wide else 9)
    for tick, bar in zip(axis.get_yticklabels(), panel.bars, strict=True):
        tick.set_fontweight("bold" if bar.kind == "ours" else "normal")
    for place, name in names:
        _write(axis, name, (0, place), xycoords=("axes fraction", "data"), fontsize=11, fontweight="bold")
    axis.grid(visible=True, axis="x", color=like.rule, linewidth=0.8, zorder=0)
    axis.spines["bottom"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", length=0, labelsize=9.5)
    note = _LOGARITHMIC if low else _LINEAR
    axis.set_xlabel(
        f"{panel.title}\n{note if wide else note.replace(': each line is ten times the one before', ', 10x a line')}",
        fontsize=9.5,
    )
    # Whatever is written behind the bars comes later; until then their axis has the room that it will have.
    axis.set_xscale("log" if low else "linear")
    axis.set_xlim(*_range(panel))
    axis.xaxis.set_major_locator(LogLocator(base=10, numticks=20) if low else MaxNLocator(4))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: WORDS[panel.unit](value) if wide and value else ""))
    axis.xaxis.set_minor_locator(NullLocator())


def _write_figures(axis: Axes, panel: Panel, like: _Theme) -> None:
    """Writes figures behind their bars, and makes room for them."""
    low, high = _range(panel)
    inches = axis.get_position().width * _WIDTH
    said = [WORDS[panel.unit](bar.value) for bar in panel.bars]
    needs = [(0.095 * len(text) + 0.16) / inches for text in said]

    def place(value: float) -> float:
        return math.log(value / low) / math.log(high / low) if low else value / high

    # What is written behind a bar has to end within the axis.
    room = max(1.0, *(place(bar.value) / (1 - min(0.7, need)) for bar, need in zip(panel.bars, needs, strict=True)))
    axis.set_xlim(low, low * (high / low) ** room if low else high * room)
    for y, bar, text in zip(axis.get_yticks(), panel.bars, said, strict=True):
        weight = "bold" if bar.kind == "ours" else "normal"
        _write(axis, text, (bar.value, y), color=like.text, fontsize=10.5, fontweight=weight)


def _write(axis: Axes, text: str, where: tuple[float, float], **how: object) -> None:
    """Writes a text a little to the right of a place."""
    axis.annotate(text, where, xytext=(6, 0), textcoords="offset points", va="center_baseline", **how)


def _range(panel: Panel) -> tuple[float, float]:
    """Where the axis begins, and its last value: from 0 on where bars can be compared by their lengths."""
    values = [value for bar in panel.bars for value in (bar.value, bar.target) if value]
    if max(values) < _LENGTHS * min(values):
        return 0, max(values)
    return 10 ** math.floor(math.log10(min(values) * 0.7)), max(values)


def _places(drawn: Sequence[Bar]) -> tuple[list[float], list[tuple[float, str]]]:
    """Where bars and the names of their groups are, from the top."""
    places: list[float] = []
    names: list[tuple[float, str]] = []
    place, group = 0.0, ""
    for bar in drawn:
        if bar.group != group:
            place += 1.15 if places else 0
            names.append((place - 0.85, bar.group))
            group = bar.group
        places.append(place)
        place += 1
    return places, names


def _draw_lines(axis: Axes, chart: Growth, like: _Theme, labels: Sequence[str]) -> None:
    for line in chart.lines:
        number = labels.index(line.label)
        colour, marker = like.lines[number % len(like.lines)], _MARKERS[number % len(_MARKERS)]
        points = sorted(line.points)
        axis.plot(
            [x for x, _, _ in points],
            [y for _, y, _ in points],
            color=colour,
            linewidth=1.8,
            marker=marker,
            markersize=6,
            label=line.label,
            zorder=3,
        )
        for x, y, _ in (point for point in points if not point[2]):
            axis.plot(x, y, marker=marker, markersize=6, color=colour, markerfacecolor=like.page, zorder=4)
    axis.set_xscale("log")
    axis.set_yscale("log")
    every_x = sorted({x for line in chart.lines for x, _, _ in line.points})
    every_y = [y for line in chart.lines for _, y, _ in line.points]
    axis.set_xlim(every_x[0] / 1.6, every_x[-1] * (every_x[-1] / every_x[0]) ** 0.24 * 1.3)
    # Never less than two lines apart: what hardly grows is to look so.
    middle = math.sqrt(min(every_y) * max(every_y))
    axis.set_ylim(min(min(every_y) / 1.6, middle / 12), max(max(every_y) * 1.6, middle * 12))
    _write_ends(axis, chart, like)
    powers = [10**power for power in range(20) if every_x[0] <= 10**power <= every_x[-1] * 1.02]
    axis.set_xticks(powers, [words.count(x).replace(" ", "\n") for x in powers])
    axis.yaxis.set_major_locator(LogLocator(base=10, numticks=20))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: WORDS[chart.unit](value)))
    for direction in (axis.xaxis, axis.yaxis):
        direction.set_minor_locator(NullLocator())
    axis.grid(visible=True, color=like.rule, linewidth=0.8, zorder=0)
    axis.tick_params(length=0, labelsize=9.5)
    axis.tick_params(axis="y", colors=like.quiet)
    axis.set_title(chart.title, loc="left", fontsize=11, color=like.text)
    axis.set_xlabel("files in the table", fontsize=9.5)


def _write_ends(axis: Axes, chart: Growth, like: _Theme) -> None:
    """Writes the last figure of each line behind it, and those apart that would be in one place."""
    low, high = axis.get_ylim()
    below = (0.0, 0.0)
    for x, y in sorted((max(line.points)[:2] for line in chart.lines), key=lambda end: end[1]):
        place = math.log(y / low) / math.log(high / low)
        if x < 2 * below[0] and place < below[1] + _CLOSE:
            place = below[1] + _CLOSE
        below = (x, place)
        shown = low * (high / low) ** place
        _write(axis, WORDS[chart.unit](y), (x, shown), color=like.text, fontsize=9.5)


def _legend(axis: Axes) -> tuple[list[object], list[str]]:
    handles, labels = axis.get_legend_handles_labels()
    return handles, labels


def _save(figure: Figure, folder: Path, name: str, like: _Theme) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, facecolor=like.page)
    figure.savefig(folder / f"{name}.png", dpi=160, metadata={"Software": None}, facecolor=like.page)
