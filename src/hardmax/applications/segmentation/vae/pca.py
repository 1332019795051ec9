"""A linear label VAE in closed form: principal components of an atlas's maps and their mirror images.

With features y and eigenvalues lambda_i of their covariance (N maps), `sigma^2` the mean of those left out, `y = centre
+ sum_i sqrt(lambda_i - sigma^2) v_i z_i + noise`, and the posterior of z_i is `N(sqrt(lambda_i - sigma^2) / lambda_i
v_i^T (y - centre), sigma^2 / lambda_i)`: both the decoder and the encoder. Twenty maps are too few to learn a shape
space from scratch by gradients; this one needs no training. Only the variance of the posterior is that of the VAE
itself: a map of many voxels has far more information about z than its features show.
"""

import math
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from hardmax.applications.segmentation.atlas.alignment import pool_grid
from hardmax.applications.segmentation.atlas.atlas import VELOCITIES, Atlas
from hardmax.applications.segmentation.atlas.transforms import (
    displacement,
    grid_points,
    sample_at,
    to_channels_last,
    warp,
)
from hardmax.applications.segmentation.model_folder import ATLAS, VAE, has_part, load_part
from hardmax.applications.segmentation.vae.label_networks import LinearDecoder, LinearEncoder
from hardmax.applications.segmentation.vae.label_training import augment_maps
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.errors import ArgumentError
from hardmax.random import stream

_GAINS = (0.25, 0.5, 0.75, 1.0, 1.5)


@torch.no_grad()
def initialize_with_pca(vae: LabelVAE, maps: Float[Tensor, "N M *S"], *, chunk: int = 8) -> float:
    """Set encoder and decoder of a linear VAE from maps; return the fraction of the features' variance it keeps.

    Features are floored frequencies of smoothed maps, the logits those of the maps themselves: they agree up to a
    gain, chosen from a few values as the one with the highest bound on these maps.

    Args:
        vae: VAE with the network "linear".
        maps: `[N, M, *S]`, probabilities of any floating dtype (half precision saves memory), more than one.
        chunk: number of maps at a time.

    Raises:
        ArgumentError: networks that are not linear, or fewer than two maps.

    Example:
        >>> import torch
        >>> maps = torch.softmax(3 * torch.randn(6, 3, 8, 8), 1)
        >>> vae = LabelVAE(maps.mean(0), latents=2)
        >>> 0 < initialize_with_pca(vae, maps) <= 1
        True

    References:
        Tipping & Bishop, "Probabilistic principal component analysis", 1999.
    """
    encoder, decoder = vae.encoder, vae.decoder
    if not isinstance(encoder, LinearEncoder) or not isinstance(decoder, LinearDecoder) or len(maps) < 2:
        raise ArgumentError(
            f"initialize_with_pca needs a VAE with network='linear' and at least two maps, got "
            f"{type(encoder).__name__} and {len(maps)} maps"
        )
    dtype = vae.log_location.dtype
    features = torch.cat([vae.features(part.to(dtype)).flatten(1) for part in maps.split(chunk)])
    centre = features.mean(0)
    features -= centre
    # The Gram matrix of the maps is small: it gives the components of the covariance without forming it.
    values, vectors = torch.linalg.eigh((features @ features.T).double() / len(maps))
    values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
    used = min(vae.latents, len(maps) - 1, int((values > 1e-8 * values[0]).sum()))
    kept = values[:used]
    noise = float(values[used:].sum()) / max(min(len(maps), features.shape[1]) - used, 1)
    axes = (vectors[:, :used].T.to(dtype) @ features) / (kept * len(maps)).sqrt().to(dtype)[:, None]
    # No component carries less than a hundredth of its variance: without left-out eigenvalues there is no noise.
    signal = (kept - noise).clamp_min(0.01 * kept).sqrt()
    encoder.centre.copy_(centre)
    encoder.projection.zero_()
    encoder.projection[:used] = (signal / kept).to(dtype)[:, None] * axes
    torch.nn.init.eye_(encoder.map.weight)
    torch.nn.init.zeros_(encoder.map.bias)
    weight = signal.to(dtype)[:, None] * axes
    best = -math.inf
    for gain in _GAINS:
        before = decoder.weight[:used].clone(), decoder.bias.clone()
        decoder.weight.zero_()
        decoder.weight[:used], decoder.bias[:] = gain * weight, gain * centre
        bound = _bound(vae, maps, chunk)
        if bound <= best:  # log-probability is concave in the gain: beyond its maximum it only falls
            decoder.weight[:used], decoder.bias[:] = before
            break
        best = bound
    encoder.log_variance.copy_(-fisher_information(vae).log1p())
    return float(kept.sum() / values.sum())


