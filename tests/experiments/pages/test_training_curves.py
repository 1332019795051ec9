"""Figures of curves: cells can be distinguished without colour, and the end of the curves is visible."""

from dataclasses import replace

import matplotlib
import pytest
from matplotlib.figure import Figure

from hardmax.experiments.pages.summary import Summary
from hardmax.experiments.pages.training_curves import choose_styles, draw_curves, draw_panel, limit_axis
from hardmax.experiments.tables.declaration import CurvesFigure, Panel
from hardmax.experiments.tables.figure3 import FIGURE3
from hardmax.experiments.tables.metrics import ACCURACY, BOUND, Mean
from hardmax.experiments.tables.table1 import FIGURE2, FIGURE6


def summary(cell, values, seconds=1.0, seeds=1):
    curve = [Mean(value, None if seeds == 1 else 0.5) for value in values]
    times = [seconds * (i + 1) for i in range(len(values))]
    return Summary(cell, (seeds, 2), curve, times, {"negative_elbo": curve[-1]}, seconds, "hardmax train")


def test_no_two_cells_differ_only_by_colour():
    styles = list(choose_styles(FIGURE3, CurvesFigure()).values())
    looks = [(style["color"], style["marker"], str(style["linestyle"])) for style in styles]
    assert len(set(looks)) == len(looks)
    groups = {cell.group: style["linestyle"] for cell, style in zip(FIGURE3.cells, styles, strict=True)}
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
    highest = limit_axis(axes, [summary(FIGURE3.cells[0], values)], BOUND)
    assert bool(axes.get_ylim()[1] < max(values)) is cut
    assert highest == (max(values) if cut else None)


def test_where_higher_is_better_the_beginning_is_low():
    axes = Figure().subplots()
    values = [10.0, 60.0, 90.0, 92.0, 93.0, 94.0, 95.0, 95.5, 96.0, 96.0]
    assert limit_axis(axes, [summary(FIGURE3.cells[0], values)], ACCURACY) == 10.0
    assert 60 < axes.get_ylim()[0] < 92
    assert axes.get_ylim()[1] > 96


def test_the_same_figure_every_time(tmp_path):
    summaries = {
        cell.name: summary(cell, [150.0 + i, 140.0 + i], seconds=1 + 3 * i, seeds=2)
        for i, cell in enumerate(FIGURE3.cells)
    }
    for name in ("a.svg", "b.svg"):
        with matplotlib.rc_context({"font.size": 4 if name == "a.svg" else 20}):
            draw_curves(FIGURE3, CurvesFigure(), summaries, {"svg": tmp_path / name}, quick=False)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_nothing_yet(tmp_path):
    draw_curves(FIGURE3, CurvesFigure(), {}, {"png": tmp_path / "a.png"}, quick=True)
    assert (tmp_path / "a.png").exists()


@pytest.mark.parametrize("experiment", [FIGURE2, FIGURE6], ids=["figure2", "figure6"])
def test_no_two_cells_of_a_panel_differ_only_by_colour(experiment):
    for figure in experiment.figures:
        styles = choose_styles(experiment, figure)
        for problem in figure.problems:
            own = [styles[cell.name] for cell in experiment.cells if cell.problem == problem]
            looks = {(style["marker"], str(style["linestyle"])) for style in own}
            assert len(looks) == len(own) > 1


@pytest.fixture
def saved_figures(monkeypatch):
    """The figures that would be written."""
    figures = []
    monkeypatch.setattr(
        "hardmax.experiments.pages.training_curves.save_figure", lambda figure, files: figures.append(figure)
    )
    return figures


def panels_of(figure):
    """Return the axes with panels, by title and label; those of legends have neither frame nor label."""
    return [axes for axes in figure.axes if axes.axison]


def test_the_best_comes_first(saved_figures):
    """The legend is in the order of the metric, not of its numbers."""
    values = {cell.name: summary(cell, [value, value]) for cell, value in zip(FIGURE3.cells, (3, 1, 2), strict=False)}
    for metrics, ends in (((BOUND,), ["1.00", "2.00", "3.00"]), ((ACCURACY,), ["3.0", "2.0", "1.0"])):
        draw_curves(replace(FIGURE3, metrics=metrics), CurvesFigure(), values, {}, quick=False)
        (legend,) = [axes.get_legend() for axes in saved_figures[-1].axes if axes.get_legend()]
        assert [text.get_text().split(": ")[1] for text in legend.get_texts()] == ends
    assert panels_of(saved_figures[-1])[0].get_ylabel() == "test accuracy, percent"


def test_each_problem_has_panels_of_its_own(saved_figures):
    falling = [300.0, 150.0, 140.0, 139.0]
    summaries = {cell.name: summary(cell, [value + i for value in falling]) for i, cell in enumerate(FIGURE2.cells)}
    draw_curves(FIGURE2, FIGURE2.figures[0], summaries, {}, quick=True)
    (figure,) = saved_figures
    assert figure.get_suptitle() == "Figure 2: test loss for k = 10, by epoch and by time (quick form)"
    top, bottom = panels_of(figure)[:3], panels_of(figure)[3:]
    titles = list(dict.fromkeys(cell.problem for cell in FIGURE2.cells))
    assert [axes.get_title(loc="left") for axes in top] == titles
    assert [axes.get_title(loc="left") for axes in bottom] == [""] * 3
    assert {axes.get_xlabel() for axes in top} == {"epoch"}
    assert {axes.get_xlabel() for axes in bottom} == {"seconds of training"}
    for above, below, title in zip(top, bottom, titles, strict=True):
        assert above.get_ylim() == below.get_ylim()
        own = [cell.name for cell in FIGURE2.cells if cell.problem == title]
        for axes in (above, below):
            ends = [line.get_ydata()[-1] for line in axes.lines]
            assert ends == [summaries[name].curve[-1].value for name in own]
        assert list(below.lines[0].get_xdata()) == summaries[own[0]].seconds
    assert top[0].get_ylim() != top[1].get_ylim()
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    assert [legend.get_title().get_text() for legend in legends] == ["the paper's", "ours"]
    methods = [text.get_text() for legend in legends for text in legend.get_texts()]
    assert methods == list(dict.fromkeys(cell.method for cell in FIGURE2.cells))


def test_panels_without_runs_are_labelled(saved_figures):
    cell = FIGURE6.cells[-1]
    for figure in FIGURE6.figures:
        draw_curves(FIGURE6, figure, {cell.name: summary(cell, [150.0, 140.0])}, {}, quick=False)
        panels = panels_of(saved_figures[-1])
        assert len(panels) == 12
        texts = [[text.get_text() for text in axes.texts] for axes in panels]
        assert texts == [["not run"]] * 11 + [[]]
        assert [len(axes.lines) for axes in panels] == [0] * 11 + [1]


def test_long_curves_have_few_markers():
    axes = Figure().subplots()
    cell = FIGURE2.cells[0]
    long, short = summary(cell, [1.0] * 100), summary(cell, [1.0] * 20)
    draw_panel(axes, Panel("epoch", cell.problem), [long, short], choose_styles(FIGURE2, FIGURE2.figures[0]))
    assert [line.get_markevery() for line in axes.lines] == [12, None]
