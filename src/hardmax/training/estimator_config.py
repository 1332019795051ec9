"""Which estimator of the gradient a run uses. No torch here."""

from dataclasses import dataclass
from typing import Literal

from hardmax.errors import ArgumentError
from hardmax.training.config import TrainConfig

EstimatorName = Literal[
    "auto",
    "direct",
    "adaptive-direct",
    "averaged-direct",
    "debiased-direct",
    "shortlist-direct",
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


@dataclass(frozen=True)
class EstimatorConfig(TrainConfig):
    """What a run is told that trains through an arg max."""

    estimator: EstimatorName = "auto"
    """How the encoder's gradient is estimated. auto: for one categorical posterior direct, then the exact gradient;
    for several variables local expectation with roulette; for structured z the Gibbs covariance with 16 samples, for
    more than 20 pairwise bits the conditional gradient with roulette."""
    draws: Literal["perturb-and-map", "gibbs"] = "perturb-and-map"
    """Where the z of the conditional gradient come from."""
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
    shortlist: int = 4
    """Values of a variable that shortlist-direct evaluates for each picture and step."""
    shortlist_variables: int | None = None
    """Variables that shortlist-direct looks at for each picture and step, others every time; default: all."""
    samples: int | None = None
    """Samples of z for each picture and step; default: 1, for the Gibbs covariance 16."""
    baseline: Literal["none", "mean", "leave-one-out"] = "mean"
    """Baseline of reinforce."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("samples", "anneal_every", "shortlist_variables")
        self.need_positive("epsilon", "tau", "epsilon_floor", "tau_floor")
        if self.estimator == "reinforce" and self.baseline == "leave-one-out" and (self.samples or 1) < 2:
            raise ArgumentError(f"baseline leave-one-out needs --samples 2 or more, got {self.samples or 1}")

    @property
    def epochs_of_direct(self) -> int:
        """Epochs of posterior direct, chosen where they were left open."""
        return (self.epochs + 1) // 2 if self.direct_epochs is None else self.direct_epochs
