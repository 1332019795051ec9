"""Judges: small evaluation networks, trained on real images, that measure generated ones.

A classifier predicts the class of an image, a recogniser its attributes.
"""

import copy
import math
from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from hardmax.nn import build_conv_trunk
from hardmax.nn.linear import Linear
from hardmax.random import make_generator

_HIDDEN, _WIDTH, _DROPOUT = 128, 16, 0.5
_LR = 1e-3
_CLASSIFIER_BATCH, _RECOGNISER_BATCH = 100, 50


def train_judge(
    images: Float[Tensor, "N channels H W"],
    outputs: int,
    loss: Callable[[Tensor, Tensor], Tensor],
    quality: Callable[[nn.Module], float],
    *,
    name: str,
    mirror: bool,
    batch_size: int,
    epochs: int,
    seed: int,
) -> nn.Module:
    """Train an evaluation network, and return it as of its best epoch. Torch's global generator is left unchanged.

    Args:
        images: real images.
        outputs: number of logits for each image.
        loss: maps logits `[B, outputs]` and the indices of their images, `[B]`, to the loss.
        quality: returns the quality of the network on validation images; higher is better.
        name: name of its random stream.
        mirror: whether to mirror images at random.
        batch_size: number of images in a step.
        epochs: number of passes over the images.
        seed: seed of all randomness.

    Returns:
        A trunk, dropout and a linear layer: the trunk returns the features, the linear layer the logits.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(make_generator(seed, name).initial_seed())
        network = nn.Sequential(
            build_conv_trunk(tuple(images.shape[1:]), _HIDDEN, _WIDTH),
            nn.Dropout(_DROPOUT),
            Linear(_HIDDEN, outputs),
        )
        optimizer = torch.optim.Adam(network.parameters(), lr=_LR)
        best, best_weights = -1.0, network.state_dict()
        for _ in range(epochs):
            network.train()
            for index in torch.randperm(len(images)).split(batch_size):
                x = images[index]
                if mirror:
                    x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(-1), x)
                optimizer.zero_grad()
                loss(network(x), index).backward()
                optimizer.step()
            if (current := quality(network)) > best:
                best, best_weights = current, copy.deepcopy(network.state_dict())
    network.load_state_dict(best_weights)
    return network.eval()


@torch.no_grad()
def judge_images(network: nn.Module, images: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N outputs"]:
    """Return the logits of a network for images, computed in batches."""
    network.eval()
    return torch.cat([network(batch) for batch in images.split(500)])


def train_classifier(
    images: Float[Tensor, "N channels H W"],
    labels: Int64[Tensor, "N"],
    validation: tuple[Float[Tensor, "M channels H W"], Int64[Tensor, "M"]],
    *,
    epochs: int = 3,
    seed: int = 0,
) -> nn.Module:
    """Train a small convolutional network to predict classes; return it as of its best epoch.

    Args:
        images: `[N, channels, H, W]`, real images.
        labels: `[N]`, their classes; -1 is ignored.
        validation: other images and labels, which select the best epoch.
        epochs: number of passes over the images.
        seed: seed of all randomness; torch's global generator is left unchanged.

    Returns:
        A module from images `[B, channels, H, W]` to logits of classes; its first submodule returns features.
    """
    return train_judge(
        images,
        int(labels.max()) + 1,
        lambda logits, index: cross_entropy(logits, labels[index], ignore_index=-1),
        lambda network: float((judge_images(network, validation[0]).argmax(-1) == validation[1]).float().mean()),
        name="classifier",
        mirror=False,
        batch_size=_CLASSIFIER_BATCH,
        epochs=epochs,
        seed=seed,
    )


def extract_features(network: nn.Module, images: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N F"]:
    """Return the features of a classifier, the inputs of its last layer."""
    return judge_images(cast(nn.Sequential, network)[0], images)


def frechet_distance(first: Float[Tensor, "N F"], second: Float[Tensor, "M F"]) -> float:
    """Return the Frechet distance of Gaussians fitted to two sets of features.

    `|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2))`. With the features of an Inception network this is known as FID; with
    those of our small classifier it is another number, not comparable with any published FID. NaN if a feature is not
    finite, as for the images of a diverged model.

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
    (mean, covariance), (mean2, covariance2) = (_compute_moments(points.double()) for points in (first, second))
    # The eigenvalues of C1 C2 are those of the symmetric C1^(1/2) C2 C1^(1/2).
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp_min(0).sqrt() @ vectors.T
    cross = torch.linalg.eigvalsh(root @ covariance2 @ root).clamp_min(0).sqrt().sum()
    return float((mean - mean2).square().sum() + covariance.trace() + covariance2.trace() - 2 * cross)


def _compute_moments(points: Tensor) -> tuple[Tensor, Tensor]:
    mean = points.mean(0)
    centred = points - mean
    return mean, centred.T @ centred / (len(points) - 1)


def train_recogniser(
    images: Float[Tensor, "N channels H W"],
    attributes: Int64[Tensor, "N A"],
    validation: tuple[Float[Tensor, "M channels H W"], Int64[Tensor, "M A"]],
    *,
    epochs: int = 20,
    seed: int = 0,
) -> nn.Module:
    """Train a small convolutional network to predict attributes; return it as of its best epoch.

    Images are mirrored at random: attributes that distinguish left from right cannot be learned. Torch's global
    generator is left unchanged.

    Args:
        images: `[N, channels, H, W]`, real images.
        attributes: `[N, A]`, their bits; -1 is ignored.
        validation: other images and attributes, which select the best epoch.
        epochs: number of passes over the images.
        seed: seed of all randomness.

    Returns:
        A module from images `[B, channels, H, W]` to logits `[B, A]`.
    """

    def loss(logits: Tensor, index: Tensor) -> Tensor:
        bits = attributes[index]
        losses = binary_cross_entropy_with_logits(logits, bits.clamp_min(0).float(), reduction="none")
        return (losses * (bits >= 0)).sum().div(len(index))

    return train_judge(
        images,
        attributes.shape[1],
        loss,
        lambda network: float(measure_accuracy(predict_attributes(network, validation[0]), validation[1]).mean()),
        name="recogniser",
        mirror=True,
        batch_size=_RECOGNISER_BATCH,
        epochs=epochs,
        seed=seed,
    )


def predict_attributes(network: nn.Module, images: Float[Tensor, "N channels H W"]) -> Int64[Tensor, "N A"]:
    """Return the attributes that a recogniser predicts for images, as bits."""
    return (judge_images(network, images) > 0).long()


def measure_accuracy(predicted: Int64[Tensor, "N A"], attributes: Int64[Tensor, "N A"]) -> Float[Tensor, "A"]:
    """Return the accuracy of each attribute over the images where it is known."""
    known = attributes >= 0
    return ((predicted == attributes) & known).sum(0) / known.sum(0).clamp_min(1)
