"""A judge of generated pictures: a small classifier that has learnt classes from real ones, and its features."""

import math
from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hardmax.metrics.judge import judged, train_judge

_BATCH = 100


def train_classifier(
    pictures: Float[Tensor, "N channels H W"],
    labels: Int64[Tensor, "N"],
    validation: tuple[Float[Tensor, "M channels H W"], Int64[Tensor, "M"]],
    *,
    epochs: int = 3,
    seed: int = 0,
) -> nn.Module:
    """Train a small convolutional network to name classes; return it as it was after its best epoch.

    Args:
        pictures: `[N, channels, H, W]`, real ones.
        labels: `[N]`, their classes; a -1 teaches nothing.
        validation: others, by which the best epoch is chosen.
        epochs: how often the pictures are gone through.
        seed: of all randomness; torch's global generator is kept.

    Returns:
        A module from pictures `[B, channels, H, W]` to logits of classes, whose first part gives features.
    """
    return train_judge(
        pictures,
        int(labels.max()) + 1,
        lambda logits, index: cross_entropy(logits, labels[index], ignore_index=-1),
        lambda network: float((judged(network, validation[0]).argmax(-1) == validation[1]).float().mean()),
        name="classifier",
        mirror=False,
        batch_size=_BATCH,
        epochs=epochs,
        seed=seed,
    )


def features(network: nn.Module, pictures: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N F"]:
    """Return what a classifier's last layer looks at."""
    return judged(cast(nn.Sequential, network)[0], pictures)


def frechet_distance(first: Float[Tensor, "N F"], second: Float[Tensor, "M F"]) -> float:
    """Return the Frechet distance of Gaussians that are fitted to two sets of features.

    `|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2))`. With the features of an Inception network this is known as FID; with
    those of a small classifier of our own it is another number, which compares with none that was published. NaN where
    a feature is not finite, as those of a diverged model's pictures are.

    Args:
        first: `[N, F]`, N at least 2.
        second: `[M, F]`, M at least 2.

    Example:
        >>> points = torch.randn(1000, 3)
        >>> round(frechet_distance(points, points + 2.0), 2)  # three dimensions, moved by 2 each
        12.0

    References:
        Dowson & Landau, "The Frechet distance between multivariate normal distributions", 1982; Heusel et al., "GANs
        trained by a two time-scale update rule converge to a local Nash equilibrium", 2017.
    """
    if not (first.isfinite().all() and second.isfinite().all()):
        return math.nan
    (mean, covariance), (mean2, covariance2) = (_moments(points.double()) for points in (first, second))
    # The eigenvalues of C1 C2 are those of the symmetric C1^(1/2) C2 C1^(1/2).
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp_min(0).sqrt() @ vectors.T
    cross = torch.linalg.eigvalsh(root @ covariance2 @ root).clamp_min(0).sqrt().sum()
    return float((mean - mean2).square().sum() + covariance.trace() + covariance2.trace() - 2 * cross)


def _moments(points: Tensor) -> tuple[Tensor, Tensor]:
    mean = points.mean(0)
    centred = points - mean
    return mean, centred.T @ centred / (len(points) - 1)
