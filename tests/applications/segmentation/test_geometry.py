"""Grids, orientation and resampling, against nibabel, closed forms and brute force."""

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import (
    ORIENTATIONS,
    grid_of,
    intensity,
    make_head,
    make_upright_affine,
    reorder_voxels,
    rotation_matrix,
    world_points,
)
from scipy import ndimage

from hardmax.applications.segmentation.volumes.geometry import Grid, Reorientation, resample, resample_labels

OBLIQUE = {"upright": (0, 0, 0), "tilted": (20, -12, 8)}


def test_places_in_the_world():
    shape, affine = (4, 5, 6), make_upright_affine((4, 5, 6), tilt=(10, 20, -30))
    grid = Grid(shape, affine)
    expected = world_points(shape, affine).reshape(-1, 3)
    assert np.allclose(grid.points(), expected)
    voxels = np.random.default_rng(0).uniform(-3, 9, (50, 3))
    assert np.allclose(grid.to_voxels(grid.to_world(voxels)), voxels)
    assert np.allclose(np.sort(grid.corners(), 0)[[0, -1]], [expected.min(0), expected.max(0)])
    assert np.allclose(grid.centre, expected.mean(0))
    assert np.allclose(grid.spacing, [2.0, 1.5, 1.8])
    assert grid.voxel_volume == pytest.approx(2.0 * 1.5 * 1.8)


def test_a_sheared_voxel_has_the_volume_of_its_determinant():
    affine = np.eye(4)
    affine[0, 1] = 0.5
    grid = Grid((2, 2, 2), affine)
    assert grid.voxel_volume == pytest.approx(1)
    assert grid.spacing[1] == pytest.approx(np.sqrt(1.25))


def test_tilt():
    affine = np.eye(4)
    affine[:3, :3] = rotation_matrix(0, 0, 25)
    assert Grid((2, 2, 2), affine).tilt == pytest.approx(25)
    assert Grid((2, 2, 2), np.diag([-1.0, 2.0, 1.0, 1.0])).tilt == pytest.approx(0)


def test_same_as():
    grid = Grid((3, 4, 5), np.eye(4))
    affine = np.eye(4)
    affine[0, 3] = 0.005
    assert grid.same_as(Grid((3, 4, 5), affine))
    affine[0, 3] = 0.5
    assert not grid.same_as(Grid((3, 4, 5), affine))
    assert not grid.same_as(Grid((3, 4, 6), np.eye(4)))


@pytest.mark.parametrize("tilt", OBLIQUE)
@pytest.mark.parametrize(("order", "flips"), ORIENTATIONS)
def test_canonical_orientation_is_nibabel_s(order, flips, tilt):
    values, affine = make_head((5, 6, 7), tilt=OBLIQUE[tilt])
    stored, header = reorder_voxels(values, affine, order, flips)
    reorientation = Reorientation(grid_of(stored, header))
    expected = nibabel.as_closest_canonical(nibabel.Nifti1Image(stored, header))
    assert reorientation.canonical.axes == "RAS"
    assert np.allclose(reorientation.canonical.affine, expected.affine)
    assert np.array_equal(reorientation.forward(stored), np.asarray(expected.dataobj))
    assert np.array_equal(reorientation.forward(stored), values)
    assert np.array_equal(reorientation.restore(reorientation.forward(stored)), stored)
    several = np.stack([stored, 2 * stored])
    assert np.array_equal(reorientation.forward(several)[1], 2 * values)
    assert np.array_equal(reorientation.restore(reorientation.forward(several)), several)


