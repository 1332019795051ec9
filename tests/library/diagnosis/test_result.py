"""What a diagnosis shows: text, JSON, and a picture whose labels can be read."""

import io
import json
from itertools import combinations

import pytest
import torch
from cases import Toy
from matplotlib.text import Annotation

import hardmax as hm
from hardmax.diagnosis import candidates


@pytest.fixture(scope="module", params=[hm.Categorical(6), hm.Categorical(3, 3), hm.PairwiseBinary(4)], ids=str)
def found(request):
    space = request.param
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, *space.score_shape, generator=generator, dtype=torch.float64)
    estimators = {**candidates(space), "nonsense": hm.LocalExpectation(), "exact, all": hm.Exact()}
    return hm.diagnose(Toy(space, (6,)), scores, space, estimators, draws=128, generator=generator)


def test_text(found):
    text = str(found)
    assert all(row.name in text for row in found.rows)
    assert "by enumeration" in text
    assert f"recommended: {found.recommendation.name}" in text
    assert max(map(len, text.splitlines()[: len(found.rows) + 3])) <= 110
    for refusal in found.refused:
        assert f"refused: {refusal.name}" in text


def test_the_best_comes_first(found):
    lines = str(found).splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
    order = sorted(found.rows, key=lambda row: row.error(100))
    for line, row in zip(lines[rule + 1 :], order, strict=False):
        assert line.startswith(row.name)


def test_json(found):
    said = json.loads(json.dumps(found.to_dict(10), allow_nan=False))
    assert [row["name"] for row in said["rows"]] == [row.name for row in found.rows]
    assert said["rows"][0]["error"] == pytest.approx(found.rows[0].error(10))
    assert said["recommendation"]["batch"] == said["batch"] == 10
    assert said["evaluations"] == found.evaluations


def labels(figure):
    figure.canvas.draw()
    return [text for text in figure.axes[0].texts if isinstance(text, Annotation)]


def test_labels_of_the_picture_can_be_read(found):
    """One for each estimator, inside of the picture, and none over another."""
    figure = found.figure()
    texts = labels(figure)
    assert len(texts) == len(found.rows)
    boxes = [text.get_window_extent() for text in texts]
    for one, other in combinations(boxes, 2):
        assert not one.padded(-1).overlaps(other.padded(-1))
    whole = figure.bbox
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 <= box.y1 <= whole.y1 for box in boxes)


def test_points_stand_where_the_numbers_say(found):
    axes = found.figure().axes[0]
    points = [line.get_xydata()[0] for line in axes.lines if line.get_marker() not in ("None", "", None)]
    assert len(points) == len(found.rows)
    for row in found.rows:
        if row.biased and row.deviation > 1e-5:
            assert any(point == pytest.approx((row.bias, row.deviation)) for point in points)
        elif row.deviation > 1e-5:
            assert any(point == pytest.approx((row.floor, row.deviation), rel=1e-6) for point in points)


def test_a_picture_is_a_file(found):
    file = io.BytesIO()
    found.figure().savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_names_of_a_sequence():
    estimators = [hm.Direct(), hm.Direct(0.5, two_sided=True), hm.Direct(), hm.LocalExpectation(roulette=False)]
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    found = hm.diagnose(lambda z: z.prod(-1), scores, hm.Binary(3), estimators, draws=4)
    assert [row.name for row in found.rows] == [
        "Direct(epsilon=1.0)",
        "Direct(epsilon=0.5, two_sided=True)",
        "Direct(epsilon=1.0) (2)",
        "LocalExpectation()",
    ]
