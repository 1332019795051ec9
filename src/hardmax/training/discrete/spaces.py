"""What z of a discrete VAE may be."""

from hardmax.spaces import (
    AbstractSpace,
    Binary,
    Categorical,
    Chain,
    PairwiseBinary,
    Permutation,
    SpanningTree,
    Subset,
)
from hardmax.training.discrete.config import DiscreteConfig


def make_space(config: DiscreteConfig) -> AbstractSpace:
    """Return the space that a configuration asks for."""
    n = config.variables
    match config.space:
        case "categorical":
            return Categorical(config.categories, None if n == 1 else n)
        case "binary":
            return Binary(n)
        case "pairwise":
            edges = [(i, i + 1) for i in range(n - 1)] if config.graph == "chain" else None
            return PairwiseBinary(n, edges, config.supermodular, config.solver)  # pyright: ignore[reportArgumentType]
        case "subset":
            return Subset(n, config.chosen)
        case "chain":
            return Chain(n, config.categories)
        case "permutation":
            return Permutation(n)
        case "spanning-tree":
            return SpanningTree(n)
