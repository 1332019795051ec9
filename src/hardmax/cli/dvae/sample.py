"""Samples of a dVAE alone: of tokens that know nothing of each other."""

from hardmax.cli.by_model import refuse
from hardmax.cli.sample import Options, write_picture
from hardmax.models import TokenVAE
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
    model = restore(options.run, options.checkpoint, kind=TokenVAE).model
    count = options.count or _PICTURES
    pictures, _ = model.sample(count, generator=stream(options.seed, "sample"))
    print(
        "these tokens are drawn without heed of each other; for pictures learn how they go together: "
        f"hardmax train --model token-prior --tokenizer {options.run}"
    )
    write_picture(options, grid(pictures), f"{count} pictures")