def test_resampling_to_the_same_voxels_changes_nothing():
    values, affine = make_head()
    grid = grid_of(values, affine)
    assert np.array_equal(resample(values, grid, grid), values.astype(np.float32))
    for order, flips in ORIENTATIONS[::5]:
        stored, header = reorder_voxels(values, affine, order, flips)
        assert np.array_equal(resample(stored, grid_of(stored, header), grid), values.astype(np.float32))
        labels = (values // 10).astype(np.uint8)
        stored_labels, _ = reorder_voxels(labels, affine, order, flips)
        assert np.array_equal(resample_labels(stored_labels, grid_of(stored, header), grid), labels)


def test_a_linear_function_is_resampled_exactly():
    slopes = np.array([0.7, -1.3, 0.4])
    source = Grid((20, 22, 24), make_upright_affine((20, 22, 24), spacing=(1.0, 1.0, 1.0)))
    target = Grid((9, 9, 9), make_upright_affine((9, 9, 9), spacing=(1.0, 0.9, 0.8), tilt=(15, 25, -20)))
    values = (source.points() @ slopes).reshape(source.shape)
    expected = (target.points() @ slopes).reshape(target.shape)
    assert np.allclose(resample(values, source, target), expected, atol=1e-4)


def test_resampling_agrees_with_scipy_inside():
    generator = np.random.default_rng(0)
    source = Grid((12, 13, 14), make_upright_affine((12, 13, 14), spacing=(1.5, 1.5, 1.5)))
    target = Grid((8, 8, 8), make_upright_affine((8, 8, 8), spacing=(1.0, 1.0, 1.0), tilt=(5, 10, 40)))
    values = generator.random(source.shape).astype(np.float32)
    change = np.linalg.inv(source.affine) @ target.affine
    expected = ndimage.affine_transform(values, change[:3, :3], change[:3, 3], output_shape=target.shape, order=1)
    assert np.allclose(resample(values, source, target), expected, atol=1e-4)


def test_coarser_voxels_hold_means_and_nothing_aliases():
    fine = Grid((32, 32, 32), np.eye(4))
    checkers = np.indices(fine.shape).sum(0) % 2
    coarse = resample(checkers, fine, fine.at_spacing(3.0))
    assert np.abs(coarse[2:-2, 2:-2, 2:-2] - 0.5).max() < 0.01
    smooth = intensity(fine.points() - 16).reshape(fine.shape)
    # The planted error: without the blur, a voxel of the coarse grid is a single one of the fine grid.
    assert set(np.unique(checkers[1::3, 1::3, 1::3])) == {0, 1}
    coarse = resample(smooth, fine, fine.at_spacing(2.0))
    means = smooth.reshape(16, 2, 16, 2, 16, 2).mean((1, 3, 5))
    assert np.corrcoef(coarse.ravel(), means.ravel())[0, 1] > 0.99


def test_a_finer_grid_is_not_blurred():
    coarse = Grid((6, 6, 6), np.diag([2.0, 2.0, 2.0, 1.0]))
    spike = np.zeros(coarse.shape)
    spike[3, 3, 3] = 1
    assert resample(spike, coarse, Grid((13, 13, 13), np.eye(4)))[6, 6, 6] == pytest.approx(1)


def test_labels_are_those_of_the_nearest_voxel():
    source = Grid((7, 8, 9), make_upright_affine((7, 8, 9), tilt=(10, 0, 5)))
    target = Grid((15, 14, 13), make_upright_affine((15, 14, 13), spacing=(1.1, 1.2, 1.3), tilt=(0, 30, 0)))
    labels = np.random.default_rng(1).integers(1, 200, source.shape).astype(np.uint8)
    resampled = resample_labels(labels, source, target, fill=255)
    assert resampled.dtype == np.uint8
    nearest = np.round(source.to_voxels(target.points())).astype(int)
    inside = ((nearest >= 0) & (nearest < source.shape)).all(1)
    expected = np.full(len(nearest), 255)
    expected[inside] = labels[tuple(nearest[inside].T)]
    assert 0.05 < inside.mean() < 0.95
    assert np.array_equal(resampled.ravel(), expected)


def test_outside_is_filled():
    grid = Grid((4, 4, 4), np.eye(4))
    shifted = np.eye(4)
    shifted[0, 3] = 100
    assert (resample(np.ones(grid.shape), grid, Grid((4, 4, 4), shifted), fill=-7.0) == -7).all()


@pytest.mark.parametrize("spacing", [0.7, 1.0, 3.3])
def test_another_spacing_covers_the_same_box(spacing):
    grid = Grid((22, 26, 24), make_upright_affine(tilt=(20, 0, 0)))
    other = grid.at_spacing(spacing)
    assert np.allclose(other.spacing, spacing)
    assert np.allclose(other.centre, grid.centre)
    sides, before = np.array(other.shape) * spacing, np.array(grid.shape) * grid.spacing
    assert (sides >= before - 1e-6).all()
    assert (sides < before + spacing).all()
    assert other.tilt == pytest.approx(grid.tilt)


def test_tiny_voxels_have_an_inverse():
    assert Grid((2, 2, 2), np.diag([1e-3, 1e-3, 1e-3, 1.0])).voxel_volume == pytest.approx(1e-9)
