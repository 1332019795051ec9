"""What a model is before the first step: its networks, where they were left open, and its weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from hardmax.random import stream

_SMALL = 32  # pixels, up to which one hidden layer sees a whole picture


def networks_for(asked: Literal["auto", "mlp", "conv"], shape: tuple[int, int, int]) -> Literal["mlp", "conv"]:
    """Return the networks for pictures of a shape (channels, H, W); "auto" is convolutional for large ones."""
    if asked != "auto":
        return asked
    return "conv" if max(shape[1:]) > _SMALL else "mlp"


def likelihood_for(
    asked: Literal["auto", "bernoulli", "gaussian"], shape: tuple[int, int, int]
) -> Literal["bernoulli", "gaussian"]:
    """Return the distribution of the pixels of pictures of a shape (channels, H, W); "auto" is gaussian for colour."""
    if asked != "auto":
        return asked
    return "gaussian" if shape[0] > 1 else "bernoulli"


@contextmanager
def initial_weights(seed: int, start: int) -> Iterator[None]:
    """Draw the initial weights of this number within; torch's global generator is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "init", *([start] if start else [])).initial_seed())
        yield
