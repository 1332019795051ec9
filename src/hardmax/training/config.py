"""Options of training runs. Imports no torch: the command line shows its help from this file."""

import dataclasses
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from hardmax.errors import ArgumentError
from hardmax.estimators.registry import ESTIMATORS, check_two_samples, find_unused_options
from hardmax.files import expand_path

# Not typing.Self, which jaxtyping's import hook cannot check.
Config = TypeVar("Config", bound="TrainConfig")


@dataclass(frozen=True)
class Metrics:
    """The metrics of a model, measured after every epoch.

    Attributes:
        columns: names of all columns of `metrics.jsonl`, in order.
        criterion: the column that selects the best checkpoint.
        higher_is_better: the direction of the criterion.
        examples: what the examples are called, in the plural.
    """

    columns: tuple[str, ...]
    criterion: str = "elbo"
    higher_is_better: bool = True
    examples: str = "images"

    @property
    def criterion_name(self) -> str:
        """The name of the criterion in messages."""
        return "bound" if self.criterion == "elbo" else self.criterion

    def score(self, value: float) -> float:
        """Return a value of the criterion such that higher is better."""
        return value if self.higher_is_better else -value


PLACES = ("out", "resume", "data_dir", "devices")
"""Fields of `TrainConfig` that define where a run is stored and executed, not what it computes."""
MAY_CHANGE = ("epochs", "devices", "data", "data_dir", "checkpoint_every")
"""Options that may change when a run is resumed, in addition to `out`, which names it; `data` must be the same data in
another place."""


@dataclass(frozen=True)
class TrainConfig:
    """Options of every run; each application adds its own in its `config.py`.

    Attributes:
        groups: the fields in each group of the help; a subclass lists those that it adds.
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("data", "data_dir"),
        "model": ("model",),
        "optimisation": (
            "epochs", "batch_size", "optimizer", "lr", "lr_schedule", "clip", "patience", "starts", "start_epochs",
        ),
        "run": ("out", "resume", "seed", "device", "devices", "checkpoint_every"),
    }  # fmt: skip

    model: str = ""
    """Model to train. Each model has its own options: see hardmax train --model NAME --help."""
    data: str = "sample"
    """Data to train on."""
    out: str = "run"
    """Folder to write the run to."""
    resume: bool = False
    """Continue the run in --out, with its options. Only --epochs (epoch-based schedules are rescaled), --devices,
    --data (if the same data are now elsewhere), --data-dir and --checkpoint-every may change."""
    data_dir: str | None = None
    """Folder that contains the named data sets; default: the environment variable HARDMAX_DATA."""
    epochs: int = 20
    """Number of passes over the training set."""
    starts: int = 1
    """Number of random initialisations to try; the best one on the validation set is trained."""
    start_epochs: int = 4
    """Number of epochs that each initialisation is trained for before the best is chosen; not counted in --epochs."""
    batch_size: int = 100
    """Number of examples per step, over all processes together; the default is reduced for fewer than 2,000 training
    examples, to 20 steps per epoch."""
    optimizer: Literal["adam", "radam"] = "adam"
    """Optimizer: Adam, or RAdam, which rectifies the variance of Adam's first steps."""
    lr: float | None = None
    """Learning rate; default: 1e-3; for a discrete VAE 3e-3 with several variables and 2e-3 with structured z;
    for a sequence GAN 4e-3 (chosen by measurement)."""
    lr_schedule: Literal["linear", "constant"] = "linear"
    """Learning rate over time: linear is constant for half of the run, then decays linearly to zero."""
    seed: int = 0
    """Random seed."""
    clip: float | None = None
    """Maximum norm of the gradient; a larger gradient is scaled down to it. Default: no limit."""
    patience: int | None = None
    """Stop after this number of epochs without improvement on the validation set. Default: never."""
    device: str = "cpu"
    """Device to train on: cpu, cuda, cuda:1, mps."""
    devices: int = 1
    """Number of processes that share every batch, with one GPU each for --device cuda. The result is the same."""
    checkpoint_every: int | None = None
    """Also save a checkpoint every this number of steps. Default: after each epoch only."""

    def __post_init__(self) -> None:
        self.need_at_least_one("epochs", "starts", "start_epochs", "batch_size", "devices")
        self.need_positive("lr")

    @property
    def learning_rate(self) -> float:
        """The learning rate; the default where `lr` is None."""
        return 1e-3 if self.lr is None else self.lr

    @property
    def unused_options(self) -> set[str]:
        """Options that have no effect, given the others: for example those of an estimator that is not used."""
        return set()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def make_paths_absolute(self: Config) -> Config:
        """Return the options with absolute paths, so that later commands find the files from any folder.

        Names of data sets stay as they are. A subclass with other options that name files extends this method.
        """
        data = self.data if self.data in self.list_data_names() else make_absolute(self.data)
        data_dir = None if self.data_dir is None else make_absolute(self.data_dir)
        return dataclasses.replace(self, data=data, data_dir=data_dir)

    def list_data_names(self) -> Collection[str]:
        """Return the names that `data` may have instead of a path; by default those of the sets of images."""
        from hardmax.data.datasets import SETS

        return SETS

    def need_at_least_one(self, *names: str) -> None:
        """Raise `ArgumentError` if a field is below 1; None is accepted."""
        for name in names:
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ArgumentError(f"{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")

    def need_positive(self, *names: str) -> None:
        """Raise `ArgumentError` if a field is not above 0; None is accepted."""
        for name in names:
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ArgumentError(f"{name.replace('_', '-')} must be positive, got {getattr(self, name)}")


