"""`hardmax complete`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from hardmax.cli.by_model import module_for
from hardmax.cli.options import parse
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Complete a photo in several ways: draw what a mask hides, each time from a component of the model's mixture.

    Writes each completed photo at its own size, visible pixels as they were, and one sheet with the component that
    each was drawn from and its weight.

    Examples: hardmax complete photo.png --mask mask.png --model runs/faces --count 8; hardmax complete 7.png --mask
    half --model runs/digits
    """

    photo: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO")]
    """Picture file of any size; the model sees what fits its proportions, around the centre."""
    model: Annotated[str, tyro.conf.arg(metavar="RUN")]
    """Folder of a run of hardmax train --model completion."""
    mask: str | None = None
    """Picture that is white where the photo is to be drawn anew, of the photo's size or proportions; or the name of a
    mask, such as centre; default: where the photo is transparent."""
    count: int = 8
    """Number of completions."""
    temperature: float = 1.0
    """Spread within a component, in units of its own: 1: as the model thinks likely; 0.5: nearer to the middle of each
    component, so that they differ by component and less within."""
    out: str | None = None
    """Folder to write to; default: figures/completed in the run's folder."""
    seed: int = 0
    """Seed of the completions."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")
        if not self.temperature > 0:
            raise ArgumentError(f"temperature must be above 0, got {self.temperature:g}")


def run(arguments: list[str]) -> int:
    """Complete, write the pictures, and say what was done and where they are."""
    options = parse(Options, "complete", arguments)
    module_for("complete", options.model).complete(options)
    return 0
