"""Samples of a discrete VAE."""

from typing import TYPE_CHECKING

from PIL import Image

from hardmax.cli.by_model import refuse
from hardmax.models import DiscreteVAE
from hardmax.random import stream
from hardmax.report.pictures import grid
from hardmax.training.restore import restore

if TYPE_CHECKING:
    from hardmax.cli.sample import Options

_PICTURES = 64


def draw(options: "Options") -> tuple[Image.Image, str]:
    """Return a grid of pictures, and what it shows.

    Raises:
        ArgumentError: attributes are asked for.
    """
    refuse(options, "attributes", "vary")
    restored = restore(options.run, options.checkpoint, kind=DiscreteVAE)
    count = options.count or _PICTURES
    pictures, _ = restored.model.sample(count, generator=stream(options.seed, "sample"))
    return grid(pictures), f"{count} pictures"