def make_absolute(path: str) -> str:
    """Return the absolute form of the path of an existing file or folder; any other text is returned unchanged."""
    full = expand_path(path)
    return str(full.absolute()) if path and os.path.exists(full) else path  # Path.exists refuses some names


@dataclass(frozen=True)
class ImageConfig(TrainConfig):
    """Options of runs that train on images."""

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("size", "limit", "binarize"),
        "run": ("mixed_precision", "evaluate_images"),
    }

    data: str = "sample"
    """Name of a data set (see hardmax data list), a folder of images, or an .npz, .npy or IDX file."""
    size: int | None = None
    """Height and width in pixels to resize images of a folder or of celeba to; default: their median height and
    width; for celeba 64."""
    limit: int | None = None
    """Maximum number of images to read from a folder or from celeba, evenly spread over it; default: all."""
    binarize: Literal["threshold", "stochastic", "none"] = "threshold"
    """How pixels become 0 or 1: threshold at 0.5 (as in the paper's code), stochastic (sampled each time an image is
    used), or none (left grey, or in colour: rounding leaves 8 colours)."""
    mixed_precision: bool = False
    """Compute in bfloat16 where it is safe (GPU only)."""
    evaluate_images: int = 10_000
    """Maximum number of images per split to evaluate after each epoch; 500 if z has more than 1,024 values."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("size", "limit")
        if self.mixed_precision and self.device == "cpu":
            raise ArgumentError("mixed-precision needs a GPU: give --device cuda, or leave it out")


if TYPE_CHECKING:
    EstimatorName = str
else:  # the command line shows the choices and rejects all other values
    EstimatorName = Literal["auto", *ESTIMATORS]


@dataclass(frozen=True)
class EstimatorConfig(TrainConfig):
    """Options of runs that train through an arg max."""

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "estimator": (
            "estimator", "draws", "epsilon", "two_sided", "tau", "hard", "anneal", "anneal_every", "epsilon_floor",
            "tau_floor", "direct_epochs", "shortlist", "shortlist_variables", "samples", "baseline",
        ),
    }  # fmt: skip

    estimator: EstimatorName = "auto"
    """Estimator of the encoder's gradient. auto chooses by the space: for one categorical variable posterior direct,
    then the exact gradient; for several variables local expectation with roulette, or with a convolutional decoder and
    20 or more other values of z the Gibbs covariance with 16 samples; the same for structured z; for more than 20
    pairwise bits the conditional gradient with roulette."""
    draws: Literal["perturb-and-map", "gibbs"] = "perturb-and-map"
    """How the conditional gradient samples z: by perturb-and-MAP, or exactly from the Gibbs distribution."""
    epsilon: float = 1.0
    """Size of the perturbation by f (direct family), or step size (implicit-mle)."""
    two_sided: bool = False
    """Perturb in both directions, for a smaller bias (direct, averaged-direct, implicit-mle)."""
    tau: float = 1.0
    """Temperature (gumbel-softmax, straight-through family); for rebar the initial temperature."""
    hard: bool = False
    """Pass one-hot z to the decoder instead of relaxed z (gumbel-softmax)."""
    anneal: float = 0.0
    """Multiply epsilon and tau by exp(-ANNEAL * step); the paper uses 1e-5."""
    anneal_every: int = 1000
    """Number of steps between two updates of epsilon and tau."""
    epsilon_floor: float = 0.1
    """Lower limit of epsilon when it is annealed."""
    tau_floor: float = 0.5
    """Lower limit of tau when it is annealed."""
    direct_epochs: int | None = None
    """Number of epochs of posterior direct before the exact gradient (auto, one categorical variable); default: half
    of --epochs."""
    shortlist: int = 4
    """Number of values of each variable that shortlist-direct evaluates per image and step."""
    shortlist_variables: int | None = None
    """Number of variables, chosen at random in each step, that shortlist-direct evaluates per image; default: all."""
    samples: int | None = None
    """Number of samples of z per image and step; default: 1; for gibbs-covariance 16."""
    baseline: Literal["none", "mean", "leave-one-out"] = "mean"
    """Baseline of reinforce, subtracted from f to reduce the variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("samples", "anneal_every", "shortlist_variables")
        self.need_positive("epsilon", "tau", "epsilon_floor", "tau_floor")
        if self.estimator == "reinforce" and self.baseline == "leave-one-out":
            check_two_samples("baseline leave-one-out", self.samples or 1)

    @property
    def unused_options(self) -> set[str]:
        """Options that have no effect: those of other estimators."""
        if self.estimator == "auto":
            return super().unused_options | find_unused_options(("epsilon", "two_sided"))
        return super().unused_options | find_unused_options(ESTIMATORS[self.estimator].options) | {"direct_epochs"}

    @property
    def epochs_of_direct(self) -> int:
        """Epochs of posterior direct; half of all where `direct_epochs` is None."""
        return (self.epochs + 1) // 2 if self.direct_epochs is None else self.direct_epochs


@dataclass(frozen=True)
class VAEConfig(EstimatorConfig, ImageConfig):
    """Options of runs that train a variational auto-encoder of images through an arg max."""

    groups: ClassVar[dict[str, tuple[str, ...]]] = {"estimator": ("kl",)}

    kl: Literal["auto", "beside", "none"] = "auto"
    """How the KL divergence enters the encoder's gradient: beside (a separate term, as in the paper), none (as in the
    paper's released code for direct), or auto (inside f for direct, else beside)."""
