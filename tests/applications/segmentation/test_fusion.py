"""The personal atlas: the map behind a synthetic scan gets the largest weight; and the likelihood of the mask."""

import math

import numpy as np
import pytest
import torch
from applications.segmentation.test_segmenter import MEANS

from hardmax.applications.segmentation.atlas.atlas import VELOCITY_GRID, Atlas, soften_probabilities
from hardmax.applications.segmentation.atlas.transforms import Affine, make_centred_grid
from hardmax.applications.segmentation.fit.fitting import ScanFit
from hardmax.applications.segmentation.fit.fusion import build_personal_prior
from hardmax.applications.segmentation.fit.observation import mask_depth, prepare_scan
from hardmax.applications.segmentation.model_folder import find_model
from hardmax.applications.segmentation.tissues.classes import (
    brain_mask_probability,
    condition_on_mask,
    log_appearance,
    log_background,
    sum_appearances,
)
from hardmax.applications.segmentation.tissues.gaussians import Gaussians, mixing_matrix, tissue_mixing
from hardmax.applications.segmentation.tissues.partial_volume import log_density
from hardmax.applications.segmentation.volumes.reading import Volume


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_map_behind_the_scan_counts_most(mirrored):
    atlas = Atlas.from_pretrained(find_model(None) / "atlas")
    tissues = [atlas.table.labels[index].tissues for index in atlas.kept]
    mixing = tissue_mixing(tissues)
    true = atlas.maps[4].flip(0) if mirrored else atlas.maps[4]
    means = torch.tensor([MEANS[names[-1]] for names in tissues])
    noise = torch.randn(true.shape, generator=torch.Generator().manual_seed(0))
    x = torch.where(true > 0, 100 * (means[true.long()] + 0.05 * noise).clamp_min(0.01), 0.0)
    volume = Volume(x.numpy(), atlas.grid)
    observation = prepare_scan(volume)
    prior = soften_probabilities(atlas.probabilities)
    appearances = sum_appearances(prior, atlas.grid, mixing)
    label_means = torch.stack([means[mixing[:, k] == 1][-1] for k in range(mixing.shape[1])])
    gaussians = Gaussians(
        (100 * label_means - observation.centre) / observation.scale,
        torch.full_like(label_means, 5 / observation.scale),
        appearances.mixing,
    )
    fit = ScanFit(Affine(torch.eye(3), torch.zeros(3)), None, VELOCITY_GRID, gaussians, 0.0)
    own = build_personal_prior(volume, observation, fit, prior, appearances, atlas.maps, atlas.grid)
    torch.testing.assert_close(own.sum(0), torch.ones(atlas.grid.shape), atol=1e-4, rtol=0)
    inside = true > 0
    agreed, before = ((f.argmax(0) == true)[inside].float().mean() for f in (own, prior))
    assert agreed > 0.95
    assert before < 0.85


def test_likelihood_of_the_mask():
    assert log_background(torch.zeros(1)).item() == pytest.approx(math.log(0.15 / 0.99))
    assert log_background(torch.tensor([6.0, 20.0])).tolist() == [0, 0]
    gaussians = Gaussians(torch.tensor([0.0, 4.0]), torch.ones(2), mixing_matrix([0, 1]))
    even, in_mask = torch.full((2, 2), 0.5), brain_mask_probability(2)
    log_likelihood = log_appearance(torch.tensor([4.0, 4.0]), torch.tensor([True, False]), gaussians, even, in_mask)
    density = log_density(torch.tensor([4.0]), gaussians, condition_on_mask(even[:, :1], in_mask))[:, 0]
    torch.testing.assert_close(log_likelihood[:, 0], density + torch.tensor([0.15, 0.99]).log())
    torch.testing.assert_close(
        log_likelihood[:, 1], torch.tensor([0.85, 0.01]).log()
    )  # outside, brightness does not count
    conditioned = condition_on_mask(torch.tensor([[0.5], [0.5]]), in_mask)[:, 0]
    torch.testing.assert_close(conditioned, torch.tensor([0.15, 0.99]) / 1.14)


def test_depth_in_mm():
    mask = np.zeros((12, 5, 5), bool)
    mask[3:9, 1:4, 1:4] = True
    grid = make_centred_grid((12, 5, 5), 2.0)
    depth = mask_depth(mask, grid)
    assert depth[2, 2, 2] == 0
    assert depth[3, 2, 2] == 2
    assert depth[5, 2, 2] == 4
    assert mask_depth(np.ones((3, 3, 3), bool), make_centred_grid((3, 3, 3), 1.0)).min() > 0
