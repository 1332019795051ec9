"""Options of a dVAE, of a prior over its tokens, and of `hardmax tokenize` and `detokenize`. No torch here."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import tyro

from hardmax.errors import ArgumentError
from hardmax.training.config import EstimatorName, PictureConfig, VAEConfig


@dataclass(frozen=True)
class DvaeConfig(VAEConfig):
    """Train a dVAE: pictures as grids of tokens from a codebook, and back.

    Example: hardmax train --model dvae --data fashion-mnist --epochs 10 --out runs/dvae
    """

    model: Literal["dvae"] = "dvae"
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
        """The learning rate; 2e-3 by default."""
        return 2e-3 if self.lr is None else self.lr


_RELAXED = ("gumbel-softmax", "gumbel-rao")
_COOLING = 0.75  # part of the run; the rest is trained at the final temperature
_TENDING = 0.5  # part of the run; codes that are moved later are not trained long enough


def kl_weight_at(config: DvaeConfig, step: int, steps: int) -> float:
    """Return the weight of the KL at a step of `steps`."""
    warm = config.kl_warmup * steps
    return config.kl_weight * (min(1.0, step / warm) if warm else 1.0)


def resolve_estimator(config: DvaeConfig, steps: int) -> DvaeConfig:
    """Return the configuration with defaults for the estimator and its annealing rate filled in."""
    if config.estimator == "auto":
        config = replace(config, estimator="reinmax")
    if config.anneal or config.estimator not in _RELAXED or config.tau_floor >= config.tau:
        return config
    return replace(config, anneal=math.log(config.tau / config.tau_floor) / max(_COOLING * steps, 1.0))


def is_tended(config: DvaeConfig, step: int, steps: int) -> bool:
    """Whether rarely used codes are moved before a step; not before the first one, which has no counts."""
    return step > 0 and step % config.revive_every == 0 and step < _TENDING * steps and config.revive_below > 0


@dataclass(frozen=True)
class TokenPriorConfig(PictureConfig):
    """Train a prior over the tokens of a dVAE, so that it generates pictures.

    Example: hardmax train --model token-prior --tokenizer runs/dvae --epochs 10 --out runs/prior
    """

    model: Literal["token-prior"] = "token-prior"
    tokenizer: str = ""
    """Folder of a run of hardmax train --model dvae; its best model becomes a part of this one."""
    data: str = ""
    """Pictures whose tokens are learned; default: those that the dVAE was trained on. They are read as it reads them:
    --size, --limit and --binarize are its own."""
    width: int = 128
    """Of the transformer, a multiple of --heads."""
    layers: int = 3
    """Of the transformer."""
    heads: int = 4
    """Of each layer."""
    evaluate_images: int = 2_000
    """Most pictures of a split that are evaluated after each epoch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("width", "layers", "heads")
        if self.width % self.heads:
            raise ArgumentError(f"width must be a multiple of --heads {self.heads}, got {self.width}")


@dataclass(frozen=True)
class TokenizeOptions:
    """Turn pictures into tokens of a trained dVAE: a grid of whole numbers for each, in one .npz file.

    Examples: hardmax tokenize runs/dvae photos/ --out tokens.npz; hardmax tokenize runs/dvae fashion-mnist
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run of hardmax train --model dvae."""
    images: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGES [IMAGES ...]")]
    """Picture files; or one folder of them, one .npz, .npy or IDX file, or the name of a data set."""
    out: str = "tokens.npz"
    """File to write: arrays tokens [N, h, w], names [N], codes (how many there are) and model (whose they are)."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    data_dir: str | None = None
    """Folder that holds the named data sets."""
    device: str = "cpu"
    """cpu, cuda, ..."""

    def __post_init__(self) -> None:
        if not self.out.lower().endswith(".npz"):
            raise ArgumentError(f"out must be an .npz file, got {self.out!r}")


@dataclass(frozen=True)
class DetokenizeOptions:
    """Draw pictures from tokens, with the dVAE that made them.

    Example: hardmax detokenize runs/dvae tokens.npz --out drawn
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run that made the tokens."""
    tokens: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TOKENS")]
    """File that hardmax tokenize wrote."""
    out: str = "detokenized"
    """Folder for a PNG file of each picture, under the name that the file has for it; or one .npz file."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    device: str = "cpu"
    """cpu, cuda, ..."""
