"""Mean and variance of estimates that come in blocks."""

from jaxtyping import Float
from torch import Tensor


class Moments:
    """Sums over estimates. They are of distances from the first one: sums of squares far from zero would cancel."""

    def __init__(self) -> None:
        self.draws = 0
        self._first: Tensor | None = None
        self._total: Tensor | float = 0.0
        self._squares: Tensor | float = 0.0

    def add(self, estimates: Float[Tensor, "D ..."]) -> None:
        """Take in a block, `[D, *B, *score]`."""
        if self._first is None:
            self._first = estimates[0]
        away = estimates - self._first
        self.draws += len(estimates)
        self._total = self._total + away.sum(0)
        self._squares = self._squares + away.square().sum(0)

    @property
    def mean(self) -> Float[Tensor, "..."]:
        """`[*B, *score]`."""
        assert self._first is not None
        return self._first + self._total / self.draws

    @property
    def variance(self) -> Float[Tensor, "..."]:
        """`[*B, *score]`, of one estimate."""
        assert self._first is not None
        away = self.mean - self._first
        return ((self._squares - self.draws * away.square()) / (self.draws - 1)).clamp_min(0)
