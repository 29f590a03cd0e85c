"""Axes of the report's figures."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from onmt_define.report.figures import _label_log_axis

RATIOS = (
    1.02,
    1.1,
    1.3,
    1.7,
    2,
    2.5,
    3,
    4,
    5,
    6,
    7,
    7.9,
    8,
    9,
    12,
    20,
    50,
    100,
    500,
    999,
    1000,
    1e5,
)


@pytest.mark.parametrize("lowest", [1.3, 3.7, 17, 41, 182, 930, 5200])
def test_a_log_axis_has_three_numbers_at_least(lowest):
    for ratio in RATIOS:
        figure = Figure()
        axes = figure.add_subplot()
        values = [lowest, lowest * ratio]
        axes.plot([0, 1], values)
        axes.set_yscale("log")
        _label_log_axis(axes, values)
        figure.canvas.draw()
        bottom, top = axes.get_ylim()
        inside = [tick for tick in axes.get_yticks() if bottom <= tick <= top]
        assert len(inside) >= 3, ratio
        gaps = np.diff(np.log([bottom, *inside, top])) / np.log(top / bottom)
        assert gaps.max() < 0.5, ratio
