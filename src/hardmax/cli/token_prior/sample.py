"""Pictures generated from a prior over tokens."""

from typing import TYPE_CHECKING

from PIL import Image

from hardmax.cli.by_model import refuse
from hardmax.models import TokenPrior
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
    model = restore(options.run, options.checkpoint, kind=TokenPrior).model
    count = options.count or _PICTURES
    pictures, _ = model.sample(count, generator=stream(options.seed, "sample"))
    return grid(pictures), f"{count} pictures"
