"""Options of runs that train a completion model and of `hardmax complete`, and names of masks. Imports no torch."""

from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from hardmax.applications.argument_parser import Argument, Metavar
from hardmax.data.image_reading import SUFFIXES
from hardmax.errors import ArgumentError
from hardmax.training.config import EstimatorConfig, ImageConfig, make_absolute

MASKS = {
    "centre": "the middle half of both sides",
    "half": "the lower half",
    "quadrants-1": "all but the lower left quadrant",
    "quadrants-2": "the right half",
    "quadrants-3": "the lower right quadrant",
    "rectangles": "one to three random rectangles",
    "strokes": "random brush strokes",
    "any": "one of all these masks at random",
}
"""The hidden part of an image, by name of the mask."""
RANDOM_MASKS = ("rectangles", "strokes", "any")
"""Masks that are drawn for each image."""


def check_mask(name: str) -> None:
    """Raise `ArgumentError` unless this is the name of a mask or looks like an image file."""
    if name in MASKS or Path(name).suffix.lower() in SUFFIXES:
        return
    similar = get_close_matches(name, MASKS, n=1)
    names = f"there are: {', '.join(MASKS)}; or name an image, white where pixels are hidden"
    raise ArgumentError(f"no mask {name!r}; {f'did you mean {similar[0]}?' if similar else names}")


@dataclass(frozen=True)
class CompletionConfig(EstimatorConfig, ImageConfig):
    """Train a model that completes images with hidden pixels, in several ways.

    The prior of the latent of the hidden pixels is a mixture of Gaussians that depends on the visible pixels.

    Example: hardmax train --model completion --data mnist --mask quadrants-1 --epochs 40 --out runs/completion
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("mask", "augment"),
        "model": ("components", "latent", "architecture", "hidden", "likelihood"),
        "optimisation": ("choice", "loss", "warm_up", "adversarial"),
    }

    model: Literal["completion"] = "completion"
    mask: Annotated[str, Metavar("MASK")] = "any"
    """Hidden pixels: centre, half, quadrants-1 (one visible quadrant), quadrants-2, quadrants-3; rectangles, strokes,
    any (drawn for each image); or an image file, white where pixels are hidden."""
    components: int = 8
    """Number of Gaussians of the mixture; 1: conditional VAE with a learned prior; 0: with a standard normal prior."""
    latent: int = 50
    """Number of dimensions of the latent of the hidden part; 0 (with --components 0): a deterministic network."""
    choice: Literal["mixture", "responsibility", "distance", "encoder"] = "mixture"
    """Components that learn from an image. mixture: all, by the exact likelihood; responsibility, distance: the one
    that a max operation selects; encoder: the one an encoder selects, trained through the arg max by --estimator."""
    loss: Literal["bound", "corrected", "published"] = "bound"
    """Loss: minus the bound of the hidden pixels (bound); or that of the notes on pluralistic completion, corrected, or
    with the formula as published, which diverges, for comparison only."""
    warm_up: int | None = None
    """Number of warm-up epochs (loss bound): the weight of the KL rises to 1, and in place of --choice a near component
    learns that was rarely chosen. Default: a fifth of --epochs, at most 10; 0 for fewer than two components."""
    adversarial: float = 0.0
    """Weight of an adversarial loss, from a network that distinguishes completed images from real ones; 0: none."""
    binarize: Literal["threshold", "stochastic", "none"] = "none"
    """How grey pixels become 0 or 1: threshold at 0.5, stochastic (sampled each time an image is used), or none."""
    augment: Literal["none", "mirror", "shift", "affine", "elastic", "flip"] = "none"
    """Distortion of training images, before a part is hidden. mirror: for aligned faces; shift; affine: also rotated,
    scaled and sheared; elastic: also bent; flip: half as much turned and bent, and mirrored (clothes)."""
    architecture: Literal["auto", "mlp", "conv"] = "auto"
    """Networks: two hidden layers (mlp), or convolutional (conv); auto: conv for images over 32 x 32."""
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
            raise ArgumentError(
                "latent is 0, which leaves nothing to mix: add --components 0, for a network without a latent"
            )
        if self.loss != "bound" and not self.components:
            raise ArgumentError(f"loss {self.loss} needs --components of at least 1, got 0")
        if self.loss != "bound" and self.choice in ("mixture", "encoder"):
            raise ArgumentError(f"loss {self.loss} needs a max operation: add --choice responsibility or distance")

    def make_paths_absolute(self) -> "CompletionConfig":
        """Return the options with absolute paths, also that of the image of a mask."""
        mask = self.mask if self.mask in MASKS else make_absolute(self.mask)
        return replace(super().make_paths_absolute(), mask=mask)

    @property
    def warm_up_epochs(self) -> int:
        """Number of warm-up epochs; where `warm_up` is None, the default."""
        if self.warm_up is not None:
            return self.warm_up
        return min(10, self.epochs // 5) if self.components > 1 and self.loss == "bound" else 0


@dataclass(frozen=True)
class CompleteOptions:
    """Complete a photo in several ways: fill in the pixels that a mask hides.

    Each completion is sampled from one component of the model's mixture. Writes each completed photo at its original
    size with its visible pixels unchanged, and one sheet that shows the component of each completion and its weight.

    Examples:
      hardmax complete photo.png --mask mask.png --model runs/faces --count 8
      hardmax complete 7.png --mask half --model runs/digits
    """

    photo: Annotated[str, Argument("PHOTO")]
    """Image file of any size; the model uses the largest part around the centre that has its proportions."""
    model: Annotated[str, Metavar("RUN")]
    """Folder of a run of hardmax train --model completion."""
    mask: Annotated[str | None, Metavar("MASK")] = None
    """Image that is white where pixels are hidden, of the photo's size or proportions; or the name of a mask, such as
    centre, of the part that the model uses. Default: the transparent pixels of the photo."""
    count: int = 8
    """Number of completions."""
    temperature: float = 1.0
    """Factor of the standard deviations of the components. 1: the model's distribution; 0.5: nearer to the mean of each
    component, so that completions differ between components and less within one."""
    out: str | None = None
    """Folder to write to; default: figures/completed in the run's folder."""
    seed: int = 0
    """Random seed of the completions."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint to load: the best on the validation set, or the latest."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")
        if not self.temperature > 0:
            raise ArgumentError(f"temperature must be above 0, got {self.temperature:g}")
