"""The segmenter from end to end, on scans synthesised from a map of the shipped prior that is left out of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from applications.segmentation.heads import reorder_voxels

from hardmax.applications.segmentation.atlas.atlas import Atlas
from hardmax.applications.segmentation.atlas.transforms import rotation_matrix
from hardmax.applications.segmentation.model_folder import find_model
from hardmax.applications.segmentation.segmenter import Segmenter
from hardmax.applications.segmentation.volumes.agreement import dice
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.errors import DataError, ShapeError

LEFT_OUT = 5
MEANS = {"fluid": 0.2, "background": 0.2, "white": 1.0, "grey": 0.6, "thalamus": 0.8, "caudate": 0.65, "putamen": 0.7,
         "pallidum": 0.9, "brain stem": 0.92, "other": 0.5}  # fmt: skip


@pytest.fixture(scope="module")
def atlas():
    return Atlas.from_pretrained(find_model(None) / "atlas")


@pytest.fixture(scope="module")
def segmenter(atlas):
    others = torch.arange(len(atlas.maps)) != LEFT_OUT
    return Segmenter(replace(atlas, maps=atlas.maps[others], velocities=atlas.velocities[others]))


def synthesise_scan(atlas, *, inverted=False, tilt=(0, 0, 0), shift=(3.0, -12.0, 7.0)):
    """Return a scan of 2 mm, tilted only by its header, and its true labels."""
    rng = np.random.default_rng(0)
    labels = np.array(atlas.kept)[atlas.maps[LEFT_OUT].numpy()]
    means = np.array([MEANS[label.tissues[-1]] for label in atlas.table.labels])
    x = means[labels] + 0.06 * rng.standard_normal(labels.shape)
    x = 1.3 - x if inverted else x
    brain = labels > 0
    around = brain.copy()
    for axis in range(3):
        around |= np.roll(brain, 1, axis) | np.roll(brain, -1, axis)
    affine = np.eye(4)
    affine[:3, :3] = rotation_matrix(tilt).numpy()
    affine[:3, 3] = shift
    values = np.where(around, 200 * np.maximum(x, 0.02), 0).astype(np.float32)
    return Volume(values, Grid(labels.shape, affine @ atlas.grid.affine)), labels.astype(np.uint8)


def mean_dice(segmentation, labels, table):
    return float(dice(segmentation.labels, labels, len(table))[table.judged_indices].mean())


@pytest.fixture(scope="module")
def plain(atlas, segmenter):
    scan, labels = synthesise_scan(atlas)
    return scan, labels, segmenter.segment(scan, posterior=True)


def test_a_synthetic_scan(plain, segmenter):
    _, labels, segmentation = plain
    assert mean_dice(segmentation, labels, segmenter.table) > 0.85
    assert segmentation.log_likelihood > 2 * segmenter.least_log_likelihood
    assert segmentation.doubts == ()
    # The Gaussians are in the units of the scan.
    assert segmentation.means["white"] == pytest.approx(200, rel=0.05)
    assert segmentation.means["grey"] == pytest.approx(120, rel=0.1)
    assert segmentation.deviations["white"] == pytest.approx(12, rel=0.4)


def test_the_posterior_is_one_of_all_labels(plain, segmenter):
    scan, _, segmentation = plain
    assert segmentation.posterior.shape == (len(segmenter.table), *scan.grid.shape)
    np.testing.assert_allclose(segmentation.posterior.sum(0), 1, atol=1e-4)
    assert (segmentation.posterior.argmax(0) == segmentation.labels).all()
    assert not segmentation.posterior[segmenter.table.index("csf")].any()


@pytest.mark.slow
def test_stored_in_another_order(plain, segmenter):
    scan, _, segmentation = plain
    stored, affine = reorder_voxels(scan.values, scan.grid.affine, (2, 0, 1), (-1, 1, -1))
    labels, _ = reorder_voxels(segmentation.labels, scan.grid.affine, (2, 0, 1), (-1, 1, -1))
    again = segmenter.segment(Volume(stored, Grid(stored.shape, affine)))
    assert (again.labels == labels).mean() > 0.9999
    # Left for right is another scan: brains are not that symmetric.
    assert (again.labels == labels[:, ::-1]).mean() < 0.99


@pytest.mark.parametrize("tilt", [(28, 0, 0), pytest.param((0, -20, 15), marks=pytest.mark.slow)])
def test_a_tilted_head_of_inverted_contrast(tilt, atlas, segmenter, plain):
    scan, labels = synthesise_scan(atlas, inverted=True, tilt=tilt, shift=(40.0, 5.0, -30.0))
    segmentation = segmenter.segment(scan)
    assert mean_dice(segmentation, labels, segmenter.table) > mean_dice(plain[2], plain[1], segmenter.table) - 0.05
    assert segmentation.means["white"] < segmentation.means["grey"] < segmentation.means["fluid"]


@pytest.mark.slow
def test_noise_in_the_shape_of_a_brain_is_doubtful(plain, segmenter):
    scan, _, _ = plain
    rng = np.random.default_rng(1)
    noise = np.where(scan.values > 0, rng.gamma(4.0, 30.0, scan.grid.shape), 0).astype(np.float32)
    assert segmenter.segment(replace(scan, values=noise)).log_likelihood < segmenter.least_log_likelihood


def test_what_cannot_be_segmented(segmenter, plain):
    scan, _, _ = plain
    speck = np.zeros_like(scan.values)
    speck[40:45, 40:45, 40:45] = 1 + np.arange(5)
    with pytest.raises(DataError, match="there is no brain in the scan"):
        segmenter.segment(replace(scan, values=speck))
    with pytest.raises(DataError, match="one value all over the brain"):
        segmenter.segment(replace(scan, values=(scan.values > 0).astype(np.float32)))


def test_sides_mask_and_skull(plain, segmenter):
    _, labels, segmentation = plain
    assert not segmentation.has_skull  # without an atlas of the head, a scan counts as skull-stripped
    assert ((labels > 0) <= segmentation.mask).all()
    # The left-out map was aligned to the atlas, whose middle is between left and right.
    right = np.broadcast_to((np.arange(labels.shape[0]) >= labels.shape[0] / 2)[:, None, None], labels.shape)
    assert (segmentation.right == right)[labels > 0].mean() > 0.98
    assert segmenter.has_sides


@pytest.mark.slow
def test_a_mask_of_the_user(plain, segmenter):
    scan, _, segmentation = plain
    noisy = replace(scan, values=np.where(segmentation.mask, scan.values, 300).astype(np.float32))
    again = segmenter.segment(noisy, mask=segmentation.mask)
    assert (again.labels == segmentation.labels).mean() > 0.999
    with pytest.raises(ShapeError, match="the mask must be of the scan's shape"):
        segmenter.segment(noisy, mask=segmentation.mask[1:])
