"""The figure: cells are told apart without colour, and the end of the curves is to be seen."""

import matplotlib
import pytest
from matplotlib.figure import Figure

from hardmax.experiments.chart import _cut, _style, draw
from hardmax.experiments.figure3 import EXPERIMENT
from hardmax.experiments.summary import Mean, Summary


def summary(cell, values, seconds=1.0, seeds=1):
    metric = [Mean(value, None if seeds == 1 else 0.5) for value in values]
    times = [seconds * (i + 1) for i in range(len(values))]
    return Summary(cell, (seeds, 2), metric, times, metric[-1], seconds, "hardmax train")


def test_no_two_cells_are_told_apart_by_colour_alone():
    styles = [_style(EXPERIMENT, cell) for cell in EXPERIMENT.cells]
    looks = [(style["color"], style["marker"], str(style["linestyle"])) for style in styles]
    assert len(set(looks)) == len(looks)
    groups = {cell.group: style["linestyle"] for cell, style in zip(EXPERIMENT.cells, styles, strict=True)}
    assert len(set(map(str, groups.values()))) == len(groups)


@pytest.mark.parametrize(("values", "cut"), [
    ([500.0, 300.0, 120.0, 110.0, 105.0, 104.0, 103.0, 102.0, 101.0, 100.0], True),
    ([110.0, 105.0, 100.0], False),
    ([100.0], False),
    ([float("nan")] * 4, False),
])  # fmt: skip
def test_first_epochs_may_leave_the_axis(values, cut):
    axes = Figure().subplots()
    axes.plot(range(len(values)), values)
    _cut(axes, [summary(EXPERIMENT.cells[0], values)])
    assert bool(axes.get_ylim()[1] < max(values)) is cut
    assert ("cut off" in axes.get_title(loc="right")) is cut


def test_the_same_figure_every_time(tmp_path):
    found = {
        cell.name: summary(cell, [150.0 + i, 140.0 + i], seconds=1 + 3 * i, seeds=2)
        for i, cell in enumerate(EXPERIMENT.cells)
    }
    for name in ("a.svg", "b.svg"):
        with matplotlib.rc_context({"font.size": 4 if name == "a.svg" else 20}):
            draw(EXPERIMENT, found, {"svg": tmp_path / name}, quick=False)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_nothing_yet(tmp_path):
    draw(EXPERIMENT, {}, {"png": tmp_path / "a.png"}, quick=True)
    assert (tmp_path / "a.png").exists()
