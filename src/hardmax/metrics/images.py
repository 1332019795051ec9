"""Metrics of images: PSNR and SSIM of completed pixels, diversity of completions, principal components."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

_LEAST = 1e-10  # mean squared error below which images count as equal: 100 dB
_WINDOW, _SIGMA = 11, 1.5
_SMALL_MEAN, _SMALL_VARIANCE = 0.01**2, 0.03**2  # for pixels in [0, 1]


def psnr(
    completed: Float[Tensor, "B channels H W"], truth: Float[Tensor, "B channels H W"], hidden: Bool[Tensor, "B 1 H W"]
) -> Float[Tensor, "B"]:
    """Return the peak signal-to-noise ratio of the hidden pixels, `-10 log10(mean squared error)`, in decibels.

    Args:
        completed: completed images, in [0, 1].
        truth: the original images, in [0, 1].
        hidden: True where pixels were hidden; all other pixels are ignored.

    Example:
        >>> truth, hidden = torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 4, 4, dtype=torch.bool)
        >>> psnr(truth + 0.1, truth, hidden)
        tensor([20.])
    """
    return -10 * average_hidden((completed - truth).square(), hidden).clamp_min(_LEAST).log10()


def ssim(
    completed: Float[Tensor, "B channels H W"], truth: Float[Tensor, "B channels H W"], hidden: Bool[Tensor, "B 1 H W"]
) -> Float[Tensor, "B"]:
    """Return the structural similarity at the hidden pixels, at most 1.

    Means, variances and the covariance are computed in a Gaussian window of 11 x 11 (sigma 1.5) around each hidden
    pixel, which includes visible pixels at the edge of the hole; the image is mirrored at its borders (below 6 pixels,
    its last row or column is repeated).

    Args:
        completed: completed images, in [0, 1].
        truth: the original images, in [0, 1].
        hidden: True where pixels were hidden; the similarity at all other pixels is ignored.

    Example:
        >>> truth, hidden = torch.rand(1, 1, 28, 28), torch.ones(1, 1, 28, 28, dtype=torch.bool)
        >>> ssim(truth, truth, hidden)
        tensor([1.])

    References:
        Wang, Bovik, Sheikh & Simoncelli, "Image quality assessment: from error visibility to structural similarity",
        2004.
    """
    rows, columns = (_make_smoothing_matrix(size, truth) for size in truth.shape[-2:])

    def smooth(x: Tensor) -> Tensor:
        return rows.mT @ x @ columns

    mean, mean2 = smooth(completed), smooth(truth)
    variance, variance2 = smooth(completed.square()) - mean.square(), smooth(truth.square()) - mean2.square()
    covariance = smooth(completed * truth) - mean * mean2
    similarity = (2 * mean * mean2 + _SMALL_MEAN) * (2 * covariance + _SMALL_VARIANCE)
    scale = (mean.square() + mean2.square() + _SMALL_MEAN) * (variance + variance2 + _SMALL_VARIANCE)
    return average_hidden(similarity / scale, hidden)


def _make_smoothing_matrix(size: int, like: Tensor) -> Float[Tensor, "size size"]:
    """Return the matrix that smooths a row of pixels: faster than a convolution with a single channel."""
    at = torch.arange(_WINDOW, dtype=like.dtype, device=like.device) - _WINDOW // 2
    window = (-at.square() / (2 * _SIGMA**2)).exp()
    pixels = torch.eye(size, dtype=like.dtype, device=like.device)[None]
    mirrored = pad(pixels, [_WINDOW // 2] * 2, mode="reflect" if size > _WINDOW // 2 else "replicate")[0]
    return mirrored.unfold(-1, _WINDOW, 1) @ (window / window.sum())


def average_hidden(values: Float[Tensor, "B channels H W"], hidden: Bool[Tensor, "B 1 H W"]) -> Float[Tensor, "B"]:
    """Return the mean over the hidden pixels and the channels of each image."""
    return values.mean(1, keepdim=True).where(hidden, 0.0).flatten(1).sum(1) / hidden.flatten(1).sum(1)


def measure_pairwise_distance(
    completed: Float[Tensor, "S B channels H W"], hidden: Bool[Tensor, "B 1 H W"]
) -> Float[Tensor, "B"]:
    """Return the mean absolute difference of the hidden pixels, over all pairs of S completions; 0 where S is 1.

    Example:
        >>> completed = torch.stack([torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 4, 4)])
        >>> measure_pairwise_distance(completed, torch.ones(1, 1, 4, 4, dtype=torch.bool))
        tensor([1.])
    """
    count = len(completed)
    total = completed.new_zeros(completed.shape[1])
    for first in range(count):
        for second in range(first):
            total += average_hidden((completed[first] - completed[second]).abs(), hidden)
    return total / max(count * (count - 1) // 2, 1)


@final
@dataclass(frozen=True)
class ClassStatistics:
    """The classes that a classifier assigns to the completions of images, as means over images.

    Attributes:
        distinct: number of classes among the completions of an image.
        entropy: entropy of the classes of the completions of an image, in nats.
        confident: share of completions for which one class has a probability of at least 0.9. Where it is low, the
            diversity may be meaningless.
        right: share of completions classified as the class of the image; None where that is unknown.
    """

    distinct: float
    entropy: float
    confident: float
    right: float | None


def count_classes(
    logits: Float[Tensor, "S B K"], labels: Tensor | None = None, confidence: float = 0.9
) -> ClassStatistics:
    """Return the number of classes that completions belong to, and how confident the classifier is.

    Args:
        logits: `[S, B, K]`, of a classifier, for S completions of B images.
        labels: `[B]`, classes of the images; None where they are not known.
        confidence: smallest probability that counts as confident.

    Example:
        >>> logits = torch.tensor([[[9.0, 0.0]], [[0.0, 9.0]]])  # two completions of one image, two classes
        >>> classes = count_classes(logits, torch.tensor([1]))
        >>> classes.distinct, round(classes.entropy, 4), classes.confident, classes.right
        (2.0, 0.6931, 1.0, 0.5)
    """
    predicted = logits.argmax(-1)
    shares = torch.nn.functional.one_hot(predicted, logits.shape[-1]).double().mean(0)
    finite = logits.isfinite().all(-1)  # a completion with non-finite logits is never right
    right = None if labels is None else float(((predicted == labels) & finite).double().mean())
    return ClassStatistics(
        distinct=float((shares > 0).double().sum(-1).mean()),
        entropy=float(torch.special.entr(shares).sum(-1).mean()),
        confident=float((logits.softmax(-1).amax(-1) >= confidence).double().mean()),
        right=right,
    )


@final
@dataclass(frozen=True, eq=False)
class Components:
    """The principal components of images, each divided by the standard deviation of the images along it.

    For faces these are the eigenfaces, used in early automatic face recognition.

    Attributes:
        mean: `[D]`, the mean image.
        directions: `[D, P]`.

    References:
        Turk & Pentland, "Eigenfaces for recognition", 1991.
    """

    mean: Float[Tensor, "D"]
    directions: Float[Tensor, "D P"]

    @classmethod
    def fit(cls, images: Float[Tensor, "N channels H W"], count: int = 50) -> "Components":
        """Return the principal components of images.

        Args:
            images: `[N, channels, H, W]`, at least two.
            count: number of components; fewer if there are few images.
        """
        flat = images.flatten(1)
        mean = flat.mean(0)
        centred = (flat - mean) / (len(flat) - 1) ** 0.5
        few = len(flat) < flat.shape[1]
        # The Gram matrix of images has the same nonzero eigenvalues as that of pixels; the smaller one is faster.
        values, vectors = torch.linalg.eigh(centred @ centred.T if few else centred.T @ centred)
        count = min(count, len(flat) - 1, flat.shape[1])
        values, vectors = values[-count:].flip(0), vectors[:, -count:].flip(1)
        directions = torch.nn.functional.normalize(centred.T @ vectors, dim=0) if few else vectors
        return cls(mean, directions / values.clamp_min(1e-6 * float(values[0])).sqrt())

    def distance(
        self, first: Float[Tensor, "N channels H W"], second: Float[Tensor, "N channels H W"]
    ) -> Float[Tensor, "N"]:
        """Return the distance of each pair of images; between two real images it is about sqrt(2 P)."""
        return ((first.flatten(1) - second.flatten(1)) @ self.directions).norm(dim=1)
