"""Arrays in, arrays out, no gradients: the best z for given scores. One file per algorithm."""

from hardmax.solvers.pairwise import Solver, pairwise_argmax, solve_pairwise
from hardmax.solvers.solution import Solution

__all__ = ["Solution", "Solver", "pairwise_argmax", "solve_pairwise"]
