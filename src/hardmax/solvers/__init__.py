"""Solvers of the arg max, the best z for given scores: arrays in, arrays out, no gradients. One file per algorithm."""

from hardmax.solvers.pairwise import Solver, pairwise_argmax, solve_pairwise
from hardmax.solvers.solution import Solution

__all__ = ["Solution", "Solver", "pairwise_argmax", "solve_pairwise"]
