"""`hardmax sample`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from hardmax.cli.by_model import module_for, refuse
from hardmax.cli.options import parse
from hardmax.errors import ArgumentError

if TYPE_CHECKING:
    from PIL import Image

    from hardmax.models import AbstractModel

_PICTURES = 64


@dataclass(frozen=True)
class Options:
    """Draw latents from the prior of a trained model and write their pictures as one grid.

    Of a mixed model, each row has one continuous latent, and each column is a class or a setting of the attributes. Of
    a completion model, each row is a test picture with its hole, itself, and completions of it. Of a sequence GAN,
    sequences are printed, one in a line.

    Examples: hardmax sample runs/first --count 64; hardmax sample runs/faces --attributes male=0 --vary smiling
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    count: int | None = None
    """Number of pictures, of a mixed or completion model number of rows, of a sequence GAN number of sequences;
    default: 64 pictures, 8 rows, 20 sequences."""
    attributes: str | None = None
    """Attributes that are the same in all columns, such as smiling=1,male=0."""
    vary: str | None = None
    """Attributes that change from column to column, such as smiling, at most three; default: all that are not set."""
    out: str | None = None
    """PNG file to write; default: figures/samples.png in the run's folder. Of a sequence GAN a text file, instead of
    printing."""
    seed: int = 0
    """Seed of the samples."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")


def run(arguments: list[str]) -> int:
    """Sample, and show or write what was drawn."""
    options = parse(Options, "sample", arguments)
    module_for("sample", options.run).sample(options)
    return 0


def write_picture(options: Options, picture: "Image.Image", said: str) -> None:
    """Write what a model has drawn, and say what it is and where."""
    from hardmax.report.pictures import save

    path = Path(options.out or Path(options.run) / "figures" / "samples.png")
    save(picture, path)
    print(f"{said} in {path}")


def write_grid(options: Options, kind: "type[AbstractModel]") -> None:
    """Write a grid of pictures that a model draws, one that takes nothing but their number.

    Raises:
        ArgumentError: attributes are asked for.
    """
    from hardmax.random import stream
    from hardmax.report.pictures import grid
    from hardmax.training.restore import restore

    refuse(options, "attributes", "vary")
    count = options.count or _PICTURES
    model: Any = restore(options.run, options.checkpoint, kind=kind).model
    pictures, _ = model.sample(count, generator=stream(options.seed, "sample"))
    write_picture(options, grid(pictures), f"{count} pictures")
