"""A cache of solutions: the best of those seen so far replaces a solve, and it is counted how often that is right."""

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.random import make_generator


class SolutionCache:
    r"""Distinct solutions of earlier problems, the newest `size` of them.

    The feasible set is the same for all problems, so that every stored z is feasible for each of them, and
    $\max_{z \in \mathrm{cache}} \langle \mathrm{scores}, \mathrm{statistics}(z) \rangle$ is a lower bound of the
    maximum. Whenever a problem is solved, the cache is compared with the solution: `accuracy` is the share of problems
    for which the best stored z was as good.

    Args:
        size: number of solutions to keep, at least 1.
        reuse: probability that a problem is answered from the cache, once it is not empty; 0 to 1.
        seed: of the random choice of these problems.

    Raises:
        ArgumentError: size < 1, or reuse outside 0 ... 1.

    Attributes:
        checked: number of problems for which the cache was compared with the solver.
        right: number of those for which the best stored z was as good as the solution.
        reused: number of problems that were answered from the cache.

    References:
        Mulamba, Mandi, Diligenti, Lombardi, Bucarey & Guns, "Contrastive losses and solution caching for
        predict-and-optimize", 2021.
    """

    def __init__(self, size: int, reuse: float = 0.0, seed: int = 0) -> None:
        if size < 1:
            raise ArgumentError(f"a cache keeps at least one solution, got {size}")
        if not 0 <= reuse <= 1:
            raise ArgumentError(f"reuse must be a probability, 0 to 1, got {reuse}")
        self.size = size
        self.reuse = reuse
        self.checked = 0
        self.right = 0
        self.reused = 0
        self._seed = seed
        self._calls = 0
        self._z: Tensor | None = None
        self._statistics: Tensor | None = None

    def __len__(self) -> int:
        return 0 if self._z is None else len(self._z)

    @property
    def accuracy(self) -> float:
        """Share of the compared problems for which the best stored z was as good as the solution; NaN before any."""
        return self.right / self.checked if self.checked else float("nan")

    @property
    def solutions(self) -> Float64[Tensor, "M ..."]:
        """`[M, *event]`. The stored solutions, oldest first."""
        if self._z is None:
            raise NotExactError("the cache of solutions is empty; solve a problem first")
        return self._z

    def choose_reused(self, count: int) -> Bool[Tensor, "B"]:
        """Choose at random which of the next problems are answered from the cache."""
        if not len(self) or self.reuse == 0:
            return torch.zeros(count, dtype=torch.bool)
        self._calls += 1
        is_reused = torch.rand(count, generator=make_generator(self._seed, "cache", self._calls)) < self.reuse
        self.reused += int(is_reused.sum())
        return is_reused

    def find_best(self, scores: Float64[Tensor, "B D"]) -> tuple[Float64[Tensor, "B ..."], Float64[Tensor, "B"]]:
        """Return the best stored z of each problem `[B, *event]`, and its value `[B]`."""
        assert self._statistics is not None
        value, index = (scores @ self._statistics.mT).max(-1)
        return self.solutions[index], value

    def compare(self, scores: Float64[Tensor, "B D"], value: Float64[Tensor, "B"]) -> None:
        """Count for how many problems the best stored z has the value that the solver reached."""
        if not len(self) or not len(scores):
            return
        tolerance = 1e-9 * scores.abs().sum(-1)
        self.checked += len(scores)
        self.right += int((self.find_best(scores)[1] >= value - tolerance).sum())

    def add(self, z: Float64[Tensor, "B ..."], statistics: Float64[Tensor, "B D"]) -> None:
        """Store solutions that are not stored yet; beyond `size`, the oldest are dropped."""
        if not len(z):
            return
        if self._z is not None and self._statistics is not None:
            z, statistics = torch.cat([self._z, z]), torch.cat([self._statistics, statistics])
        _, index = z.flatten(1).unique(dim=0, return_inverse=True)
        first = torch.full((int(index.max()) + 1,), len(z)).scatter_reduce(0, index, torch.arange(len(z)), "amin")
        kept = first.sort().values[-self.size :]
        self._z, self._statistics = z[kept], statistics[kept]
