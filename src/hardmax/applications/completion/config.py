"""Options of a completion model: of its training, its masks, and of `hardmax complete`. No torch here."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hardmax.data.image_reading import SUFFIXES
from hardmax.errors import ArgumentError
from hardmax.training.config import EstimatorConfig, PictureConfig

# name: the hidden part
MASKS = {
    "centre": "the middle half of both sides",
    "half": "the lower half",
    "quadrants-1": "all but the lower left quadrant",
    "quadrants-2": "the right half",
    "quadrants-3": "the lower right quadrant",
    "rectangles": "one to three rectangles, drawn anew for every picture",
    "strokes": "irregular brush strokes, drawn anew for every picture",
    "any": "one of all these, drawn anew for every picture",
}
DRAWN = ("rectangles", "strokes", "any")
"""Masks that differ from picture to picture."""


def check_mask(name: str) -> None:
    """Raise `ArgumentError` unless this is the name of a mask or looks like a picture file."""
    if name in MASKS or Path(name).suffix.lower() in SUFFIXES:
        return
    near = get_close_matches(name, MASKS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(MASKS)}; or name a picture, white where"
    raise ArgumentError(f"no mask {name!r}; {hint}{'' if near else ' pixels are hidden'}")


@dataclass(frozen=True)
class CompletionConfig(EstimatorConfig, PictureConfig):
    """Train a model that completes pictures in many ways: a mixture of Gaussians over the latent of what is hidden.

    Example: hardmax train --model completion --data mnist --mask quadrants-1 --epochs 40 --out runs/completion
    """

    model: Literal["completion"] = "completion"
    mask: str = "any"
    """What is hidden: centre, half, quadrants-1 (so many are visible), quadrants-2, quadrants-3; rectangles, strokes,
    any (drawn anew for every picture); or a picture file, white where pixels are hidden."""
    components: int = 8
    """Gaussians of the mixture; 1: a conditional VAE with a learned prior; 0: one with a standard normal prior."""
    latent: int = 50
    """Dimensions of the latent of the hidden part; 0 (with --components 0): none, a deterministic network."""
    choice: Literal["mixture", "responsibility", "distance", "encoder"] = "mixture"
    """Which component learns from a picture. mixture: all, by the exact likelihood; responsibility, distance: the one
    that a max operation picks; encoder: one that an encoder chooses, trained through the arg max by --estimator."""
    loss: Literal["bound", "corrected", "published"] = "bound"
    """What is minimised: minus the bound of the hidden pixels; the loss of the notes on pluralistic completion,
    corrected; or with its formula as published, which diverges, for comparison only."""
    warm_up: int | None = None
    """Epochs in which the weight of the divergence rises to 1, and of the nearest components the one learns that was
    chosen least, whatever --choice (loss bound); default: a fifth of them, at most 10, and none where there are
    not several components."""
    adversarial: float = 0.0
    """Weight of a network that learns to tell completed pictures from real ones, and is to be deceived; 0: none."""
    binarize: Literal["threshold", "stochastic", "none"] = "none"
    """Grey to black and white: rounded at 0.5, drawn anew each time, or left grey."""
    augment: Literal["none", "mirror", "shift", "affine", "elastic", "flip"] = "none"
    """How training pictures are distorted, before a part is hidden: mirrored (aligned faces); moved (shift); also
    turned, scaled and sheared (affine); also bent (elastic); flip: half as much of all that, and mirrored (clothes)."""
    architecture: Literal["auto", "mlp", "conv"] = "auto"
    """Networks: two hidden layers, or convolutional; auto: convolutional for pictures over 32 x 32."""
    hidden: int = 500
    """Width of the hidden layers."""
    likelihood: Literal["auto", "bernoulli", "gaussian"] = "auto"
    """Distribution of the pixels given the latent; auto: gaussian for colour, else bernoulli."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mask(self.mask)
        self.need_at_least_one("hidden")
        for name in ("components", "latent", "warm_up", "adversarial"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ArgumentError(f"{name.replace('_', '-')} must not be negative, got {value}")
        if self.components and not self.latent:
            raise ArgumentError("latent is 0, which leaves nothing to mix: add --components 0, for a network without")
        if self.loss != "bound" and not self.components:
            raise ArgumentError(f"loss {self.loss} needs --components of at least 1, got 0")
        if self.loss != "bound" and self.choice in ("mixture", "encoder"):
            raise ArgumentError(f"loss {self.loss} needs a max operation: add --choice responsibility or distance")

    @property
    def warm_up_epochs(self) -> int:
        """Epochs of warm-up; if they are not set, the default."""
        if self.warm_up is not None:
            return self.warm_up
        return min(10, self.epochs // 5) if self.components > 1 and self.loss == "bound" else 0


@dataclass(frozen=True)
class CompleteOptions:
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
