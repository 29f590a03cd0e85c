"""Pictures of correlation maps: one panel a stage, one picture of the groups, and exact rasters.

The colours (matplotlib's cividis) get steadily lighter from 0 to 1, so they read the same in
greyscale and to colour-blind eyes. All panels share the scale 0 to 1.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib import image, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onmt_define.analysis.correlation import CorrelationMap
from onmt_define.files import complete_or_absent

COLORS = "cividis"
WIDTH = 4.2  # inches, as the report's other figures
DPI = 200
COLUMNS = 2
PANEL_PIXELS = 360
MOST_GROUPS_WITH_NUMBERS = 8


def write_pictures(name: str, maps: Sequence[CorrelationMap], folder: Path) -> None:
    """Write `name`.svg and .png, `name`-groups.svg and .png if a stage has groups, and a PNG with
    one pixel for each pair of dimensions for every stage.
    """
    for one in maps:
        with complete_or_absent(folder / f"{name}-{one.stage.replace(' ', '-')}.png") as part:
            image.imsave(part, one.values.numpy(), cmap=COLORS, vmin=0, vmax=1, format="png")
    _write(folder / name, maps, _draw_map)
    grouped = [one for one in maps if one.groups > 1]
    if grouped:
        _write(folder / f"{name}-groups", grouped, _draw_groups)


def _write(
    stem: Path, maps: Sequence[CorrelationMap], draw: Callable[[Axes, CorrelationMap], object]
) -> None:
    rows = math.ceil(len(maps) / COLUMNS)
    with style.context(["default", {"font.size": 8, "svg.hashsalt": "onmt_define"}]):
        figure = Figure(figsize=(WIDTH, 1.0 + 2.05 * rows), dpi=DPI, layout="constrained")
        axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
        for place, one in zip(axes, maps, strict=False):
            shown = draw(place, one)
        for place in axes[len(maps) :]:
            place.set_axis_off()
        bar = figure.colorbar(
            shown, ax=axes.tolist(), location="bottom", aspect=40, shrink=0.9, pad=0.02
        )
        bar.set_label("absolute correlation (0 independent, 1 the same)")
        for kind, metadata in (("png", {}), ("svg", {"Date": None})):
            with complete_or_absent(stem.with_name(f"{stem.name}.{kind}")) as part:
                figure.savefig(part, format=kind, metadata=metadata)
            figure.set_layout_engine("none")  # the first drawing laid the figure out


def _draw_map(axes: Axes, one: CorrelationMap) -> object:
    axes.set_title(f"{one.stage}: {one.width} wide, mean {one.off_diagonal:.3f}", fontsize=8)
    axes.set_axis_off()
    # A small map is embedded as it is, a tenth of the size; only a larger one loses by scaling.
    scaling = "none" if one.width <= PANEL_PIXELS else "auto"
    return axes.imshow(one.values.numpy(), cmap=COLORS, vmin=0, vmax=1, interpolation=scaling)


def _draw_groups(axes: Axes, one: CorrelationMap) -> object:
    means = one.group_means
    axes.set_title(f"{one.stage}: {one.groups} groups, mean {one.between_groups:.3f}", fontsize=8)
    axes.set_xticks(range(one.groups), range(1, one.groups + 1))
    axes.set_yticks(range(one.groups), range(1, one.groups + 1))
    axes.tick_params(length=0)
    if one.groups <= MOST_GROUPS_WITH_NUMBERS:
        for row, values in enumerate(means.tolist()):
            for column, value in enumerate(values):
                color = "black" if value > 0.5 else "white"
                text = f"{value:.2f}".removeprefix("0")
                axes.text(column, row, text, ha="center", va="center", color=color, fontsize=6)
    return axes.imshow(means.numpy(), cmap=COLORS, vmin=0, vmax=1, interpolation="none")
