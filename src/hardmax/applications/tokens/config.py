"""Options of a dVAE, of a prior over its tokens, and of `hardmax tokenize` and `detokenize`. Imports no torch."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from hardmax.applications.argument_parser import Argument, Metavar
from hardmax.errors import ArgumentError
from hardmax.training.config import EstimatorName, ImageConfig, VAEConfig, make_absolute


@dataclass(frozen=True)
class DvaeConfig(VAEConfig):
    """Train a dVAE: a variational auto-encoder that turns images into grids of tokens, and back.

    A token is the number of a code, a vector in a codebook that is learned.

    Example: hardmax train --model dvae --data fashion-mnist --epochs 10 --out runs/dvae
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "model": ("codes", "grid", "dimensions", "width", "quantize", "likelihood"),
        "optimisation": ("kl_weight", "kl_warmup", "commitment", "revive_every", "revive_below"),
    }

    model: Literal["dvae"] = "dvae"
    codes: int = 128
    """Number of codes in the codebook, which is the number of values of a token."""
    grid: int = 8
    """Longest side of the token grid: an image is halved until no side is longer (28 x 28 pixels become 7 x 7 tokens,
    64 x 64 become 8 x 8)."""
    dimensions: int = 32
    """Number of dimensions of a code."""
    width: int = 32
    """Number of channels of the networks."""
    quantize: Literal["draw", "nearest", "rotate", "average", "linear", "finite"] = "draw"
    """How the encoder chooses tokens. draw: it samples them, and --estimator estimates its gradient (dVAE). All others
    take the nearest codes. nearest: the gradient bypasses this choice (VQ-VAE); rotate: it is rotated, too (rotation
    trick); average: as nearest, and codes are running means of vectors (EMA); linear: as nearest, and codes are a
    learned linear map of fixed vectors (SimVQ); finite: each entry of a vector is rounded to a few levels (FSQ)."""
    estimator: EstimatorName = "auto"
    """Estimator of the encoder's gradient. auto: ReinMax, the best in our measurements. Direct and local expectation
    decode every value of every token; shortlist-direct decodes only a few."""
    shortlist_variables: int | None = 4
    """Number of tokens that shortlist-direct evaluates for each image and step; different ones each time."""
    epsilon: float = 0.1
    """Size of the perturbation (direct family). With 1 each token moves all the way to its best value given the other
    tokens, even where these disagree, and most codes become unused."""
    tau_floor: float = 0.25
    """Lower limit of tau when it is annealed."""
    anneal: float = 0.0
    """Multiply epsilon and tau by exp(-ANNEAL * step). 0: tau of gumbel-softmax falls to --tau-floor over three
    quarters of the run, and nothing else changes."""
    anneal_every: int = 10
    """Number of steps between two updates of epsilon and tau."""
    kl_weight: float = 1.0
    """Weight of the KL divergence; both it and the reconstruction are in nats per image. 1 is the variational bound; a
    lower weight gives finer images, whose tokens are harder to predict."""
    kl_warmup: float = 0.2
    """Fraction of the run over which the weight of the KL rises from 0 to --kl-weight; 0: no warm-up."""
    commitment: float = 0.25
    """Weight of the commitment loss, which pulls the encoder's vectors to their codes (--quantize other than draw and
    finite)."""
    revive_every: int = 50
    """Number of steps between two searches for rarely used codes, in the first half of the run; these codes are moved
    to vectors that are far from all other codes."""
    revive_below: float = 0.05
    """A code is rarely used if its count is below this fraction of the mean count; 0: no code is ever moved."""
    likelihood: Literal["auto", "bernoulli", "gaussian"] = "auto"
    """Distribution of the pixels given the tokens. auto: gaussian with a learned variance; bernoulli if --binarize
    makes the pixels 0 or 1."""
    binarize: Literal["threshold", "stochastic", "none"] = "none"
    """How grey pixels become 0 or 1: threshold at 0.5, stochastic (sampled once), or none (left grey)."""
    evaluate_images: int = 2_000
    """Maximum number of images per split to evaluate after each epoch."""

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
    def codebook(self) -> Literal["gradient", "average", "linear", "finite"]:
        """How the codes learn."""
        names = {"average": "average", "linear": "linear", "finite": "finite"}
        return names.get(self.quantize, "gradient")  # pyright: ignore[reportReturnType]

    @property
    def learning_rate(self) -> float:
        """The learning rate; 2e-3 by default."""
        return 2e-3 if self.lr is None else self.lr


