"""Spaces of independent variables, `q(z) = prod_i q_i(z_i)`."""

from abc import abstractmethod

from jaxtyping import Float
from torch import Tensor

from hardmax.spaces.abstract import AbstractSpace


class AbstractFactorised(AbstractSpace):
    """A space whose variables are independent given the scores, and whose z are their own statistics.

    Here perturb-and-MAP samples q itself, and every variable can be treated on its own. Quantities per
    variable keep the dimensions of scores, those of the values of one variable being 1, so that they
    multiply scores.
    """

    @property
    @abstractmethod
    def variables(self) -> int:
        """N, the number of variables."""

    @abstractmethod
    def uncertainty(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return `sum_{c < c'} q_i(c) q_i(c')` per variable; for a bit, its variance q (1 - q)."""

    @abstractmethod
    def leftover(
        self, scores: Float[Tensor, "..."], noise: Float[Tensor, "..."], z: Float[Tensor, "..."]
    ) -> Float[Tensor, "..."]:
        """Return a uniform number per variable, made from the noise that drew z but independent of z.

        The noise holds more randomness than z uses up. Taking what is left means that one noise tensor
        determines everything an estimator does.
        """

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one z: that of its scores."""
        return self.score_shape

    def statistics(self, z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return z: each value of each variable has its own score."""
        return z

    def draw(self, scores: Float[Tensor, "..."], noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Turn noise into samples of q, by Gumbel-max: `[*B, *score], [S, *B, *score] -> [S, *B, *event]`."""
        return self.argmax(self.perturb(scores, noise)).to(scores.dtype)

    def log_prob_bound(self, scores: Float[Tensor, "..."], z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return log q(z): perturb-and-MAP samples q itself."""
        return self.log_prob(scores, z)
