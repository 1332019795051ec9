"""Samples of a discrete VAE."""

from hardmax.cli.sample import Options, write_grid
from hardmax.models import DiscreteVAE


def sample(options: Options) -> None:
    """Write a grid of pictures."""
    write_grid(options, DiscreteVAE)
