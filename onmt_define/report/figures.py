"""The report's figures, drawn with matplotlib and written as SVG and PNG.

Okabe and Ito's colours stay apart for colour-blind eyes; line styles, markers and hatches keep
them apart in greyscale. A run has the same line in every learning curve. Files are the same, byte
for byte, whenever the results are.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator

from onmt_define.files import complete_or_absent
from onmt_define.report.holdings import Holding
from onmt_define.report.records import (
    LANGUAGE_MODEL_PARTS,
    TRANSLATION_PARTS,
    Results,
    Run,
    TranslationRun,
)
from onmt_define.report.tables import MISSING, by_name

WIDTH = 4.2  # inches; 403 pixels in a browser, so the text stays readable on a phone
PNG_DPI = 200  # 840 pixels
POINTS_A_LINE = 400  # enough for 403 pixels; the CSV files hold every point

COLORS = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
_LINES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_HATCHES = ("", "////", "|||", "\\\\\\\\", "xxxx")
_STEPS = (1, 2, 5, 10)  # of the numbers at an axis
_STYLE: dict[str, Any] = {
    "figure.dpi": PNG_DPI,  # fine enough that rounded text sizes leave no gaps
    "font.size": 9,
    "text.parse_math": False,  # a run's name may hold a dollar sign
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "svg.hashsalt": "onmt_define",
}


@dataclass(frozen=True)
class Picture:
    """One figure: the stem of its files, what it shows (also its text for a screen reader)."""

    name: str
    section: str
    caption: str
    draw: Callable[[], Figure]


def pictures(results: Results) -> list[Picture]:
    """The figures that there are data for; none is drawn yet."""
    found: list[Picture] = []
    for section, prefix, title in (
        ("translation", "translation", "translation runs"),
        ("language_models", "language_models", "language models"),
    ):
        runs = getattr(results, section)
        for curve, metric, kind in (
            ("validation", "perplexity", "Validation"),
            ("learning_curve", "train_perplexity", "Training"),
        ):
            if any(_line(seeds, curve, metric) for seeds in by_name(runs).values()):
                found.append(_curve_picture(runs, section, prefix, title, curve, metric, kind))
        if any(_parts(seeds) for seeds in by_name(runs).values()):
            parts = TRANSLATION_PARTS if section == "translation" else LANGUAGE_MODEL_PARTS
            found.append(_parameters_picture(runs, prefix, title, parts))
    scores = [score.bleu for run in results.translation for score in run.scores.values()]
    if any(bleu is not None for bleu in scores):
        found.append(_bleu_picture(results))
    if results.holdings:
        found.append(_gpus_picture(results.holdings))
    return found


def write_picture(picture: Picture, folder: str | Path) -> Path:
    """Draw `picture` into folder/{name}.svg and .png; return the path of the SVG."""
    folder = Path(folder)
    with style.context(["default", _STYLE]):  # whatever the user's own matplotlibrc says
        figure = picture.draw()
        for kind, metadata in (("png", {}), ("svg", {"Date": None})):
            with complete_or_absent(folder / f"{picture.name}.{kind}") as part:
                figure.savefig(part, format=kind, metadata=metadata)
            figure.set_layout_engine("none")  # the first drawing laid the figure out
    return folder / f"{picture.name}.svg"


def _curve_picture(
    runs: Sequence[Run], section: str, prefix: str, title: str, curve: str, metric: str, kind: str
) -> Picture:
    several = any(len(seeds) > 1 for seeds in by_name(runs).values())
    mean = ", mean over seeds" if several else ""
    return Picture(
        name=f"{prefix}_{kind.lower()}_perplexity",
        section="curves" if section == "translation" else section,
        caption=f"{kind} perplexity of the {title} against the training step, log scale{mean}.",
        draw=lambda: draw_curves(runs, curve, metric, f"{kind} perplexity per token"),
    )


def _parameters_picture(
    runs: Sequence[Run], prefix: str, title: str, parts: Sequence[str]
) -> Picture:
    return Picture(
        name=f"{prefix}_parameters",
        section="parameters",
        caption=f"Parameters of the {title} by part; the number at the end is the total.",
        draw=lambda: _draw_parameters(runs, parts),
    )


def _bleu_picture(results: Results) -> Picture:
    seeds = {len(seeds) for seeds in by_name(results.translation).values()}
    whiskers = ["the bootstrap interval"] * (1 in seeds)
    whiskers += ["lowest and highest seed around their mean"] * (max(seeds) > 1)
    return Picture(
        name="translation_bleu",
        section="translation",
        caption=f"BLEU of each run on each test set; whiskers show {' or '.join(whiskers)}.",
        draw=lambda: _draw_bleu(results),
    )


def _gpus_picture(holdings: Sequence[Holding]) -> Picture:
    killed = "" if all(one.released for one in holdings) else "; × marks a job that was killed"
    return Picture(
        name="gpus",
        section="cost",
        caption=f"Which job held which GPU, over time{killed}.",
        draw=lambda: _draw_gpus(holdings),
    )


def draw_curves(runs: Sequence[Run], curve: str, metric: str, label: str) -> Figure:
    """Lines of `metric` over training steps, one for each name of `runs`."""
    groups = by_name(runs)
    names = [short(name) for name in groups]
    columns = 1 if max(map(len, names)) > 18 else 2
    rows = math.ceil(len(names) / columns)
    figure = Figure(figsize=(WIDTH, 2.5 + 0.19 * rows), layout="constrained")
    axes = figure.add_subplot()
    values: list[float] = []
    handles = []
    for index, (name, seeds) in enumerate(zip(names, groups.values(), strict=True)):
        line = _line(seeds, curve, metric)
        values += line.values()
        handles += _plot_line(axes, index, line, name if line else f"{name} ({MISSING})")
    axes.set_yscale("log")
    _label_log_axis(axes, values)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.set_xlim(left=0)
    axes.set_xlabel("Training step")
    axes.set_ylabel(label)
    axes.grid(axis="y")
    figure.legend(
        handles, [handle.get_label() for handle in handles], loc="outside lower left", ncols=columns
    )
    return figure


def _plot_line(axes: Axes, index: int, line: dict[float, float], label: str) -> list:
    few = len(line) <= 25
    return axes.plot(
        list(line.keys()),
        list(line.values()),
        color=COLORS[index % len(COLORS)],
        linestyle=_LINES[index % len(_LINES)],
        marker=MARKERS[index % len(MARKERS)] if few else None,
        markersize=4,
        linewidth=1.4,
        label=label,
    )


def _line(seeds: Sequence[Run], curve: str, metric: str) -> dict[float, float]:
    """Step to value, the mean over seeds at the steps that all seeds with a curve share."""
    curves = [
        {point["step"]: point[metric] for point in getattr(run, curve) if _positive(point, metric)}
        for run in seeds
    ]
    curves = [one for one in curves if one]
    if not curves:
        return {}
    steps = sorted(set.intersection(*map(set, curves)))
    stride = math.ceil(len(steps) / POINTS_A_LINE) or 1
    kept = steps[::-1][::stride][::-1]  # from the end, so the last point is always among them
    return {step: statistics.fmean(one[step] for one in curves) for step in kept}


def _positive(point: dict, metric: str) -> bool:
    value = point.get(metric)
    return value is not None and value > 0  # a log scale has no place for anything else


def _label_log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Plain numbers at 1, 2, 5 times powers of ten, at more where the range is narrow."""
    ratio = max(values) / min(values)
    locator: Locator
    if ratio < 3:
        locator = MaxNLocator(7, steps=_STEPS)
    elif ratio < 8:  # even steps would leave the lower half without a number
        locator = LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 8), numticks=8)
    else:
        locator = LogLocator(subs=(1, 2, 5) if ratio < 1000 else (1,), numticks=8)
    axes.yaxis.set_major_locator(locator)
    axes.yaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.yaxis.set_minor_locator(NullLocator())


