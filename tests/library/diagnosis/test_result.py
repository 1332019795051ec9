"""The output of a diagnosis: text, JSON, and a figure with readable labels."""

import io
import json
from itertools import combinations

import pytest
import torch
from cases import Toy
from matplotlib.text import Annotation

import hardmax as hm
from hardmax.diagnosis import list_candidates


@pytest.fixture(scope="module", params=[hm.Categorical(6), hm.Categorical(3, 3), hm.PairwiseBinary(4)], ids=str)
def diagnosis(request):
    space = request.param
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, *space.score_shape, generator=generator, dtype=torch.float64)
    estimators = {**list_candidates(space), "nonsense": hm.LocalExpectation(), "exact, all": hm.Exact()}
    return hm.diagnose(Toy(space, (6,)), scores, space, estimators, draws=128, generator=generator)


def test_text(diagnosis):
    text = str(diagnosis)
    assert all(row.name in text for row in diagnosis.rows)
    assert "by enumeration" in text
    assert f"recommended: {diagnosis.recommendation.name}" in text
    assert max(map(len, text.splitlines()[: len(diagnosis.rows) + 3])) <= 110
    for refusal in diagnosis.refused:
        assert f"refused: {refusal.name}" in text


def test_the_best_comes_first(diagnosis):
    lines = str(diagnosis).splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
    order = sorted(diagnosis.rows, key=lambda row: row.error(100))
    for line, row in zip(lines[rule + 1 :], order, strict=False):
        assert line.startswith(row.name)


def test_json(diagnosis):
    fields = json.loads(json.dumps(diagnosis.to_dict(10), allow_nan=False))
    assert [row["name"] for row in fields["rows"]] == [row.name for row in diagnosis.rows]
    assert fields["rows"][0]["error"] == pytest.approx(diagnosis.rows[0].error(10))
    assert fields["recommendation"]["batch"] == fields["batch"] == 10
    assert fields["evaluations"] == diagnosis.evaluations


def labels(figure):
    figure.canvas.draw()
    return [text for text in figure.axes[0].texts if isinstance(text, Annotation)]


def test_labels_of_the_figure_are_readable(diagnosis):
    """One label for each estimator, inside the figure, without overlap."""
    figure = diagnosis.figure()
    texts = labels(figure)
    assert len(texts) == len(diagnosis.rows)
    boxes = [text.get_window_extent() for text in texts]
    for box, other in combinations(boxes, 2):
        assert not box.padded(-1).overlaps(other.padded(-1))
    frame = figure.bbox
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 <= box.y1 <= frame.y1 for box in boxes)


def test_points_are_at_the_measured_numbers(diagnosis):
    axes = diagnosis.figure().axes[0]
    points = [line.get_xydata()[0] for line in axes.lines if line.get_marker() not in ("None", "", None)]
    assert len(points) == len(diagnosis.rows)
    for row in diagnosis.rows:
        if row.biased and row.deviation > 1e-5:
            assert any(point == pytest.approx((row.bias, row.deviation)) for point in points)
        elif row.deviation > 1e-5:
            assert any(point == pytest.approx((row.floor, row.deviation), rel=1e-6) for point in points)


def test_the_figure_can_be_saved(diagnosis):
    file = io.BytesIO()
    diagnosis.figure().savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_names_of_a_sequence():
    estimators = [hm.Direct(), hm.Direct(0.5, two_sided=True), hm.Direct(), hm.LocalExpectation(roulette=False)]
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    diagnosis = hm.diagnose(lambda z: z.prod(-1), scores, hm.Binary(3), estimators, draws=4)
    assert [row.name for row in diagnosis.rows] == [
        "Direct(epsilon=1.0)",
        "Direct(epsilon=0.5, two_sided=True)",
        "Direct(epsilon=1.0) (2)",
        "LocalExpectation()",
    ]
