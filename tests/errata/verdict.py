"""The results of checks of the errata page: a number from the printed form, from ours, and from another source."""

from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True)
class Slip:
    """The printed form is wrong: our number agrees with the truth, the printed one is far from it.

    The truth comes from torch.distributions, autograd, brute force, quadrature or draws, never from the formula itself.
    """

    written: float
    right: float
    truth: float
    within: float = 1e-6

    def check(self) -> None:
        assert abs(self.right - self.truth) <= self.within
        assert not isfinite(self.written) or abs(self.written - self.truth) > 10 * self.within


@dataclass(frozen=True)
class Same:
    """The printed form and ours differ, but both numbers agree with the truth."""

    written: float
    right: float
    truth: float
    within: float = 1e-6

    def check(self) -> None:
        assert abs(self.right - self.truth) <= self.within
        assert abs(self.written - self.truth) <= self.within
