"""Samples of a discrete VAE."""

from hardmax.cli.by_model import refuse
from hardmax.cli.sample import Options, write_picture
from hardmax.models import DiscreteVAE
from hardmax.random import stream
from hardmax.report.pictures import grid
from hardmax.training.restore import restore

_PICTURES = 64


def sample(options: Options) -> None:
    """Write a grid of pictures.

    Raises:
        ArgumentError: attributes are asked for.
    """
    refuse(options, "attributes", "vary")
    restored = restore(options.run, options.checkpoint, kind=DiscreteVAE)
    count = options.count or _PICTURES
    pictures, _ = restored.model.sample(count, generator=stream(options.seed, "sample"))
    write_picture(options, grid(pictures), f"{count} pictures")
