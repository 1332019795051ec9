"""What a training run is told. No torch here: the command line shows its help from this file."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hardmax.errors import ArgumentError, DataError

EstimatorName = Literal[
    "auto",
    "direct",
    "adaptive-direct",
    "averaged-direct",
    "debiased-direct",
    "exact",
    "local-expectation",
    "gibbs-covariance",
    "conditional",
    "reinforce",
    "unordered-set",
    "rebar",
    "muprop",
    "double-control-variates",
    "rodeo",
    "disarm",
    "arm",
    "arsm",
    "gumbel-softmax",
    "gumbel-rao",
    "straight-through",
    "gapped-straight-through",
    "reinmax",
    "implicit-mle",
    "adaptive-implicit-mle",
]
SpaceName = Literal["categorical", "binary", "pairwise", "subset", "chain", "permutation", "spanning-tree"]

PLACES = ("out", "resume", "data_dir", "devices")
"""Fields of `TrainConfig` that say where a run is, and nothing about what it is."""


@dataclass(frozen=True)
class TrainConfig:
    """Train a variational auto-encoder with discrete latents.

    Example: hardmax train --data fashion-mnist --categories 10 --epochs 20 --out runs/fashion
    """

    data: str = "sample"
    """A data set by name (sample, mnist, fashion-mnist, omniglot), a folder of pictures, an .npz, .npy or IDX file."""
    out: str = "run"
    """Folder that the run is written to."""
    resume: bool = False
    """Go on with the run in --out; only --epochs (what is timed by their number is stretched) and --devices may be
    changed."""
    data_dir: str | None = None
    """Folder that holds the named data sets; default: the environment variable HARDMAX_DATA."""
    space: SpaceName = "categorical"
    """What z may be: categorical variables; bits, independent or interacting in pairs; a subset, a chain of states, a
    permutation, a spanning tree."""
    categories: int = 10
    """Values of each categorical variable, or states of a chain."""
    variables: int = 1
    """Number of categorical variables, of bits, of items to choose from or to order, of states or of nodes."""
    chosen: int = 1
    """Items in a subset."""
    supermodular: bool = False
    """Keep the couplings of pairwise bits at zero or above, so that the arg max is a min-cut."""
    graph: Literal["complete", "chain"] = "complete"
    """Which pairs of bits interact: all, or each with the next."""
    solver: str = "auto"
    """What solves the arg max of pairwise bits: auto, enumeration, min-cut, branch-and-bound, max-flow, heuristic."""
    estimator: EstimatorName = "auto"
    """How the encoder's gradient is estimated. auto: for one categorical posterior direct, then the exact gradient;
    for several variables local expectation with roulette; for structured z the Gibbs covariance with 16 samples, for
    more than 20 pairwise bits the conditional gradient with roulette."""
    draws: Literal["perturb-and-map", "gibbs"] = "perturb-and-map"
    """Where the z of the conditional gradient come from."""
    kl: Literal["auto", "beside", "none"] = "auto"
    """How the KL takes part in the encoder's gradient: auto (inside the objective of direct, else beside), beside
    (the paper's form), none (what the paper's released code trains with direct)."""
    epsilon: float = 1.0
    """Strength of the perturbation of direct; step of implicit-mle."""
    two_sided: bool = False
    """Perturb in both directions (direct)."""
    tau: float = 1.0
    """Temperature of Gumbel-softmax and the straight-through family; where rebar's starts."""
    hard: bool = False
    """Let the decoder see hard z (Gumbel-softmax)."""
    anneal: float = 0.0
    """Rate r of exp(-r step), which epsilon and tau are multiplied by; the paper's is 1e-5."""
    anneal_every: int = 1000
    """Steps between two updates of epsilon and tau."""
    epsilon_floor: float = 0.1
    """Smallest epsilon that annealing goes down to."""
    tau_floor: float = 0.5
    """Smallest tau that annealing goes down to."""
    direct_epochs: int | None = None
    """Epochs of posterior direct before the exact gradient, with --estimator auto, one categorical; default: half."""
    samples: int | None = None
    """Samples of z for each picture and step; default: 1, for the Gibbs covariance 16."""
    baseline: Literal["none", "mean", "leave-one-out"] = "mean"
    """Baseline of reinforce."""
    epochs: int = 20
    """How often the training pictures are gone through."""
    starts: int = 1
    """Initial weights that are tried; the one with the best bound on the validation pictures is trained."""
    start_epochs: int = 4
    """Epochs that each of several starts is tried for; they are not counted in --epochs."""
    batch_size: int = 100
    """Pictures in a step, of all --devices together."""
    lr: float | None = None
    """Learning rate of Adam; default, as measured best: 1e-3 for one categorical, 3e-3 for several variables, 2e-3 for
    structured z."""
    lr_schedule: Literal["linear", "constant"] = "linear"
    """linear: constant for half of the run, then down to zero, which takes the noise out of the end; or constant."""
    seed: int = 0
    """Seed of all randomness."""
    binarize: Literal["threshold", "stochastic", "none"] = "threshold"
    """Grey to black and white: rounded at 0.5 (as in the paper's code), drawn anew each time, or left grey."""
    architecture: Literal["auto", "mlp", "conv"] = "auto"
    """Networks: the paper's with one hidden layer, or convolutional; auto: convolutional for pictures over 32 x 32."""
    hidden: int = 300
    """Width of the hidden layer."""
    encoder_layers: int = 1
    """Hidden layers of the encoder (mlp)."""
    decoder_layers: int = 1
    """Hidden layers of the decoder (mlp)."""
    likelihood: Literal["bernoulli", "gaussian"] = "bernoulli"
    """Distribution of the pixels given z."""
    prior: Literal["uniform", "learned"] = "uniform"
    """Distribution of z."""
    clip: float | None = None
    """Largest norm of the gradient; larger ones are scaled down."""
    patience: int | None = None
    """Stop after so many epochs without a better bound on the validation pictures."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, mps, ..."""
    devices: int = 1
    """Processes on this machine that share every batch, on a GPU each with --device cuda; the result is the same."""
    mixed_precision: bool = False
    """Compute in bfloat16 where that is safe (GPU only)."""
    evaluate_images: int = 10_000
    """Most pictures of a split that are evaluated after each epoch (500 where z has more than 1,024 values)."""
    checkpoint_every: int | None = None
    """Steps between two checkpoints, beside the one after each epoch."""

    def __post_init__(self) -> None:
        for name in (
            "categories",
            "variables",
            "samples",
            "epochs",
            "starts",
            "start_epochs",
            "batch_size",
            "devices",
            "hidden",
            "encoder_layers",
            "decoder_layers",
            "anneal_every",
        ):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ArgumentError(f"{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        for name in ("epsilon", "tau", "lr", "epsilon_floor", "tau_floor"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ArgumentError(f"{name.replace('_', '-')} must be positive, got {getattr(self, name)}")
        if self.estimator == "reinforce" and self.baseline == "leave-one-out" and (self.samples or 1) < 2:
            raise ArgumentError(f"baseline leave-one-out needs --samples 2 or more, got {self.samples or 1}")
        for name in ("supermodular", "graph", "solver"):
            if self.space != "pairwise" and getattr(self, name) != getattr(type(self), name):
                raise ArgumentError(f"{name} is for --space pairwise, not for --space {self.space}; leave it out")
        if self.mixed_precision and self.device == "cpu":
            raise ArgumentError("mixed-precision needs a GPU: give --device cuda, or leave it out")

    @property
    def epochs_of_direct(self) -> int:
        """Epochs of posterior direct, chosen where they were left open."""
        return (self.epochs + 1) // 2 if self.direct_epochs is None else self.direct_epochs

    @property
    def learning_rate(self) -> float:
        """The learning rate, chosen where it was left open."""
        if self.lr is not None:
            return self.lr
        if self.space in ("categorical", "binary"):
            return 1e-3 if self.space == "categorical" and self.variables == 1 else 3e-3
        return 2e-3

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return dataclasses.asdict(self)


def read_config(folder: str | Path) -> tuple[TrainConfig, dict[str, Any]]:
    """Return the configuration of the run in a folder, and all that its `config.json` says.

    Raises:
        DataError: no run is there, or its configuration is broken.
    """
    path = Path(folder) / "config.json"
    try:
        said = json.loads(path.read_text())
        return TrainConfig(**said["config"]), said
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} holds no run: {path} is missing; make one with hardmax train --out {folder}"
        ) from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not the configuration of a run: {error}") from error