_RELAXED_ESTIMATORS = ("gumbel-softmax", "gumbel-rao")
_ANNEALING = 0.75  # fraction of the run; the rest is trained at the final temperature
_REVIVAL = 0.5  # fraction of the run; codes that are moved later are not trained long enough


def kl_weight_at(config: DvaeConfig, step: int, steps: int) -> float:
    """Return the weight of the KL at a step of a run of `steps` steps."""
    warm = config.kl_warmup * steps
    return config.kl_weight * (min(1.0, step / warm) if warm else 1.0)


def resolve_estimator(config: DvaeConfig, steps: int) -> DvaeConfig:
    """Return the configuration with defaults for the estimator and its annealing rate filled in."""
    if config.estimator == "auto":
        config = replace(config, estimator="reinmax")
    if config.anneal or config.estimator not in _RELAXED_ESTIMATORS or config.tau_floor >= config.tau:
        return config
    return replace(config, anneal=math.log(config.tau / config.tau_floor) / max(_ANNEALING * steps, 1.0))


def is_revival_step(config: DvaeConfig, step: int, steps: int) -> bool:
    """Whether rarely used codes are moved before a step; never before the first one, when nothing is counted yet."""
    return step > 0 and step % config.revive_every == 0 and step < _REVIVAL * steps and config.revive_below > 0


@dataclass(frozen=True)
class TokenPriorConfig(ImageConfig):
    """Train a prior over the tokens of a dVAE: an autoregressive transformer, which then generates images.

    Example: hardmax train --model token-prior --tokenizer runs/dvae --epochs 10 --out runs/prior
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {"model": ("tokenizer", "width", "layers", "heads")}

    model: Literal["token-prior"] = "token-prior"
    tokenizer: Annotated[str, Metavar("RUN")] = ""
    """Folder of a run of hardmax train --model dvae; its best model becomes a part of this model (required)."""
    data: str = ""
    """Images whose tokens are learned; default: the images that the dVAE was trained on. They are read with the --size,
    --limit and --binarize of the dVAE."""
    width: int = 128
    """Width of the transformer, a multiple of --heads."""
    layers: int = 3
    """Number of layers of the transformer."""
    heads: int = 4
    """Number of attention heads of each layer."""
    evaluate_images: int = 2_000
    """Maximum number of images per split to evaluate after each epoch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("width", "layers", "heads")
        if self.width % self.heads:
            raise ArgumentError(f"width must be a multiple of --heads {self.heads}, got {self.width}")

    def make_paths_absolute(self) -> "TokenPriorConfig":
        """Return the options with absolute paths, also that of the dVAE."""
        return replace(super().make_paths_absolute(), tokenizer=make_absolute(self.tokenizer))


@dataclass(frozen=True)
class TokenizeOptions:
    """Turn images into tokens of a trained dVAE: a grid of integers for each image, all in one .npz file.

    Examples:
      hardmax tokenize runs/dvae photos/ --out tokens.npz
      hardmax tokenize runs/dvae fashion-mnist
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of a run of hardmax train --model dvae."""
    images: Annotated[tuple[str, ...], Argument("IMAGES")]
    """Image files; or one folder of them, one .npz, .npy or IDX file, or the name of a data set."""
    out: str = "tokens.npz"
    """File to write: arrays tokens [N, h, w], names [N], codes (their number) and model (a hash of its weights)."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint: the best on the validation set, or the latest."""
    data_dir: str | None = None
    """Folder that contains the named data sets; default: the one that the run used."""
    device: str = "cpu"
    """Device: cpu, cuda, ..."""

    def __post_init__(self) -> None:
        if not self.out.lower().endswith(".npz"):
            raise ArgumentError(f"out must be an .npz file, got {self.out!r}")


@dataclass(frozen=True)
class DetokenizeOptions:
    """Turn tokens back into images, with the dVAE that computed them.

    Example: hardmax detokenize runs/dvae tokens.npz --out reconstructed
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of the run whose model computed the tokens."""
    tokens: Annotated[str, Argument("TOKENS")]
    """File that hardmax tokenize wrote."""
    out: str = "detokenized"
    """Folder to write one PNG file per image to, named as in the token file; or one .npz file for all images."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint: the best on the validation set, or the latest."""
    device: str = "cpu"
    """Device: cpu, cuda, ..."""
