"""What codes find for test pictures, and how often it is of the same class; also for vectors, and for pixels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.experiments.exhibits.exhibit import Exhibit
from hardmax.metrics.retrieval import precision_of_codes, precision_of_vectors
from hardmax.models import HashEncoder, MixedVAE
from hardmax.report.pictures import data_uri, grid
from hardmax.report.tiles import spread
from hardmax.training.hashing.evaluate import codes_of, packed
from hardmax.training.held_out import held_out
from hardmax.training.picture_config import PictureConfig
from hardmax.training.restore import restore

KS = (1, 10, 100)


def look_at_neighbours(config: PictureConfig, *, rows: int, found: int, queries: int) -> Exhibit:
    """Search for test pictures among the training pictures, by what a model makes of them.

    A hash encoder's codes are compared by Hamming distance. A Gaussian VAE's means are compared by Euclidean distance,
    and so are the pixels, which have a line of their own.

    Args:
        config: of the run, whose latest model is looked at.
        rows: of the grid, each with a test picture and the nearest ones.
        found: how many of these.
        queries: most test pictures that the numbers are of.

    Raises:
        ArgumentError: the pictures have no classes.
    """
    restored = restore(config.out, "latest")
    model, images = restored.model, restored.images(config.data_dir)
    if images.labels is None:
        raise ArgumentError(f"how many of the nearest are of the same class needs classes, which {images.name} has not")
    train, test = held_out(config, images, "train"), held_out(config, images, "test")[:queries]
    labels, wanted = images.labels["train"], images.labels["test"][:queries]
    ks = [k for k in KS if k <= len(train)]
    if isinstance(model, HashEncoder):
        codes, sought = codes_of(model, train), codes_of(model, test)
        precisions = precision_of_codes(packed(sought), wanted.numpy(), packed(codes), labels.numpy(), ks)
        numbers: list[dict[str, Any]] = [_numbers(ks, precisions)]
    elif isinstance(model, MixedVAE):
        codes, sought = means_of(model, train), means_of(model, test)
        pixels = precision_of_vectors(test.flatten(1), wanted, train.flatten(1), labels, ks)
        numbers = [
            {"of": "means", **_numbers(ks, precision_of_vectors(sought, wanted, codes, labels, ks))},
            {"of": "raw pixels", **_numbers(ks, pixels)},
        ]
    else:
        raise ArgumentError(f"neither codes nor means can be searched for in a {type(model).__name__}")
    shown = spread(len(test), rows)
    # Of bits, squared Euclidean distance is Hamming distance.
    near = torch.cdist(sought[shown], codes).topk(found, largest=False).indices
    pictures = torch.cat([test[shown][:, None], train[near]], 1).flatten(0, 1)
    heads = ["query", *(str(i + 1) for i in range(found))]
    return Exhibit(data_uri(grid(pictures, columns=found + 1, padding=1)), heads, len(shown), numbers)


@torch.no_grad()
def means_of(model: MixedVAE, pictures: Tensor) -> Tensor:
    """Return the means of the Gaussians of a model with one category, `[N, c]`."""
    return torch.cat([model.encode(some).mean[:, 0] for some in pictures.split(1000)])


def _numbers(ks: Sequence[int], precisions: Sequence[float]) -> dict[str, float]:
    return {f"precision_{k}": value for k, value in zip(ks, precisions, strict=True)}
