"""What may z be, and what is the best z for given scores? One file per space."""

from hardmax.spaces.abstract import AbstractFactorised, AbstractSpace
from hardmax.spaces.binary import Binary
from hardmax.spaces.categorical import Categorical
from hardmax.spaces.chain import Chain
from hardmax.spaces.pairwise_binary import PairwiseBinary
from hardmax.spaces.permutation import Permutation
from hardmax.spaces.spanning_tree import SpanningTree
from hardmax.spaces.subset import Subset

__all__ = [
    "AbstractFactorised",
    "AbstractSpace",
    "Binary",
    "Categorical",
    "Chain",
    "PairwiseBinary",
    "Permutation",
    "SpanningTree",
    "Subset",
]
