"""The whole way of a scan, on scans made from a map of the shipped prior that is left out of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from applications.segmentation.heads import reheaded

from hardmax.applications.segmentation.atlas.atlas import Atlas
from hardmax.applications.segmentation.atlas.transforms import rotation
from hardmax.applications.segmentation.model_folder import find_model
from hardmax.applications.segmentation.segmenter import Segmenter
from hardmax.applications.segmentation.volumes.agreement import dice
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.errors import DataError

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


def made_scan(atlas, *, inverted=False, turned=(0, 0, 0), shift=(3.0, -12.0, 7.0)):
    """Return a scan of 2 mm, its true labels, and no word of how it is turned but in its header."""
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
    affine[:3, :3] = rotation(turned).numpy()
    affine[:3, 3] = shift
    values = np.where(around, 200 * np.maximum(x, 0.02), 0).astype(np.float32)
    return Volume(values, Grid(labels.shape, affine @ atlas.grid.affine)), labels.astype(np.uint8)


def judged(found, labels, table):
    return float(dice(found.labels, labels, len(table))[table.judged].mean())


@pytest.fixture(scope="module")
def plain(atlas, segmenter):
    scan, labels = made_scan(atlas)
    return scan, labels, segmenter.segment(scan, posterior=True)


def test_a_made_scan(plain, segmenter):
    _, labels, found = plain
    assert judged(found, labels, segmenter.table) > 0.85
    assert found.log_likelihood > 2 * segmenter.least_log_likelihood
    assert found.doubts == ()
    # The Gaussians are told in the units of the scan.
    assert found.means["white"] == pytest.approx(200, rel=0.05)
    assert found.means["grey"] == pytest.approx(120, rel=0.1)
    assert found.deviations["white"] == pytest.approx(12, rel=0.4)


def test_the_posterior_is_one_of_all_labels(plain, segmenter):
    scan, _, found = plain
    assert found.posterior.shape == (len(segmenter.table), *scan.grid.shape)
    np.testing.assert_allclose(found.posterior.sum(0), 1, atol=1e-4)
    assert (found.posterior.argmax(0) == found.labels).all()
    assert not found.posterior[segmenter.table.index("csf")].any()


@pytest.mark.slow
def test_stored_in_another_order(plain, segmenter):
    scan, _, found = plain
    stored, affine = reheaded(scan.values, scan.grid.affine, (2, 0, 1), (-1, 1, -1))
    labels, _ = reheaded(found.labels, scan.grid.affine, (2, 0, 1), (-1, 1, -1))
    again = segmenter.segment(Volume(stored, Grid(stored.shape, affine)))
    assert (again.labels == labels).mean() > 0.9999
    # Left for right is another scan: brains are not that symmetric.
    assert (again.labels == labels[:, ::-1]).mean() < 0.99


@pytest.mark.parametrize("turned", [(28, 0, 0), pytest.param((0, -20, 15), marks=pytest.mark.slow)])
def test_a_tilted_head_of_inverted_contrast(turned, atlas, segmenter, plain):
    scan, labels = made_scan(atlas, inverted=True, turned=turned, shift=(40.0, 5.0, -30.0))
    found = segmenter.segment(scan)
    assert judged(found, labels, segmenter.table) > judged(plain[2], plain[1], segmenter.table) - 0.05
    assert found.means["white"] < found.means["grey"] < found.means["fluid"]


def test_noise_in_the_shape_of_a_brain_is_no_brain(plain, segmenter):
    scan, _, _ = plain
    rng = np.random.default_rng(1)
    noise = np.where(scan.values > 0, rng.gamma(4.0, 30.0, scan.grid.shape), 0).astype(np.float32)
    assert segmenter.segment(replace(scan, values=noise)).log_likelihood < segmenter.least_log_likelihood


def test_what_cannot_be_segmented(segmenter, plain):
    scan, _, _ = plain
    speck = np.zeros_like(scan.values)
    speck[40:45, 40:45, 40:45] = 1 + np.arange(5)
    with pytest.raises(DataError, match="no brain can be seen"):
        segmenter.segment(replace(scan, values=speck))
    with pytest.raises(DataError, match="one value all over the brain"):
        segmenter.segment(replace(scan, values=(scan.values > 0).astype(np.float32)))
