"""The image encoder q(z | x), which finds the anatomy z of a scan x in one pass.

It is learned without labels of scans, with the decoder of the label VAE frozen. It is trained first on scans
synthesised from label maps, where the map s is known, by the bound of the map,
`E_{q(z | x)}[log p(s | z)] - KL(q(z | x) || N(0, I))`; then on real scans without labels by the bound of the scan,
`E_{q(z | x)}[sum_j log sum_m f_jm(z) p(x_j | m)] - KL`. The Gaussians of a scan are fitted for the current f and
held fixed during the step of q: alternating ascent on one bound.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hardmax.applications.segmentation.tissues.gaussians import Gaussians, posterior
from hardmax.applications.segmentation.vae.label_networks import ConvEncoder
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.segmentation.vae.voxel_scores import AbstractVoxelScore, ExactLikelihood
from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.objectives import gaussian_elbo
from hardmax.objectives.elbo import Elbo


@final
class ImageEncoder(AbstractModel):
    """A convolutional network from a scan to the mean and log-variance of z, for slices or volumes.

    The scan is standardised to mean 0 and deviation 1 inside its mask, which removes brightness and scale. Synthetic
    scans of every contrast teach the network that no tissue is always bright.

    Args:
        shape: shape of the prior's grid, 2-D or 3-D.
        latents: L, the number of latents of the prior.
        width: channels after the first convolution.

    Example:
        >>> import torch
        >>> encoder = ImageEncoder((16, 16), 3)
        >>> mean, log_variance = encoder(torch.rand(2, 16, 16), torch.ones(2, 16, 16, dtype=torch.bool))
        >>> mean.shape
        torch.Size([2, 3])
    """

    kind = "image-encoder"

    def __init__(self, shape: tuple[int, ...], latents: int, width: int = 16) -> None:
        super().__init__()
        self._config = {"shape": list(shape), "latents": latents, "width": width}
        self.network = ConvEncoder(2, shape, latents, width)

    def forward(
        self, x: Float[Tensor, "B *S"], mask: Bool[Tensor, "B *S"]
    ) -> tuple[Float[Tensor, "B L"], Float[Tensor, "B L"]]:
        r"""Return mean and log-variance of $q(z \mid x)$."""
        inside = mask.to(x.dtype)
        axes = tuple(range(1, x.dim()))
        count = inside.sum(axes, keepdim=True).clamp_min(1)
        mean = (x * inside).sum(axes, keepdim=True) / count
        deviation = (((x - mean) * inside).square().sum(axes, keepdim=True) / count).sqrt().clamp_min(1e-6)
        return self.network(torch.stack([(x - mean) / deviation * inside, inside], 1))

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "ImageEncoder":
        return cls(tuple(config["shape"]), config["latents"], config["width"])


def scan_elbo(
    vae: LabelVAE,
    encoder: ImageEncoder,
    x: Float[Tensor, "*S"],
    mask: Bool[Tensor, "*S"],
    gaussians: Gaussians,
    *,
    score: AbstractVoxelScore = ExactLikelihood(),  # noqa: B008  frozen, without state
    samples: int = 1,
    generator: torch.Generator | None = None,
) -> Elbo:
    """Estimate the bound of one scan, `E_{q(z | x)}[sum_{j in mask} score_j(f(z))] - KL(q(z | x) || N(0, I))`.

    Bias: only that of the score itself; variance: that of one reparameterized z per sample.

    Args:
        vae: the prior; call `requires_grad_(False)` on it, or its decoder gets a gradient too.
        encoder: q.
        x: `[*S]`, a scan on the prior's grid.
        mask: `[*S]`, the voxels of the scan that count.
        gaussians: Gaussians of this scan.
        score: score of the voxels.
        samples: number of samples of z.
        generator: source of the noise; None means torch's global generator.

    Returns:
        The bound `[1]` with its terms.
    """
    inside = x[mask]

    def likelihood(z: Tensor) -> Tensor:
        log_f = vae.log_prior(z[:, 0])
        return torch.stack([score(inside, sample[:, mask], gaussians).sum() for sample in log_f])[:, None]

    mean, log_variance = encoder(x[None], mask[None])
    return gaussian_elbo(likelihood, mean, log_variance, samples=samples, generator=generator)


@torch.no_grad()
def segment_with_encoder(
    vae: LabelVAE,
    encoder: ImageEncoder,
    x: Float[Tensor, "*S"],
    mask: Bool[Tensor, "*S"],
    mixing: Float[Tensor, "M K"],
) -> tuple[Float[Tensor, "M *S"], Gaussians]:
    """Return the posterior of the labels of a scan on the prior's grid at the mean of q(z | x), and its Gaussians.

    Outside the mask the posterior is f itself: there is no intensity.
    """
    mean, _ = encoder(x[None], mask[None])
    log_f = vae.log_prior(mean)[0]
    gaussians = ExactLikelihood().fit(x[mask], log_f[:, mask].exp(), mixing)
    return torch.where(mask, posterior(x, log_f, gaussians), log_f.exp()), gaussians


def check_scans(vae: LabelVAE, scans: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Check that there are scans, each with a mask, on the prior's grid.

    Raises:
        ArgumentError: there are no scans, or one does not match.
    """
    if not scans:
        raise ArgumentError("there are no scans to learn from; pass at least one")
    for index, (x, mask) in enumerate(scans):
        if tuple(x.shape) != vae.shape or x.shape != mask.shape or not mask.any() or not x[mask].isfinite().all():
            raise ArgumentError(
                f"scan {index} must be finite on the prior's grid {list(vae.shape)} with a mask that is not empty, got "
                f"{list(x.shape)} and a mask {list(mask.shape)} of {int(mask.sum())} voxels; align and resample it"
            )
