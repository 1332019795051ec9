"""The label VAE of an atlas: maps return to the shapes of people, which the alignment removed."""

import pytest
import torch

from hardmax.applications.segmentation.atlas.atlas import VELOCITY_GRID, Atlas, smooth_volumes
from hardmax.applications.segmentation.atlas.transforms import (
    grid_points,
    integrate_velocity,
    make_centred_grid,
    sample_at,
    warp_points,
)
from hardmax.applications.segmentation.vae.pca import coarsen_maps, deform_to_shape, make_vae, mirror_velocities
from hardmax.applications.segmentation.volumes.labels import STRUCTURES

GRID = make_centred_grid((48, 48, 48), 2.0)


def make_ball(grid, centre=(0.0, 0.0, 0.0), radius=26.0):
    """Return a ball with soft borders, as two labels."""
    distance = (grid_points(grid) - torch.tensor(centre)).norm(dim=1)
    inside = ((radius - distance) / 4).sigmoid().view(grid.shape)
    return torch.stack([1 - inside, inside])


def wave(seed, size=5.0):
    velocity = torch.randn(3, *VELOCITY_GRID.shape, generator=torch.Generator().manual_seed(seed))
    for _ in range(4):
        velocity = smooth_volumes(velocity)
    return velocity * (size / velocity.square().sum(0).mean().sqrt())


def atlas_with(maps, velocities):
    return Atlas(make_ball(GRID), GRID, STRUCTURES, (0, 1), maps, velocities)


def test_the_alignment_is_undone():
    own, velocity = make_ball(GRID, (4.0, 0.0, -3.0)), wave(0)
    displacement = integrate_velocity(velocity, VELOCITY_GRID)
    aligned = sample_at(own, GRID, warp_points(grid_points(GRID), displacement, VELOCITY_GRID)).view_as(own)
    far = (aligned - own).abs().mean()
    assert far > 0.01
    assert (deform_to_shape(aligned, velocity, GRID) - own).abs().mean() < 0.15 * far
    assert (deform_to_shape(aligned, -velocity, GRID) - own).abs().mean() > far  # the other direction is wrong


def test_mirror_images_have_mirrored_shapes():
    maps = make_ball(GRID, (6.0, 2.0, 0.0)).argmax(0)[None].to(torch.uint8)
    atlas = atlas_with(maps, wave(1)[None])
    (original, mirrored), (velocity, mirrored_velocity) = coarsen_maps(atlas), mirror_velocities(atlas)
    grid = make_centred_grid((24, 24, 24), 4.0)
    torch.testing.assert_close(
        deform_to_shape(mirrored, mirrored_velocity, grid),
        deform_to_shape(original, velocity, grid).flip(1),
        atol=1e-4,
        rtol=0,
    )


def test_latents_are_how_people_differ():
    """All maps agree, and people differ by a shift from front to back: the first latent is that shift."""
    shifts = torch.linspace(-6, 6, 7)
    velocities = torch.zeros(7, 3, *VELOCITY_GRID.shape)
    velocities[:, 1] = shifts.view(-1, 1, 1, 1)
    maps = make_ball(GRID).argmax(0).to(torch.uint8).expand(7, *GRID.shape).contiguous()
    vae = make_vae(atlas_with(maps, velocities), latents=2, bank=40)
    z = torch.zeros(3, 2)
    z[1, 0], z[2, 0] = 1.5, -1.5
    with torch.no_grad():
        inside = vae.log_prior(z).exp()[:, 1]
    coordinates = grid_points(make_centred_grid((24, 24, 24), 4.0))[:, 1].view(24, 24, 24)
    middle, more, less = ((probability * coordinates).sum() / probability.sum() for probability in inside)
    assert middle.item() == pytest.approx(0, abs=1.0)
    assert abs(more - less) > 6
