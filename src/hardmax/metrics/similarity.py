"""How near is a completed picture to the true one, where pixels were hidden? PSNR and SSIM."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

_LEAST = 1e-10  # mean squared error, below which pictures are the same: 100 dB
_WINDOW, _SIGMA = 11, 1.5
_SMALL_MEAN, _SMALL_VARIANCE = 0.01**2, 0.03**2  # for pixels in [0, 1]


def psnr(
    completed: Float[Tensor, "B channels H W"], truth: Float[Tensor, "B channels H W"], hidden: Bool[Tensor, "B 1 H W"]
) -> Float[Tensor, "B"]:
    """Return the peak signal-to-noise ratio of the hidden pixels, `-10 log10(mean squared error)`, in decibels.

    Args:
        completed: in [0, 1].
        truth: the same.
        hidden: True where pixels were hidden; others do not count.

    Example:
        >>> truth, hidden = torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 4, 4, dtype=torch.bool)
        >>> psnr(truth + 0.1, truth, hidden)
        tensor([20.])
    """
    return -10 * hidden_mean((completed - truth).square(), hidden).clamp_min(_LEAST).log10()


def ssim(
    completed: Float[Tensor, "B channels H W"], truth: Float[Tensor, "B channels H W"], hidden: Bool[Tensor, "B 1 H W"]
) -> Float[Tensor, "B"]:
    """Return the structural similarity at the hidden pixels, at most 1.

    Around each hidden pixel means, variances and the covariance are taken in a Gaussian window of 11 x 11 (sigma 1.5),
    which reaches into the visible part at the edge of the hole; the picture is mirrored at its own edges.

    Args:
        completed: in [0, 1].
        truth: the same.
        hidden: True where pixels were hidden; SSIM at others does not count.

    Example:
        >>> truth, hidden = torch.rand(1, 1, 28, 28), torch.ones(1, 1, 28, 28, dtype=torch.bool)
        >>> ssim(truth, truth, hidden)
        tensor([1.])

    References:
        Wang, Bovik, Sheikh & Simoncelli, "Image quality assessment: from error visibility to structural similarity",
        2004.
    """
    rows, columns = (_smoothing(size, truth) for size in truth.shape[-2:])

    def smooth(x: Tensor) -> Tensor:
        return rows.mT @ x @ columns

    mean, mean2 = smooth(completed), smooth(truth)
    variance, variance2 = smooth(completed.square()) - mean.square(), smooth(truth.square()) - mean2.square()
    covariance = smooth(completed * truth) - mean * mean2
    alike = (2 * mean * mean2 + _SMALL_MEAN) * (2 * covariance + _SMALL_VARIANCE)
    scale = (mean.square() + mean2.square() + _SMALL_MEAN) * (variance + variance2 + _SMALL_VARIANCE)
    return hidden_mean(alike / scale, hidden)


def _smoothing(size: int, like: Tensor) -> Float[Tensor, "size size"]:
    """Return the matrix that smooths a row of pixels: quicker than a convolution of a single channel."""
    at = torch.arange(_WINDOW, dtype=like.dtype, device=like.device) - _WINDOW // 2
    window = (-at.square() / (2 * _SIGMA**2)).exp()
    pixels = torch.eye(size, dtype=like.dtype, device=like.device)[None]
    mirrored = pad(pixels, [_WINDOW // 2] * 2, mode="reflect")[0]
    return mirrored.unfold(-1, _WINDOW, 1) @ (window / window.sum())


def hidden_mean(values: Float[Tensor, "B channels H W"], hidden: Bool[Tensor, "B 1 H W"]) -> Float[Tensor, "B"]:
    """Return the mean over the hidden pixels of each picture, and its channels."""
    return values.mean(1, keepdim=True).where(hidden, 0.0).flatten(1).sum(1) / hidden.flatten(1).sum(1)
