"""Dice, surface distance and volumes, against brute force."""

import itertools

import numpy as np
import pytest
from scipy import ndimage

from hardmax.applications.segmentation.volumes.agreement import compare_maps, dice, measure_volumes, surface_distance
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES

SPACINGS = [(1.0, 1.0, 1.0), (0.7, 1.3, 2.9)]


def make_blob(generator, shape=(9, 8, 7), level=0.0):
    return ndimage.gaussian_filter(generator.standard_normal(shape), 1.2) > level


def surface(mask):
    """Return the voxels of a mask with one of six neighbours outside the mask or the volume."""
    out = []
    for voxel in zip(*np.nonzero(mask), strict=True):
        for axis, step in itertools.product(range(3), (-1, 1)):
            neighbour = list(voxel)
            neighbour[axis] += step
            if not 0 <= neighbour[axis] < mask.shape[axis] or not mask[tuple(neighbour)]:
                out.append(voxel)
                break
    return np.array(out)


def brute_force(a, b, spacing, percentile=95.0):
    a, b = surface(a) * spacing, surface(b) * spacing
    apart = np.linalg.norm(a[:, None] - b[None], axis=-1)
    return max(np.percentile(apart.min(1), percentile), np.percentile(apart.min(0), percentile))


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("seed", range(20))
def test_surface_distance_is_that_of_brute_force(seed, spacing):
    generator = np.random.default_rng(seed)
    a, b = make_blob(generator), make_blob(generator, level=0.1)
    for percentile in (50.0, 95.0, 100.0):
        distance = surface_distance(a, b, np.array(spacing), percentile)
        assert distance == pytest.approx(brute_force(a, b, spacing, percentile), abs=1e-9)
        assert surface_distance(b, a, np.array(spacing), percentile) == pytest.approx(distance)


def test_planted_errors_would_be_found():
    """Brute force detects wrong distances: without spacing, in one direction only, of all voxels."""
    generator = np.random.default_rng(0)
    a, b, spacing = make_blob(generator, level=-0.1), make_blob(generator, level=0.15), np.array(SPACINGS[1])
    right = surface_distance(a, b, spacing)
    assert surface_distance(a, b, np.ones(3)) != pytest.approx(right)
    assert surface_distance(a, b, spacing[::-1].copy()) != pytest.approx(right)
    inner = np.zeros((9, 9, 9), bool)
    inner[4, 4, 4] = True
    outer = np.zeros((9, 9, 9), bool)
    outer[1:8, 1:8, 1:8] = True
    assert surface_distance(inner, outer, np.ones(3)) == pytest.approx(brute_force(inner, outer, np.ones(3)))
    assert surface_distance(inner, outer, np.ones(3)) > 4  # one direction only gives 3, voxels instead of surfaces 0


def test_a_shift_is_measured_in_mm():
    cube = np.zeros((12, 12, 12), bool)
    cube[4:8, 4:8, 4:8] = True
    for axis, side in enumerate(SPACINGS[1]):
        assert surface_distance(cube, np.roll(cube, 2, axis), np.array(SPACINGS[1])) <= 2 * side + 1e-9
    assert surface_distance(cube, cube, np.ones(3)) == 0
    assert surface_distance(cube, np.roll(cube, 1, 0), np.array([5.0, 1.0, 1.0])) == pytest.approx(5)


def test_nothing_to_measure():
    something, nothing = np.ones((3, 3, 3), bool), np.zeros((3, 3, 3), bool)
    for a, b in ((something, nothing), (nothing, something), (nothing, nothing)):
        assert np.isnan(surface_distance(a, b, np.ones(3)))


@pytest.mark.parametrize("seed", range(5))
def test_dice_and_volumes_count(seed):
    generator = np.random.default_rng(seed)
    a, b = generator.integers(0, 5, (2, 6, 7, 8))
    overlap = dice(a, b, 6)
    for label in range(5):
        both, either = np.sum((a == label) & (b == label)), np.sum(a == label) + np.sum(b == label)
        assert overlap[label] == pytest.approx(2 * both / either)
    assert np.isnan(overlap[5])
    grid = Grid((6, 7, 8), np.diag([1.0, 2.0, -1.5, 1.0]))
    assert measure_volumes(a, grid, 6) == pytest.approx([3.0 * np.sum(a == label) for label in range(6)])
    assert dice(a.astype(np.uint8), b.astype(np.uint8), 6)[:5] == pytest.approx(overlap[:5])


def test_one_empty_map_counts_as_zero():
    assert dice(np.array([[[1, 1]]]), np.array([[[0, 0]]]), 2).tolist() == [0, 0]


def test_compare_judges_sixteen_structures_and_says_what_is_missing():
    generator = np.random.default_rng(3)
    true = generator.integers(0, 19, (10, 10, 10)).astype(np.uint8)
    true[true == 15] = 0
    true[true == 9] = 0
    predicted = true.copy()
    predicted[true == 7] = 8
    predicted[0, 0, 0] = 9
    agreement = compare_maps(predicted, true, Grid((10, 10, 10), np.eye(4)), STRUCTURES)
    assert agreement.names == STRUCTURES.names[1:17]
    assert agreement.dice[0] == 1
    assert agreement.distance[0] == 0
    assert agreement.dice[6] == 0
    assert np.isnan(agreement.distance[6])
    assert np.isnan(agreement.dice[14])
    assert agreement.mean_dice == pytest.approx(np.nanmean(agreement.dice))
    assert agreement.mean_distance == pytest.approx(np.nanmean(agreement.distance))
    assert agreement.notes == (
        "found, but not in the true map: pallidum",
        "in the true map, but not found: caudate",
        "in neither map, not counted: accumbens",
    )
    # csf and other do not count.
    other = np.where(true >= 17, 0, true)
    assert compare_maps(other, true, Grid((10, 10, 10), np.eye(4)), STRUCTURES).mean_dice == 1
