"""Curves and bars as SVG."""

import math
import re
from xml.etree import ElementTree

import matplotlib
import pytest
import torch

from hardmax.applications.discrete_vae.report_codes import draw_usage as draw_usage
from hardmax.applications.discrete_vae.report_codes import measure_usage
from hardmax.applications.runs import read_run
from hardmax.drawing.svg import COLOURS, draw_svg
from hardmax.report.curves import Line, draw_curves, draw_heat_map, find_axis_limit, make_legend
from hardmax.report.tables import format_number, format_percent


def test_large_values_of_the_first_epochs_are_cut_off():
    values = [500.0, 180.0, 110.0, 105.0, 104.0, 103.0, 102.0, 101.0, 100.0, 100.0]
    top = find_axis_limit([Line("run", range(10), values)])
    assert 110 < top < 180
    note = draw_curves("a", "title", "epoch", "y", [Line("run", range(10), values)], clip=True).note
    assert note == f"Cut off at {top:.1f} to show the rest: the first epochs reach 500.0."


@pytest.mark.parametrize("values", [[3.0, 2.0, 1.0], [9.0], [], [5.0, 4.0, 3.0, 2.0, 1.0], [math.nan] * 5, [1.0] * 8])
def test_nothing_is_cut_off_without_need(values):
    lines = [Line("run", range(len(values)), values)]
    assert find_axis_limit(lines) is None
    assert draw_curves("a", "title", "epoch", "y", lines, clip=True).note == ""


def test_a_run_that_stays_worse_is_not_cut_off():
    good, bad = [500.0, *[100.0] * 9], [500.0, *[200.0] * 9]
    assert find_axis_limit([Line("good", range(10), good), Line("bad", range(10), bad)]) >= 200


def test_curves_with_missing_values():
    drawn = draw_curves("a", "t", "epoch", "y", [Line("run", [1, 2, 3], [3.0, math.nan, math.inf])], clip=True)
    assert "ends at inf" in drawn.svg


def test_svg_takes_ink_and_font_from_the_page():
    with draw_svg("a", 'an "alt" & more') as drawn:
        drawn.axes.plot([1, 2], [3, 4], color=COLOURS[0])
    svg = str(drawn.svg)
    ElementTree.fromstring(svg.replace("xlink:href", "href"))
    assert 'aria-label="an &#34;alt&#34; &amp; more"' in svg
    assert "font-family" not in svg
    assert "<style" not in svg
    assert set(re.findall(r"#[0-9a-f]{6}\b", re.sub(r"#[mp][0-9a-f]{10}", "", svg))) == {COLOURS[0]}
    assert "currentColor" in svg


def test_figures_do_not_depend_on_matplotlib_settings():
    def figure():
        return draw_curves("a", "t", "epoch", "y", [Line("run", [1, 2], [3.0, 4.0])]).svg

    first = figure()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert figure() == first
        assert matplotlib.rcParams["font.size"] == 30


def test_legend_of_many_lines():
    keys = make_legend([str(i) for i in range(40)])
    assert len({(key.colour, key.dash) for key in keys[:30]}) == 30


def test_a_heat_map_has_zero_in_the_middle_and_no_pixels():
    matrix = torch.tensor([[math.nan, -2.0], [1.0, 0.0]])
    svg = str(draw_heat_map("a", "alt", matrix, rows="bit", columns="bit", scale="coupling", signed=True))
    assert "<image" not in svg
    assert "base64" not in svg
    assert COLOURS[0] in svg
    assert "mean" not in str(draw_heat_map("a", "alt", torch.zeros(2, 3), rows="r", columns="c", scale="s"))


@pytest.mark.parametrize("kind", ["categorical", "direct", "gaussian", "bits", "variables"])
def test_usage(trained, kind):
    run = read_run(trained(kind))
    usage = measure_usage(run)
    with torch.no_grad():
        q = run.model.space.marginals(run.model.encoder(run.test_examples))
    torch.testing.assert_close(usage.average, q.double().mean(0), rtol=0, atol=1e-6)
    if kind == "bits":
        assert int((~usage.is_unused).sum()) == run.best.active
    elif kind == "variables":
        assert int(((~usage.is_unused).sum(-1) > 1).sum()) == run.best.active
    else:
        assert int((~usage.is_unused).sum()) == run.best.active
    limit = 2 if kind == "bits" else run.config.categories
    assert usage.perplexity.shape == (() if usage.space.categories else (run.config.variables,))
    assert ((usage.perplexity >= 1) & (usage.perplexity <= limit + 1e-6)).all()
    assert 1 <= usage.distinct_perplexity <= usage.distinct + 1e-3
    assert "aria-label" in draw_usage(usage, run.model.prior, "a")


def test_numbers():
    assert [format_number(value) for value in (1234.567, -0.001, -2.5, None, math.nan)] == [
        "1,234.57",
        "0.00",
        "−2.50",
        "–",
        "not finite",
    ]
    assert [format_percent(value) for value in (0, 1e-5, 0.1234, 0.99999, 1)] == [
        "0 %",
        "< 0.1 %",
        "12.3 %",
        "> 99.9 %",
        "100 %",
    ]