def plain_number(value: float, _position: int = 0) -> str:
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.0e}"


def _parts(seeds: Sequence[Run]) -> dict[str, int]:
    """The parameter counts of the first seed that has them all; no seed changes them."""
    for run in seeds:
        known = {part: count for part, count in run.parameters.items() if count is not None}
        if len(known) == len(run.parameters):
            return known
    return {}


def _draw_parameters(runs: Sequence[Run], parts: Sequence[str]) -> Figure:
    groups = by_name(runs)
    counts = {row: _parts(seeds) for row, seeds in enumerate(groups.values())}
    known = {row: one for row, one in counts.items() if one}
    largest = max(one["total"] for one in known.values())
    unit, word = _unit(largest)
    figure = Figure(figsize=(WIDTH, 1.5 + 0.28 * len(groups)), layout="constrained")
    axes = figure.add_subplot()
    bars = [_plot_part(axes, known, parts, index, unit) for index in range(len(parts))]
    digits = 2 if largest / unit < 10 else 1 if largest / unit < 100 else 0
    for row, one in counts.items():
        total = one["total"] / unit if one else 0
        _annotate(axes, row, total, f"{total:,.{digits}f}" if one else MISSING)
    _name_rows(axes, list(groups))
    axes.set_xlim(0, largest / unit * 1.16)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.set_xlabel(f"Parameters{word}")
    axes.grid(axis="x")
    figure.legend(bars, list(parts), loc="outside lower left", ncols=3, handlelength=1.6)
    return figure


def _unit(largest: float) -> tuple[float, str]:
    if largest >= 1e6:
        return 1e6, " (millions)"
    return (1e3, " (thousands)") if largest >= 1e3 else (1, "")


