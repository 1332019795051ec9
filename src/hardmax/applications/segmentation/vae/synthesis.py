"""Synthetic scans of any contrast, made from label maps for the pre-training of an encoder.

Every Gaussian gets a random mean and deviation, and every voxel an intensity of its label. Then a little blur (partial
volume), a smooth bias field and noise are added. Nothing is assumed about which tissue is bright.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from hardmax.applications.segmentation.tissues.gaussians import Gaussians

_UPSAMPLE = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True)
class SyntheticScan:
    """A scan synthesised from a label map.

    Attributes:
        x: `[*S]`, intensities, zero outside the mask.
        mask: `[*S]`, voxels of the brain.
        gaussians: Gaussians of its labels, before bias and noise.
    """

    x: Float[Tensor, "*S"]
    mask: Bool[Tensor, "*S"]
    gaussians: Gaussians


def synthesise_scan(
    probabilities: Float[Tensor, "M *S"],
    mixing: Float[Tensor, "M K"],
    *,
    mask: Bool[Tensor, "*S"] | None = None,
    blur: float = 0.5,
    bias: float = 0.2,
    noise: float = 0.03,
    generator: torch.Generator | None = None,
) -> SyntheticScan:
    """Synthesise a scan of random contrast from one label map.

    Args:
        probabilities: `[M, *S]`, a map, one-hot or with partial volume, where intensities mix.
        mixing: `[M, K]`, the Gaussians of each label.
        mask: `[*S]`, mask of the scan; None means the brain (all but the first label, background) with a random
            margin, as skull-stripping programs leave it.
        blur: fraction of each voxel that comes from its neighbours along each axis, 0 to 1.
        bias: deviation of the log of the bias field.
        noise: deviation of the noise in each voxel; means are spread over 0 to 1.
        generator: source of randomness; None means torch's global generator.

    Example:
        >>> import torch
        >>> from hardmax.applications.segmentation.tissues.gaussians import mixing_matrix
        >>> labels = torch.zeros(8, 8, dtype=torch.long)
        >>> labels[2:6, 2:6] = 1
        >>> one_hot = torch.nn.functional.one_hot(labels, 2).movedim(-1, 0).float()
        >>> scan = synthesise_scan(one_hot, mixing_matrix([0, 1]))
        >>> scan.x.shape, bool(scan.mask[2:6, 2:6].all())
        (torch.Size([8, 8]), True)

    References:
        Billot et al., "SynthSeg: segmentation of brain MRI scans of any contrast and resolution", 2023.
    """
    shape, count, dtype = probabilities.shape[1:], mixing.shape[1], probabilities.dtype
    means = torch.rand(count, generator=generator, dtype=dtype)
    deviations = 0.02 + 0.08 * torch.rand(count, generator=generator, dtype=dtype)
    gaussians = Gaussians(means, deviations, mixing.to(means))
    label_means = gaussians.mixing @ means
    label_deviations = gaussians.mixing @ deviations
    spread = torch.randn(shape, generator=generator, dtype=dtype)
    x = torch.einsum("m,m...->...", label_means, probabilities)
    x = x + spread * torch.einsum("m,m...->...", label_deviations, probabilities)
    x = _blur(x, blur)
    knots = torch.randn((1, 1, *[4] * len(shape)), generator=generator, dtype=dtype)
    field = functional.interpolate(knots, shape, mode=_UPSAMPLE[len(shape)], align_corners=True)[0, 0]
    x = x * (bias * field).exp() + noise * torch.randn(shape, generator=generator, dtype=dtype)
    mask = _add_margin(1 - probabilities[0], generator) if mask is None else mask
    return SyntheticScan(torch.where(mask, x.clamp_min(0), 0.0), mask, gaussians)


def _add_margin(brain: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return a mask of the brain and up to about two voxels around it."""
    level = 0.5 * torch.rand((), generator=generator)
    around = _blur(_blur(_blur(brain, 1.0), 1.0), 1.0)
    return (brain >= 0.5) | (around > level.clamp_min(0.02))


def _blur(x: Tensor, amount: float) -> Tensor:
    """Return x with the fraction `amount` of each voxel from its neighbours along each axis."""
    for axis in range(x.dim()):
        x = (1 - amount / 2) * x + amount / 4 * (_shift(x, axis, 1) + _shift(x, axis, -1))
    return x


def _shift(x: Tensor, axis: int, by: int) -> Tensor:
    """Return x moved by one voxel along an axis, the border repeated."""
    index = (torch.arange(x.shape[axis]) + by).clamp(0, x.shape[axis] - 1)
    return x.index_select(axis, index)
