"""The part of a scan that is fitted: the brain mask, doubts about it, and voxels of any size."""

import numpy as np
import pytest

from hardmax.applications.segmentation.fit.observation import find_brain_mask, prepare_scan
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.reading import Volume


def make_ball(radius, spacing=(4.0, 4.0, 4.0), *, air=None):
    """Return a ball of tissue with a radius in mm, in a box of 240 mm; around it zeros, or noise."""
    shape = tuple(round(240 / side) for side in spacing)
    grid = Grid(shape, np.diag([*spacing, 1.0]))
    points = grid.points().reshape(*shape, 3) - grid.centre
    rng = np.random.default_rng(0)
    inside = np.square(points).sum(-1) < radius**2
    around = 0.0 if air is None else np.abs(air * rng.standard_normal(shape))
    return Volume(np.where(inside, 100 + 20 * rng.random(shape), around).astype(np.float32), grid)


def test_a_brain_leaves_no_doubt():
    mask, doubts = find_brain_mask(make_ball(72.0))  # 1.56 l
    assert doubts == []
    assert mask.sum() * 64 == pytest.approx(4 / 3 * np.pi * 72**3, rel=0.02)


def test_a_head_is_larger_than_a_brain():
    _, doubts = find_brain_mask(make_ball(100.0))  # 4.2 l
    assert len(doubts) == 1
    assert "at most 2,300: strip the skull first" in doubts[0]


def test_surroundings_of_noise():
    mask, doubts = find_brain_mask(make_ball(72.0, air=4.0))
    assert "not of one value" in doubts[0]
    assert mask.sum() * 64 == pytest.approx(4 / 3 * np.pi * 72**3, rel=0.02)


@pytest.mark.parametrize("spacing", [(2.0, 2.0, 2.0), (1.5, 1.5, 3.0), (5.0, 2.5, 2.5)])
def test_voxels_of_any_size_are_fitted_in_mm(spacing):
    observation = prepare_scan(make_ball(72.0, spacing))
    inside = observation.points[observation.inside].numpy()
    assert observation.doubts == ()
    np.testing.assert_allclose(inside.max(0) - inside.min(0), 144, atol=2 * max(spacing))
    # Blocks of about 2 mm: none is finer, and a coarser scan is not interpolated.
    steps = [np.diff(np.unique(inside[:, axis].round(3))).min() for axis in range(3)]
    np.testing.assert_allclose(steps, [side * max(1, round(2 / side)) for side in spacing], rtol=1e-3)
