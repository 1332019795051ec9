"""What may z be, and what is the best z for given scores? One file per space."""

from hardmax.spaces.abstract import AbstractSpace
from hardmax.spaces.binary import Binary
from hardmax.spaces.categorical import Categorical
from hardmax.spaces.factorised import AbstractFactorised

__all__ = ["AbstractFactorised", "AbstractSpace", "Binary", "Categorical"]
