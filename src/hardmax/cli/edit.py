"""`hardmax edit`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from hardmax.cli.by_model import module_for
from hardmax.cli.options import parse


@dataclass(frozen=True)
class Options:
    """Change attributes, or the class, of photos: encode each, and draw it again with another discrete latent.

    Writes each edited picture, and one sheet: the photo as the model sees it, drawn again as it is, and edited.

    Examples: hardmax edit runs/faces photo.jpg --set smiling=1,male=0; hardmax edit runs/digits 7.png --set class=3
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run of hardmax train --model mixed."""
    photos: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO [PHOTO ...]")]
    """Picture files of any size: cut to the proportions that the model knows around the centre, and resized."""
    set: str
    """What to change, such as smiling=1,male=0, class=3 or class=sneaker; all else is as the encoder sees it."""
    out: str | None = None
    """Picture file for the one edited photo, or folder; default: figures/edited in the run's folder."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""


def run(arguments: list[str]) -> int:
    """Edit, write the pictures, and say what was done and where they are."""
    options = parse(Options, "edit", arguments)
    module_for("edit", options.run).edit(options)
    return 0
