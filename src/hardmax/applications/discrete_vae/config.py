"""Options of runs that train a discrete VAE. Imports no torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from hardmax.applications.argument_parser import Metavar
from hardmax.errors import ArgumentError
from hardmax.spaces.registry import SPACES, check_space_options, find_unused_options
from hardmax.training.config import VAEConfig

if TYPE_CHECKING:
    SpaceName = str
else:  # the command line shows the choices and rejects all other values
    SpaceName = Literal[*SPACES]


@dataclass(frozen=True)
class DiscreteConfig(VAEConfig):
    """Train a variational auto-encoder of images with discrete latents.

    Example: hardmax train --data fashion-mnist --categories 10 --epochs 20 --out runs/fashion
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("train_on_validation",),
        "model": (
            "space", "categories", "variables", "chosen", "supermodular", "graph", "solver", "architecture", "hidden",
            "encoder_layers", "decoder_layers", "widths", "activation", "likelihood", "prior",
        ),
    }  # fmt: skip

    model: Literal["discrete"] = "discrete"
    space: SpaceName = "categorical"
    """Space of z: categorical variables; bits, independent or with pairwise interactions; subsets; chains of states;
    permutations; spanning trees."""
    categories: int = 10
    """Number of values of each categorical variable, or of states of a chain."""
    variables: int = 1
    """Number of categorical variables, bits, items of a subset or permutation, steps of a chain, or nodes of a tree."""
    chosen: int = 1
    """Number of items in a subset."""
    supermodular: bool = False
    """Constrain the couplings of pairwise bits to be non-negative, so that the arg max is a min-cut."""
    graph: Literal["complete", "chain"] = "complete"
    """Pairs of bits that interact: all pairs, or neighbours in a chain."""
    solver: Annotated[str, Metavar("NAME")] = "auto"
    """Solver for the arg max of pairwise bits: auto, enumeration, min-cut, branch-and-bound, max-flow, heuristic."""
    architecture: Literal["auto", "mlp", "conv"] = "auto"
    """Networks: fully connected as in the paper (mlp), or convolutional (conv); auto: conv for images over 32 x 32."""
    hidden: int = 300
    """Width of the hidden layer."""
    encoder_layers: int = 1
    """Number of hidden layers of the encoder (mlp only)."""
    decoder_layers: int = 1
    """Number of hidden layers of the decoder (mlp only)."""
    widths: Annotated[tuple[int, ...], Metavar("INT")] = ()
    """Widths of the hidden layers of the encoder, from the image to z; the decoder has them in reverse. Instead of
    --hidden, --encoder-layers and --decoder-layers (mlp only)."""
    activation: Literal["relu", "leaky-relu"] = "relu"
    """Activation after each hidden layer; leaky-relu has slope 0.3 (mlp only)."""
    likelihood: Literal["bernoulli", "gaussian"] = "bernoulli"
    """Distribution of the pixels given z."""
    prior: Literal["uniform", "learned"] = "uniform"
    """Prior distribution of z."""
    train_on_validation: bool = False
    """Also train on the validation images, as publications do that report the bound of all training images. The
    validation bound is then one of training images, and cannot stop a run early."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("categories", "variables", "hidden", "encoder_layers", "decoder_layers")
        check_space_options(self)
        if any(width < 1 for width in self.widths):
            raise ArgumentError(f"widths must be at least 1, got {' '.join(map(str, self.widths))}")
        if self.widths and (self.encoder_layers, self.decoder_layers) != (1, 1):
            raise ArgumentError("widths says how many layers there are: leave out encoder-layers and decoder-layers")
        for name in ("supermodular", "graph", "solver"):
            if self.space != "pairwise" and getattr(self, name) != getattr(type(self), name):
                raise ArgumentError(f"{name} is for --space pairwise, not for --space {self.space}; leave it out")

    @property
    def unused_options(self) -> set[str]:
        """Options that have no effect: those of other spaces and estimators."""
        sizes = {"hidden"} if self.widths else set()
        return super().unused_options | find_unused_options(self.space) | sizes

    @property
    def learning_rate(self) -> float:
        """The learning rate; where `lr` is None, the default of the space."""
        if self.lr is not None:
            return self.lr
        if self.space in ("categorical", "binary"):
            return 1e-3 if self.space == "categorical" and self.variables == 1 else 3e-3
        return 2e-3
