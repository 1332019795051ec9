"""A label VAE from an atlas: its aligned maps, their mirror images, and deformations of both; linear, from PCA."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from hardmax.random import stream
from hardmax.segmentation.atlas.atlas import VELOCITIES, Atlas, smoothed
from hardmax.segmentation.atlas.map_alignment import pooled_grid
from hardmax.segmentation.atlas.transforms import displacement, grid_points, packed, sample_at, warp
from hardmax.segmentation.vae.label_training import augmented_bank
from hardmax.segmentation.vae.label_vae import LabelVAE
from hardmax.segmentation.vae.pca_start import pca_start
from hardmax.segmentation.volumes.geometry import Grid

_SHIFT = 2.5  # mm, root mean square of the random velocities: what an affine alignment leaves between people, roughly
_BANK = 160


def with_vae(prior: Path, out: Path) -> Path:
    """Put the atlas of a prior into a folder, and return which of the two holds a label VAE; without one it is made.

    Raises:
        DataError: there is no atlas, or the folder cannot be written.
    """
    atlas = Atlas.load(prior)
    atlas.save(out)
    if (prior / "vae.json").is_file():
        return prior
    make_vae(atlas).save(out)
    return out


def coarse_grid(atlas: Atlas) -> Grid:
    """Return the grid of the VAE, of twice the atlas' spacing."""
    return pooled_grid(atlas.grid, (2, 2, 2))


def coarse_maps(atlas: Atlas) -> Float[Tensor, "N M X Y Z"]:
    """Return the atlas' maps and their mirror images, as probabilities on the VAE's grid."""
    labels = range(len(atlas.kept))
    pooled = [
        torch.stack([functional.avg_pool3d((one == label).float()[None], 2)[0] for label in labels])
        for one in atlas.maps
    ]
    maps = torch.stack(pooled)
    return torch.cat([maps, maps.flip(2)])


def make_vae(atlas: Atlas, *, latents: int = 32, bank: int = _BANK, seed: int = 0) -> LabelVAE:
    """Return a VAE of the anatomies of an atlas, before any steps of training; PCA is close to the best linear one.

    The atlas' maps were deformed to agree; the random deformations put back what was taken out, so that the prior also
    knows people who are aligned affinely alone.

    Args:
        atlas: with its maps.
        latents: L.
        bank: maps in all that PCA sees.
        seed: of the deformations.
    """
    grid = coarse_grid(atlas)
    maps = coarse_maps(atlas)
    found = augmented_bank(
        maps,
        max(bank, len(maps)),
        lambda one, generator: deformed(one, grid, generator),
        generator=stream(seed, "bank"),
    )[len(maps) :]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "vae").initial_seed())
        vae = LabelVAE(found.float().mean(0), latents=latents)
    pca_start(vae, found)
    return vae


def deformed(
    one: Float[Tensor, "M X Y Z"], grid: Grid, generator: torch.Generator, shift: float = _SHIFT
) -> Float[Tensor, "M X Y Z"]:
    """Return a map under a random smooth deformation."""
    velocity = torch.randn(3, *VELOCITIES.shape, generator=generator)
    for _ in range(3):
        velocity = smoothed(velocity)
    velocity = velocity * (shift / velocity.square().sum(0).mean().sqrt())
    points = warp(grid_points(grid), displacement(velocity, VELOCITIES), VELOCITIES)
    return sample_at(packed(one), grid, points).view_as(one)
