"""REINFORCE with a control variate of the perturbed scores, fixed or learned: what REBAR and RELAX are."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.estimators.conditioning import conditioned_gradient
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.types import Estimate, Objective
from hardmax.validation import values_readable


class AbstractControlled(AbstractEstimator):
    """An estimator that subtracts a function c of the perturbed scores from f, and adds its gradient back.

    See `conditioned_gradient` for the equation. With several samples the residue `f(z) - c(p)` also gets the
    leave-one-out baseline. Where c has parameters, `Estimate.auxiliary` is the mean over examples of `|gradient|^2`,
    which differs from the variance by a constant: its gradient goes to these parameters and to nothing else. That takes
    derivatives of second order, and does not work under torch.compile and torch.func.
    """

    needs = ("draw", "marginals", "relax", "conditional", "residual")
    independent = True
    couples_samples = True

    @abstractmethod
    def control(
        self, f: Objective, perturbed: Float[Tensor, "S ..."], space: AbstractFactorised
    ) -> Float[Tensor, "S *B"]:
        """Return c at perturbed scores `[S, *B, *score]`, differentiable in them."""

    @abstractmethod
    def parameters(self) -> list[nn.Parameter]:
        """Return what `Estimate.auxiliary` trains; empty where nothing is learned."""

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse to learn where autograd cannot be called."""
        super().check(space, samples)
        if torch.is_grad_enabled() and not values_readable() and self.parameters():
            raise ArgumentError(
                f"{type(self).__name__} has parameters to train, which takes derivatives of second order and does not "
                f"work under torch.compile and torch.func; call it outside of them, or without training: "
                f"Rebar(learned=False), Relax with network.requires_grad_(False)"
            )

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z, and the control variate where z came from."""
        assert isinstance(space, AbstractFactorised)  # check() has told the caller
        held = scores.detach()
        perturbed = space.perturb(held, noise)
        z = space.argmax(perturbed).to(scores.dtype)
        values = f(z)
        control, slope = self._with_slope(f, perturbed, space, scores.dtype)
        residue = values.detach() - control
        if len(z) > 1:  # no draw is in its own baseline
            residue = (residue - residue.mean(0)) * (len(z) / (len(z) - 1))
        residue = residue.view(*residue.shape, *(1 for _ in space.score_shape))
        gradient = conditioned_gradient(held, space, noise, z, residue, slope)
        value = carry(values.mean(0), space.dot(gradient.detach().to(scores.dtype), scores))
        return Estimate(value, z, f.evaluations, float(len(noise)), auxiliary=self._auxiliary(gradient, space))

    def _with_slope(
        self, f: Evaluator, perturbed: Tensor, space: AbstractFactorised, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return c `[S, *B]` and dc/dp `[S, *B, *score]`; under vjp, f cannot cut what it gets into chunks itself."""

        def worth(relaxed: Tensor) -> Tensor:
            return f(relaxed.to(dtype))  # the noise, and so p, may be wider than the scores and a decoder's weights

        found = []
        for chunk in perturbed.split(f.chunk_size or len(perturbed)):
            control, pull = torch.func.vjp(lambda p: self.control(worth, p, space), chunk)[:2]
            found.append((control, pull(torch.ones_like(control))[0]))
        controls, slopes = zip(*found, strict=True)
        return torch.cat(controls), torch.cat(slopes)

    def _auxiliary(self, gradient: Tensor, space: AbstractSpace) -> Tensor | None:
        """Return `mean |gradient|^2`, whose gradient is for the parameters alone: f's must not feel it."""
        parameters = self.parameters()
        if not parameters or not torch.is_grad_enabled():
            return None
        squares = space.dot(gradient, gradient)
        square = squares.sum() / max(squares.numel(), 1)  # without examples there is nothing to learn from
        slopes = torch.autograd.grad(square, parameters, allow_unused=True, materialize_grads=True)
        pairs = zip(slopes, parameters, strict=True)
        return carry(square.detach(), sum(((s * p).sum() for s, p in pairs), square.new_zeros(())))