def _plot_part(
    axes: Axes, counts: dict[int, dict[str, int]], parts: Sequence[str], index: int, unit: float
) -> Rectangle:
    """One part's segment in each row, after those of the parts before it; returns one of them."""
    bars = axes.barh(
        list(counts),
        [one[parts[index]] / unit for one in counts.values()],
        left=[sum(one[part] for part in parts[:index]) / unit for one in counts.values()],
        height=0.62,
        color=COLORS[1 + index],
        hatch=_HATCHES[index],
        edgecolor="#222222",
        linewidth=0.5,
    )
    return bars.patches[0]


def _annotate(axes: Axes, row: float, x: float, text: str) -> None:
    axes.annotate(
        text,
        (x, row),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        color="#666666" if text == MISSING else "#000000",
    )


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """One row a run, the first on top."""
    axes.set_yticks(range(len(names)), [short(name, 22) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _draw_bleu(results: Results) -> Figure:
    groups = by_name(results.translation)
    test_sets = results.test_sets
    height = max(0.28, 0.16 * len(test_sets) + 0.1) * len(groups)
    legend_rows = math.ceil(len(test_sets) / 2) if len(test_sets) > 1 else 0
    figure = Figure(figsize=(WIDTH, 0.9 + 0.22 * legend_rows + height), layout="constrained")
    axes = figure.add_subplot()
    for index, test_set in enumerate(test_sets):
        shift = (index - (len(test_sets) - 1) / 2) * 0.6 / len(test_sets)
        for position, seeds in enumerate(groups.values()):
            _plot_score(axes, seeds, test_set, index, position + shift)
    _name_rows(axes, list(groups))
    axes.margins(x=0.07)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=_STEPS))
    axes.set_xlabel("BLEU" if legend_rows else f"BLEU on {short(test_sets[0])}")
    axes.grid(axis="x")
    if legend_rows:
        handles, labels = _one_handle_each(axes, test_sets)
        figure.legend(handles, labels, loc="outside lower left", ncols=2, handlelength=1.6)
    return figure


def _one_handle_each(axes: Axes, test_sets: Sequence[str]) -> tuple[list, list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    first = dict(zip(reversed(labels), reversed(handles), strict=True))
    drawn = [test_set for test_set in test_sets if test_set in first]
    return [first[test_set] for test_set in drawn], drawn


def _plot_score(
    axes: Axes, seeds: Sequence[TranslationRun], test_set: str, index: int, position: float
) -> None:
    """A marker at the mean over seeds; whiskers over seeds, or a single seed's own interval.

    The mean is over the same seeds as in the tables.
    """
    scores = [run.scores[test_set] for run in seeds if run.complete or len(seeds) == 1]
    values = [score.bleu for score in scores if score.bleu is not None]
    if not values:
        axes.annotate(
            MISSING,
            (0, position),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="#666666",
        )
        return
    mean = statistics.fmean(values)
    low, high = min(values), max(values)
    if len(seeds) == 1 and scores[0].interval:
        low, high = scores[0].interval
    axes.errorbar(
        [mean],
        [position],
        xerr=[[max(0.0, mean - low)], [max(0.0, high - mean)]],
        fmt=MARKERS[index % len(MARKERS)],
        color=COLORS[index % len(COLORS)],
        markersize=5,
        capsize=2.5,
        linewidth=1.2,
        label=test_set,
    )


def _draw_gpus(holdings: Sequence[Holding]) -> Figure:
    gpus = sorted({one.gpu for one in holdings})
    jobs = list(dict.fromkeys(one.job for one in holdings))
    first = min(one.start for one in holdings)
    seconds = max(one.end for one in holdings) - first
    units = ((3600, "hours"), (60, "minutes"), (1, "seconds"))
    unit, word = next((one for one in units if seconds >= 2 * one[0]), units[-1])
    columns = 1 if max(map(len, jobs)) > 18 else 2
    height = 0.9 + 0.34 * len(gpus) + 0.19 * math.ceil(len(jobs) / columns)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    bars = {}
    for one in holdings:
        index, row = jobs.index(one.job), gpus.index(one.gpu)
        start, end = (one.start - first) / unit, (one.end - first) / unit
        bars[one.job] = axes.barh(
            row,
            end - start,
            left=start,
            height=0.7,
            color=COLORS[(1 + index) % len(COLORS)],
            hatch=_HATCHES[index // len(COLORS) % len(_HATCHES)],
            edgecolor="#222222",
            linewidth=0.5,
        )
        if not one.released:
            axes.plot([end], [row], marker="x", color="#000000", markersize=6, clip_on=False)
    _name_rows(axes, gpus)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.set_xlabel(f"Time ({word})")
    axes.grid(axis="x")
    figure.legend(
        list(bars.values()),
        [short(job) for job in bars],
        loc="outside lower left",
        ncols=columns,
        handlelength=1.6,
    )
    return figure


def short(name: str, limit: int = 34) -> str:
    """Long names lose their middle, so that runs that differ at the end stay apart."""
    if len(name) <= limit:
        return name
    head = limit // 2
    return f"{name[:head]}…{name[head + 1 - limit :]}"
