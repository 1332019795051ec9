"""Pictures generated from a prior over tokens."""

from hardmax.cli.sample import Options, write_grid
from hardmax.models import TokenPrior


def sample(options: Options) -> None:
    """Write a grid of pictures."""
    write_grid(options, TokenPrior)
