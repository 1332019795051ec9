"""A linear label VAE in closed form: principal components (PCA) of an atlas's maps and their mirror images.

Let y be the features of a map, lambda_i the eigenvalues of their covariance over N maps, and `sigma^2` the mean of the
eigenvalues left out. Then `y = centre + sum_i sqrt(lambda_i - sigma^2) v_i z_i + noise` gives the decoder, and the
posterior of z_i, `N(sqrt(lambda_i - sigma^2) / lambda_i v_i^T (y - centre), sigma^2 / lambda_i)`, gives the encoder.
Twenty maps are too few to learn a shape space from scratch by gradients; this one needs no training. Only the variance
of the posterior is not that of PCA but that of the VAE itself: a map of many voxels has far more information about z
than its features show.
"""

import math
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from hardmax.applications.segmentation.atlas.alignment import pool_grid
from hardmax.applications.segmentation.atlas.atlas import VELOCITY_GRID, Atlas
from hardmax.applications.segmentation.atlas.head import HeadAtlas
from hardmax.applications.segmentation.atlas.transforms import (
    grid_points,
    integrate_velocity,
    sample_at,
    to_channels_last,
    warp_points,
)
from hardmax.applications.segmentation.model_folder import ATLAS, HEAD, VAE, has_part, load_part
from hardmax.applications.segmentation.vae.label_networks import LinearDecoder, LinearEncoder
from hardmax.applications.segmentation.vae.label_training import augment_maps
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.errors import ArgumentError
from hardmax.random import make_generator

_GAINS = (0.25, 0.5, 0.75, 1.0, 1.5)


@torch.no_grad()
def initialize_with_pca(vae: LabelVAE, maps: Float[Tensor, "N M *S"], *, chunk: int = 8) -> float:
    """Set encoder and decoder of a linear VAE from maps; return the fraction of the features' variance that is kept.

    Features are floored frequencies of smoothed maps, but the logits are those of the maps themselves. They agree up to
    a gain: of a few values, the one with the highest bound on these maps.

    Args:
        vae: VAE with the network "linear".
        maps: `[N, M, *S]`, at least two, probabilities of any floating dtype (half precision saves memory).
        chunk: number of maps processed at a time.

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
    # The Gram matrix of the maps is small, and gives the components of the covariance without forming the covariance.
    values, vectors = torch.linalg.eigh((features @ features.T).double() / len(maps))
    values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
    used = min(vae.latents, len(maps) - 1, int((values > 1e-8 * values[0]).sum()))
    kept = values[:used]
    noise = float(values[used:].sum()) / max(min(len(maps), features.shape[1]) - used, 1)
    axes = (vectors[:, :used].T.to(dtype) @ features) / (kept * len(maps)).sqrt().to(dtype)[:, None]
    # Each component keeps at least a hundredth of its variance. Without left-out eigenvalues there is no noise.
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
        bound = _sum_log_probabilities(vae, maps, chunk)
        if bound <= best:  # the log-probability is concave in the gain: beyond its maximum it only falls
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


def _sum_log_probabilities(vae: LabelVAE, maps: Tensor, chunk: int) -> float:
    """Return the sum of log-probabilities of the first maps at the mean of q; the KL is the same for every gain."""
    total = 0.0
    for part in maps[: 4 * chunk].split(1):
        label_map = part.to(vae.log_location.dtype)
        mean, _ = vae.encode(label_map)
        total += float(vae.likelihood(label_map)(mean[None]).sum())
    return total


_BANK = 160  # number of maps for PCA


def prepare_vae(prior: Path, out: Path) -> LabelVAE:
    """Copy the atlases of a prior into a folder; return the prior's label VAE, or build one from the atlas.

    Raises:
        DataError: there is no atlas, or the folder cannot be written.
    """
    atlas = load_part(Atlas, prior, ATLAS)
    atlas.save_pretrained(out / ATLAS)
    if has_part(prior, HEAD):
        load_part(HeadAtlas, prior, HEAD).save_pretrained(out / HEAD)
    return load_part(LabelVAE, prior, VAE) if has_part(prior, VAE) else make_vae(atlas)


def make_coarse_grid(atlas: Atlas) -> Grid:
    """Return the grid of the VAE, which has twice the spacing of the atlas."""
    return pool_grid(atlas.grid, (2, 2, 2))


def coarsen_maps(atlas: Atlas) -> Float[Tensor, "N M X Y Z"]:
    """Return the atlas' maps and their mirror images, as probabilities on the VAE's grid."""
    labels = range(len(atlas.kept))
    pooled = [
        torch.stack([functional.avg_pool3d((label_map == label).float()[None], 2)[0] for label in labels])
        for label_map in atlas.maps
    ]
    maps = torch.stack(pooled)
    return torch.cat([maps, maps.flip(2)])


def mirror_velocities(atlas: Atlas) -> Float[Tensor, "N 3 U V W"]:
    """Return the velocities of the atlas' maps, then those of their mirror images."""
    mirrored = atlas.velocities.flip(2) * torch.tensor([-1.0, 1.0, 1.0]).view(3, 1, 1, 1)
    return torch.cat([atlas.velocities, mirrored])


def make_vae(atlas: Atlas, *, latents: int = 32, bank: int = _BANK, seed: int = 0) -> LabelVAE:
    """Build a linear VAE from the maps of an atlas by PCA, without training; PCA is close to the best linear VAE.

    The atlas' maps were deformed to agree, but a scan is aligned only by an affine map. So PCA gets maps in the shapes
    of people: each map in its original shape, and maps of one person in the shape of another.

    Args:
        atlas: atlas with its maps and velocities.
        latents: L, the number of latents.
        bank: total number of maps for PCA.
        seed: seed of the random pairs of map and shape.
    """
    grid, generator = make_coarse_grid(atlas), make_generator(seed, "bank")
    people = list(zip(coarsen_maps(atlas), mirror_velocities(atlas), strict=True))

    def deform_at_random(label_map: Tensor, generator: torch.Generator) -> Tensor:
        return deform_to_shape(label_map, people[int(torch.randint(len(people), (), generator=generator))][1], grid)

    originals = torch.stack([deform_to_shape(label_map, velocity, grid) for label_map, velocity in people])
    augmented = augment_maps(
        torch.stack([label_map for label_map, _ in people]),
        max(bank, len(people)),
        deform_at_random,
        generator=generator,
    )[len(people) :]
    maps = torch.cat([originals.to(augmented.dtype), augmented])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(make_generator(seed, "vae").initial_seed())
        vae = LabelVAE(maps.float().mean(0), latents=latents)
    initialize_with_pca(vae, maps)
    return vae


def deform_to_shape(
    label_map: Float[Tensor, "M X Y Z"], velocity: Float[Tensor, "3 U V W"], grid: Grid
) -> Float[Tensor, "M X Y Z"]:
    """Return an aligned map s in the shape of a person, by inverting that person's deformation: `s(exp(-v)(y))`."""
    points = warp_points(grid_points(grid), integrate_velocity(-velocity, VELOCITY_GRID), VELOCITY_GRID)
    return sample_at(to_channels_last(label_map), grid, points).view_as(label_map)
