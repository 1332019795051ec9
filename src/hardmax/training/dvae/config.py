"""What the training of a dVAE is told. No torch here: the command line shows its help from this file."""

from dataclasses import dataclass
from typing import Literal

from hardmax.errors import ArgumentError
from hardmax.training.estimator_config import EstimatorName
from hardmax.training.vae_config import VAEConfig


@dataclass(frozen=True)
class DvaeConfig(VAEConfig):
    """Train a dVAE: pictures as grids of tokens from a codebook, and back.

    Example: hardmax train --model dvae --data fashion-mnist --epochs 10 --out runs/dvae
    """

    model: Literal["dvae"] = "dvae"
    """What is trained: dvae, or another model with options of its own (hardmax train --help)."""
    codes: int = 128
    """Codes in the codebook: values that a token may have."""
    grid: int = 8
    """Longest side of the grid of tokens: a picture is halved until none of its sides is longer (28 x 28 pixels become
    7 x 7 tokens, 64 x 64 become 8 x 8)."""
    dimensions: int = 32
    """Of a code."""
    width: int = 32
    """Channels of the networks."""
    quantize: Literal["draw", "nearest"] = "draw"
    """draw: tokens are drawn from the encoder's distribution (dVAE), and --estimator says how it learns; nearest: they
    are the nearest codes, and the gradient goes past them (VQ-VAE)."""
    estimator: EstimatorName = "auto"
    """How the encoder's gradient is estimated. auto: ReinMax, the best measured. Direct and local expectation
    decode every value of every token: shortlist-direct does a few of them."""
    shortlist_variables: int | None = 4
    """Tokens that shortlist-direct looks at for each picture and step, others every time."""
    epsilon: float = 0.1
    """How strongly f perturbs the arg max. With 1 each token goes all the way to what is best given the others, however
    little they agree, and the codebook dies out."""
    tau_floor: float = 0.25
    """Smallest tau that annealing goes down to."""
    anneal: float = 0.0
    """Rate r of exp(-r step), which epsilon and tau are multiplied by; 0: tau of Gumbel-softmax falls to --tau-floor
    over three quarters of the run, and all else stays."""
    anneal_every: int = 10
    """Steps between two updates of epsilon and tau."""
    kl_weight: float = 1.0
    """Weight of the KL, in nats for a picture as the reconstruction is: 1 is the bound; less gives finer pictures whose
    tokens are harder to predict."""
    kl_warmup: float = 0.2
    """Part of the run over which the weight of the KL rises from 0; 0: not at all."""
    commitment: float = 0.25
    """Weight of the distance that draws the encoder to its codes (nearest)."""
    revive_every: int = 50
    """Steps between two looks for codes that are hardly used, in the first half of the run; they are moved to where
    codes are missed."""
    revive_below: float = 0.05
    """How much less than the mean of all codes one must be used for that; 0: no code is ever moved."""
    likelihood: Literal["auto", "bernoulli", "gaussian"] = "auto"
    """Distribution of the pixels given the tokens; auto: gaussian with a learned variance, bernoulli where pixels are
    made zeros and ones."""
    binarize: Literal["threshold", "stochastic", "none"] = "none"
    """Grey to black and white: rounded at 0.5, drawn once, or left as it is."""
    evaluate_images: int = 2_000
    """Most pictures of a split that are evaluated after each epoch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("grid", "dimensions", "width", "revive_every")
        if self.codes < 2:
            raise ArgumentError(f"codes must be at least 2, got {self.codes}")
        for name in ("kl_weight", "commitment", "revive_below", "anneal"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name.replace('_', '-')} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.kl_warmup <= 1:
            raise ArgumentError(f"kl-warmup must be from 0 to 1, a part of the run, got {self.kl_warmup}")

    @property
    def learning_rate(self) -> float:
        """The learning rate, chosen where it was left open."""
        return 2e-3 if self.lr is None else self.lr
