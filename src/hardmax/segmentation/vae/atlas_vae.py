"""A label VAE from an atlas: its maps and their mirror images, in the shapes of its people; linear, from PCA."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from hardmax.random import stream
from hardmax.segmentation.atlas.atlas import VELOCITIES, Atlas
from hardmax.segmentation.atlas.map_alignment import pooled_grid
from hardmax.segmentation.atlas.transforms import displacement, grid_points, packed, sample_at, warp
from hardmax.segmentation.vae.label_training import augmented_bank
from hardmax.segmentation.vae.label_vae import LabelVAE
from hardmax.segmentation.vae.pca_start import pca_start
from hardmax.segmentation.volumes.geometry import Grid

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


def shapes(atlas: Atlas) -> Float[Tensor, "N 3 U V W"]:
    """Return how the atlas' maps were deformed, and how their mirror images were."""
    mirrored = atlas.velocities.flip(2) * torch.tensor([-1.0, 1.0, 1.0]).view(3, 1, 1, 1)
    return torch.cat([atlas.velocities, mirrored])


def make_vae(atlas: Atlas, *, latents: int = 32, bank: int = _BANK, seed: int = 0) -> LabelVAE:
    """Return a VAE of the anatomies of an atlas, before any steps of training; PCA is close to the best linear one.

    The atlas' maps were deformed to agree, but a scan is aligned affinely alone: what PCA sees are maps in the shapes
    of people, each the map of one in the shape of another, and each map in its own shape.

    Args:
        atlas: with its maps and velocities.
        latents: L.
        bank: maps in all that PCA sees.
        seed: of who gets whose shape.
    """
    grid, generator = coarse_grid(atlas), stream(seed, "bank")
    people = list(zip(coarse_maps(atlas), shapes(atlas), strict=True))

    def in_a_shape(one: Tensor, generator: torch.Generator) -> Tensor:
        return shaped(one, people[int(torch.randint(len(people), (), generator=generator))][1], grid)

    own = torch.stack([shaped(one, velocity, grid) for one, velocity in people])
    others = augmented_bank(
        torch.stack([one for one, _ in people]), max(bank, len(people)), in_a_shape, generator=generator
    )[len(people) :]
    found = torch.cat([own.to(others.dtype), others])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "vae").initial_seed())
        vae = LabelVAE(found.float().mean(0), latents=latents)
    pca_start(vae, found)
    return vae


def shaped(one: Float[Tensor, "M X Y Z"], velocity: Float[Tensor, "3 U V W"], grid: Grid) -> Float[Tensor, "M X Y Z"]:
    """Return an aligned map in the shape of a person, whose deformation to the others is undone: `s(exp(-v)(y))`."""
    points = warp(grid_points(grid), displacement(-velocity, VELOCITIES), VELOCITIES)
    return sample_at(packed(one), grid, points).view_as(one)
