"""Pairs of samples of opposite noise, for independent bits: what ARM and DisARM share."""

from abc import abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace, Binary
from hardmax.types import Estimate


class AbstractPairs(AbstractEstimator):
    """An estimator `mean_s (f(z_s) - f(z'_s)) weight_s`, z drawn with the noise and z' with its opposite."""

    needs = ("draw",)
    for_categories: ClassVar[str]
    """What does the same for more than two values."""

    @abstractmethod
    def weight(
        self,
        scores: Float[Tensor, "*B N"],
        noise: Float[Tensor, "S *B N"],
        z: Float[Tensor, "S *B N"],
        opposite: Float[Tensor, "S *B N"],
    ) -> Float[Tensor, "S *B N"]:
        """Return what multiplies the difference of f, for every bit."""

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse all but independent bits."""
        super().check(space, samples)
        if not isinstance(space, Binary):
            raise NotExactError(
                f"{self} needs independent bits, which {space} does not have; use {self.for_categories} for categories"
            )

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw with the noise and with its opposite, and share out the difference of f."""
        held = scores.detach()
        z, opposite = space.draw(held, noise), space.draw(held, space.antithetic(noise))
        values = f(z)
        with torch.no_grad():
            difference = values.detach() - f(opposite)
        weight = self.weight(held, noise, z, opposite).to(scores.dtype)
        gradient = (difference[..., None] * weight).mean(0)
        value = carry(values.mean(0), space.dot(gradient, scores))
        return Estimate(value, z, f.evaluations, solves=2.0 * len(noise))
