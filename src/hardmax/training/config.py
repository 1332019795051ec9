"""Options of training runs. Imports no torch: the command line shows its help from this file."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hardmax.errors import ArgumentError
from hardmax.estimators.registry import ESTIMATORS, check_two_samples, unused_options


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
    examples: str = "pictures"

    @property
    def criterion_name(self) -> str:
        """The name of the criterion in messages."""
        return "bound" if self.criterion == "elbo" else self.criterion

    def score(self, value: float) -> float:
        """Return a value of the criterion such that higher is better."""
        return value if self.higher_is_better else -value


PLACES = ("out", "resume", "data_dir", "devices")
"""Fields of `TrainConfig` that define where a run is stored and executed, not what it computes."""


@dataclass(frozen=True)
class TrainConfig:
    """Options of every run; each application adds its own in its `config.py`."""

    model: str = ""
    """Model to train; each model has options of its own."""
    data: str = "sample"
    """Data to train on."""
    out: str = "run"
    """Folder to write the run to."""
    resume: bool = False
    """Continue the run in --out; only --epochs (epoch-based schedules are rescaled) and --devices may change."""
    data_dir: str | None = None
    """Folder with the named data sets; default: the environment variable HARDMAX_DATA."""
    epochs: int = 20
    """Number of passes over the training set."""
    starts: int = 1
    """Number of initial weights to try; the one that is best on the validation set is trained."""
    start_epochs: int = 4
    """Epochs to train each of several starts before choosing one; not counted in --epochs."""
    batch_size: int = 100
    """Number of examples per step, summed over --devices."""
    lr: float | None = None
    """Learning rate of Adam. Defaults, chosen by measurement: 1e-3; for a discrete VAE 3e-3 with several variables and
    2e-3 with structured z; for a sequence GAN 4e-3."""
    lr_schedule: Literal["linear", "constant"] = "linear"
    """linear: constant for half of the run, then linear decay to zero, which removes noise at the end; or constant."""
    seed: int = 0
    """Random seed."""
    clip: float | None = None
    """Maximum norm of the gradient; larger gradients are scaled down to it."""
    patience: int | None = None
    """Stop after this number of epochs without an improvement on the validation set."""
    device: str = "cpu"
    """Device: cpu, cuda, cuda:1, mps, ..."""
    devices: int = 1
    """Number of processes that share every batch, with one GPU each for --device cuda; the result is the same."""
    checkpoint_every: int | None = None
    """Steps between checkpoints, in addition to the one after each epoch."""

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
        return dataclasses.asdict(self)

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


@dataclass(frozen=True)
class PictureConfig(TrainConfig):
    """Options of runs that train on images."""

    data: str = "sample"
    """Name of a data set (see hardmax data list), folder of images, or .npz, .npy or IDX file."""
    size: int | None = None
    """Height and width to resize images of a folder or of celeba to; default: the most common size; celeba: 64."""
    limit: int | None = None
    """Maximum number of images to read from a folder or from celeba, evenly spread; default: all."""
    binarize: Literal["threshold", "stochastic", "none"] = "threshold"
    """How grey pixels become binary: rounded at 0.5 (as in the paper's code), sampled at every use, or left grey."""
    mixed_precision: bool = False
    """Compute in bfloat16 where it is safe (GPU only)."""
    evaluate_images: int = 10_000
    """Maximum number of images of a split to evaluate after each epoch (500 if z has more than 1,024 values)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("size", "limit")
        if self.mixed_precision and self.device == "cpu":
            raise ArgumentError("mixed-precision needs a GPU: give --device cuda, or leave it out")


if TYPE_CHECKING:
    EstimatorName = str
else:  # tyro shows the choices and rejects all other values
    EstimatorName = Literal["auto", *ESTIMATORS]


@dataclass(frozen=True)
class EstimatorConfig(TrainConfig):
    """Options of runs that train through an arg max."""

    estimator: EstimatorName = "auto"
    """Estimator of the encoder's gradient. auto: for one categorical variable posterior direct, then the exact
    gradient; for several variables local expectation with roulette; for structured z the Gibbs covariance with 16
    samples; for more than 20 pairwise bits the conditional gradient with roulette."""
    draws: Literal["perturb-and-map", "gibbs"] = "perturb-and-map"
    """Samples of z for the conditional gradient: perturb-and-MAP, or exact Gibbs samples."""
    epsilon: float = 1.0
    """Size of the perturbation (direct family); step size (implicit-mle)."""
    two_sided: bool = False
    """Perturb in both directions (direct, averaged-direct, implicit-mle)."""
    tau: float = 1.0
    """Temperature (Gumbel-softmax, straight-through family); initial temperature (rebar)."""
    hard: bool = False
    """Pass hard z to the decoder (Gumbel-softmax)."""
    anneal: float = 0.0
    """Rate r of the annealing factor exp(-r step) of epsilon and tau; the paper uses 1e-5."""
    anneal_every: int = 1000
    """Steps between two updates of epsilon and tau."""
    epsilon_floor: float = 0.1
    """Minimum epsilon of the annealing."""
    tau_floor: float = 0.5
    """Minimum tau of the annealing."""
    direct_epochs: int | None = None
    """Epochs of posterior direct before the exact gradient (auto, one categorical variable); default: half of all."""
    shortlist: int = 4
    """Number of values per variable that shortlist-direct evaluates for each image and step."""
    shortlist_variables: int | None = None
    """Number of variables that shortlist-direct evaluates for each image and step, others each time; default: all."""
    samples: int | None = None
    """Samples of z for each image and step; default: 1; Gibbs covariance: 16."""
    baseline: Literal["none", "mean", "leave-one-out"] = "mean"
    """Baseline of reinforce."""

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
            return super().unused_options | unused_options(("epsilon", "two_sided"))
        return super().unused_options | unused_options(ESTIMATORS[self.estimator].options) | {"direct_epochs"}

    @property
    def epochs_of_direct(self) -> int:
        """Epochs of posterior direct; half of all where `direct_epochs` is None."""
        return (self.epochs + 1) // 2 if self.direct_epochs is None else self.direct_epochs


@dataclass(frozen=True)
class VAEConfig(EstimatorConfig, PictureConfig):
    """Options of runs that train a variational auto-encoder of images through an arg max."""

    kl: Literal["auto", "beside", "none"] = "auto"
    """Where the KL divergence enters the encoder's gradient: auto (inside the objective for direct, else beside),
    beside (a separate term, as in the paper), none (as in the paper's released code for direct)."""