@torch.no_grad()
def fisher_information(vae: LabelVAE) -> Float[Tensor, " L"]:
    r"""Return the Fisher information of a map about each latent of a linear VAE at z = 0, others held fixed.

    `I_i = sum_j Var_{m ~ f_j}[W_ijm]`, W the interpolated weights; in Laplace's approximation the variance of z_i given
    a map is `1 / (1 + I_i)`, where 1 is the precision of the prior.
    """
    f = vae.log_prior(torch.zeros(1, vae.latents, dtype=vae.log_location.dtype))[0].exp()
    base = vae.upsample(vae.logits(torch.zeros(1, vae.latents, dtype=f.dtype)))[0]
    information = []
    for unit in torch.eye(vae.latents, dtype=f.dtype):
        weight = vae.upsample(vae.logits(unit[None]))[0] - base
        information.append((f * weight.square()).sum() - (f * weight).sum(0).square().sum())
    return torch.stack(information)


def _bound(vae: LabelVAE, maps: Tensor, chunk: int) -> float:
    """Return the log-probability of some maps at the mean of q; the KL is the same for every gain."""
    total = 0.0
    for part in maps[: 4 * chunk].split(1):
        maps_ = part.to(vae.log_location.dtype)
        mean, _ = vae.encode(maps_)
        total += float(vae.likelihood(maps_)(mean[None]).sum())
    return total


_BANK = 160


def prepare_vae(prior: Path, out: Path) -> LabelVAE:
    """Copy the atlas of a prior into a folder, and return the prior's label VAE; without one, build it from the atlas.

    Raises:
        DataError: there is no atlas, or the folder cannot be written.
    """
    atlas = load_part(Atlas, prior, ATLAS)
    atlas.save_pretrained(out / ATLAS)
    return load_part(LabelVAE, prior, VAE) if has_part(prior, VAE) else make_vae(atlas)


def coarse_grid(atlas: Atlas) -> Grid:
    """Return the grid of the VAE, of twice the atlas' spacing."""
    return pool_grid(atlas.grid, (2, 2, 2))


def coarse_maps(atlas: Atlas) -> Float[Tensor, "N M X Y Z"]:
    """Return the atlas' maps and their mirror images, as probabilities on the VAE's grid."""
    labels = range(len(atlas.kept))
    pooled = [
        torch.stack([functional.avg_pool3d((one == label).float()[None], 2)[0] for label in labels])
        for one in atlas.maps
    ]
    maps = torch.stack(pooled)
    return torch.cat([maps, maps.flip(2)])


def mirror_velocities(atlas: Atlas) -> Float[Tensor, "N 3 U V W"]:
    """Return the deformations of the atlas' maps, and of their mirror images."""
    mirrored = atlas.velocities.flip(2) * torch.tensor([-1.0, 1.0, 1.0]).view(3, 1, 1, 1)
    return torch.cat([atlas.velocities, mirrored])


def make_vae(atlas: Atlas, *, latents: int = 32, bank: int = _BANK, seed: int = 0) -> LabelVAE:
    """Return a VAE of the anatomies of an atlas, before any steps of training; PCA is close to the best linear one.

    The atlas' maps were deformed to agree, but a scan is aligned only affinely: the input of PCA are maps in the shapes
    of people, each map in its original shape, and maps of one person in the shape of another.

    Args:
        atlas: atlas with its maps and velocities.
        latents: L.
        bank: total number of maps for PCA.
        seed: seed of the pairs of map and shape.
    """
    grid, generator = coarse_grid(atlas), stream(seed, "bank")
    people = list(zip(coarse_maps(atlas), mirror_velocities(atlas), strict=True))

    def deform_at_random(one: Tensor, generator: torch.Generator) -> Tensor:
        return deform_to_shape(one, people[int(torch.randint(len(people), (), generator=generator))][1], grid)

    originals = torch.stack([deform_to_shape(one, velocity, grid) for one, velocity in people])
    augmented = augment_maps(
        torch.stack([one for one, _ in people]), max(bank, len(people)), deform_at_random, generator=generator
    )[len(people) :]
    maps = torch.cat([originals.to(augmented.dtype), augmented])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "vae").initial_seed())
        vae = LabelVAE(maps.float().mean(0), latents=latents)
    initialize_with_pca(vae, maps)
    return vae


def deform_to_shape(
    one: Float[Tensor, "M X Y Z"], velocity: Float[Tensor, "3 U V W"], grid: Grid
) -> Float[Tensor, "M X Y Z"]:
    """Return an aligned map in the shape of a person, with that person's deformation inverted: `s(exp(-v)(y))`."""
    points = warp(grid_points(grid), displacement(-velocity, VELOCITIES), VELOCITIES)
    return sample_at(to_channels_last(one), grid, points).view_as(one)
