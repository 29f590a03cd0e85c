"""Size of the input layers against quality, as they were trained and after compression."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from onmt_define.report.analyses import Analysis
from onmt_define.report.factorisations import quality_of, task_of
from onmt_define.report.figures import COLORS, MARKERS, WIDTH, Picture, plain_number, short
from onmt_define.report.records import Results, Run
from onmt_define.report.tables import by_name

BYTES_A_NUMBER = 4
LEAST_SPAN = 0.02  # above and below the middle, as a part of it
INPUT_PARTS = ("source embedding", "target embedding", "embedding")


@dataclass(frozen=True)
class _Point:
    """A run's input layers: megabytes and quality, as trained and each time it was compressed."""

    name: str
    trained: tuple[float, float]
    compressed: tuple[tuple[float, float], ...]


def size_pictures(results: Results, compressions: Sequence[Analysis]) -> Iterator[Picture]:
    """One picture for each task with two points or more."""
    tasks: dict[str, list[list[Run]]] = {}
    for runs in (results.translation, results.language_models):
        for seeds in by_name(runs).values():
            tasks.setdefault(task_of(seeds), []).append(seeds)
    for index, (name, groups) in enumerate(tasks.items(), start=1):
        metric = quality_of(groups[0], results)[0]
        found = (_point(seeds, results, compressions) for seeds in groups)
        points = [point for point in found if point is not None]
        if sum(1 + len(point.compressed) for point in points) > 1:
            yield _picture(f"size_against_quality_{index}", name, metric, points)


def _picture(stem: str, name: str, metric: str, points: Sequence[_Point]) -> Picture:
    better = "higher" if metric.startswith("BLEU") else "lower"
    hollow = (
        "; hollow: stored as codes and codebooks, moved by the change of the score that "
        "compressing measured"
    ) * any(one.compressed for one in points)
    return Picture(
        name=stem,
        section="sizes",
        caption=f"{name}: size of the input layers (4 bytes a parameter, log scale) against "
        f"{metric}, {better} is better{hollow}.",
        draw=lambda: _draw(points, metric),
    )


def _point(
    seeds: Sequence[Run], results: Results, compressions: Sequence[Analysis]
) -> _Point | None:
    counts = [
        [run.parameters[part] for part in INPUT_PARTS if part in run.parameters] for run in seeds
    ]
    known = next((one for one in counts if one and None not in one), None)
    value = quality_of(seeds, results)[1]
    if known is None or value is None or not sum(known):
        return None
    found = [_compressed(one) for one in compressions if one.run in seeds]
    return _Point(
        seeds[0].name,
        (sum(known) * BYTES_A_NUMBER / 1e6, value),
        tuple((one[0], value + one[1]) for one in found if one is not None),
    )


def _compressed(analysis: Analysis) -> tuple[float, float] | None:
    """Megabytes, and how compressing changed the score.

    Only the change can stand beside a report's score: compressing measures BLEU of tokens, with
    OpenNMT-py's own decoding, of one seed.
    """
    try:
        sizes = [layer["compressed_bytes"] for layer in analysis.record["layers"].values()]
        size, score = sum(sizes) / 1e6, analysis.record["score"]
        change = float(score["after"]) - float(score["before"])
    except (KeyError, TypeError, AttributeError, ValueError):
        return None
    return (size, change) if 0 < size < float("inf") and abs(change) < float("inf") else None


def _draw(points: Sequence[_Point], metric: str) -> Figure:
    names = [short(point.name) for point in points]
    columns = 1 if max(map(len, names)) > 18 else 2
    height = 2.6 + 0.19 * -(-len(names) // columns)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    handles = []
    for index, point in enumerate(points):
        style = {
            "color": COLORS[index % len(COLORS)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 6,
            "linewidth": 0.9,
        }
        handles += axes.plot(*zip(point.trained, strict=True), linestyle="", **style)
        for after in point.compressed:
            line = zip(point.trained, after, strict=True)
            axes.plot(*line, linestyle=":", markevery=[1], markerfacecolor="white", **style)
    axes.set_xscale("log")
    sizes = [size for one in points for size, _ in (one.trained, *one.compressed)]
    axes.set_xlim(min(sizes) / 1.5, max(sizes) * 1.5)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(MaxNLocator(5))
    values = [value for one in points for _, value in (one.trained, *one.compressed)]
    middle = (min(values) + max(values)) / 2
    # A difference of less than this doesn't matter and mustn't look as if it did.
    half = max(0.6 * (max(values) - min(values)), LEAST_SPAN * middle)
    axes.set_ylim(middle - half, middle + half)
    axes.set_xlabel("Input layers (MB)")
    axes.set_ylabel(metric[0].upper() + metric[1:])
    axes.grid()
    figure.legend(handles, names, loc="outside lower left", ncols=columns)
    return figure
