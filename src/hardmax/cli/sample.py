"""`hardmax sample`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hardmax.cli.options import parse
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Draw z from the prior of a trained model and write their pictures as one grid.

    Example: hardmax sample runs/first --count 64
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    count: int = 64
    """Number of pictures."""
    out: str | None = None
    """PNG file to write; default: figures/samples.png in the run's folder."""
    seed: int = 0
    """Seed of the samples."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")


def run(arguments: list[str]) -> int:
    """Sample, write the picture, and say where it is."""
    options = parse(Options, "sample", arguments)
    from hardmax.random import stream
    from hardmax.report.pictures import grid
    from hardmax.training.restore import restore

    restored = restore(options.run, options.checkpoint)
    pictures, _ = restored.model.sample(options.count, generator=stream(options.seed, "sample"))
    path = Path(options.out or Path(options.run) / "figures" / "samples.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    grid(pictures).save(temporary, format="PNG")
    temporary.replace(path)
    print(f"{options.count} pictures in {path}")
    return 0
