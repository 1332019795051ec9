"""Options of the training of a decision model, and of `hardmax decide`. Imports no torch."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from hardmax.applications.argument_parser import Argument
from hardmax.errors import ArgumentError
from hardmax.training.config import TrainConfig

LOSS_OPTIONS: dict[str, tuple[str, ...]] = {
    "least-squares": (),
    "spo-plus": ("samples", "scale"),
    "hinge": (),
    "direct": ("epsilon", "towards", "samples", "scale"),
    "fenchel-young": ("samples", "scale"),
    "implicit-mle": ("samples", "scale", "step"),
    "adaptive-implicit-mle": ("samples", "scale", "share"),
    "blackbox": ("step",),
    "identity": (),
    "perturbed": ("samples", "scale"),
    "gibbs": ("temperature", "temperature_end"),
    "likelihood": ("temperature",),
    "pseudo-likelihood": (),
}
"""The losses, and the options that each uses; the functions are in `losses.py`."""
_STEPS = {"implicit-mle": 10.0, "blackbox": 0.625}  # blackbox as published: 20 for the mean over a batch of 32
_TEMPERATURES = {"gibbs": 3.0, "likelihood": 1.0}
_WITHOUT_NOISE = ("spo-plus", "direct")  # unless --samples is given
_COOLING = 0.1  # default temperature at the end of the training with gibbs, relative to that at the begin
_FORMULA = ("features", "degree", "noise")
_PROBLEM_OPTIONS = {
    "path": (*_FORMULA, "grid"),
    "knapsack": (*_FORMULA, "items", "capacity"),
    "maps": ("cells",),
    "warcraft": ("data_dir",),
    "denoising": ("images", "flips", "occlusion", "network", "data_dir"),
}
_MAPS = ("maps", "warcraft")  # problems with images, and a convolutional network
_LEAST_CAPACITY = 8.0  # every item fits
_IMAGE_SIDE = 28  # height and width of the images of denoising

if TYPE_CHECKING:
    LossName = str
else:  # the command line shows the choices and rejects all other values
    LossName = Literal[*LOSS_OPTIONS]


@dataclass(frozen=True)
class DecisionsConfig(TrainConfig):
    """Train a network that predicts the scores of a problem, such that the solver's decisions have low true costs.

    Predict, then optimize: what counts is the regret of the decision, not the error of the prediction.

    Example: hardmax train --model decisions --data path --loss spo-plus --out runs/paths
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": (
            "examples", "validation_examples", "test_examples", "features", "degree", "noise", "grid", "items",
            "capacity", "cells", "images", "flips", "occlusion",
        ),
        "model": ("hidden", "network"),
        "loss": (
            "loss", "relative", "samples", "scale", "epsilon", "towards", "step", "share", "temperature",
            "temperature_end", "warmup",
        ),
    }  # fmt: skip

    model: Literal["decisions"] = "decisions"
    data: str = "path"
    """Problem, generated from --seed: path (shortest path through a grid), knapsack (most valuable items that fit) or
    maps (shortest path on an image of terrain), denoising (clean images from noisy ones in black and white); or
    warcraft: the published maps in the folder --data-dir."""
    examples: int = 1000
    """Number of training examples; of warcraft at most this number, from the beginning."""
    validation_examples: int = 200
    """Number of validation examples, which select the best checkpoint."""
    test_examples: int = 1000
    """Number of test examples."""
    features: int = 5
    """Number of features of an example (path, knapsack)."""
    degree: int = 4
    """Degree of the polynomial by which costs depend on features; a linear network is misspecified above 1."""
    noise: float = 0.5
    """Half-width of the multiplicative noise of costs, from 0 to 1."""
    grid: int = 5
    """Number of rows and of columns of the grid (path)."""
    items: int = 32
    """Number of items (knapsack)."""
    capacity: float = 20.0
    """Limit of each of the two kinds of weight; an item has weights of 3 to 7.99 (knapsack)."""
    cells: int = 12
    """Number of rows and of columns of a map, with 8 x 8 pixels for each cell (maps)."""
    images: Literal["sample", "mnist", "fashion-mnist"] = "sample"
    """Images to add noise to, rounded to zeros and ones (denoising)."""
    flips: float = 0.15
    """Probability that a pixel is flipped, from 0 to 0.5 (denoising)."""
    occlusion: int = 7
    """Mean height and width in pixels of a block of random pixels; 0: none (denoising)."""
    hidden: int = 0
    """Width of a hidden layer; 0: the network is linear. For images the number of channels of the network; by default
    32 for maps and warcraft, 16 for denoising."""
    network: Literal["conv-couplings", "conv", "u-net-couplings", "u-net", "linear-couplings", "linear"] | None = None
    """Network of denoising: 3 x 3 convolutions, a U-Net, or a linear function of 5 x 5 pixels; with couplings it also
    predicts how strongly neighbouring pixels attract each other. Default: conv-couplings."""
    loss: LossName = "spo-plus"
    """Loss. least-squares: squared error of predicted costs. spo-plus, hinge: convex bounds of the regret. direct:
    regret, by direct loss minimization. fenchel-young: perturbed Fenchel-Young loss. implicit-mle,
    adaptive-implicit-mle: Hamming distance to the best decision. blackbox, identity: regret. perturbed: squared
    distance of the mean perturbed decision to the best one. gibbs: exact expected regret. likelihood: -log
    probability of the best decision. pseudo-likelihood: that of each bit given the others (denoising; without
    couplings the cross-entropy)."""
    relative: bool = False
    """Divide the predicted scores of an example by their size before the loss (least-squares: never): their root mean
    square, or their mean absolute value over the best decision for losses that use this decision alone. Decisions do
    not depend on the size of scores, but losses do: some go to zero with it (fenchel-young with the noise of maps), or
    let it grow (identity)."""
    samples: int | None = None
    """Number of noise samples per example and step; default: 3; for spo-plus and direct no noise."""
    scale: float = 1.0
    """Standard deviation of the normal noise that is added to scores; for maps and warcraft to their logarithms."""
    epsilon: float = 1.0
    """How strongly the costs move the arg max of direct, relative to the scores."""
    towards: bool = False
    """Move towards better decisions instead of away from worse ones (direct)."""
    step: float | None = None
    """How far the slope of the loss of one example moves its scores; default: 10 for implicit-mle, 0.625 for
    blackbox (the published 20, for the mean over a batch of 32)."""
    share: float = 1.0
    """Share of the perturbed decisions that the step of adaptive-implicit-mle changes, among those that can change."""
    temperature: float | None = None
    """Temperature of the Gibbs distribution, in units of the scores; default: 3 for gibbs, 1 for likelihood."""
    temperature_end: float | None = None
    """Temperature of gibbs at the end of training, approached geometrically; default: a tenth of --temperature."""
    warmup: int = 0
    """Number of epochs with the loss hinge before --loss, included in --epochs: losses that are not convex, such as
    direct, may need a start from which they improve."""
    epochs: int = 20
    """Number of passes over the training set."""
    batch_size: int = 32
    """Number of examples per step."""
    lr: float | None = None
    """Learning rate of Adam; default: 1e-2; for maps and warcraft 2e-3."""
    lr_schedule: Literal["linear", "constant"] = "constant"
    """Learning rate over time: linear is constant for half of the run, then decays linearly to zero."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = ("examples", "validation_examples", "test_examples")
        self.need_at_least_one(*sizes, "features", "degree", "items", "samples")
        self.need_positive("scale", "epsilon", "step", "temperature", "temperature_end")
        if not 0 <= self.noise <= 1:
            raise ArgumentError(f"noise must be between 0 and 1, so that costs keep their sign, got {self.noise}")
        for name in ("grid", "cells"):
            if getattr(self, name) < 2:
                raise ArgumentError(f"{name} must be at least 2, got {getattr(self, name)}")
        if not self.capacity >= _LEAST_CAPACITY:
            raise ArgumentError(f"capacity must be at least {_LEAST_CAPACITY:g}, for any item, got {self.capacity}")
        if not 0 <= self.flips <= 0.5:
            raise ArgumentError(f"flips must be between 0 and 0.5, got {self.flips}; 0.5 leaves nothing of the image")
        if not 0 <= self.occlusion < _IMAGE_SIDE:
            raise ArgumentError(f"occlusion must be from 0 to {_IMAGE_SIDE - 1} pixels, got {self.occlusion}")
        if self.network is not None and self.data != "denoising":
            raise ArgumentError(f"network is for denoising, got {self.network} for {self.data}; leave it out")
        if not 0 < self.share <= 1:
            raise ArgumentError(f"share must be above 0 and at most 1, got {self.share}")
        if self.warmup < 0:
            raise ArgumentError(f"warmup must not be negative, got {self.warmup}")
        if self.hidden < 0:
            raise ArgumentError(f"hidden must not be negative, got {self.hidden}; 0 is a linear network")

    def list_data_names(self) -> Collection[str]:
        """Return the names of the problems."""
        return _PROBLEM_OPTIONS

    @property
    def learning_rate(self) -> float:
        """The learning rate; by default 1e-2, for maps 2e-3."""
        if self.lr is not None:
            return self.lr
        return 2e-3 if self.data in _MAPS else 1e-2

    @property
    def unused_options(self) -> set[str]:
        """Options that have no effect: those of other losses and problems."""
        every = {name for names in LOSS_OPTIONS.values() for name in names}
        noiseless = {"scale"} if self.noise_samples is None or self.data == "denoising" else set()
        others = {name for names in _PROBLEM_OPTIONS.values() for name in names} - set(
            _PROBLEM_OPTIONS.get(self.data, ())
        )
        return super().unused_options | (every - set(LOSS_OPTIONS[self.loss])) | noiseless | others

    @property
    def is_relative(self) -> bool:
        """Whether the loss is that of relative scores; least squares need the scale of the costs."""
        return self.relative and self.loss != "least-squares"

    @property
    def noise_samples(self) -> int | None:
        """Number of noise samples per example and step; None if the loss uses no noise."""
        if "samples" not in LOSS_OPTIONS[self.loss]:
            return None
        return self.samples or (None if self.loss in _WITHOUT_NOISE else 3)

    @property
    def slope_step(self) -> float:
        """The step along the slope of an example's loss; the default of the loss where `step` is None."""
        return _STEPS.get(self.loss, 1.0) if self.step is None else self.step

    def choose_temperature(self, progress: float) -> float:
        """Return the temperature of the Gibbs distribution, given the finished share of the training, from 0 to 1."""
        begin = _TEMPERATURES.get(self.loss, 1.0) if self.temperature is None else self.temperature
        if self.loss != "gibbs":
            return begin
        end = _COOLING * begin if self.temperature_end is None else self.temperature_end
        return begin * (end / begin) ** progress


@dataclass(frozen=True)
class DecideOptions:
    """Make decisions for features of your own, with a trained model.

    Writes an .npz file with the arrays decisions (zeros and ones) and scores.

    Example: hardmax decide runs/paths features.npz --out decisions.npz
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of a run of hardmax train --model decisions."""
    features: Annotated[str, Argument("FEATURES")]
    """An .npz file with the array features, one row for each example."""
    out: str = "decisions.npz"
    """File to write."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint: the best on the validation set, or the latest."""
