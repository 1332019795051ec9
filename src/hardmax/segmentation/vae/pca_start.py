r"""The start of a linear label VAE in closed form: probabilistic principal components of the maps' log-ratios.

With features y and eigenvalues lambda_i of their covariance (N maps), `sigma^2` the mean of those left out, `y = centre
+ sum_i sqrt(lambda_i - sigma^2) v_i z_i + noise`, and the posterior of z_i is `N(sqrt(lambda_i - sigma^2) / lambda_i
v_i^T (y - centre), sigma^2 / lambda_i)`: both the decoder and the encoder. Twenty maps are too few to learn a shape
space from scratch by gradients; this one is there at once. Only the variance of the posterior is taken from the VAE
itself: a map of many voxels says far more about z than its features let on.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.segmentation.vae.label_networks import LinearDecoder, LinearEncoder
from hardmax.segmentation.vae.label_vae import LabelVAE

_GAINS = (0.25, 0.5, 0.75, 1.0, 1.5)


@torch.no_grad()
def pca_start(vae: LabelVAE, maps: Float[Tensor, "N M *S"], *, chunk: int = 8) -> float:
    """Set encoder and decoder of a linear VAE from maps; return the fraction of the features' variance it keeps.

    Features are floored frequencies of smoothed maps, the logits those of the maps themselves: they agree but for a
    gain, which is the one of a few that gives the highest bound on these maps.

    Args:
        vae: with the network "linear".
        maps: `[N, M, *S]`, probabilities of any floating dtype (half precision saves memory), more than one.
        chunk: maps at a time.

    Raises:
        ArgumentError: networks that are not linear, or a single map.

    Example:
        >>> import torch
        >>> maps = torch.softmax(3 * torch.randn(6, 3, 8, 8), 1)
        >>> vae = LabelVAE(maps.mean(0), latents=2)
        >>> 0 < pca_start(vae, maps) <= 1
        True

    References:
        Tipping & Bishop, "Probabilistic principal component analysis", 1999.
    """
    encoder, decoder = vae.encoder, vae.decoder
    if not isinstance(encoder, LinearEncoder) or not isinstance(decoder, LinearDecoder) or len(maps) < 2:
        raise ArgumentError(
            f"pca_start needs a VAE with network='linear' and at least two maps, got {type(encoder).__name__} and "
            f"{len(maps)} maps"
        )
    dtype = vae.log_location.dtype
    features = torch.cat([vae.features(part.to(dtype)).flatten(1) for part in maps.split(chunk)])
    centre = features.mean(0)
    features -= centre
    # The Gram matrix of the maps is small: the components are those of the covariance, without ever forming it.
    values, vectors = torch.linalg.eigh((features @ features.T).double() / len(maps))
    values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
    used = min(vae.latents, len(maps) - 1, int((values > 1e-8 * values[0]).sum()))
    kept = values[:used]
    noise = float(values[used:].sum()) / max(min(len(maps), features.shape[1]) - used, 1)
    axes = (vectors[:, :used].T.to(dtype) @ features) / (kept * len(maps)).sqrt().to(dtype)[:, None]
    # No component carries less than a hundredth of its own variance: maps that are all there is leave no noise.
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
        if bound <= best:  # log-probability is concave in the gain: beyond its top it only falls
            decoder.weight[:used], decoder.bias[:] = before
            break
        best = bound
    encoder.log_variance.copy_(-information(vae).log1p())
    return float(kept.sum() / values.sum())


@torch.no_grad()
def information(vae: LabelVAE) -> Float[Tensor, " L"]:
    r"""Return the Fisher information of a map about each latent of a linear VAE at z = 0, others held fixed.

    `I_i = sum_j Var_{m ~ f_j}[W_ijm]`, W the interpolated weights; in Laplace's approximation the variance of z_i given
    a map is `1 / (1 + I_i)`, the one being the prior's.
    """
    f = vae.log_prior(torch.zeros(1, vae.latents, dtype=vae.log_location.dtype))[0].exp()
    base = vae.upsample(vae.logits(torch.zeros(1, vae.latents, dtype=f.dtype)))[0]
    found = []
    for unit in torch.eye(vae.latents, dtype=f.dtype):
        weight = vae.upsample(vae.logits(unit[None]))[0] - base
        found.append((f * weight.square()).sum() - (f * weight).sum(0).square().sum())
    return torch.stack(found)


def _bound(vae: LabelVAE, maps: Tensor, chunk: int) -> float:
    """Return the log-probability of some maps at the mean of q; the KL is the same for every gain."""
    total = 0.0
    for part in maps[: 4 * chunk].split(1):
        maps_ = part.to(vae.log_location.dtype)
        mean, _ = vae.encode(maps_)
        total += float(vae.likelihood(maps_)(mean[None]).sum())
    return total
