"""What a report has to know of a space: what z is made of, what may be changed alone, the mean of z."""

from dataclasses import dataclass
from math import prod

from torch import Tensor

from hardmax.spaces import AbstractSpace
from hardmax.training.discrete.config import DiscreteConfig, SpaceName


@dataclass(frozen=True)
class Words:
    """What a variable of z and one of its values are called."""

    variable: str
    value: str = "value"


WORDS: dict[SpaceName, Words] = {
    "categorical": Words("variable"),
    "binary": Words("bit"),
    "pairwise": Words("bit"),
    "subset": Words("item"),
    "chain": Words("place", "state"),
    "permutation": Words("item", "place"),
    "spanning-tree": Words("edge"),
}


def latent(config: DiscreteConfig) -> str:
    """Say what z is."""
    n, k = config.variables, config.categories
    bits = f"{n} bits" if n > 1 else "one bit"
    match config.space:
        case "categorical":
            return f"one categorical variable of {k} values" if n == 1 else f"{n} categorical variables of {k} values"
        case "binary":
            return bits
        case "pairwise":
            who = "in pairs" if config.graph == "complete" else "each with the next"
            return f"{bits} that interact {who}{' and never repel' * config.supermodular}"
        case "subset":
            return f"subsets of {config.chosen} out of {n} items"
        case "chain":
            return f"chains of {n} places with {k} states"
        case "permutation":
            return f"permutations of {n} items"
        case "spanning-tree":
            return f"spanning trees of {n} nodes"


def of_bits(space: AbstractSpace) -> bool:
    """Whether z is a vector of zeros and ones; else its last dimension is one-hot."""
    return space.categories is None and len(space.event_shape) == 1


def free(space: AbstractSpace) -> bool:
    """Whether every variable may take any value, whatever the others are."""
    if of_bits(space):
        return space.size == 2 ** space.event_shape[0]
    return space.size == space.event_shape[-1] ** prod(space.event_shape[:-1])


def mean_of(space: AbstractSpace, scores: Tensor) -> Tensor | None:
    """Return `E_q[z]` of scores, `[*B, *score] -> [*B, *event]`, or None where the space cannot tell."""
    if not space.offers("marginals"):
        return None
    # Marginals are means of statistics. Where those are more than z, the relaxation has the mean of z at temperature 1.
    return space.marginals(scores) if space.score_shape == space.event_shape else space.relax(scores, 1.0)


def names_of(space: AbstractSpace, config: DiscreteConfig) -> list[str]:
    """Return a name for each variable of z: its number, or the two nodes that an edge joins."""
    if config.space == "spanning-tree":
        return [f"{i}–{j}" for i in range(config.variables) for j in range(i + 1, config.variables)]
    return [str(i) for i in range(space.event_shape[0])]
