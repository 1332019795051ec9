"""Spaces: sets of discrete z with scores, their arg max and distributions. One space per file."""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.spaces.abstract import AbstractFactorised as AbstractFactorised
    from hardmax.spaces.abstract import AbstractSpace as AbstractSpace
    from hardmax.spaces.binary import Binary as Binary
    from hardmax.spaces.categorical import Categorical as Categorical
    from hardmax.spaces.chain import Chain as Chain
    from hardmax.spaces.grid_path import GridPath as GridPath
    from hardmax.spaces.knapsack import Knapsack as Knapsack
    from hardmax.spaces.pairwise_binary import PairwiseBinary as PairwiseBinary
    from hardmax.spaces.permutation import Permutation as Permutation
    from hardmax.spaces.perturbation import Perturbation as Perturbation
    from hardmax.spaces.shortest_path import ShortestPath as ShortestPath
    from hardmax.spaces.solver_space import SolverSpace as SolverSpace
    from hardmax.spaces.spanning_tree import SpanningTree as SpanningTree
    from hardmax.spaces.subset import Subset as Subset

# Imported when first used, so that the registry can be read without waiting for torch.
_HOMES = {
    "AbstractFactorised": "abstract",
    "AbstractSpace": "abstract",
    "Binary": "binary",
    "Categorical": "categorical",
    "Chain": "chain",
    "GridPath": "grid_path",
    "Knapsack": "knapsack",
    "PairwiseBinary": "pairwise_binary",
    "Permutation": "permutation",
    "Perturbation": "perturbation",
    "ShortestPath": "shortest_path",
    "SolverSpace": "solver_space",
    "SpanningTree": "spanning_tree",
    "Subset": "subset",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = load_lazily(__name__, _HOMES)
