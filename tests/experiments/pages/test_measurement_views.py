"""The page of a measurement: numbers, tables, and figures whose labels do not overlap."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hardmax.drawing.labels import _separate_boxes, place_labels_around_points
from hardmax.experiments.pages import measurement_ladders as ladders
from hardmax.experiments.pages import measurement_points as points
from hardmax.experiments.pages.blocks import Heading
from hardmax.experiments.pages.measurement_ladders import batch_error, format_bias, format_number
from hardmax.experiments.tables.figure1 import FIGURE1
from hardmax.experiments.tables.gradient_quality import GRADIENT_QUALITY as QUALITY


def row(bias=0.5, deviation=1.0, biased=True):
    numbers = {"bias": bias, "floor": 0.01, "biased": biased, "deviation": deviation, "norm": 2.0}
    return {**numbers, "samples": 3, "evaluations": 29.0, "cosine": 0.5, "seconds": 0.001}


def measured_rows(measurement):
    """Return every measurement with a row; all rows differ."""
    planned = measurement.plan(Path("out"))
    return [(plan, row(0.1 + 0.01 * i, 3 / (1 + i), i % 3 > 0)) for i, plan in enumerate(planned)]


def test_numbers():
    assert [format_number(value) for value in (1e-6, 1.53e-5, 0.0123456, 1.5, 12.345, 999.4, 1234.5)] == [
        "0", "0.0000153", "0.0123", "1.5", "12.3", "999", "1,234",
    ]  # fmt: skip
    assert format_bias(row()) == "0.5"
    assert format_bias(row(biased=False)) == "–"
    assert batch_error(row(0.3, 4.0), 100) == pytest.approx(0.5)
    assert batch_error(row(0.3, 4.0, biased=False), 100) == pytest.approx(0.4)


def texts(lines):
    return [[entry.text for entry in line] for line in lines]


def test_ladders_have_a_row_for_each_line_and_a_column_for_each_step():
    title, bias, *rest = ladders.build_tables(FIGURE1, measured_rows(FIGURE1))
    assert len(rest) == 4
    assert title.text.startswith("**After 60 epochs: gradient of E[log p(x | z)].** The exact gradient of all images")
    assert [column.head for column in bias.columns] == ["bias", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]
    lines = texts(bias.lines)
    assert [line[0] for line in lines] == [
        "direct", "direct, two-sided", "Gumbel-softmax", "straight-through Gumbel-softmax",
    ]  # fmt: skip
    assert lines[0][1:3] == ["–", "0.11"]
    assert lines[2][1:4] == ["", "", "0.24"]  # no tau so small
    assert len(rest[2].lines) == 6


def test_points_come_best_first():
    pairs = measured_rows(QUALITY)
    blocks = points.build_tables(QUALITY, pairs)
    assert [block.text for block in blocks if isinstance(block, Heading)] == [
        "After 1 epoch", "After 5 epochs", "After 20 epochs",
    ]  # fmt: skip
    errors = [float(line[6]) for line in texts(blocks[1].lines)]
    assert errors == sorted(errors)
    assert len(errors) == len(QUALITY.estimators(QUALITY.parts[0]))
    assert blocks[1].caption == QUALITY.parts[0].title
    missing = points.build_tables(QUALITY, [(planned, None) for planned, _ in pairs])[1]
    assert [line[1] for line in texts(missing.lines)] == ["not measured"] * len(errors)


@pytest.mark.parametrize(("view", "measurement"), [(ladders, FIGURE1), (points, QUALITY)])
def test_the_same_image_every_time(view, measurement, tmp_path):
    (name, *_) = view.list_figures(measurement, measured_rows(measurement))
    for file in ("a.svg", "b.svg"):
        with matplotlib.rc_context({"font.size": 4 if file == "a.svg" else 20}):
            view.draw_figure(measurement, measured_rows(measurement), name, {"svg": tmp_path / file}, quick=False)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(("view", "measurement"), [(ladders, FIGURE1), (points, QUALITY)])
def test_one_row_is_enough(view, measurement, tmp_path):
    pairs = measured_rows(measurement)
    first_only = [(planned, row if i == 0 else None) for i, (planned, row) in enumerate(pairs)]
    (name,) = view.list_figures(measurement, first_only)
    view.draw_figure(measurement, first_only, name, {"png": tmp_path / "a.png"}, quick=True)
    assert (tmp_path / "a.png").exists()
    assert view.list_figures(measurement, [(planned, None) for planned, _ in pairs]) == {}


def test_parts_that_are_not_drawn_have_no_image():
    pairs, names = measured_rows(QUALITY), ["gradient-quality-29-evaluations", "gradient-quality-2-evaluations"]
    assert list(points.list_figures(QUALITY, pairs)) == names
    assert list(points.list_figures(QUALITY, [pair for pair in pairs if pair[0].part != QUALITY.parts[1]])) == names[:1]


def test_noise_far_below_the_others_leaves_the_axis():
    assert points._find_least_deviation([0.5, 1.0, 2.0, 4.0]) == 0.5
    assert points._find_least_deviation([1e-4, 0.5, 1.0, 2.0]) == 0.5
    assert points._find_least_deviation([0.0]) == 1e-4


def test_columns_keep_their_order_and_do_not_overlap():
    wanted, heights = np.array([10.0, 11.0, 12.0, 50.0, 95.0, 99.0]), np.full(6, 8.0)
    middles = _separate_boxes(wanted, heights, 0.0, 100.0)
    assert (np.diff(middles) >= 8 - 1e-9).all()
    assert middles[3] == 50.0
    assert middles[1] == pytest.approx(11.0, abs=1e-6) or middles[0] == 4.0
    assert middles[-1] <= 96.0


def test_labels_of_close_points_do_not_collide():
    figure = Figure(figsize=(6, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    places = [(0.5 + 0.02 * i, 0.5 + 0.03 * (i % 3)) for i in range(8)]
    texts = [axes.annotate(f"label {i}", place) for i, place in enumerate(places)]
    figure.canvas.draw()
    figure.set_layout_engine("none")
    before = [text.get_window_extent() for text in texts]
    assert any(a.overlaps(b) for i, a in enumerate(before) for b in before[:i])
    place_labels_around_points(axes, texts)
    after = [text.get_window_extent() for text in texts]
    assert not any(a.overlaps(b) for i, a in enumerate(after) for b in after[:i])
    frame = axes.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in after)
